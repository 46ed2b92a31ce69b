//! Writing a fill's bytes to its file, and making it a cache file in the end. Everything here blocks unless
//! it is documented otherwise, and must be called on a thread that may block.

use std::io::{self, IoSlice};
use std::iter;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::Waker;

use crate::disk::{FileHandle, write_all_at, write_full_at};
use crate::fill::state::{Chunk, End, Leftover, State};
use crate::fill::{Fill, FillHead};
use crate::format::{Layout, encode};
use crate::store::inner::StoreInner;
use crate::store::place::CompleteFile;
use crate::store::room::{Room, disk_bytes_of};
use crate::sums::BodySums;

/// The most bytes of one flush step.
const FLUSH_STEP_BYTES: usize = 1 << 20;

/// Pieces written with one system call.
const PIECES_MAX: usize = 64;

/// Bytes written with one system call. The page cache takes memory of that size at once, and large blocks are
/// memory that was not used for long: a megabyte by one call took seven times as long as by sixteen.
const WRITE_BYTES_MAX: usize = 64 * 1024;

/// A body up to this number of bytes of which nothing was written is written with its header in one write.
const JOINED_BYTES_MAX: usize = 256 * 1024;

/// The failed work, in the words of the log.
const WRITING: &str = "writing a file";

/// Writes a fill's bytes to its file. It may be sent to another thread while the writer appends.
#[derive(Clone)]
pub struct FillFlusher {
    pub(super) fill: Arc<Fill>,
    pub(super) store: Arc<StoreInner>,
}

/// The result of a flush step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushReport {
    /// Bytes that this step has written to the file.
    pub written: u64,
    /// Bytes that are still to be flushed.
    pub unflushed: u64,
    /// False once the disk has failed: nothing is flushed any more.
    pub storing: bool,
}

impl FillFlusher {
    /// Returns the fill that is written.
    pub fn fill(&self) -> &Arc<Fill> {
        &self.fill
    }

    /// Lets readers have the bytes in the file. To be called on the thread of the readers, which are woken
    /// from there at less cost, after a [`FillFlusher::flush_step`]. Never blocks.
    pub fn show_flushed(&self) {
        self.show(State::show_flushed);
    }

    /// Frees memory after each [`FillFlusher::flush_step`]. To be called on the thread that appends, since
    /// the allocator takes memory back best there. Never blocks.
    pub fn trim(&self) {
        self.fill.state.lock().trim(self.fill.limits);
    }

    /// Lets readers have all bytes that have arrived, out of memory. Never blocks.
    pub fn show_all(&self) {
        self.show(State::show);
    }

    fn show(&self, change: fn(&mut State)) {
        let mut state = self.fill.state.lock();
        change(&mut state);
        let wakers = state.take_readers();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Writes up to a megabyte of unflushed bytes to the temporary file, which it creates first. Blocks. Does
    /// nothing before the head is published, since the body's position in the file depends on it. On an error
    /// of the disk, or when there is no room, the fill continues without a file.
    pub fn flush_step(&self) -> FlushReport {
        let mut sums = self.fill.disk_lock.lock();
        let result = self.write_some(&mut sums);
        drop(sums);
        let written = result.unwrap_or_else(|_| {
            self.give_up_storing();
            0
        });
        let state = self.fill.state.lock();
        FlushReport { written, unflushed: unflushed_of(&state), storing: state.is_storing() }
    }

    /// Writes one step; the caller has the disk lock of the fill.
    fn write_some(&self, sums: &mut BodySums) -> io::Result<u64> {
        let (chunks, layout) = {
            let state = self.fill.state.lock();
            let Some(layout) = state.layout().filter(|_| state.is_storing()) else { return Ok(0) };
            (state.unflushed(FLUSH_STEP_BYTES), layout)
        };
        let (Some(first), Some(last)) = (chunks.first(), chunks.last()) else { return Ok(0) };
        let start = first.start;
        if !self.keep_room(layout, last.start + last.bytes.len() as u64)? {
            return Ok(0);
        }
        let Some(file) = self.temporary_file()? else { return Ok(0) };
        let end = write_chunks(&file, &chunks, layout.body_start() as u64);
        let end = end.map_err(|error| self.store.counted(WRITING, error))?;
        let hash = self.fill.key().hash();
        chunks.iter().for_each(|chunk| sums.add(&chunk.bytes, hash));
        let mut state = self.fill.state.lock();
        state.flushed_to(end);
        let wakers = state.take_writer();
        drop(state);
        wakers.into_iter().for_each(|waker| waker.wake());
        Ok(end - start)
    }

    /// Reserves room for this much of the body: for all of it if its length is known, so that a fill either
    /// has room to its end or does not begin. Returns false: not yet.
    ///
    /// Invariant: bytes that are charged here are in `reserved` when this returns, or given back. The state
    /// is examined again under its lock, since the fill may have been aborted meanwhile.
    fn keep_room(&self, layout: Layout, body_end: u64) -> io::Result<bool> {
        let ((reserved, claimed), written, whole, grows) = {
            let state = self.fill.state.lock();
            let promised = state.head().and_then(|head| head.body_bytes);
            let whole = disk_bytes_of(layout, promised.unwrap_or(0).max(body_end));
            let grows = promised.is_none() && matches!(state.end(), End::Open);
            (state.room(), state.flushed(), whole, grows)
        };
        // Even if nothing is missing: others may have taken room that `min_free` reserves.
        let missing = whole.saturating_sub(reserved);
        if !self.store.can_hold(whole, grows) || !self.claim(whole.saturating_sub(claimed)) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        match self.store.keep_room(missing, body_end - written) {
            Room::More => Ok(false),
            Room::None => Err(io::ErrorKind::StorageFull.into()),
            Room::Kept => {
                let mut state = self.fill.state.lock();
                if state.reserve(missing) {
                    return Ok(true);
                }
                drop(state);
                self.store.index.uncharge(missing);
                Ok(false)
            }
        }
    }

    /// Claims more for a fill that grows; returns false when other fills have claimed it.
    fn claim(&self, bytes: u64) -> bool {
        if bytes > 0 {
            if !self.store.claim(bytes) {
                return false;
            }
            let mut state = self.fill.state.lock();
            if !state.claim(bytes) {
                drop(state);
                self.store.unclaim(bytes);
            }
        }
        true
    }

    /// Returns the temporary file, created when there is none; `None`: the fill was aborted meanwhile.
    fn temporary_file(&self) -> io::Result<Option<FileHandle>> {
        if let Some(file) = self.fill.state.lock().file() {
            return Ok(Some(file.clone()));
        }
        let (path, file) = self.store.create_temporary(self.fill.key().hash())?;
        let mut state = self.fill.state.lock();
        if let Err(path) = state.set_file(&file, path) {
            drop(state);
            self.store.discard_temporary(path, 0);
            return Ok(None);
        }
        Ok(Some(file))
    }

    /// Makes a cache file of a complete fill; returns false when it is not to be stored.
    pub(super) fn store_whole(&self, now: u64) -> io::Result<bool> {
        let mut sums = self.fill.disk_lock.lock();
        let whole = self.write_whole(&mut sums)?;
        let Some((temporary, layout, head)) = whole else { return Ok(false) };
        let (file, body, body_bytes, reserved) = {
            let mut state = self.fill.state.lock();
            let kept = state.watermark() <= self.fill.limits.kept_bytes_max;
            let body = if kept { state.body_in_memory() } else { None };
            let Some(file) = state.file().cloned() else { return Ok(false) };
            (file, body, state.watermark(), state.take_reserved())
        };
        let placed = CompleteFile { layout, head: &head, file, body, body_bytes };
        self.store.place(&self.fill, temporary, placed, reserved, now)
    }

    /// Writes all missing bytes: body and checksums first, then everything before the body. Returns the
    /// temporary file's name, for which the caller is now responsible; `None` when the fill is not stored any
    /// more.
    ///
    /// Invariant: `sums` has the checksums of exactly the flushed bytes, as only the owner of the disk lock
    /// writes. The part that makes the bytes a cache file is written last, so a crash leaves no cache file;
    /// the one write of a small object ends with the checksums, which a torn one lacks. Each iteration of the
    /// loop writes a step, or frees room ([`Room::More`]), or ends. An error ends storing, and the caller's
    /// `end` gives everything back. Sources: `max_size` and `min_free` of `proxy_cache_path`.
    fn write_whole(
        &self,
        sums: &mut BodySums,
    ) -> io::Result<Option<(PathBuf, Layout, Arc<FillHead>)>> {
        loop {
            let (head, layout, pending) = {
                let state = self.fill.state.lock();
                let (Some(head), Some(layout)) = (state.head(), state.layout()) else {
                    return Ok(None);
                };
                if !state.is_storing() {
                    return Ok(None);
                }
                let pending = state.watermark() - state.flushed();
                // A small body of which nothing was written goes with its header in one write.
                let small = state.file().is_none() && pending <= JOINED_BYTES_MAX as u64;
                let all = if small { Some(state.unflushed(usize::MAX)) } else { None };
                (head.clone(), layout, if pending == 0 { Some(Vec::new()) } else { all })
            };
            let Some(rest) = pending else {
                self.write_some(sums)?;
                continue;
            };
            let body_bytes = self.fill.watermark();
            if !self.keep_room(layout, body_bytes)? {
                continue;
            }
            let key = self.fill.key();
            let header = encode(key, layout, &head.metadata, head.times, body_bytes);
            rest.iter().for_each(|chunk| sums.add(&chunk.bytes, key.hash()));
            let Some(file) = self.temporary_file()? else { return Ok(None) };
            let sums = sums.finish(key.hash());
            // With the body in the file the header is last, since it makes a cache file of it.
            let written = if rest.is_empty() {
                write_full_at(&*file, sums, layout.body_start() as u64 + body_bytes)
                    .and_then(|()| write_full_at(&*file, &header, 0))
            } else {
                let body = rest.iter().map(|chunk| &*chunk.bytes);
                let pieces = iter::once(&*header).chain(body).chain(iter::once(sums));
                write_pieces(&file, pieces, 0).map(drop)
            };
            written.map_err(|error| self.store.counted(WRITING, error))?;
            let mut state = self.fill.state.lock();
            state.flushed_to(body_bytes);
            let temporary = state.take_temporary();
            return Ok(temporary.map(|temporary| (temporary, layout, head)));
        }
    }

    /// Continues without a file for the present readers, and lets new requests start a new fill.
    fn give_up_storing(&self) {
        let mut state = self.fill.state.lock();
        let leftover = state.stop_storing();
        state.trim(self.fill.limits);
        let wakers = state.take_all_wakers();
        drop(state);
        wakers.into_iter().for_each(|waker| waker.wake());
        self.detach(leftover);
    }

    /// Notes that the writer is done, and wakes all waiting tasks.
    pub(super) fn end(&self, stored: bool) {
        let mut state = self.fill.state.lock();
        let leftover = state.writer_ended(stored, self.fill.limits);
        let wakers = state.take_all_wakers();
        drop(state);
        wakers.into_iter().for_each(|waker| waker.wake());
        self.detach(leftover);
    }

    pub(super) fn detach(&self, leftover: Leftover) {
        self.store.index.fill_ended(self.fill.key().hash(), &self.fill);
        self.store.unclaim(leftover.claimed);
        match leftover.temporary {
            Some(temporary) => self.store.discard_temporary(temporary, leftover.reserved),
            None => self.store.index.uncharge(leftover.reserved),
        }
    }
}

pub(super) fn unflushed_of(state: &State) -> u64 {
    if state.is_storing() { state.watermark() - state.flushed() } else { 0 }
}

/// Writes neighbouring chunks; returns the body offset behind the last.
fn write_chunks(file: &FileHandle, chunks: &[Chunk], body_start: u64) -> io::Result<u64> {
    let Some(first) = chunks.first() else { return Ok(0) };
    let pieces = chunks.iter().map(|chunk| &*chunk.bytes);
    Ok(write_pieces(file, pieces, body_start + first.start)? - body_start)
}

/// Writes pieces one behind the other, at most [`PIECES_MAX`] and [`WRITE_BYTES_MAX`] at a time; returns the
/// offset behind the last.
fn write_pieces<'a>(
    file: &FileHandle,
    pieces: impl Iterator<Item = &'a [u8]>,
    offset: u64,
) -> io::Result<u64> {
    let (mut at, mut bytes) = (offset, 0);
    let mut batch: Vec<IoSlice<'a>> = Vec::with_capacity(PIECES_MAX);
    for mut piece in pieces {
        while !piece.is_empty() {
            let (now, rest) = piece.split_at(piece.len().min(WRITE_BYTES_MAX - bytes));
            batch.push(IoSlice::new(now));
            (piece, bytes) = (rest, bytes + now.len());
            if bytes == WRITE_BYTES_MAX || batch.len() == PIECES_MAX {
                write_all_at(&**file, &mut batch, at)?;
                at += bytes as u64;
                (bytes, batch) = (0, Vec::with_capacity(PIECES_MAX));
            }
        }
    }
    write_all_at(&**file, &mut batch, at)?;
    Ok(at + bytes as u64)
}
