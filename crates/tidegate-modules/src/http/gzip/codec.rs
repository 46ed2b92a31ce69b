//! The content codings: one interface to their libraries, and idle encoders that are kept for the next response.

use std::cell::RefCell;
use std::io;

use brotlic::encode::BrotliOperation;
use brotlic::{BrotliEncoder, BrotliEncoderOptions, Quality, WindowSize};
use flate2::{Compress, Compression, FlushCompress, Status};
use zstd::stream::raw::{CParameter, Encoder as Zstd, InBuffer, Operation, OutBuffer};

/// Idle encoders that a thread keeps; one of gzip takes about 400 kB.
const IDLE_MAX: usize = 8;
/// Bytes by which the output grows while a flush or the end still has some.
const GROWTH_BYTES: usize = 4 << 10;
/// Logarithm of zstd's largest window: clients need not accept frames with a larger one than 8 MB (RFC 9659).
const ZSTD_WINDOW_BITS_MAX: u32 = 23;
/// The lowest zstd level with a larger window by default.
const ZSTD_LARGE_LEVEL: u32 = 20;

/// A content coding; at equal weights the first is preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    Brotli,
    Zstd,
    Gzip,
}

impl Coding {
    /// Returns its name in header fields.
    pub(super) fn name(self) -> &'static [u8] {
        match self {
            Coding::Brotli => b"br",
            Coding::Zstd => b"zstd",
            Coding::Gzip => b"gzip",
        }
    }
}

/// The parameters of an encoder; encoders with equal ones are interchangeable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EncoderShape {
    pub coding: Coding,
    pub level: u32,
    /// Logarithm of the window in bytes; for zstd the level decides it.
    pub window_bits: u8,
}

impl EncoderShape {
    /// Returns the bytes of input that are compressed between two checks of the time share: a millisecond of work,
    /// at the highest levels a few.
    pub(super) fn piece_bytes(self) -> usize {
        match (self.coding, self.level) {
            (Coding::Gzip, 0..=4) | (Coding::Brotli, 0..=4) | (Coding::Zstd, 0..=6) => 64 << 10,
            (Coding::Gzip, _) | (Coding::Brotli, 5..=9) | (Coding::Zstd, 7..=12) => 16 << 10,
            (Coding::Brotli | Coding::Zstd, _) => 4 << 10,
        }
    }

    fn encoder(self) -> io::Result<Box<dyn Encoder>> {
        Ok(match self.coding {
            Coding::Gzip => {
                Box::new(Compress::new_gzip(Compression::new(self.level), self.window_bits))
            }
            Coding::Brotli => {
                let level = u8::try_from(self.level).unwrap_or(u8::MAX);
                let encoder = BrotliEncoderOptions::new()
                    .quality(Quality::new(level).map_err(io::Error::other)?)
                    .window_size(WindowSize::new(self.window_bits).map_err(io::Error::other)?)
                    .build();
                Box::new(encoder.map_err(io::Error::other)?)
            }
            Coding::Zstd => {
                let mut encoder = Zstd::new(self.level.cast_signed())?;
                if self.level >= ZSTD_LARGE_LEVEL {
                    encoder.set_parameter(CParameter::WindowLog(ZSTD_WINDOW_BITS_MAX))?;
                }
                Box::new(encoder)
            }
        })
    }
}

/// What an encoder is to do beside consuming input.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EncoderGoal {
    /// Nothing: it may buffer as much as it likes.
    More,
    /// Output all that it has buffered.
    Flush,
    /// End the stream.
    End,
}

/// The result of a step.
struct Progress {
    /// Bytes of input consumed.
    taken: usize,
    /// Whether the goal is reached.
    done: bool,
}

/// An encoder of a compression library.
trait Encoder {
    /// Compresses into the spare capacity of `out`. Flush and end are called without input.
    fn step(&mut self, input: &[u8], goal: EncoderGoal, out: &mut Vec<u8>) -> io::Result<Progress>;

    /// Resets it for another stream; returns `false` if it cannot.
    fn reset(&mut self) -> bool;
}

impl Encoder for Compress {
    fn step(&mut self, input: &[u8], goal: EncoderGoal, out: &mut Vec<u8>) -> io::Result<Progress> {
        let flush = match goal {
            EncoderGoal::More => FlushCompress::None,
            EncoderGoal::Flush => FlushCompress::Sync,
            EncoderGoal::End => FlushCompress::Finish,
        };
        let before = self.total_in();
        let status = self.compress_vec(input, out, flush).map_err(io::Error::other)?;
        // Spare capacity left over means that the encoder has no more output.
        let done = status == Status::StreamEnd || out.len() < out.capacity();
        Ok(Progress { taken: (self.total_in() - before) as usize, done })
    }

    fn reset(&mut self) -> bool {
        Compress::reset(self);
        true
    }
}

impl Encoder for BrotliEncoder {
    fn step(&mut self, input: &[u8], goal: EncoderGoal, out: &mut Vec<u8>) -> io::Result<Progress> {
        let operation = match goal {
            EncoderGoal::More => BrotliOperation::Process,
            EncoderGoal::Flush => BrotliOperation::Flush,
            EncoderGoal::End => BrotliOperation::Finish,
        };
        let start = out.len();
        out.resize(out.capacity(), 0);
        let result = self.compress(input, &mut out[start..], operation);
        out.truncate(start + result.as_ref().map_or(0, |result| result.bytes_written));
        let taken = result.map_err(io::Error::other)?.bytes_read;
        let done = match goal {
            EncoderGoal::End => self.is_finished(),
            EncoderGoal::More | EncoderGoal::Flush => taken == input.len() && !self.has_output(),
        };
        Ok(Progress { taken, done })
    }

    fn reset(&mut self) -> bool {
        false
    }
}

impl Encoder for Zstd<'static> {
    fn step(&mut self, input: &[u8], goal: EncoderGoal, out: &mut Vec<u8>) -> io::Result<Progress> {
        let start = out.len();
        let mut room = OutBuffer::around_pos(out, start);
        let mut input = InBuffer::around(input);
        let left = match goal {
            EncoderGoal::More => self.run(&mut input, &mut room).map(|_| 0)?,
            EncoderGoal::Flush => self.flush(&mut room)?,
            EncoderGoal::End => self.finish(&mut room, true)?,
        };
        Ok(Progress { taken: input.pos(), done: left == 0 })
    }

    fn reset(&mut self) -> bool {
        self.reinit().is_ok()
    }
}

thread_local! {
    /// Idle encoders of the thread. Setting one up costs more than compressing a small page.
    static IDLE: RefCell<Vec<(EncoderShape, Box<dyn Encoder>)>> = const { RefCell::new(Vec::new()) };
}

/// An encoder that is returned to its thread's idle list when it is done.
pub(super) struct Compressor {
    shape: EncoderShape,
    /// `None` once it has been returned.
    encoder: Option<Box<dyn Encoder>>,
    taken: u64,
    made: u64,
}

impl Compressor {
    /// Takes an idle encoder, or makes a new one.
    pub(super) fn take(shape: EncoderShape) -> io::Result<Compressor> {
        let idle = IDLE.with_borrow_mut(|idle| {
            let place = idle.iter().rposition(|(other, _)| *other == shape)?;
            Some(idle.swap_remove(place).1)
        });
        let encoder = match idle {
            Some(encoder) => encoder,
            None => shape.encoder()?,
        };
        Ok(Compressor { shape, encoder: Some(encoder), taken: 0, made: 0 })
    }

    pub(super) fn shape(&self) -> EncoderShape {
        self.shape
    }

    /// Returns the encoder to the idle list; afterwards nothing can be compressed.
    pub(super) fn give_back(&mut self) {
        let Some(mut encoder) = self.encoder.take() else { return };
        if !encoder.reset() {
            return;
        }
        // A thread that is ending has no idle list any more.
        let _ = IDLE.try_with(|idle| {
            let mut idle = idle.borrow_mut();
            if idle.len() < IDLE_MAX {
                idle.push((self.shape, encoder));
            }
        });
    }

    /// Compresses into the spare capacity of `out`; returns the bytes of `input` that were consumed.
    pub(super) fn feed(&mut self, input: &[u8], out: &mut Vec<u8>) -> io::Result<usize> {
        self.step(input, EncoderGoal::More, out).map(|progress| progress.taken)
    }

    /// Outputs all that is buffered.
    pub(super) fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.drain(EncoderGoal::Flush, out)
    }

    /// Ends the stream.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.drain(EncoderGoal::End, out)
    }

    /// Returns the total bytes of input and output.
    pub(super) fn totals(&self) -> (u64, u64) {
        (self.taken, self.made)
    }

    fn drain(&mut self, goal: EncoderGoal, out: &mut Vec<u8>) -> io::Result<()> {
        loop {
            out.reserve(GROWTH_BYTES);
            if self.step(&[], goal, out)?.done {
                return Ok(());
            }
        }
    }

    fn step(&mut self, input: &[u8], goal: EncoderGoal, out: &mut Vec<u8>) -> io::Result<Progress> {
        let encoder = self.encoder.as_deref_mut();
        let encoder = encoder.ok_or_else(|| io::Error::other("the stream has ended"))?;
        let before = out.len();
        let progress = encoder.step(input, goal, out)?;
        self.taken += progress.taken as u64;
        self.made += (out.len() - before) as u64;
        Ok(progress)
    }
}

impl Drop for Compressor {
    fn drop(&mut self) {
        self.give_back();
    }
}
