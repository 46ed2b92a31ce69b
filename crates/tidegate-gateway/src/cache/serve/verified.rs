//! The body of a file that this process did not write, that another program has changed, or that is large. The file's
//! status is checked before and after each part is sent, and the part is compared with its checksums on a pool thread
//! if it was not since the last change. The end of the body is held back until the bytes sent before it are verified,
//! so that damage breaks the response visibly, and the file is removed.

use std::io;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tidegate_cache::OpenEntry;
use tidegate_codec::range::ByteRange;
use tidegate_core::error_log::ErrorLog;
use tidegate_core::{
    Body, BodyError, BodyStream, Chunk, Exchange, FileRange, Level, LocalFuture, blocking,
};
use tidegate_rt::clock;

/// Bytes that are verified at a time, and the most of one piece.
const PART_BYTES: u64 = 1 << 20;

/// Bytes at the end of a body that are sent once the rest has been sent and verified: as much as one call of the
/// socket takes.
const TAIL_BYTES: u64 = 16 << 10;

/// Returns the body of an entry that is not in memory.
pub(crate) fn body(x: &Exchange, entry: &OpenEntry, now: u64) -> Body {
    let Some(file) = entry.file().and_then(|file| file.system_file()) else { return Body::Empty };
    let length = entry.body_bytes();
    if length == 0 {
        return Body::Empty;
    }
    // The entry has just been found, and its file's status checked.
    if length <= PART_BYTES && entry.verified_to_cached(0, now) == length {
        return Body::File(FileRange::new(file.clone(), entry.body_start(), length));
    }
    Body::Stream(Box::new(VerifiedBody {
        entry: entry.clone(),
        log: x.settings().error_log.clone(),
        connection: x.connection.number,
        offset: 0,
        end: length,
        sent: None,
        comparing: None,
    }))
}

struct VerifiedBody {
    entry: OpenEntry,
    log: ErrorLog,
    connection: u64,
    /// Offset in the body of the next byte, and of its end.
    offset: u64,
    end: u64,
    sent: Option<SentPart>,
    comparing: Option<LocalFuture<'static, io::Result<Verification>>>,
}

/// A part that the kernel has taken from the file.
struct SentPart {
    offset: u64,
    length: u64,
    /// Number of changes of the file that had been noticed before.
    changes: u64,
}

/// The result of a verification.
enum Verification {
    Sound,
    /// Sound as read, from a file that another program is changing.
    Read(Bytes),
    Damaged,
}

impl BodyStream for VerifiedBody {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        loop {
            if let Some(comparing) = &mut self.comparing {
                let verified = ready!(comparing.as_mut().poll(context));
                self.comparing = None;
                match verified {
                    Ok(Verification::Sound) => {}
                    Ok(Verification::Read(bytes)) => {
                        self.offset += bytes.len() as u64;
                        return Poll::Ready(Some(Ok(Chunk::Bytes(bytes))));
                    }
                    Ok(Verification::Damaged) => return Poll::Ready(Some(Err(self.damaged()))),
                    Err(error) => return Poll::Ready(Some(Err(error.into()))),
                }
            }
            let changes = self.entry.changes();
            if let Some(sent) = self.sent.take()
                && sent.changes != changes
            {
                self.compare(move |entry, now| verify(entry, sent.offset, sent.length, now));
                continue;
            }
            if self.offset >= self.end {
                return Poll::Ready(None);
            }
            let sound =
                self.entry.verified_to_cached(self.offset, clock::unix_millis()).min(self.end);
            if sound > self.offset {
                return Poll::Ready(Some(self.piece(sound, changes)));
            }
            let (offset, length) = (self.offset, PART_BYTES.min(self.end - self.offset));
            self.compare(move |entry, now| compare(entry, offset, length, now));
        }
    }

    fn narrow(&mut self, range: ByteRange) -> bool {
        self.offset = range.start.min(self.end);
        self.end = range.end.min(self.end);
        true
    }

    fn skip(&mut self, count: u64) -> u64 {
        let skipped = count.min(self.end - self.offset);
        self.offset += skipped;
        skipped
    }
}

/// Verifies a part that was sent. Blocks.
fn verify(entry: &OpenEntry, offset: u64, length: u64, now: u64) -> io::Result<Verification> {
    Ok(if entry.verify(offset, length, now)? { Verification::Sound } else { Verification::Damaged })
}

/// Verifies a part; reads the beginning of it where the file keeps changing, or a concurrent verification did not
/// cover it. Blocks.
fn compare(entry: &OpenEntry, offset: u64, length: u64, now: u64) -> io::Result<Verification> {
    if !entry.is_suspect(now) {
        if !entry.verify(offset, length, now)? {
            return Ok(Verification::Damaged);
        }
        if entry.verified_to(offset, now) > offset {
            return Ok(Verification::Sound);
        }
    }
    Ok(entry.read_verified(offset, length, now)?.map_or(Verification::Damaged, Verification::Read))
}

impl VerifiedBody {
    /// Verifies on a pool thread, or on this one where the pool is full.
    fn compare(
        &mut self,
        how: impl Fn(&OpenEntry, u64) -> io::Result<Verification> + Clone + Send + 'static,
    ) {
        let (entry, job) = (self.entry.clone(), how.clone());
        self.comparing = Some(Box::pin(async move {
            let work = entry.clone();
            match blocking::run(move || Ok(job(&work, clock::unix_millis()))).await {
                Ok(verified) => verified,
                Err(_) => how(&entry, clock::unix_millis()),
            }
        }));
    }

    /// Returns the next part, which is verified up to `sound`.
    fn piece(&mut self, sound: u64, changes: u64) -> Result<Chunk, BodyError> {
        let Some(file) = self.entry.file().and_then(|file| file.system_file()) else {
            return Err(BodyError::Incomplete);
        };
        let offset = self.offset;
        let mut length = (sound - offset).min(PART_BYTES);
        if offset + length == self.end && length > TAIL_BYTES {
            length -= TAIL_BYTES;
        }
        self.offset += length;
        self.sent = Some(SentPart { offset, length, changes });
        Ok(Chunk::File(FileRange::new(file.clone(), self.entry.body_start() + offset, length)))
    }

    fn damaged(&self) -> BodyError {
        let message = "cache file is damaged, it is removed and the response breaks off";
        self.log.write(Level::Crit, self.connection, message);
        BodyError::Incomplete
    }
}
