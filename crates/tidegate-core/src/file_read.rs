//! Reading parts of files so that a slow disk blocks no event loop.

#[cfg(test)]
mod tests;

use std::io;
use std::sync::atomic::Ordering;

use tidegate_os::{Nowait, file};
use tidegate_rt::{clock, share};

use crate::blocking;
use crate::body::FileRange;

/// Bytes that are read into the page cache in one job, before `sendfile` takes them from there.
const WARM_BYTES_MAX: u64 = 512 << 10;
/// Bytes of one read of such a job.
const WARM_PIECE: usize = 128 << 10;

/// Reads up to `want` bytes at `offset` of the range's file; empty at the end of the file. Bytes in the page cache
/// are taken at once; others are read on a pool thread.
pub async fn read(range: &FileRange, offset: u64, want: usize) -> io::Result<Vec<u8>> {
    share::wait().await;
    let mut buffer = vec![0; want];
    match file::pread_nowait(&range.file, &mut buffer, offset)? {
        Nowait::Read(count) => {
            buffer.truncate(count);
            share::spend(count);
            Ok(buffer)
        }
        Nowait::WouldBlock => {
            let file = range.file.clone();
            let work = move || {
                let count = file::pread(&file, &mut buffer, offset)?;
                buffer.truncate(count);
                Ok(buffer)
            };
            on_its_pool(range, work).await
        }
    }
}

/// Prevents that `sendfile` waits for the disk: returns how many of the `want` bytes at `offset` it may send. Where
/// the first or the last of them is not in the page cache, a pool thread reads them. (Pages are evicted and read in
/// runs, so that the two ends nearly always show what is between them.)
pub async fn warm(range: &FileRange, offset: u64, want: u64) -> io::Result<u64> {
    let last = offset.saturating_add(want.saturating_sub(1));
    if want == 0 {
        return Ok(0);
    }
    if was_cached(range) {
        return Ok(want);
    }
    if is_cached(range, offset)? && (want <= PAGE || is_cached(range, last)?) {
        note_cached(range, want);
        return Ok(want);
    }
    let file = range.file.clone();
    let want = want.min(WARM_BYTES_MAX);
    let work = move || {
        let mut buffer = vec![0; WARM_PIECE];
        let mut done = 0;
        while done < want {
            match file::pread(&file, &mut buffer, offset + done)? {
                0 => break,
                count => done += count as u64,
            }
        }
        Ok(want)
    };
    on_its_pool(range, work).await
}

/// Returns whether a small file was found in the page cache within the last 100 ms: a file in such use is still
/// there.
pub fn was_cached(range: &FileRange) -> bool {
    range.resident.as_ref().is_some_and(|resident| {
        let seen = resident.seen_cached.load(Ordering::Relaxed);
        clock::unix_millis().saturating_sub(seen) < CHECK_VALID_MILLIS
    })
}

/// Records the time where the bytes found are the whole file.
fn note_cached(range: &FileRange, found: u64) {
    if let Some(resident) = &range.resident
        && resident.bytes.len() as u64 == found
    {
        resident.seen_cached.store(clock::unix_millis(), Ordering::Relaxed);
    }
}

/// How long a check of the page cache counts, in milliseconds.
const CHECK_VALID_MILLIS: u64 = 100;

/// Smallest unit of the page cache, in bytes.
const PAGE: u64 = 4096;

fn is_cached(range: &FileRange, offset: u64) -> io::Result<bool> {
    Ok(file::pread_nowait(&range.file, &mut [0], offset)? != Nowait::WouldBlock)
}

async fn on_its_pool<T: Send + 'static>(
    range: &FileRange,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    match &range.pool {
        Some(pool) => blocking::run_on(Some(pool), work).await,
        None => blocking::run(work).await,
    }
}
