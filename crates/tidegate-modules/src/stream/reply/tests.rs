//! The time limit of `return` in `stream`.

use std::cell::{Cell, RefCell};
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use tidegate_core::client::ByteStream;
use tidegate_rt::clock;
use tidegate_rt::timer::Deadline;

use super::send_all;

/// A client that takes a byte at a time. Before each byte, and before the flush, the time limit of the write is over.
struct SlowClient<'t> {
    limit: &'t Deadline,
    taken: RefCell<Vec<u8>>,
    waited: Cell<bool>,
}

impl SlowClient<'_> {
    /// Is pending once, after which the limit that was set by then counts.
    fn poll_turn(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.waited.replace(!self.waited.get()) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl ByteStream for SlowClient<'_> {
    fn poll_read(&self, _: &mut Context<'_>, _: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(0))
    }

    fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        std::task::ready!(self.poll_turn(context));
        self.taken.borrow_mut().extend(bytes.first());
        self.limit.set(clock::now() - Duration::from_secs(1));
        Poll::Ready(Ok(1))
    }

    fn poll_flush(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_turn(context).map(Ok)
    }

    fn poll_shutdown(&self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

#[test]
fn the_time_limit_is_between_writes() {
    let limit = Deadline::new();
    let client = SlowClient { limit: &limit, taken: RefCell::default(), waited: Cell::new(false) };
    let sent = tidegate_rt::block_on(send_all(&client, b"text", &limit)).unwrap();
    assert!(sent.is_ok(), "{sent:?}");
    assert_eq!(*client.taken.borrow(), b"text");
}

/// A client that takes nothing, and lets the time limit pass.
struct StalledClient<'t>(&'t Deadline);

impl ByteStream for StalledClient<'_> {
    fn poll_read(&self, _: &mut Context<'_>, _: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        Poll::Pending
    }

    fn poll_write(&self, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        self.0.set(clock::now() - Duration::from_secs(1));
        Poll::Pending
    }

    fn poll_flush(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }

    fn poll_shutdown(&self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

#[test]
fn a_client_that_takes_nothing_ends_the_session() {
    let limit = Deadline::new();
    let sent = tidegate_rt::block_on(send_all(&StalledClient(&limit), b"text", &limit)).unwrap();
    assert_eq!(sent.unwrap_err().kind(), io::ErrorKind::TimedOut);
}
