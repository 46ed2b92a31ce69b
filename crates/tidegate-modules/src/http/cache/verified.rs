//! The body of a file that this process did not write: each part is compared with its checksums, on a
//! pool thread, before it is sent. Damage breaks the answer visibly, and the file goes.

use std::io;
use std::task::{Context, Poll, ready};

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
    if entry.verified_to(0) == length {
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
    comparing: Option<LocalFuture<'static, io::Result<bool>>>,
}

impl BodyStream for VerifiedBody {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        loop {
            if let Some(comparing) = &mut self.comparing {
                let compared = ready!(comparing.as_mut().poll(context));
                self.comparing = None;
                match compared {
                    Ok(true) => {}
                    Ok(false) => return Poll::Ready(Some(Err(self.damaged()))),
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
                match blocking::run(move || Ok(work.verify(offset, length))).await {
                    Ok(compared) => compared,
                    Err(_) => entry.verify(offset, length),
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
