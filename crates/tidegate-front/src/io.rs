//! A client's byte stream, plain or TLS, behind one set of calls.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tidegate_rt::net::Stream;

use crate::tls::TlsStream;

/// A client's byte stream.
pub enum Io {
    Plain(Rc<Stream>),
    Tls(Rc<Stream>, RefCell<TlsStream>),
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
        let read = match self {
            Io::Plain(stream) => stream.poll_read_append(context, buffer),
            Io::Tls(_, tls) => tls.borrow_mut().poll_read_append(context, buffer),
        };
        tidegate_rt::freshness::received();
        read
    }

    /// Ready when a read would tell something: bytes, the end, or an error.
    pub fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        match self {
            // What was decrypted already is not seen on the socket.
            Io::Tls(_, tls) if tls.borrow_mut().has_news() => Poll::Ready(()),
            _ => self.stream().poll_readable(context).map(drop),
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
            Io::Tls(_, tls) => tls.borrow_mut().poll_write_vectored(context, pieces),
        }
    }

    /// Writes bytes, as much as is taken.
    pub fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Io::Plain(stream) => stream.poll_write(context, bytes),
            Io::Tls(_, tls) => tls.borrow_mut().poll_write(context, bytes),
        }
    }

    /// Hands everything written to the kernel. Nothing to do without TLS.
    pub fn poll_flush(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Io::Plain(_) => Poll::Ready(Ok(())),
            Io::Tls(_, tls) => tls.borrow_mut().poll_flush(context),
        }
    }

    /// See [`Io::poll_flush`].
    pub async fn flush(&self) -> io::Result<()> {
        poll_fn(|context| self.poll_flush(context)).await
    }

    /// Ends our sending side: TLS close_notify, then FIN.
    pub fn poll_shutdown(&self, context: &mut Context<'_>) -> Poll<()> {
        if let Io::Tls(_, tls) = self {
            let _ = ready!(tls.borrow_mut().poll_shutdown(context));
        }
        let _ = self.stream().shutdown_write();
        Poll::Ready(())
    }

    /// See [`Io::poll_shutdown`]. A peer that takes nothing more does not hold us up: what does not
    /// fit its window at once is not sent.
    pub async fn shutdown(&self) {
        // A share that is used up must not be taken for a window that is full.
        tidegate_rt::share::wait().await;
        poll_fn(|context| {
            if self.poll_shutdown(context).is_pending() {
                let _ = self.stream().shutdown_write();
            }
            Poll::Ready(())
        })
        .await;
    }
}
