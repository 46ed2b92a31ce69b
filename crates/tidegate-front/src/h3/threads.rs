//! The threads that share a listening address of QUIC: which of them a packet belongs to, and how it gets there.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU16;

use tidegate_quic::Packet;
use tidegate_rt::sync::Receiver;

/// One thread's part of a listening address that all threads have a socket of.
///
/// The worker makes it for each thread and address, with a bounded channel between them:
///
/// ```
/// use std::rc::Rc;
/// use std::sync::Arc;
/// use std::sync::atomic::AtomicU16;
/// use tidegate_front::Threads;
///
/// let (sender, mail) = tidegate_rt::sync::channel(1024);
/// let threads = Threads {
///     thread: 0,
///     count: Arc::new(AtomicU16::new(1)),
///     // A packet for which there is no room is lost, as on the way.
///     pass_on: Rc::new(move |_thread, packet| drop(sender.try_send(packet))),
///     mail,
/// };
/// # drop(threads);
/// ```
pub struct Threads {
    /// The index of this thread's socket among those of the address, in the order in which they were bound.
    pub thread: u16,
    /// The number of sockets that new packets are distributed to. It may change with a reload, before the plan does;
    /// a connection stays on its thread.
    pub count: Arc<AtomicU16>,
    /// Passes a packet on to the thread of its connection, or drops it where that has no room. The number may be one of a
    /// thread that no longer exists.
    pub pass_on: Rc<dyn Fn(u16, Packet)>,
    /// The packets that other threads have passed on.
    pub mail: Receiver<Packet>,
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Threads")
            .field("thread", &self.thread)
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}
