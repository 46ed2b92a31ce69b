//! The failure of an attempt: the event for the retry machine, and the line for the error log.

use std::io;

use tidegate_codec::response::{ResponseFraming, ResponseHead};
use tidegate_core::request_body::RequestBodyError;

use crate::connection::ConnectError;
use crate::h1::receive::ReceiveError;
use crate::h1::send::SendError;
use crate::log::os_error;
use crate::request::OriginRequest;
use crate::retry::Event;
use crate::wire::{Codec, HeadError};

pub(super) const CONNECTING: &str = "connecting to upstream";
pub(super) const SENDING: &str = "sending request to upstream";
/// The action of log lines while an origin's head is awaited.
pub const READING_HEAD: &str = "reading response header from upstream";

/// A failed attempt.
pub(super) struct AttemptFailure {
    pub event: Event,
    pub message: String,
    pub action: &'static str,
    /// The client's fault, with its status: no other server is tried.
    pub client_status: Option<u16>,
}

impl AttemptFailure {
    /// Makes the failure of an invalid head.
    pub(super) fn reading(event: Event, message: String) -> AttemptFailure {
        AttemptFailure { event, message, action: READING_HEAD, client_status: None }
    }

    pub(super) fn sending(event: Event, message: String) -> AttemptFailure {
        AttemptFailure { event, message, action: SENDING, client_status: None }
    }
}

/// Returns the framing of a response's body.
///
/// # Errors
/// The head contradicts itself. An application switches protocols without a request for it: it has none to switch to; an
/// HTTP server's 101 is passed on, and the connection ends behind it.
pub(super) fn framing_of(
    head: &ResponseHead,
    codec: &Codec,
    request: &OriginRequest,
) -> Result<ResponseFraming, AttemptFailure> {
    let framing = codec.framing(head, request.method).map_err(|error| {
        AttemptFailure::reading(Event::Invalid, error.message(head.headers.text()))
    })?;
    if head.status == 101 && !request.upgrade && !matches!(codec, Codec::Http) {
        let message = "upstream switched protocols unasked".to_owned();
        return Err(AttemptFailure::reading(Event::Invalid, message));
    }
    Ok(framing)
}

/// A boundary: maps a connection error to the retry machine's event and the log line.
pub(super) fn failure_of_connect(error: &ConnectError) -> AttemptFailure {
    let (message, action) = (error.to_string(), error.action());
    let event = match error {
        ConnectError::TimedOut | ConnectError::HandshakeTimedOut => Event::ConnectTimedOut,
        ConnectError::Failed(_)
        | ConnectError::SocketFailed(..)
        | ConnectError::Header(_)
        | ConnectError::Handshake(..) => Event::Refused,
    };
    AttemptFailure { event, message, action, client_status: None }
}

/// A boundary: maps a send error. `lost` is the event of a broken connection.
pub(super) fn failure_of_send(error: SendError, lost: Event) -> AttemptFailure {
    match error {
        SendError::Origin(_) => AttemptFailure::sending(lost, error.to_string()),
        SendError::TimedOut => AttemptFailure::sending(Event::TimedOut, error.to_string()),
        SendError::Client(error) => AttemptFailure {
            client_status: Some(match &error {
                RequestBodyError::Closed => 499,
                other => other.status(),
            }),
            ..AttemptFailure::sending(Event::Lost, String::new())
        },
    }
}

/// A boundary: maps a receive error. `lost` is the event of a broken connection.
pub(super) fn failure_of_receive(error: &ReceiveError, lost: Event) -> AttemptFailure {
    let event = match error {
        ReceiveError::Closed | ReceiveError::Io(_) => lost,
        ReceiveError::Head(HeadError::Invalid(_)) => Event::Invalid,
        ReceiveError::Head(HeadError::Refused(_)) => Event::Lost,
    };
    AttemptFailure::reading(event, error.to_string())
}

/// Returns the log line about an origin that reads no more of a request.
pub(super) fn send_failed(error: &io::Error) -> String {
    format!("send() failed ({})", os_error(error))
}
