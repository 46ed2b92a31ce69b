//! The end of a request: what is logged of it, `post_action`, and whether the client is reset.

use std::time::Duration;

use tidegate_core::error_log::Level;
use tidegate_core::{BodyError, Exchange, phases};
use tidegate_rt::timer::timeout;

use super::deliver::SendError;

/// The longest that a connection is held for its log line: a disk that hangs must not keep connections.
const LOGGING_MAX: Duration = Duration::from_secs(1);

/// Does what follows a response, whether it arrived or not; `closes` when the client sees an end behind it.
pub async fn request(x: &mut Exchange, closes: bool) {
    if x.settings().post_action.is_some() {
        Box::pin(phases::post_action(x)).await;
    }
    log(x);
    if let Some(logging) = x.outcome.logging.take()
        && closes
    {
        // Who sees the connection closed finds the line in its log, as with logs that are written at once.
        let _ = Box::pin(timeout(LOGGING_MAX, logging)).await;
    }
}

/// Runs the location's loggers.
pub fn log(x: &mut Exchange) {
    let plan = x.plan.clone();
    if x.response.status == 0 || x.error_status != 0 {
        x.response.status = if x.error_status != 0 { x.error_status } else { 400 };
    }
    for logger in &plan.location(x.location).loggers {
        logger(x);
    }
}

/// Whether a request that gets no response ends in a reset (`reset_timedout_connection`).
pub fn resets(x: &Exchange) -> bool {
    matches!(x.error_status, 408 | 444) && x.settings().reset_timedout_connection
}

/// The response did not arrive whole: logs why. Whether the client is reset (`reset_timedout_connection`).
pub fn broken(x: &mut Exchange, error: &SendError) -> bool {
    x.action = "sending response to client";
    match error {
        SendError::Client(error) => {
            x.log(Level::Info, format_args!("send() failed ({error})"));
        }
        SendError::Left => {
            x.log(Level::Info, format_args!("client prematurely closed connection"));
        }
        SendError::Timeout => {
            x.log(Level::Info, format_args!("client timed out"));
            return x.settings().reset_timedout_connection;
        }
        SendError::Body(BodyError::Io(error)) => {
            // What an origin or a file holds may be damaged; that a file cannot be read is worse.
            let level = match error.kind() {
                std::io::ErrorKind::InvalidData => Level::Error,
                _ => Level::Alert,
            };
            x.log(level, format_args!("reading response body failed ({error})"));
        }
        SendError::Body(BodyError::Incomplete) => {}
    }
    false
}
