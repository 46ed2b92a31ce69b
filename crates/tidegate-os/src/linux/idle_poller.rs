//! Watching many descriptors with one: an epoll instance of its own, whose descriptor becomes readable when one of its
//! members does. A member costs the kernel an entry and this process nothing.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

/// Most members reported by one call.
pub const BATCH: usize = 256;

/// An event of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyEvent {
    /// The key that the member was added with.
    pub key: u64,
    /// The peer sends nothing more, or the connection broke: the end follows the bytes that may be there.
    pub ended: bool,
}

/// Makes an empty poller, close-on-exec.
///
/// # Errors
/// No descriptors left.
pub fn create() -> io::Result<OwnedFd> {
    Ok(epoll::create(CreateFlags::CLOEXEC)?)
}

/// Adds a member; `key` is reported when bytes arrive (or are already there), when its peer closes, and when it breaks:
/// once for each of these events.
///
/// # Errors
/// The limit of watched descriptors is reached.
pub fn add(poller: impl AsFd, member: impl AsFd, key: u64) -> io::Result<()> {
    let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
    Ok(epoll::add(poller, member, EventData::new_u64(key), flags)?)
}

/// Removes a member. Closing it does the same.
///
/// # Errors
/// It is not a member.
pub fn remove(poller: impl AsFd, member: impl AsFd) -> io::Result<()> {
    Ok(epoll::delete(poller, member)?)
}

/// Appends the events of members without waiting, at most [`BATCH`]; returns their number.
///
/// # Errors
/// None in practice.
pub fn ready(poller: impl AsFd, ready: &mut Vec<ReadyEvent>) -> io::Result<usize> {
    let mut events = Vec::with_capacity(BATCH);
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    super::retry(|| {
        epoll::wait(poller.as_fd(), rustix::buffer::spare_capacity(&mut events), Some(&now))
    })?;
    let end = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
    ready.extend(events.iter().map(|event: &epoll::Event| {
        let flags = event.flags;
        ReadyEvent { key: event.data.u64(), ended: flags.intersects(end) }
    }));
    Ok(events.len())
}
