//! Many idle sockets under one watch of the event loop; see `tidegate_os::idle_poller`.

use std::future::poll_fn;
use std::io;

use tidegate_os::idle_poller;
pub use tidegate_os::idle_poller::ReadyEvent;
use tokio::io::Interest;

use super::Stream;
use super::watched::{Watched, watched};

/// A set of sockets that wait for their peers. One task polls it.
#[derive(Debug)]
pub struct IdlePoller {
    io: Watched,
}

impl IdlePoller {
    /// Makes an empty set.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn new() -> io::Result<IdlePoller> {
        Ok(IdlePoller { io: watched(idle_poller::create()?, Interest::READABLE)? })
    }

    /// Adds a socket; `key` is reported when its peer sends, closes or breaks.
    ///
    /// # Errors
    /// The limit of watched descriptors is reached.
    pub fn add(&self, member: &Stream, key: u64) -> io::Result<()> {
        idle_poller::add(self.io.get_ref(), member.socket(), key)
    }

    /// Removes a socket.
    ///
    /// # Errors
    /// It is not a member.
    pub fn remove(&self, member: &Stream) -> io::Result<()> {
        idle_poller::remove(self.io.get_ref(), member.socket())
    }

    /// Waits for events of members, and appends them, each one once. The caller reads until nothing is left, and up to
    /// the end of the stream where the peer has `ended`. Returns whether there may be more events than one call takes:
    /// other tasks are due then before the next call. Dropped at its await it has taken nothing.
    ///
    /// # Errors
    /// The event loop is ending.
    pub async fn ready(&self, events: &mut Vec<ReadyEvent>) -> io::Result<bool> {
        loop {
            // Polled by one task: the watch keeps its waker, without a list of those that wait.
            let mut guard = poll_fn(|context| self.io.poll_read_ready(context)).await?;
            let count = idle_poller::ready(self.io.get_ref(), events)?;
            // Events after this make the poller readable again.
            if count < idle_poller::BATCH {
                guard.clear_ready();
            }
            if count > 0 {
                return Ok(count == idle_poller::BATCH);
            }
        }
    }
}
