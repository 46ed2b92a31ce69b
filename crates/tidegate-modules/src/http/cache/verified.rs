//! The body of a file that this process did not write, that somebody else has changed, or that is large: each part is
//! looked at before it is sent, and compared with its checksums on a pool thread where that was not done since the
//! last change. Damage breaks the answer visibly, and the file goes.

use std::io;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tidegate_cache::OpenEntry;
use tidegate_core::error_log::ErrorLog;
use tidegate_core::{
    Body, BodyError, BodyStream, Chunk, Exchange, FileRange, Level, LocalFuture, blocking,
};
use tidegate_http::range::ByteRange;

/// Bytes that are compared at a time, and the most of one piece.
const PART_BYTES: u64 = 1 << 20;

/// The body of an entry that is not in memory.
pub fn body(x: &Exchange, entry: &OpenEntry) -> Body {
    let Some(file) = entry.file().and_then(|file| file.system_file()) else { return Body::Empty };
    let length = entry.body_bytes();
    if length == 0 {
        return Body::Empty;
    }
    // The entry has just been found, and its file been looked at.
    if length <= PART_BYTES && entry.known_to(0) == length {
        return Body::File(FileRange::new(file.clone(), entry.body_start(), length));
    }
    Body::Stream(Box::new(VerifiedBody {
        entry: entry.clone(),
        log: x.settings().error_log.clone(),
        connection: x.connection.number,
        offset: 0,
        end: length,
        comparing: None,
    }))
}

struct VerifiedBody {
    entry: OpenEntry,
    log: ErrorLog,
    connection: u64,
    /// Of the body: what comes next, and where it ends.
    offset: u64,
    end: u64,
    comparing: Option<LocalFuture<'static, io::Result<Compared>>>,
}

/// How a part was found.
enum Compared {
    Sound,
    /// Sound as it was read, of a file that somebody is changing.
    Read(Bytes),
    Damaged,
}

impl BodyStream for VerifiedBody {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        loop {
            if let Some(comparing) = &mut self.comparing {
                let compared = ready!(comparing.as_mut().poll(context));
                self.comparing = None;
                match compared {
                    Ok(Compared::Sound) => {}
                    Ok(Compared::Read(bytes)) => {
                        self.offset += bytes.len() as u64;
                        return Poll::Ready(Some(Ok(Chunk::Bytes(bytes))));
                    }
                    Ok(Compared::Damaged) => return Poll::Ready(Some(Err(self.damaged()))),
                    Err(error) => return Poll::Ready(Some(Err(error.into()))),
                }
            }
            if self.offset >= self.end {
                return Poll::Ready(None);
            }
            let sound = self.entry.verified_to(self.offset).min(self.end);
            if sound > self.offset {
                return Poll::Ready(Some(self.piece(sound)));
            }
            let (entry, offset) = (self.entry.clone(), self.offset);
            let length = PART_BYTES.min(self.end - self.offset);
            self.comparing = Some(Box::pin(async move {
                let work = entry.clone();
                // What the disk says, or that the pool is full.
                match blocking::run(move || Ok(compare(&work, offset, length))).await {
                    Ok(compared) => compared,
                    Err(_) => compare(&entry, offset, length),
                }
            }));
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

/// Compares a part; reads the begin of it where the file does not keep still. Blocks.
fn compare(entry: &OpenEntry, offset: u64, length: u64) -> io::Result<Compared> {
    if !entry.verify(offset, length)? {
        return Ok(Compared::Damaged);
    }
    if entry.verified_to(offset) > offset {
        return Ok(Compared::Sound);
    }
    Ok(entry.read_verified(offset, length)?.map_or(Compared::Damaged, Compared::Read))
}

impl VerifiedBody {
    fn piece(&mut self, sound: u64) -> Result<Chunk, BodyError> {
        let Some(file) = self.entry.file().and_then(|file| file.system_file()) else {
            return Err(BodyError::Incomplete);
        };
        let length = (sound - self.offset).min(PART_BYTES);
        let offset = self.entry.body_start() + self.offset;
        self.offset += length;
        Ok(Chunk::File(FileRange::new(file.clone(), offset, length)))
    }

    fn damaged(&self) -> BodyError {
        let message = "cache file is damaged, it is removed and the response breaks off";
        self.log.write(Level::Crit, self.connection, message);
        BodyError::Incomplete
    }
}
