//! The task of a connection that is not parked: it waits for requests and has its protocol serve them.

use std::any::Any;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::task::Poll;
use std::time::Instant;

use tidegate_core::error_log::{ErrorLog, Level};
use tidegate_rt::clock;

use crate::action::{ConnectionAction, ServeResult, Serving};
use crate::front::Front;
use crate::link::{Link, Order, TIMED_BELOW};
use crate::{linger, protocol};

/// Lets a connection wait for a request: parked if possible, else in a task of its own.
pub(crate) fn park_or_spawn(front: &Rc<Front>, link: Rc<Link>, now: Instant) {
    if !front.parking.park(&link, now) {
        spawn(front, link, None);
    }
}

/// Gives a connection a task, with the request that has begun without one. It is counted from here on: what accepts
/// connections looks at the count before the task is polled.
pub(crate) fn spawn(front: &Rc<Front>, link: Rc<Link>, begun: Option<Serving>) {
    let key = front.enter(&link);
    tidegate_rt::spawn_local(serve(front.clone(), link, begun, key));
}

/// Serves a connection until it ends or is parked, from the middle of a request on if that has begun. It is in the thread's
/// list under `key` ([`Front::enter`]).
///
/// Invariant: it is there to its end, in whatever way that happens. Dropped at its await (the thread ends), it stays in a
/// list that is dropped with the thread.
pub(crate) async fn serve(front: Rc<Front>, link: Rc<Link>, begun: Option<Serving>, key: usize) {
    let end = guarded(&front, &link, begun).await;
    front.leave(key);
    match end {
        Some(ServeResult::Parked) => park_or_spawn(&front, link, clock::now()),
        Some(ServeResult::Closed) | None => front.parking.forget(&link),
    }
}

/// Runs a connection. A panic ends this connection alone, and so does an abort.
///
/// An abort is checked at each poll, before the connection is run. Dropped at its await it drops the run: see [`run`].
async fn guarded(
    front: &Rc<Front>,
    link: &Rc<Link>,
    begun: Option<Serving>,
) -> Option<ServeResult> {
    let mut run = Box::pin(run(front, link, begun));
    let ended = poll_fn(|context| {
        link.waits().remember(context);
        let aborts = link.order() == Order::Abort;
        // Requests that are streams are ended one by one, and logged.
        if aborts && link.multiplexer().is_none() {
            return Poll::Ready(Ok(None));
        }
        match std::panic::catch_unwind(AssertUnwindSafe(|| run.as_mut().poll(context))) {
            Ok(Poll::Pending) if aborts => Poll::Ready(Ok(None)),
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

/// Serves a connection until it ends or is to be parked, starting with the request that has `begun`.
///
/// Its states are those of [`crate::link::ConnectionState`]: `Idle` while [`idle`] waits, `Serving` in `serving`,
/// `Cancelled` on the way to the end. Dropped at the await of `serving`, a request ends unfinished and unlogged and the
/// connection closes with it: this is how an abort and the end of the thread work. The awaits behind it read on or send
/// a close; dropped there, the connection closes sooner.
async fn run(front: &Rc<Front>, link: &Rc<Link>, mut begun: Option<Serving>) -> ServeResult {
    loop {
        let serving = match begun.take() {
            Some(serving) => serving,
            None => match idle(front, link).await {
                // The state of requests in progress is boxed: an idle connection's task stays small.
                WaitOutcome::Bytes => protocol::serve(front, link),
                WaitOutcome::End => {
                    link.say_goodbye();
                    break;
                }
                WaitOutcome::Parking => return ServeResult::Parked,
            },
        };
        match serving.await {
            ConnectionAction::Idle if front.parking.can_repark(link, front.is_draining()) => {
                return ServeResult::Parked;
            }
            ConnectionAction::Idle | ConnectionAction::Next => continue,
            ConnectionAction::Linger(limits) => Box::pin(linger::close(link, limits)).await,
            // A shutdown would make it an orderly close.
            ConnectionAction::Reset => return ServeResult::Closed,
            ConnectionAction::Close => {}
        }
        break;
    }
    // Without TLS the close that follows has the effect of a shutdown.
    if link.io.plain().is_none() {
        Box::pin(link.io.shutdown()).await;
    }
    ServeResult::Closed
}

/// Why the wait for a request ended.
enum WaitOutcome {
    Bytes,
    End,
    Parking,
}

/// Waits for the first byte of a request, a reason to close, or to be parked. Nothing is read: dropped at its await it
/// leaves the connection as it was.
async fn idle(front: &Front, link: &Link) -> WaitOutcome {
    let first = link.info.requests.get() == 0;
    if !link.received.borrow().is_empty() {
        return WaitOutcome::Bytes;
    }
    let since = link.state().idle_since().unwrap_or_else(clock::now);
    link.set_idle(since);
    let left = link.limits().until.saturating_duration_since(since);
    // The sweep closes connections that wait long; only short waits have a timer.
    let timed = left < TIMED_BELOW;
    if timed {
        link.waits().deadline.set_after(left);
    }
    poll_fn(|context| {
        let ends = || !first && link.is_free(clock::now());
        if link.is_closing() || (front.is_draining() && ends()) {
            return Poll::Ready(WaitOutcome::End);
        }
        if link.io.poll_readable(context).is_ready() {
            return Poll::Ready(WaitOutcome::Bytes);
        }
        if link.takes_park_order() {
            return Poll::Ready(WaitOutcome::Parking);
        }
        match timed {
            true => link.waits().deadline.poll_elapsed(context).map(|()| WaitOutcome::End),
            false => Poll::Pending,
        }
    })
    .await
}

/// Logs a panic with the context of the connection that it ends.
pub(crate) fn log_panic(front: &Front, link: &Link, panic: &(dyn Any + Send)) {
    let log = front.plan().main.error_log.clone();
    log_panic_of(&log, link.info.number, panic);
}

/// Logs a panic that ends the work for connection `number`.
pub(crate) fn log_panic_of(log: &ErrorLog, number: u64, panic: &(dyn Any + Send)) {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    log.write(Level::Alert, number, &format!("request ended by a panic: {text}"));
}
