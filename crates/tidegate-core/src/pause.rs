//! Delays of requests.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use crate::error_log::Level;
use crate::exchange::Exchange;
use crate::step::Step;
use crate::timeline::{Cause, blame};

/// Waits for `time` to pass; `cause` is what the time belongs to.
///
/// # Errors
/// The step that ends the request when the client closes the connection meanwhile, which is logged.
pub async fn pause(x: &mut Exchange, time: Duration, cause: Cause) -> Result<(), Step<'static>> {
    let mut sleep = std::pin::pin!(tidegate_rt::timer::sleep(time));
    let (client, watch) = (x.client.clone(), !x.is_subrequest());
    let left = poll_fn(|context| {
        if sleep.as_mut().poll(context).is_ready() {
            return Poll::Ready(false);
        }
        match watch && client.poll_closed(context).is_ready() {
            true => Poll::Ready(true),
            false => Poll::Pending,
        }
    });
    if !blame(cause, left).await {
        return Ok(());
    }
    x.log(Level::Info, format_args!("client prematurely closed connection"));
    x.disposition.end_without_response(499);
    Err(Step::Close)
}
