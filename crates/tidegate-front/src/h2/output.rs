//! What waits to be sent: frames in the protocol's output, and pieces of bodies that are not copied there.
//!
//! Copying costs more than the rest of a response from a few kilobytes on: behind the nine bytes of a frame's header,
//! no piece is aligned.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use tidegate_h2::{Connection, SendError, Server, StreamId};

use crate::io::Io;

/// Pieces below this are copied behind their header, bytes.
const COPIED_BELOW: usize = 2 * 1024;
/// Bytes that may wait to be sent before no more bodies are added, with those in the protocol's output.
const WAITING_MAX: usize = 64 * 1024;
/// Slices of one write: more than that number of bytes has.
const SLICES_MAX: usize = 32;

/// The pieces that are not in the output, in their order.
#[derive(Default)]
pub(super) struct Bodies {
    pieces: VecDeque<Piece>,
    /// Bytes of all of them.
    bytes: usize,
}

#[derive(Debug, PartialEq, Eq)]
struct Piece {
    /// The bytes of the output before it, from its first unsent one.
    at: usize,
    bytes: Bytes,
}

impl Bodies {
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Whether as much waits as may; `output` are the bytes beside the pieces.
    pub(super) fn is_full(&self, output: usize) -> bool {
        self.bytes + output >= WAITING_MAX
    }

    /// Adds a piece that the windows allow.
    pub(super) fn send(
        &mut self,
        core: &mut Connection<Server>,
        stream: StreamId,
        bytes: Bytes,
        ends: bool,
    ) -> Result<(), SendError> {
        let length = bytes.len();
        if length < COPIED_BELOW {
            core.send_data(stream, &bytes, ends)?;
        } else {
            let at = core.send_data_apart(stream, length as u32, ends)?;
            self.bytes += length;
            self.pieces.push_back(Piece { at, bytes });
        }
        Ok(())
    }

    /// Sends with one write as much as the socket takes.
    pub(super) fn poll_send(
        &mut self,
        core: &mut Connection<Server>,
        io: &Io,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let output = core.output();
        let written = match (self.pieces.is_empty(), output.is_empty()) {
            (true, true) => return io.poll_flush(context).map_ok(|()| 0),
            (true, false) => io.poll_write(context, output),
            (false, _) => {
                let mut slices = [IoSlice::new(&[]); SLICES_MAX];
                let count = self.fill(output, &mut slices);
                io.poll_write_vectored(context, &slices[..count])
            }
        };
        if let Poll::Ready(Ok(count)) = written {
            let of_output = self.sent(count);
            core.output_sent(of_output);
        }
        written
    }

    /// Fills slices with output and pieces in their order; returns how many are used.
    fn fill<'a>(&'a self, output: &'a [u8], slices: &mut [IoSlice<'a>; SLICES_MAX]) -> usize {
        let mut count = 0;
        let mut push = |bytes: &'a [u8]| {
            let free = slices.get_mut(count).filter(|_| !bytes.is_empty());
            if let Some(slice) = free {
                *slice = IoSlice::new(bytes);
                count += 1;
            }
        };
        let mut from = 0;
        for piece in self.pieces.iter().take(SLICES_MAX / 2) {
            push(output.get(from..piece.at).unwrap_or_default());
            push(&piece.bytes);
            from = piece.at;
        }
        if self.pieces.len() < SLICES_MAX / 2 {
            push(output.get(from..).unwrap_or_default());
        }
        count
    }

    /// This number of bytes was sent; returns how many of them are of the output.
    fn sent(&mut self, mut count: usize) -> usize {
        let mut of_output = 0;
        while count > 0 {
            let Some(piece) = self.pieces.front_mut() else {
                of_output += count;
                break;
            };
            let before = count.min(piece.at - of_output);
            of_output += before;
            count -= before;
            let of_piece = count.min(piece.bytes.len());
            if of_output == piece.at {
                piece.bytes.advance(of_piece);
                self.bytes -= of_piece;
                count -= of_piece;
            }
            if piece.bytes.is_empty() {
                self.pieces.pop_front();
            }
        }
        for piece in &mut self.pieces {
            piece.at -= of_output;
        }
        of_output
    }
}

#[cfg(test)]
mod tests;
