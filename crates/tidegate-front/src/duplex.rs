//! A client connection as one byte stream, for tunnels.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tidegate_core::client::ByteStream;

use crate::link::Link;

/// Reads and writes the connection's bytes, through TLS where there is TLS.
pub(crate) struct LinkStream {
    link: Rc<Link>,
    /// Bytes sent to the client.
    sent: Rc<Cell<u64>>,
}

impl LinkStream {
    /// Wraps a connection; `sent` counts the bytes that were sent to the client.
    pub(crate) fn new(link: Rc<Link>, sent: Rc<Cell<u64>>) -> LinkStream {
        LinkStream { link, sent }
    }
}

impl ByteStream for LinkStream {
    fn poll_read(
        &self,
        context: &mut Context<'_>,
        buffer: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        self.link.io.poll_read_append(context, buffer)
    }

    fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(self.link.io.poll_write(context, bytes))?;
        self.sent.set(self.sent.get() + written as u64);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.link.io.poll_flush(context)
    }

    fn poll_shutdown(&self, context: &mut Context<'_>) -> Poll<()> {
        self.link.io.poll_shutdown(context)
    }
}
