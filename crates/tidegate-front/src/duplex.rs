//! A client connection as one byte stream, for tunnels.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tidegate_core::client::ByteStream;

use crate::conn::Conn;

/// Reads and writes the connection's bytes, through TLS where there is TLS.
pub struct ConnDuplex {
    conn: Rc<Conn>,
    /// Bytes sent to the client.
    sent: Rc<Cell<u64>>,
}

impl ConnDuplex {
    /// `sent` is told how many bytes the client was sent.
    pub fn new(conn: Rc<Conn>, sent: Rc<Cell<u64>>) -> ConnDuplex {
        ConnDuplex { conn, sent }
    }
}

impl ByteStream for ConnDuplex {
    fn poll_read(
        &self,
        context: &mut Context<'_>,
        buffer: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        self.conn.io.poll_read_append(context, buffer)
    }

    fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(self.conn.io.poll_write(context, bytes))?;
        self.sent.set(self.sent.get() + written as u64);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.conn.io.poll_flush(context)
    }

    fn poll_shutdown(&self, context: &mut Context<'_>) -> Poll<()> {
        self.conn.io.poll_shutdown(context)
    }
}
