//! `directio` and `read_ahead`: other ways to read a file than the usual one.
//!
//! A file under `directio` is opened again for the response, as the flag belongs to the open file, and read block
//! by block on a pool thread, past the page cache. Where the file system has no direct I/O the reads go through the
//! page cache.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tidegate_codec::range::ByteRange;
use tidegate_core::body::{BodyError, BodyStream};
use tidegate_core::exchange::Exchange;
use tidegate_core::{Body, Chunk, LocalFuture, Step, blocking, file_path};
use tidegate_os::file::{self, Advice};
use tidegate_rt::blocking::ThreadPool;

use super::entry::range_of;
use super::{Content, Entry, LinkRule, OpenFile, link_rule, serve};

/// Alignment in bytes that all file systems and disks accept; `directio_alignment` may ask for more.
pub(super) const ALIGNMENT_MIN: u64 = 4096;
/// Bytes of the largest alignment that is used: no page is larger.
const ALIGNMENT_MAX: usize = 2 << 20;

/// How a location reads files.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadMode {
    /// Size in bytes from which `directio` applies.
    pub direct_from: Option<u64>,
    /// Alignment in bytes, a power of two unless the configuration says otherwise.
    pub alignment: usize,
    /// `read_ahead`.
    pub read_ahead: Option<u64>,
}

/// Handles the content phase where files are not read in the usual way.
pub(super) fn handle(x: &mut Exchange) -> Step<'_> {
    serve(x, |x, file| whole(x, "", file))
}

/// Makes a body of a file, read as the location says. Its path is the request's with `suffix`.
pub(crate) fn whole(x: &mut Exchange, suffix: &str, file: &OpenFile) -> Body {
    let Some(reading) = ReadMode::of(x) else { return file.body() };
    if let Some(direct) = reading.direct(x, suffix, file) {
        x.response.content_length = Some(file.size);
        return Body::Stream(Box::new(direct));
    }
    if let (Some(least), Content::File(handle, _)) = (reading.read_ahead, &file.content)
        && file.size > least
    {
        // The system decides how far to read ahead; length 0 is to the end.
        file::fadvise(handle, 0, 0, Advice::Sequential);
    }
    file.body()
}

/// Makes a body of a part of the request's file behind `lead`, bytes that are not in the file.
pub(crate) fn part(x: &mut Exchange, file: &OpenFile, lead: Bytes, range: ByteRange) -> Body {
    let direct = ReadMode::of(x).and_then(|reading| reading.direct(x, "", file));
    if let Some(mut direct) = direct {
        direct.narrow(range);
        x.response.content_length = Some(lead.len() as u64 + range.len());
        direct.lead = lead;
        return Body::Stream(Box::new(direct));
    }
    let rest = match &file.content {
        Content::Memory(bytes) => {
            let place = |at: u64| usize::try_from(at).unwrap_or(bytes.len()).min(bytes.len());
            Chunk::Bytes(bytes.slice(place(range.start)..place(range.end)))
        }
        Content::File(handle, resident) => {
            Chunk::File(range_of(handle, resident, range.start, range.len()))
        }
    };
    let chunks = [Chunk::Bytes(lead), rest];
    Body::Chunks(chunks.into_iter().filter(|chunk| chunk.length() > 0).collect())
}

impl ReadMode {
    fn of(x: &Exchange) -> Option<ReadMode> {
        x.location().extensions.of().copied()
    }

    /// Returns the file past the page cache, if it is to be read so.
    fn direct(&self, x: &mut Exchange, suffix: &str, file: &OpenFile) -> Option<DirectFile> {
        let least = self.direct_from?;
        if file.size < least.max(1) {
            return None;
        }
        let mut path = file_path::map(x)?;
        path.extend_from_slice(suffix.as_bytes());
        let rule = link_rule(x, &path);
        let block = x.settings().output_buffers.bytes;
        let pool = tidegate_core::pool_choice::pool_of(x);
        Some(direct_file(path, rule, (file.size, file.modified), (self.alignment, block), pool))
    }
}

/// Makes the file of this size and time, read with this alignment in blocks of about `block` bytes.
pub(super) fn direct_file(
    path: Vec<u8>,
    rule: LinkRule,
    (size, modified): (u64, i64),
    (alignment, block): (usize, usize),
    pool: Option<Arc<ThreadPool>>,
) -> DirectFile {
    DirectFile {
        lead: Bytes::new(),
        source: Some(Source::Named { path, rule, size, modified }),
        offset: 0,
        end: size,
        shape: BlockLayout::new(alignment, block),
        pool,
        reading: None,
    }
}

/// Alignment and length of reads, in bytes.
#[derive(Clone, Copy, Debug)]
struct BlockLayout {
    alignment: usize,
    /// Bytes of a read, a multiple of the alignment.
    block: usize,
}

impl BlockLayout {
    fn new(alignment: usize, block: usize) -> BlockLayout {
        let alignment = alignment.min(ALIGNMENT_MAX).next_power_of_two();
        BlockLayout { alignment, block: block.max(1).next_multiple_of(alignment) }
    }
}

/// A body of a file that is read past the page cache.
pub(super) struct DirectFile {
    /// Bytes before those of the file.
    lead: Bytes,
    /// `None` while a read is in progress.
    source: Option<Source>,
    offset: u64,
    end: u64,
    shape: BlockLayout,
    pool: Option<Arc<ThreadPool>>,
    reading: Option<LocalFuture<'static, io::Result<Read>>>,
}

/// The result of a read: the open file, and the bytes.
type Read = (Arc<File>, Bytes);

/// The source of the bytes: the file is opened with the first read, on a pool thread.
enum Source {
    Named { path: Vec<u8>, rule: LinkRule, size: u64, modified: i64 },
    Open(Arc<File>),
}

impl BodyStream for DirectFile {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        if !self.lead.is_empty() {
            return Poll::Ready(Some(Ok(Chunk::Bytes(std::mem::take(&mut self.lead)))));
        }
        if self.reading.is_none() {
            let Some(source) = self.source.take().filter(|_| self.offset < self.end) else {
                return Poll::Ready(None);
            };
            let (offset, end, shape) = (self.offset, self.end, self.shape);
            self.reading = Some(Box::pin(blocking::run_on(self.pool.as_deref(), move || {
                let file = source.open()?;
                let bytes = read(&file, offset, end, shape)?;
                Ok((file, bytes))
            })));
        }
        let Some(reading) = &mut self.reading else { return Poll::Ready(None) };
        let read = ready!(reading.as_mut().poll(context));
        self.reading = None;
        match read {
            Ok((_, bytes)) if bytes.is_empty() => Poll::Ready(Some(Err(BodyError::Incomplete))),
            Ok((file, bytes)) => {
                self.offset += bytes.len() as u64;
                self.source = Some(Source::Open(file));
                Poll::Ready(Some(Ok(Chunk::Bytes(bytes))))
            }
            Err(error) => Poll::Ready(Some(Err(BodyError::Io(error)))),
        }
    }

    fn narrow(&mut self, range: ByteRange) -> bool {
        let lead = self.lead.len() as u64;
        let place = |at: u64| usize::try_from(at.min(lead)).unwrap_or(0);
        self.lead = self.lead.slice(place(range.start)..place(range.end.max(range.start)));
        self.end = self.offset.saturating_add(range.end.saturating_sub(lead)).min(self.end);
        self.offset = self.offset.saturating_add(range.start.saturating_sub(lead));
        true
    }

    fn skip(&mut self, count: u64) -> u64 {
        if self.reading.is_some() || !self.lead.is_empty() {
            return 0;
        }
        let count = count.min(self.end.saturating_sub(self.offset));
        self.offset += count;
        count
    }
}

impl Source {
    /// Opens the file, which must be the same that the response's head describes.
    fn open(self) -> io::Result<Arc<File>> {
        let (path, rule, size, modified) = match self {
            Source::Open(file) => return Ok(file),
            Source::Named { path, rule, size, modified } => (path, rule, size, modified),
        };
        let entry = Entry::load(&path, rule, 0);
        let same = entry.file().filter(|file| (file.size, file.modified) == (size, modified));
        let Some(OpenFile { content: Content::File(file, _), .. }) = same else {
            let message = "the file was replaced meanwhile";
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        };
        // Without support for direct I/O the file is read through the page cache.
        let _ = file::set_direct(file);
        Ok(file.clone())
    }
}

/// Reads the block at `offset`; returns the bytes from there on, at most to `end`.
fn read(file: &File, offset: u64, end: u64, shape: BlockLayout) -> io::Result<Bytes> {
    let BlockLayout { alignment, block } = shape;
    let skipped = offset % alignment as u64;
    let start = offset - skipped;
    let left = usize::try_from(end - start).unwrap_or(block);
    let length = left.min(block).next_multiple_of(alignment);
    let mut memory = vec![0; length + alignment];
    let lead = memory.as_ptr().align_offset(alignment).min(alignment);
    let count = file::pread(file, &mut memory[lead..lead + length], start)?;
    let skipped = usize::try_from(skipped).unwrap_or(count).min(count);
    let wanted = usize::try_from(end - offset).unwrap_or(count).min(count - skipped);
    Ok(Bytes::from(memory).slice(lead + skipped..lead + skipped + wanted))
}

#[cfg(test)]
pub(super) fn read_for_tests(
    file: &File,
    offset: u64,
    end: u64,
    alignment: usize,
    block: usize,
) -> io::Result<Bytes> {
    read(file, offset, end, BlockLayout::new(alignment, block))
}
