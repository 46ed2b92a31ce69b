//! Watches by duplicates: the runtime watches only sockets of its own, and a duplicate of any kind of socket can be
//! wrapped in its type for connections.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tidegate_os::{AsSocket, OwnedSocket, Peek, socket};
use tokio::io::Interest;
use tokio::net::TcpStream;

/// A socket with its watch. Other event loops may have the same one.
#[derive(Debug)]
pub(crate) struct Watched {
    watch: Watch,
    socket: Arc<OwnedSocket>,
}

/// The watch of a socket that has another owner.
#[derive(Debug)]
pub(crate) struct Watch {
    /// A duplicate, which is never read from or written to.
    inner: TcpStream,
}

/// Readiness that a watch reported.
pub(crate) struct WatchGuard<'a> {
    watch: &'a Watch,
    interest: Interest,
}

/// Registers a socket with this thread's event loop.
///
/// # Errors
/// No sockets left.
pub(crate) fn watched(
    socket: impl Into<Arc<OwnedSocket>>,
    _interest: Interest,
) -> io::Result<Watched> {
    let socket = socket.into();
    Ok(Watched { watch: watch(&socket)?, socket })
}

/// Watches a socket.
///
/// # Errors
/// As [`watched`].
pub(crate) fn watch(socket: &OwnedSocket) -> io::Result<Watch> {
    Ok(Watch { inner: TcpStream::from_std(socket.try_clone()?.into())? })
}

/// Waits until the peer closes its sending side or the connection breaks; where unread bytes are before the end, it is
/// not seen.
pub(crate) async fn closed(watch: &Watch) {
    loop {
        if watch.inner.readable().await.is_err() {
            return;
        }
        match socket::peek(watch.inner.as_socket()) {
            Peek::Closed => return,
            Peek::Quiet => watch.clear(Interest::READABLE),
            Peek::Data => std::future::pending().await,
        }
    }
}

impl Watch {
    /// Ready when a read may not have to wait.
    pub(crate) fn poll_read_ready(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<WatchGuard<'_>>> {
        ready!(self.inner.poll_read_ready(context))?;
        Poll::Ready(Ok(WatchGuard { watch: self, interest: Interest::READABLE }))
    }

    /// Ready when a write may not have to wait.
    pub(crate) fn poll_write_ready(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<WatchGuard<'_>>> {
        ready!(self.inner.poll_write_ready(context))?;
        Poll::Ready(Ok(WatchGuard { watch: self, interest: Interest::WRITABLE }))
    }

    /// Waits until a read may not have to wait.
    ///
    /// # Errors
    /// The event loop is ending.
    pub(crate) async fn readable(&self) -> io::Result<WatchGuard<'_>> {
        self.inner.readable().await?;
        Ok(WatchGuard { watch: self, interest: Interest::READABLE })
    }

    /// Waits until a write may not have to wait.
    ///
    /// # Errors
    /// The event loop is ending.
    pub(crate) async fn writable(&self) -> io::Result<WatchGuard<'_>> {
        self.inner.writable().await?;
        Ok(WatchGuard { watch: self, interest: Interest::WRITABLE })
    }

    /// Waits for one of several kinds of readiness.
    ///
    /// # Errors
    /// The event loop is ending.
    pub(crate) async fn ready(&self, interest: Interest) -> io::Result<WatchGuard<'_>> {
        self.inner.ready(interest).await?;
        Ok(WatchGuard { watch: self, interest })
    }

    /// Makes a call if readiness is known; a refusal ends it.
    ///
    /// # Errors
    /// `WouldBlock` when none is known, else the call's error.
    pub(crate) fn try_io<T>(
        &self,
        interest: Interest,
        call: impl FnOnce(&Watch) -> io::Result<T>,
    ) -> io::Result<T> {
        self.inner.try_io(interest, || call(self))
    }

    /// Ends known readiness: the system is to report it again, at once if it holds.
    fn clear(&self, interest: Interest) {
        let refused = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
        // The runtime ignores several kinds at once.
        for (asked, one) in [
            (interest.is_readable(), Interest::READABLE),
            (interest.is_writable(), Interest::WRITABLE),
            (interest.is_error(), Interest::ERROR),
        ] {
            if asked {
                let _ = self.inner.try_io(one, refused);
            }
        }
    }
}

impl WatchGuard<'_> {
    /// Ends the readiness: the system has no more bytes, or takes no more.
    pub(crate) fn clear_ready(&mut self) {
        self.watch.clear(self.interest);
    }
}

impl Watched {
    /// Returns the socket.
    pub(crate) fn get_ref(&self) -> &OwnedSocket {
        &self.socket
    }

    /// See [`Watch::poll_read_ready`].
    pub(crate) fn poll_read_ready(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<WatchGuard<'_>>> {
        self.watch.poll_read_ready(context)
    }

    /// See [`Watch::poll_write_ready`].
    pub(crate) fn poll_write_ready(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<WatchGuard<'_>>> {
        self.watch.poll_write_ready(context)
    }

    /// See [`Watch::ready`].
    ///
    /// # Errors
    /// The event loop is ending.
    pub(crate) async fn ready(&self, interest: Interest) -> io::Result<WatchGuard<'_>> {
        self.watch.ready(interest).await
    }
}
