//! Reading a response head, past interim ones.

use std::fmt;
use std::io;
use std::task::{Context, Poll, ready};

use tidegate_codec::response::ResponseHead;

use super::scratch::{self, Remainder};
use crate::connection::OriginConnection;
use crate::log::os_error;
use crate::wire::{Codec, HeadError};

/// The reason why there is no head.
#[derive(Debug)]
pub(crate) enum ReceiveError {
    Io(io::Error),
    /// The origin closed.
    Closed,
    /// The received bytes are no head.
    Head(HeadError),
}

impl fmt::Display for ReceiveError {
    /// Writes the error log's text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReceiveError::Io(error) => write!(f, "recv() failed ({})", os_error(error)),
            ReceiveError::Closed => f.write_str("upstream prematurely closed connection"),
            ReceiveError::Head(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReceiveError {}

impl From<HeadError> for ReceiveError {
    fn from(error: HeadError) -> ReceiveError {
        ReceiveError::Head(error)
    }
}

/// A head that is being received. Holds a buffer only once bytes have arrived.
pub(crate) struct HeadReader {
    buffer: Option<Vec<u8>>,
    /// Offset in the buffer of the end of the parsed head.
    start: usize,
    head_bytes_max: usize,
    /// Most bytes of one read.
    read_bytes: usize,
    /// Taken once bytes have arrived.
    head: ResponseHead,
    codec: Codec,
    /// The head is parsed already: it arrived behind an interim one.
    whole: bool,
    /// Bytes received so far, interim heads included.
    pub received: u64,
}

impl HeadReader {
    pub(crate) fn new(head_bytes_max: usize, limited: bool, codec: Codec) -> HeadReader {
        let read_bytes = if limited { head_bytes_max } else { scratch::READ_BYTES };
        HeadReader {
            buffer: None,
            start: 0,
            head_bytes_max,
            read_bytes,
            head: ResponseHead::default(),
            codec,
            whole: false,
            received: 0,
        }
    }

    /// Reads until a head is complete.
    pub(crate) fn poll_head(
        &mut self,
        connection: &OriginConnection,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), ReceiveError>> {
        if std::mem::take(&mut self.whole) {
            return Poll::Ready(Ok(()));
        }
        loop {
            match self.poll_read(connection, context) {
                Poll::Pending => {
                    if self.buffer.as_ref().is_some_and(Vec::is_empty)
                        && let Some(buffer) = self.buffer.take()
                    {
                        scratch::give_buffer(buffer);
                    }
                    return Poll::Pending;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(ReceiveError::Io(error))),
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(ReceiveError::Closed)),
                Poll::Ready(Ok(count)) => {
                    self.received += count as u64;
                    if self.parse(count)? {
                        return Poll::Ready(Ok(()));
                    }
                }
            }
        }
    }

    /// Reads once, into a buffer that is taken when bytes have arrived.
    fn poll_read(
        &mut self,
        connection: &OriginConnection,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if self.buffer.is_none() {
            if let Some(stream) = connection.io.plain()
                && self.read_bytes == scratch::READ_BYTES
            {
                let (buffer, room) = (&mut self.buffer, scratch::READ_BYTES);
                return stream.poll_read_fresh(context, buffer, room, scratch::buffer);
            }
            ready!(connection.io.poll_readable(context))?;
        }
        let buffer = self.buffer.get_or_insert_with(scratch::buffer);
        let room = (buffer.capacity() - buffer.len()).min(self.read_bytes);
        if room < buffer.capacity() - buffer.len() {
            return read_limited(connection, context, buffer, room);
        }
        if room == 0 {
            // The head has reached the size limit and is incomplete.
            buffer.reserve(scratch::READ_BYTES);
        }
        connection.io.poll_read_append(context, buffer)
    }

    /// Returns the parsed head.
    pub(crate) fn head(&self) -> &ResponseHead {
        &self.head
    }

    /// Continues with the next head behind an interim one.
    pub(crate) fn skip(&mut self) -> Result<(), ReceiveError> {
        self.head.clear();
        let start = std::mem::take(&mut self.start);
        if let Some(buffer) = &mut self.buffer {
            buffer.drain(..start);
        }
        if self.buffer.as_ref().is_none_or(Vec::is_empty) {
            if let Some(buffer) = self.buffer.take() {
                scratch::give_buffer(buffer);
            }
            return Ok(());
        }
        self.whole = self.parse(self.buffer.as_ref().map_or(0, Vec::len))?;
        Ok(())
    }

    /// Returns the codec of the response.
    pub(crate) fn codec(&mut self) -> &mut Codec {
        &mut self.codec
    }

    /// Returns the head, the bytes behind it, and the codec of the body.
    pub(crate) fn finish(self) -> (ResponseHead, Remainder, Codec) {
        let behind = Remainder { buffer: self.buffer.unwrap_or_default(), start: self.start };
        (self.head, behind, self.codec)
    }

    /// Parses the buffer, whose last `count` bytes have just been received.
    fn parse(&mut self, count: usize) -> Result<bool, ReceiveError> {
        let Some(buffer) = &mut self.buffer else { return Ok(false) };
        let new = buffer.len().saturating_sub(count);
        if self.head.headers.capacity() == 0 {
            self.head = scratch::head();
        }
        let end = self.codec.parse(buffer, new, self.head_bytes_max, &mut self.head)?;
        self.start = end.unwrap_or(0);
        Ok(end.is_some())
    }
}

fn read_limited(
    connection: &OriginConnection,
    context: &mut Context<'_>,
    buffer: &mut Vec<u8>,
    room: usize,
) -> Poll<io::Result<usize>> {
    let start = buffer.len();
    buffer.resize(start + room, 0);
    let read = connection.io.poll_read(context, &mut buffer[start..]);
    let count = match &read {
        Poll::Ready(Ok(count)) => *count,
        _ => 0,
    };
    buffer.truncate(start + count);
    read
}
