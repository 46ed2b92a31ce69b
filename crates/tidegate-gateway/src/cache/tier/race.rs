//! The tier and the origin asked for the same response: the origin is asked when the tier has no response, or none within the
//! time that it is given. The first one with a response wins, and the other one is dropped.
//!
//! ```text
//! tier ───── found ─────────────────────────────────► tier
//!   │ no object, failed ──► origin ── response ──────► origin
//!   └ late ──► both ──┬──── tier found ──────────────► tier     (the request to the origin is dropped)
//!                     ├──── origin responds ─────────► origin   (the tier is waited for by itself, to judge it)
//!                     └──── origin fails ──► the tier, to its time limit ──► tier, or the failure
//! ```

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tidegate_rt::clock;
use tidegate_rt::timer::Deadline;

/// The result of a race.
pub(crate) enum Winner<T, O, E> {
    Tier(T),
    /// With the rest of the tier's request, where it is still in progress.
    Origin(Result<O, E>, Option<Pin<Box<dyn Future<Output = Option<T>>>>>),
}

/// Runs a race. `origin` is called at most once, when the origin is to be asked.
///
/// Cancelling: dropped at its await, it drops both.
pub(crate) async fn race<T, O, E, F>(
    mut tier: Pin<Box<dyn Future<Output = Option<T>>>>,
    origin: impl FnOnce() -> Pin<Box<F>>,
    hedge: Duration,
) -> Winner<T, O, E>
where
    F: Future<Output = Result<O, E>>,
{
    let deadline = Deadline::new();
    deadline.set(clock::now() + hedge);
    let mut begin = Some(origin);
    let mut asked: Option<Pin<Box<F>>> = None;
    let mut tier_ended = false;
    let mut failed = None;
    let ended = poll_fn(|context| {
        if !tier_ended {
            match tier.as_mut().poll(context) {
                Poll::Ready(Some(found)) => return Poll::Ready(Ok(found)),
                Poll::Ready(None) => tier_ended = true,
                Poll::Pending => {}
            }
        }
        let is_due = tier_ended || deadline.poll_elapsed(context).is_ready();
        if is_due && let Some(begin) = begin.take() {
            asked = Some(begin());
        }
        if let Some(origin) = &mut asked
            && let Poll::Ready(result) = origin.as_mut().poll(context)
        {
            asked = None;
            match result {
                // The tier may still have it.
                Err(error) if !tier_ended => failed = Some(error),
                result => return Poll::Ready(Err(result)),
            }
        }
        match failed.take() {
            Some(error) if tier_ended => return Poll::Ready(Err(Err(error))),
            Some(error) => failed = Some(error),
            None => {}
        }
        Poll::Pending
    })
    .await;
    match ended {
        Ok(found) => Winner::Tier(found),
        Err(result) => Winner::Origin(result, (!tier_ended).then_some(tier)),
    }
}
