//! An origin's byte stream, plain or TLS, behind one set of calls.

use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use tidegate_rt::net::Stream;

use crate::stream::TlsStream;

/// An origin's byte stream; clones are the same stream.
#[derive(Clone)]
pub enum Io {
    Plain(Rc<Stream>),
    Tls(Rc<TlsStream>),
}

impl Io {
    /// The socket below.
    pub fn stream(&self) -> &Stream {
        match self {
            Io::Plain(stream) => stream,
            Io::Tls(tls) => tls.stream(),
        }
    }

    /// The socket, when bytes may be given to it directly.
    pub fn plain(&self) -> Option<&Stream> {
        match self {
            Io::Plain(stream) => Some(stream),
            Io::Tls(_) => None,
        }
    }

    /// Ready when a read would tell something: bytes, the end, or an error. With TLS it may be nothing
    /// after all.
    pub fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Io::Plain(stream) => stream.poll_readable(context),
            // What was decrypted already is not seen on the socket.
            Io::Tls(tls) if tls.has_news() => Poll::Ready(Ok(())),
            Io::Tls(tls) => tls.stream().poll_readable(context),
        }
    }

    /// Reads what has arrived; 0 is the end of the stream.
    pub fn poll_read(
        &self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Io::Plain(stream) => stream.poll_read(context, buffer),
            Io::Tls(tls) => tls.poll_read(context, buffer),
        }
    }

    /// Reads into a vector's spare capacity; 0 is the end of the stream.
    pub fn poll_read_append(
        &self,
        context: &mut Context<'_>,
        buffer: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        match self {
            Io::Plain(stream) => stream.poll_read_append(context, buffer),
            Io::Tls(tls) => tls.poll_read_append(context, buffer),
        }
    }

    /// Writes bytes, as much as is taken.
    pub fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Io::Plain(stream) => stream.poll_write(context, bytes),
            Io::Tls(tls) => tls.poll_write(context, bytes),
        }
    }

    /// Writes several pieces, as much as is taken.
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

    /// Hands everything written to the kernel. Nothing to do without TLS.
    pub fn poll_flush(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Io::Plain(_) => Poll::Ready(Ok(())),
            Io::Tls(tls) => tls.poll_flush(context),
        }
    }

    /// Ends our sending side.
    pub fn poll_shutdown(&self, context: &mut Context<'_>) -> Poll<()> {
        if let Io::Tls(tls) = self {
            let _ = ready!(tls.poll_shutdown(context));
        }
        let _ = self.stream().shutdown_write();
        Poll::Ready(())
    }

    /// Whether nothing has arrived on an idle connection: no early response and no close. Asks the
    /// kernel only when the loop has told of something.
    pub fn is_quiet(&self) -> bool {
        let mut byte = [0];
        match self {
            Io::Plain(stream) => {
                let read = stream.try_read(&mut byte);
                matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
            }
            // Session tickets may have come behind the response: they are taken in.
            Io::Tls(tls) => {
                tls.poll_read(&mut Context::from_waker(Waker::noop()), &mut byte).is_pending()
            }
        }
    }

    /// As [`Io::is_quiet`] with a system call.
    pub fn is_quiet_now(&self) -> bool {
        match self {
            Io::Plain(stream) => !stream.peek_closed(),
            Io::Tls(tls) => self.is_quiet() && !tls.stream().peek_closed(),
        }
    }
}
