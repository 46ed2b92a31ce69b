//! The task of a connection that is not parked.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::task::Poll;

use tidegate_core::error_log::{ErrorLog, Level};

use crate::action::{ServeResult, Serving};
use crate::front::Front;
use crate::link::{Link, Order};
use crate::protocol;

/// Has a connection wait for a request: parked if it can be, else in a task of its own.
pub fn park_or_spawn(front: &Rc<Front>, link: Rc<Link>) {
    if !front.parking.park(&link) {
        spawn(front, link, None);
    }
}

/// Gives a connection a task, with the request that has begun without one.
pub fn spawn(front: &Rc<Front>, link: Rc<Link>, begun: Option<Serving>) {
    tidegate_rt::spawn_local(serve(front.clone(), link, begun));
}

/// Serves a connection until it ends or is parked, from the middle of a request on if that has begun.
///
/// Invariant: it stands in the thread's list from the first poll to the end, however that comes. Dropped at its await
/// (the thread ends), it stays in a list that goes with it.
pub async fn serve(front: Rc<Front>, link: Rc<Link>, begun: Option<Serving>) {
    let key = front.enter(&link);
    let end = guarded(&front, &link, begun).await;
    front.leave(key);
    match end {
        Some(ServeResult::Parked) => park_or_spawn(&front, link),
        Some(ServeResult::Closed) | None => front.parking.forget(&link),
    }
}

/// Runs a connection; a panic ends it alone, and so does an abort.
async fn guarded(
    front: &Rc<Front>,
    link: &Rc<Link>,
    begun: Option<Serving>,
) -> Option<ServeResult> {
    let mut run = Box::pin(protocol::run(front, link, begun));
    let ended = std::future::poll_fn(|context| {
        link.waits().remember(context);
        if link.order() == Order::Abort {
            return Poll::Ready(Ok(None));
        }
        match std::panic::catch_unwind(AssertUnwindSafe(|| run.as_mut().poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(end)) => Poll::Ready(Ok(Some(end))),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    })
    .await;
    match ended {
        Ok(end) => end,
        Err(panic) => {
            log_panic(front, link, &*panic);
            None
        }
    }
}

/// Logs a panic in the name of the connection that it ends.
pub fn log_panic(front: &Front, link: &Link, panic: &(dyn Any + Send)) {
    let log = front.plan().main.error_log.clone();
    log_panic_of(&log, link.info.number, panic);
}

/// Logs a panic that ends what connection `number` was for.
pub fn log_panic_of(log: &ErrorLog, number: u64, panic: &(dyn Any + Send)) {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    log.write(Level::Alert, number, &format!("request ended by a panic: {text}"));
}
