//! Delays of requests.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use crate::client::Client;
use crate::error_log::Level;
use crate::exchange::Exchange;
use crate::step::Step;
use crate::timeline::{Cause, blame};

/// Waits for `time` to pass; `cause` is what the time belongs to.
///
/// # Errors
/// The step that ends the request when the client closes the connection meanwhile, which is logged.
pub async fn pause(x: &mut Exchange, time: Duration, cause: Cause) -> Result<(), Step<'static>> {
    let sleep = while_connected(watched(x), tidegate_rt::timer::sleep(time));
    blame(cause, sleep).await.ok_or_else(|| left(x))
}

/// Returns the client whose connection is watched while a request waits; none for a subrequest, which is a part of one.
pub fn watched(x: &Exchange) -> Option<Rc<dyn Client>> {
    (!x.is_subrequest()).then(|| x.client.clone())
}

/// Waits for `work`, which is dropped when the client closes the connection before: `None`.
pub async fn while_connected<T>(
    client: Option<Rc<dyn Client>>,
    work: impl Future<Output = T>,
) -> Option<T> {
    let mut work = std::pin::pin!(work);
    poll_fn(|context| {
        if let Poll::Ready(value) = work.as_mut().poll(context) {
            return Poll::Ready(Some(value));
        }
        match client.as_ref().is_some_and(|client| client.poll_closed(context).is_ready()) {
            true => Poll::Ready(None),
            false => Poll::Pending,
        }
    })
    .await
}

/// Ends a request whose client has closed the connection, and logs it.
pub fn left(x: &mut Exchange) -> Step<'static> {
    x.log(Level::Info, format_args!("client prematurely closed connection"));
    x.disposition.end_without_response(499);
    Step::Close
}
