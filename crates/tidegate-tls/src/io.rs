//! A peer's byte stream, plain or TLS, behind one set of calls.

use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use tidegate_rt::net::Stream;

use crate::side::Side;
use crate::stream::TlsStream;

/// A peer's byte stream; clones are the same stream. `S` is this program's side of it.
///
/// Code that reads and writes need not know whether there is TLS. A call that is not ready keeps the waker of
/// its context and calls it once; reading and writing wait independently. A stream belongs to its thread.
pub enum Io<S: Side> {
    /// Bytes without TLS.
    Plain(Rc<Stream>),
    /// Bytes through TLS.
    Tls(Rc<TlsStream<S>>),
}

impl<S: Side> Io<S> {
    /// Returns the socket below.
    pub fn stream(&self) -> &Rc<Stream> {
        match self {
            Io::Plain(stream) => stream,
            Io::Tls(tls) => tls.stream(),
        }
    }

    /// Returns the socket, when bytes may be written to it directly (`sendfile`).
    pub fn plain(&self) -> Option<&Stream> {
        match self {
            Io::Plain(stream) => Some(stream),
            Io::Tls(_) => None,
        }
    }

    /// Polls until a read would return something: bytes, the end, or an error. With TLS the read may still
    /// return nothing.
    ///
    /// # Errors
    /// Errors of the socket.
    pub fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            // Decrypted bytes are not visible on the socket.
            Io::Tls(tls) if tls.is_read_ready() => Poll::Ready(Ok(())),
            _ => self.stream().poll_readable(context),
        }
    }

    /// Reads the bytes that have arrived; 0 is the end of the stream.
    ///
    /// # Errors
    /// Errors of the socket, or the peer's bytes are no TLS.
    pub fn poll_read(
        &self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let read = match self {
            Io::Plain(stream) => stream.poll_read(context, buffer),
            Io::Tls(tls) => tls.poll_read(context, buffer),
        };
        S::received();
        read
    }

    /// Returns whether more can be read before the socket reports an event: bytes that TLS has decrypted, or that may
    /// wait in the socket. `filled` says whether the last read filled its buffer.
    pub fn may_have_more(&self, filled: bool) -> bool {
        match self {
            Io::Plain(_) => filled,
            Io::Tls(tls) => tls.may_have_more(),
        }
    }

    /// As [`Io::poll_read_append`], but neither waits nor remembers that nothing was there: for sockets that an
    /// `IdlePoller` reports.
    ///
    /// # Errors
    /// As [`Io::poll_read`]; `WouldBlock` when no data has arrived.
    pub fn read_arrived(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        match self {
            Io::Plain(stream) => stream.read_arrived(buffer),
            Io::Tls(tls) => tls.read_arrived(buffer),
        }
    }

    /// Returns whether nothing waits to be read or sent but what is in the socket, so that the connection needs no
    /// memory until the socket reports an event.
    pub fn is_idle(&self) -> bool {
        match self {
            Io::Plain(_) => true,
            Io::Tls(tls) => tls.is_idle(),
        }
    }

    /// Frees what an idle connection does not need.
    pub fn rest(&self) {
        if let Io::Tls(tls) = self {
            tls.rest();
        }
    }

    /// Returns whether written bytes wait for [`Io::poll_flush`].
    pub fn has_unsent(&self) -> bool {
        match self {
            Io::Plain(_) => false,
            Io::Tls(tls) => tls.has_unsent(),
        }
    }

    /// Sends close_notify of TLS, as far as the peer's window has room at once. The socket stays open.
    pub fn close_now(&self) {
        if let Io::Tls(tls) = self {
            tls.close_now();
        }
    }

    /// Reads into a vector's spare capacity; 0 is the end of the stream.
    ///
    /// # Errors
    /// As [`Io::poll_read`].
    pub fn poll_read_append(
        &self,
        context: &mut Context<'_>,
        buffer: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        let read = match self {
            Io::Plain(stream) => stream.poll_read_append(context, buffer),
            Io::Tls(tls) => tls.poll_read_append(context, buffer),
        };
        S::received();
        read
    }

    /// Writes bytes, as many as are accepted.
    ///
    /// # Errors
    /// Errors of the socket.
    pub fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Io::Plain(stream) => stream.poll_write(context, bytes),
            Io::Tls(tls) => tls.poll_write(context, bytes),
        }
    }

    /// Writes several pieces, as many bytes as are accepted.
    ///
    /// # Errors
    /// Errors of the socket.
    pub fn poll_write_vectored(
        &self,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self {
            Io::Plain(stream) => stream.poll_write_vectored(context, pieces),
            Io::Tls(tls) => tls.poll_write_vectored(context, pieces),
        }
    }

    /// Passes all written bytes to the kernel. Does nothing without TLS.
    ///
    /// # Errors
    /// Errors of the socket.
    pub fn poll_flush(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Io::Plain(_) => Poll::Ready(Ok(())),
            Io::Tls(tls) => tls.poll_flush(context),
        }
    }

    /// Flushes as [`Io::poll_flush`].
    ///
    /// # Errors
    /// Errors of the socket.
    pub async fn flush(&self) -> io::Result<()> {
        poll_fn(|context| self.poll_flush(context)).await
    }

    /// Ends the sending side: close_notify of TLS, then FIN.
    pub fn poll_shutdown(&self, context: &mut Context<'_>) -> Poll<()> {
        if let Io::Tls(tls) = self {
            let _ = ready!(tls.poll_shutdown(context));
        }
        let _ = self.stream().shutdown_write();
        Poll::Ready(())
    }

    /// Ends the sending side as [`Io::poll_shutdown`]. A peer that accepts no more bytes does not delay this:
    /// bytes that do not fit its window at once are not sent.
    pub async fn shutdown(&self) {
        // A used-up time share must not be taken for a full window.
        tidegate_rt::share::wait().await;
        poll_fn(|context| {
            if self.poll_shutdown(context).is_pending() {
                let _ = self.stream().shutdown_write();
            }
            Poll::Ready(())
        })
        .await;
    }

    /// Returns whether nothing has arrived on an idle connection: no early response and no close. Makes a
    /// system call only when the event loop has seen an event.
    pub fn is_quiet(&self) -> bool {
        let mut byte = [0];
        match self {
            Io::Plain(stream) => {
                let read = stream.try_read(&mut byte);
                matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
            }
            // Session tickets may have arrived behind the response: they are processed.
            Io::Tls(tls) => {
                tls.poll_read(&mut Context::from_waker(Waker::noop()), &mut byte).is_pending()
            }
        }
    }

    /// Returns the same as [`Io::is_quiet`] with a system call.
    pub fn is_quiet_now(&self) -> bool {
        match self {
            Io::Plain(stream) => !stream.peek_closed(),
            Io::Tls(tls) => self.is_quiet() && !tls.stream().peek_closed(),
        }
    }
}

impl<S: Side> Clone for Io<S> {
    fn clone(&self) -> Io<S> {
        match self {
            Io::Plain(stream) => Io::Plain(stream.clone()),
            Io::Tls(tls) => Io::Tls(tls.clone()),
        }
    }
}

impl<S: Side> fmt::Debug for Io<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Io::Plain(_) => "Plain",
            Io::Tls(_) => "Tls",
        })
    }
}
