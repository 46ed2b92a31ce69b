//! A client connection as one byte stream, for tunnels.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tidegate_rt::sync::{AsyncRead, AsyncWrite, ReadBuf};

use crate::conn::Conn;

/// Bytes asked from the connection at once.
const STAGE_BYTES: usize = 16 * 1024;

/// Reads and writes the connection's bytes, through TLS where there is TLS.
pub struct ConnDuplex {
    conn: Rc<Conn>,
    /// Received and not yet asked for.
    staged: Vec<u8>,
    /// Bytes sent to the client.
    sent: Rc<Cell<u64>>,
}

impl ConnDuplex {
    /// `sent` is told how many bytes the client was sent.
    pub fn new(conn: Rc<Conn>, sent: Rc<Cell<u64>>) -> ConnDuplex {
        ConnDuplex { conn, staged: Vec::new(), sent }
    }
}

impl AsyncRead for ConnDuplex {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.staged.is_empty() {
            this.staged.reserve(STAGE_BYTES);
            ready!(this.conn.io.poll_read_append(context, &mut this.staged))?;
        }
        // The caller's buffer may be smaller than what came: the rest waits for the next read.
        let count = this.staged.len().min(buffer.remaining());
        buffer.put_slice(&this.staged[..count]);
        this.staged.drain(..count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ConnDuplex {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(self.conn.io.poll_write(context, bytes))?;
        self.sent.set(self.sent.get() + written as u64);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.conn.io.poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.conn.io.poll_shutdown(context).map(Ok)
    }
}
