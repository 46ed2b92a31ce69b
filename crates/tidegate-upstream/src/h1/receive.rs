//! Reading a response head, past interim ones.

use std::io;
use std::task::{Context, Poll};

use tidegate_http::response::ResponseHead;

use super::scratch;
use crate::connection::OriginConnection;
use crate::wire::Codec;

/// Why there is no head.
#[derive(Debug)]
pub enum ReceiveError {
    Io(io::Error),
    /// The origin closed.
    Closed,
    Invalid(String),
    /// The origin does not do the request.
    Refused(String),
}

/// A head in the course of arriving. Holds a buffer only once bytes have come.
pub(crate) struct HeadReader {
    buffer: Option<Vec<u8>>,
    head_bytes_max: usize,
    /// Bytes read at once at most.
    read_bytes: usize,
    head: ResponseHead,
    codec: Codec,
    /// The head is parsed already: it came behind an interim one.
    whole: bool,
    pub received: u64,
}

impl HeadReader {
    pub fn new(head_bytes_max: usize, limited: bool, codec: Codec) -> HeadReader {
        let read_bytes = if limited { head_bytes_max } else { scratch::READ_BYTES };
        HeadReader {
            buffer: None,
            head_bytes_max,
            read_bytes,
            head: scratch::head(),
            codec,
            whole: false,
            received: 0,
        }
    }

    /// Reads until a head is whole.
    pub fn poll_head(
        &mut self,
        connection: &OriginConnection,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), ReceiveError>> {
        if std::mem::take(&mut self.whole) {
            return Poll::Ready(Ok(()));
        }
        loop {
            if self.buffer.is_none() {
                match connection.io.poll_readable(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(ReceiveError::Io(error))),
                    Poll::Ready(Ok(())) => self.buffer = Some(scratch::buffer()),
                }
            }
            let Some(buffer) = &mut self.buffer else { return Poll::Pending };
            let room = (buffer.capacity() - buffer.len()).min(self.read_bytes);
            let read = if room < buffer.capacity() - buffer.len() {
                read_limited(connection, context, buffer, room)
            } else {
                if room == 0 {
                    // As large as a head may be and not whole.
                    buffer.reserve(scratch::READ_BYTES);
                }
                connection.io.poll_read_append(context, buffer)
            };
            match read {
                Poll::Pending => {
                    if buffer.is_empty()
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
                    let new = buffer.len().saturating_sub(count);
                    if self.parse(new)? {
                        return Poll::Ready(Ok(()));
                    }
                }
            }
        }
    }

    /// The parsed head and what came behind it.
    pub fn head(&self) -> &ResponseHead {
        &self.head
    }

    /// Goes on to the next head behind an interim one.
    pub fn skip(&mut self) -> Result<(), ReceiveError> {
        self.head.clear();
        if self.buffer.as_ref().is_none_or(Vec::is_empty) {
            if let Some(buffer) = self.buffer.take() {
                scratch::give_buffer(buffer);
            }
            return Ok(());
        }
        self.whole = self.parse(0)?;
        Ok(())
    }

    /// What reads the answer.
    pub fn codec(&mut self) -> &mut Codec {
        &mut self.codec
    }

    /// Head, the bytes behind it, and what reads on.
    pub fn finish(self) -> (ResponseHead, Vec<u8>, Codec) {
        (self.head, self.buffer.unwrap_or_default(), self.codec)
    }

    /// Reads what stands in the buffer from `new` on.
    fn parse(&mut self, new: usize) -> Result<bool, ReceiveError> {
        let Some(buffer) = &mut self.buffer else { return Ok(false) };
        self.codec.parse(buffer, new, self.head_bytes_max, &mut self.head)
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
