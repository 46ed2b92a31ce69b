//! A listening socket on the event loop.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use tidegate_os::{
    BorrowedSocket, ListenAddr, ListenOptions, OwnedSocket, PeerAddr, listen, socket,
};
use tokio::io::Interest;
use tokio::sync::Notify;

use super::Stream;
use super::watched::{Watched, watched};
use crate::share;

/// A listening socket, opened here or inherited. One task accepts from it.
///
/// | `paused` | `once` | state |
/// |---|---|---|
/// | no | none | accepts |
/// | no | some | accepts once ([`Listener::resume_once`]), notifies and pauses |
/// | yes | any | connections wait in the kernel's queue; `waiting` is woken by the next resume |
pub struct Listener {
    io: Watched,
    paused: Cell<bool>,
    /// Woken when accepting is resumed.
    waiting: Cell<Option<Waker>>,
    /// Notified when connections have been accepted, which ends the turn of `accept_mutex`.
    once: Cell<Option<Rc<Notify>>>,
}

impl Listener {
    /// Opens a socket; see `tidegate_os::listen::listen_socket`.
    ///
    /// # Errors
    /// Those of bind and setsockopt.
    pub fn bind(address: &ListenAddr, options: &ListenOptions) -> io::Result<Listener> {
        Listener::from_fd(listen::listen_socket(address, options)?)
    }

    /// Takes over a listening socket.
    ///
    /// # Errors
    /// The event loop cannot watch it.
    pub fn from_fd(fd: OwnedSocket) -> io::Result<Listener> {
        Listener::from_shared(Arc::new(fd))
    }

    /// Accepts from a listening socket from which other event loops may accept as well.
    ///
    /// # Errors
    /// The event loop cannot watch it, or does so already.
    pub fn from_shared(fd: Arc<OwnedSocket>) -> io::Result<Listener> {
        socket::set_nonblocking(&*fd, true)?;
        let io = watched(fd, Interest::READABLE)?;
        Ok(Listener {
            io,
            paused: Cell::new(false),
            waiting: Cell::new(None),
            once: Cell::new(None),
        })
    }

    /// Returns the address that it listens on.
    ///
    /// # Errors
    /// Those of getsockname.
    pub fn local_addr(&self) -> io::Result<ListenAddr> {
        socket::local_addr(self.socket())
    }

    /// Waits for one connection.
    ///
    /// # Errors
    /// No descriptors or memory left: wait before the next try.
    pub async fn accept(&self) -> io::Result<Stream> {
        poll_fn(|context| self.poll_accept(context)).await.map(|(stream, _)| stream)
    }

    /// Waits until a connection is in the kernel's queue, and leaves it there. While accepting is paused, it waits for
    /// the next resume too.
    ///
    /// # Errors
    /// The event loop is ending.
    pub async fn connection_waits(&self) -> io::Result<()> {
        poll_fn(|context| {
            loop {
                ready!(self.poll_resumed(context));
                let mut guard = ready!(self.io.poll_read_ready(context))?;
                // The event may be that of a connection which has been accepted meanwhile.
                if listen::has_waiting(self.socket())? {
                    return Poll::Ready(Ok(()));
                }
                guard.clear_ready();
            }
        })
        .await
    }

    /// Waits for connections and passes those in the queue (at least one) to `each`, as long as it returns that another
    /// one may be accepted in this event-loop iteration. Returns how many were accepted.
    ///
    /// There is one await, before the first connection: dropped there, no connection is lost. An accepted one is passed
    /// to `each` before anything else happens. Sources: `multi_accept`, `accept_mutex`.
    ///
    /// # Errors
    /// As [`Listener::accept`]; only if there was no connection before the error.
    pub async fn accept_some(
        &self,
        mut each: impl FnMut(Stream, PeerAddr) -> bool,
    ) -> io::Result<usize> {
        let (stream, peer) = poll_fn(|context| self.poll_accept(context)).await?;
        let mut go_on = each(stream, peer);
        let mut count = 1;
        while go_on && !self.paused.get() {
            // An error occurs again at the next call, where it can be reported.
            let Ok(Some(acceptance)) = listen::accept_nonblocking(self.socket()) else { break };
            let (stream, peer) = Stream::from_accepted(acceptance);
            go_on = each(stream, peer);
            count += 1;
        }
        if let Some(done) = self.once.take() {
            self.pause();
            done.notify_one();
        }
        Ok(count)
    }

    /// As [`Listener::accept`], for hand-written futures.
    pub fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<(Stream, PeerAddr)>> {
        ready!(self.poll_resumed(context));
        ready!(share::poll(context));
        loop {
            let mut guard = ready!(self.io.poll_read_ready(context))?;
            ready!(self.poll_resumed(context));
            match listen::accept_nonblocking(self.socket())? {
                Some(acceptance) => {
                    share::spend(0);
                    return Poll::Ready(Ok(Stream::from_accepted(acceptance)));
                }
                None => guard.clear_ready(),
            }
        }
    }

    /// Waits while accepting is paused.
    fn poll_resumed(&self, context: &Context<'_>) -> Poll<()> {
        if self.paused.get() {
            self.waiting.set(Some(context.waker().clone()));
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    /// Stops accepting: connections wait in the kernel's queue, for this process or another one
    /// that shares the socket.
    pub fn pause(&self) {
        self.paused.set(true);
    }

    /// Resumes accepting until [`Listener::accept_some`] has accepted something; then `done` is notified and accepting
    /// is paused (one turn of `accept_mutex`).
    pub fn resume_once(&self, done: Rc<Notify>) {
        self.once.set(Some(done));
        self.go_on();
    }

    /// Resumes accepting.
    pub fn resume(&self) {
        self.once.set(None);
        self.go_on();
    }

    fn go_on(&self) {
        self.paused.set(false);
        if let Some(waker) = self.waiting.take() {
            waker.wake();
        }
    }

    fn socket(&self) -> BorrowedSocket<'_> {
        socket::borrow(self.io.get_ref())
    }

    /// Whether accepting is paused.
    pub fn is_paused(&self) -> bool {
        self.paused.get()
    }
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener")
            .field("socket", &self.socket())
            .field("paused", &self.paused.get())
            .finish_non_exhaustive()
    }
}
