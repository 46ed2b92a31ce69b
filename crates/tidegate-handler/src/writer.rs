//! The output of a streamed body.

use std::io::{self, Write};

use bytes::Bytes;

use crate::response;

/// Small writes are collected up to this number of bytes.
const COLLECT_BYTES: usize = 16 << 10;
/// Largest piece that is passed to the sink, in bytes.
const PIECE_BYTES_MAX: usize = 64 << 10;

/// A receiver of a body's pieces, which waits when it has too many.
pub trait Sink {
    /// Takes a piece; waits where too many are on their way.
    ///
    /// # Errors
    /// The body is not needed any more.
    fn send(&mut self, piece: Bytes) -> io::Result<()>;

    /// Sends all pieces so far to the client now.
    ///
    /// # Errors
    /// The body is not needed any more.
    fn flush(&mut self) -> io::Result<()>;
}

/// The writer of a streamed body. Small writes are collected; `flush` sends them at once.
pub struct Writer<'a> {
    sink: &'a mut dyn Sink,
    collected: Vec<u8>,
}

impl<'a> Writer<'a> {
    pub(crate) fn run(write: response::Write, sink: &'a mut dyn Sink) -> io::Result<()> {
        let mut writer = Writer { sink, collected: Vec::new() };
        write(&mut writer)?;
        writer.pass_on()
    }

    /// Writes bytes without copying them.
    ///
    /// # Errors
    /// `BrokenPipe`: the body is not needed any more.
    pub fn write_bytes(&mut self, mut bytes: Bytes) -> io::Result<()> {
        self.pass_on()?;
        while !bytes.is_empty() {
            let piece = bytes.split_to(bytes.len().min(PIECE_BYTES_MAX));
            self.sink.send(piece)?;
        }
        Ok(())
    }

    fn pass_on(&mut self) -> io::Result<()> {
        if self.collected.is_empty() {
            return Ok(());
        }
        self.sink.send(std::mem::take(&mut self.collected).into())
    }
}

impl Write for Writer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.collected.capacity() == 0 {
            self.collected.reserve(COLLECT_BYTES);
        }
        let room = COLLECT_BYTES.saturating_sub(self.collected.len());
        let count = room.min(bytes.len());
        self.collected.extend_from_slice(&bytes[..count]);
        if self.collected.len() >= COLLECT_BYTES {
            self.pass_on()?;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pass_on()?;
        self.sink.flush()
    }
}

/// Runs a response's writer into a sink.
///
/// # Errors
/// Those of the writer and the sink.
pub fn run(write: response::Write, sink: &mut dyn Sink) -> io::Result<()> {
    Writer::run(write, sink)
}

/// A body in memory.
#[derive(Default)]
pub(crate) struct Collected(pub Vec<u8>);

impl Sink for Collected {
    fn send(&mut self, piece: Bytes) -> io::Result<()> {
        self.0.extend_from_slice(&piece);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
