//! Why an attempt failed: the event for the retry machine, and the line for the error log.

use std::io;

use tidegate_core::request_body::RequestBodyError;

use crate::connection::ConnectError;
use crate::h1::send::SendError;
use crate::log::os_error;
use crate::retry::Event;

pub(super) const CONNECTING: &str = "connecting to upstream";
pub(super) const SENDING: &str = "sending request to upstream";
/// What is done while an origin's head is awaited, for log lines.
pub const READING_HEAD: &str = "reading response header from upstream";

/// A failed attempt.
pub(super) struct Trouble {
    pub event: Event,
    pub message: String,
    pub action: &'static str,
    /// The client's fault, with its status: nobody else is asked.
    pub client_status: Option<u16>,
}

pub(super) fn trouble_of_connect(error: ConnectError) -> Trouble {
    let (message, action) = error.describe();
    let event = match error {
        ConnectError::TimedOut | ConnectError::HandshakeTimedOut => Event::ConnectTimedOut,
        ConnectError::Failed(_) | ConnectError::SocketFailed(..) | ConnectError::Handshake(_) => {
            Event::Refused
        }
    };
    Trouble { event, message, action, client_status: None }
}

pub(super) fn send_failed(error: &io::Error) -> String {
    format!("send() failed ({})", os_error(error))
}

pub(super) fn trouble_of_send(error: SendError, lost: Event) -> Trouble {
    let trouble =
        |event, message: String| Trouble { event, message, action: SENDING, client_status: None };
    match error {
        SendError::Origin(error) => trouble(lost, send_failed(&error)),
        SendError::TimedOut => {
            trouble(Event::TimedOut, "upstream timed out (110: Connection timed out)".to_owned())
        }
        SendError::Client(error) => Trouble {
            client_status: Some(match &error {
                RequestBodyError::Closed => 499,
                other => other.status(),
            }),
            ..trouble(Event::Lost, String::new())
        },
    }
}
