//! A client's byte stream, plain or TLS, behind one set of calls.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tidegate_rt::net::Stream;
use tidegate_rt::sync::{AsyncRead, AsyncWrite, ReadBuf, StreamIo};
use tokio_rustls::server::TlsStream;

/// A client's byte stream.
pub enum Io {
    Plain(Rc<Stream>),
    Tls(Rc<Stream>, RefCell<Box<TlsStream<StreamIo>>>),
}

impl Io {
    /// The socket below.
    pub fn stream(&self) -> &Rc<Stream> {
        match self {
            Io::Plain(stream) | Io::Tls(stream, _) => stream,
        }
    }

    /// The socket, when bytes may be given to it directly (`sendfile`).
    pub fn plain(&self) -> Option<&Stream> {
        match self {
            Io::Plain(stream) => Some(stream),
            Io::Tls(..) => None,
        }
    }

    /// Reads into a vector's spare capacity; 0 is the end.
    pub fn poll_read_append(
        &self,
        context: &mut Context<'_>,
        buffer: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        match self {
            Io::Plain(stream) => stream.poll_read_append(context, buffer),
            Io::Tls(_, tls) => {
                let start = buffer.len();
                buffer.resize(buffer.capacity(), 0);
                let mut room = ReadBuf::new(&mut buffer[start..]);
                let read = Pin::new(&mut **tls.borrow_mut()).poll_read(context, &mut room);
                let filled = room.filled().len();
                buffer.truncate(start + filled);
                ready!(read)?;
                Poll::Ready(Ok(filled))
            }
        }
    }

    /// Ready when a read would tell something: bytes, the end, or an error.
    pub fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        self.stream().poll_readable(context).map(drop)
    }

    /// Writes several pieces, as much as is taken.
    pub fn poll_write_vectored(
        &self,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self {
            Io::Plain(stream) => stream.poll_write_vectored(context, pieces),
            Io::Tls(_, tls) => {
                Pin::new(&mut **tls.borrow_mut()).poll_write_vectored(context, pieces)
            }
        }
    }

    /// Writes bytes, as much as is taken.
    pub fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Io::Plain(stream) => stream.poll_write(context, bytes),
            Io::Tls(_, tls) => Pin::new(&mut **tls.borrow_mut()).poll_write(context, bytes),
        }
    }

    /// Hands everything written to the kernel. Nothing to do without TLS.
    pub async fn flush(&self) -> io::Result<()> {
        match self {
            Io::Plain(_) => Ok(()),
            Io::Tls(_, tls) => {
                poll_fn(|context| Pin::new(&mut **tls.borrow_mut()).poll_flush(context)).await
            }
        }
    }

    /// Ends our sending side: TLS close_notify, then FIN.
    pub async fn shutdown(&self) {
        if let Io::Tls(_, tls) = self {
            let _ =
                poll_fn(|context| Pin::new(&mut **tls.borrow_mut()).poll_shutdown(context)).await;
        }
        let _ = self.stream().shutdown_write();
    }
}
