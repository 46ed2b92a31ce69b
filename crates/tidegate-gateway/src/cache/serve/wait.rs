//! Waits that end when the client leaves: for the head of a fill, and for its progress.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tidegate_cache::{Fill, FillHead, FillReader, Head};
use tidegate_codec::caching::rfc9111::reuse::RequestTerms;
use tidegate_core::Exchange;
use tidegate_core::timeline::{Cause, blame};
use tidegate_rt::{clock, timer};

use crate::cache::decide::coverage;
use crate::cache::decide::decision::Input;
use crate::cache::decide::facts::FOLLOW_FROM_BYTES;
use crate::cache::lookup::filling_of;

/// Returns the head of a fill, if it gets one; `None` when the client has left.
pub(crate) async fn head_of(
    x: &Exchange,
    reader: &mut FillReader,
) -> Option<Option<Arc<FillHead>>> {
    let head = poll_fn(|context| {
        if let Poll::Ready(head) = reader.poll_head(context) {
            return Poll::Ready(Some(match head {
                Head::Ready(head) => Some(head),
                Head::Uncacheable | Head::Failed(_) => None,
            }));
        }
        x.client.poll_closed(context).map(|_| None)
    });
    blame(Cause::CacheLock, head).await
}

/// Waits until a fill ends, has a head, has the bytes that the request needs or more than a small body, or until
/// `time` has passed.
///
/// The first of these that is ready decides, in this order: progress, the time, the client. There is one await;
/// dropping it drops the reader by which it is woken, and nothing else. A subrequest has no client of its own.
pub(crate) async fn for_progress(
    x: &Exchange,
    fill: &Arc<Fill>,
    time: Duration,
    terms: Option<&RequestTerms>,
) -> Input {
    // The state is read after each event.
    let filling_now = || filling_of(x, fill, terms, clock::unix_millis());
    let client = &x.client;
    let head = fill.head_now();
    let needed = head.as_ref().and_then(|head| coverage::needed(x, head)).unwrap_or(u64::MAX);
    // A reader is woken when the byte at its offset arrives.
    let mut reader = fill.reader(needed.saturating_sub(1).min(FOLLOW_FROM_BYTES));
    let mut sleep = std::pin::pin!(timer::sleep(time));
    let progress = poll_fn(|context| {
        let ready = match head.is_some() {
            true => reader.poll_next(context, 1).is_ready(),
            false => match reader.poll_head(context) {
                Poll::Ready(Head::Uncacheable) => return Poll::Ready(Input::Released),
                read => read.is_ready(),
            },
        };
        if ready {
            let filling = filling_now();
            let goes_on = filling.has_head && (!fill.has_ended() || filling.whole);
            return Poll::Ready(match goes_on {
                true => Input::FillProgress(filling),
                false => Input::FillEnded,
            });
        }
        if sleep.as_mut().poll(context).is_ready() {
            return Poll::Ready(Input::TimedOut(filling_now()));
        }
        if !x.is_subrequest() && client.poll_closed(context).is_ready() {
            return Poll::Ready(Input::ClientGone);
        }
        Poll::Pending
    });
    blame(Cause::CacheLock, progress).await
}
