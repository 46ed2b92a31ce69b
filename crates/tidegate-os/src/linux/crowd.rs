//! Watching many descriptors with one: an epoll instance of its own, whose descriptor becomes
//! readable when one of its members does. A member costs the kernel an entry and this process nothing.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

/// Members reported by one call at most.
const BATCH: usize = 256;

/// An empty crowd, close-on-exec.
///
/// # Errors
/// No descriptors left.
pub fn create() -> io::Result<OwnedFd> {
    Ok(epoll::create(CreateFlags::CLOEXEC)?)
}

/// Adds a member; `key` comes back when it has bytes, its peer has closed, or it broke.
///
/// # Errors
/// The limit of watched descriptors is reached.
pub fn add(crowd: impl AsFd, member: impl AsFd, key: u64) -> io::Result<()> {
    let flags = EventFlags::IN | EventFlags::RDHUP;
    Ok(epoll::add(crowd, member, EventData::new_u64(key), flags)?)
}

/// Removes a member. Closing it does the same.
///
/// # Errors
/// It is no member.
pub fn remove(crowd: impl AsFd, member: impl AsFd) -> io::Result<()> {
    Ok(epoll::delete(crowd, member)?)
}

/// Appends the keys of members that something happened to, without waiting.
///
/// # Errors
/// None in practice.
pub fn ready(crowd: impl AsFd, keys: &mut Vec<u64>) -> io::Result<usize> {
    let mut events = Vec::with_capacity(BATCH);
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    super::retry(|| {
        epoll::wait(crowd.as_fd(), rustix::buffer::spare_capacity(&mut events), Some(&now))
    })?;
    keys.extend(events.iter().map(|event| event.data.u64()));
    Ok(events.len())
}
