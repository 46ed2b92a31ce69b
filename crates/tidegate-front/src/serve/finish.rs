//! The end of a request: its log line, `post_action`, and how a response is given up.

use std::time::Duration;

use tidegate_core::client::CancelCode;
use tidegate_core::error_log::Level;
use tidegate_core::{BodyError, Exchange, LocalFuture, phases};
use tidegate_rt::timer::timeout;

use super::deliver::SendError;

/// The longest time that a connection is held for its log line: a disk that hangs must not keep connections.
const LOGGING_MAX: Duration = Duration::from_secs(1);

/// Runs what follows a response, sent completely or not; `closes` when the client sees an end behind it. Returns what is
/// to be waited for, which few requests have.
///
/// Invariant: a received request is logged once. Dropped in `post_action` it is not logged; dropped behind that it is,
/// and the connection closes without waiting for the line. Sources: `post_action`, `access_log`.
#[must_use]
pub(crate) fn request(x: &mut Exchange, closes: bool) -> Option<LocalFuture<'_, ()>> {
    if x.settings().post_action.is_some() {
        return Some(Box::pin(post_action(x, closes)));
    }
    log(x);
    written(x, closes)
}

async fn post_action(x: &mut Exchange, closes: bool) {
    phases::post_action(x).await;
    log(x);
    if let Some(written) = written(x, closes) {
        written.await;
    }
}

/// Waits for the log line where the connection `closes`: a client that sees it closed finds the line in the log, as with
/// logs that are written at once.
fn written(x: &mut Exchange, closes: bool) -> Option<LocalFuture<'static, ()>> {
    let logging = x.outcome.logging.take().filter(|_| closes)?;
    Some(Box::pin(async {
        let _ = timeout(LOGGING_MAX, logging).await;
    }))
}

/// Runs the location's loggers.
pub(crate) fn log(x: &mut Exchange) {
    x.disposition.settle();
    x.debug(|| {
        format!("request ended: {}, {} bytes sent", x.disposition.status(), x.outcome.bytes_sent)
    });
    phases::log(x);
}

/// Gives up a request that gets no response (444, 408, a client that has closed).
pub(crate) fn without_response(x: &Exchange) {
    cancel(x, matches!(x.disposition.without_response(), Some(408 | 444)));
}

/// Ends the client's request, with a reset where the client took too long and `reset_timedout_connection` is on.
fn cancel(x: &Exchange, timed_out: bool) {
    let reset = timed_out && x.settings().reset_timedout_connection;
    x.client.cancel(if reset { CancelCode::Reset } else { CancelCode::Close });
}

/// Logs why a response was not sent completely, and gives it up.
pub(crate) fn broken(x: &mut Exchange, error: &SendError) {
    x.progress.action = "sending response to client";
    match error {
        SendError::Client(error) => {
            x.log(Level::Info, format_args!("send() failed ({error})"));
        }
        SendError::Left => {
            x.log(Level::Info, format_args!("client prematurely closed connection"));
        }
        SendError::Timeout => {
            x.log(Level::Info, format_args!("client timed out"));
        }
        SendError::Body(BodyError::Io(error)) => {
            // What an origin sent or a file holds may be damaged; that a file cannot be read is worse.
            let level = match error.kind() {
                std::io::ErrorKind::InvalidData => Level::Error,
                _ => Level::Alert,
            };
            x.log(level, format_args!("reading response body failed ({error})"));
        }
        SendError::Body(BodyError::Incomplete) => {}
    }
    cancel(x, matches!(error, SendError::Timeout));
}
