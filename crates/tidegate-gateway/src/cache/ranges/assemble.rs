//! Assembly of a range from parts: each is read from its file, from the fill of the part, from the fill of the
//! complete object if that has come far enough, or else fetched from the origin.

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use tidegate_cache::{Fill, FillReader, FillWriter, OpenEntry, Piece, Store};
use tidegate_codec::range::ByteRange;
use tidegate_core::body::{BodyError, BodyStream};
use tidegate_core::generated::{Yielder, generate};
use tidegate_core::{Body, Chunk, FileRange, blocking};
use tidegate_rt::clock;
use tidegate_rt::worker::spawn_local;

use crate::cache::decide::identity::Identity;
use crate::cache::fill::origin::OriginRequester;
use crate::cache::meta::Meta;
use crate::cache::ranges::object::PartialObject;
use crate::cache::ranges::part_fetch::{PartFetch, begin_part};
use crate::cache::ranges::part_reader::{is_sound, open};
use crate::cache::ranges::plan::{self, FAR_BYTES};
use crate::cache::serve::fill_body::{PIECE_BYTES_MAX, chunk_of};

/// Most attempts at an offset without a byte, before the response is broken off.
const TRIES_MAX: u32 = 3;

/// The complete body, or the range that [`BodyStream::narrow`] is called with.
pub(crate) struct AssembledBody {
    wanted: ByteRange,
    /// `None` once reading has begun.
    assembler: Option<RangeAssembler>,
    body: Body,
}

/// The sources of an object's bytes.
pub(crate) struct RangeAssembler {
    pub object: PartialObject,
    store: Store,
    origin: OriginRequester,
    /// The fill of the complete object.
    fill: Option<Arc<Fill>>,
    /// Fetches of parts end when this is dropped.
    alive: Rc<()>,
}

/// The source of a part.
enum PartSource {
    /// With the offset in the object of its first byte.
    Stored(OpenEntry, u64),
    Filling(FillReader),
}

impl AssembledBody {
    pub(crate) fn new(assembler: RangeAssembler) -> AssembledBody {
        let wanted = ByteRange { start: 0, end: assembler.object.size };
        AssembledBody { wanted, assembler: Some(assembler), body: Body::Empty }
    }
}

impl BodyStream for AssembledBody {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        if let Some(assembler) = self.assembler.take() {
            let wanted = self.wanted;
            self.body = generate(move |out| assembler.run(wanted, out));
        }
        self.body.poll_chunk(context)
    }

    fn narrow(&mut self, range: ByteRange) -> bool {
        if self.assembler.is_some() {
            self.wanted = range;
        }
        self.assembler.is_some()
    }
}

impl RangeAssembler {
    pub(crate) fn new(
        object: PartialObject,
        store: Store,
        origin: OriginRequester,
        fill: Option<Arc<Fill>>,
    ) -> RangeAssembler {
        RangeAssembler { object, store, origin, fill, alive: Rc::new(()) }
    }

    /// Returns whether the part with this byte is stored.
    pub(crate) fn has(&self, byte: u64) -> bool {
        let part = plan::block_of(byte, self.object.size);
        self.store.peek(&self.object.part_key(part.start)).entry.is_some()
    }

    /// Waits until the first byte of a range has arrived; false when it does not arrive. It is awaited before the
    /// head is sent, while another response is still possible.
    pub(crate) async fn prepare(&self, wanted: ByteRange) -> bool {
        let part = plan::block_of(wanted.start, self.object.size);
        match self.source(part, wanted.end).await {
            None => false,
            Some(PartSource::Stored(..)) => true,
            Some(PartSource::Filling(mut reader)) => {
                reader.skip(wanted.start - part.start);
                !matches!(reader.next(1).await, Piece::End | Piece::Broken(_))
            }
        }
    }

    /// Yields a range piece by piece, from the source of each next byte.
    ///
    /// Invariant: all bytes before `at` have been yielded, once. An offset at which no byte arrives is tried
    /// [`TRIES_MAX`] times. When the client leaves, this is dropped at an await; the fetch then ends with its current
    /// part.
    async fn run(self, wanted: ByteRange, out: Yielder) -> Result<(), BodyError> {
        let (mut at, mut tries) = (wanted.start, 0);
        while at < wanted.end {
            let before = at;
            let near = |fill: &&Arc<Fill>| {
                fill.is_readable_from_start() && at < fill.watermark().saturating_add(FAR_BYTES)
            };
            let fill = self.fill.as_ref().filter(near).filter(|fill| is_alive(fill));
            let part = plan::block_of(at, self.object.size);
            let end = part.end.min(wanted.end);
            match fill {
                Some(fill) => at = yield_reader(fill.reader(at), (at, wanted.end), &out).await,
                None => match self.source(part, wanted.end).await {
                    // A damaged one has been removed, and is fetched again.
                    Some(PartSource::Stored(entry, start)) => {
                        let now = clock::unix_millis();
                        at = yield_entry(&entry, (start, at, end), &out, now).await?;
                    }
                    Some(PartSource::Filling(mut reader)) => {
                        reader.skip(at - part.start);
                        at = yield_reader(reader, (at, end), &out).await;
                    }
                    None => {}
                },
            }
            tries = if at == before { tries + 1 } else { 0 };
            if tries == TRIES_MAX {
                return Err(BodyError::Incomplete);
            }
        }
        Ok(())
    }

    /// Returns the source of a part; fetches it if need be, with those behind it.
    ///
    /// In this order: its file, its running fill, the complete object if that has been stored since, the origin.
    /// Another request may be faster between the lookup and the fetch: then the lookup is repeated, [`TRIES_MAX`]
    /// times.
    ///
    /// Cancelling: dropping it while the disk is read changes nothing. The fetch runs in a task, which ends with its
    /// current part once the body is dropped.
    async fn source(&self, part: ByteRange, end: u64) -> Option<PartSource> {
        let key = self.object.part_key(part.start);
        for _ in 0..TRIES_MAX {
            let now = clock::unix_millis();
            let (entry, fill) = open(&self.store, &key, now).await;
            if let Some(entry) = entry {
                if entry.body_bytes() == part.len() {
                    return Some(PartSource::Stored(entry, part.start));
                }
                let store = self.store.clone();
                let _ = blocking::run(move || store.remove(&key)).await;
                return None;
            }
            if let Some(fill) = fill {
                return Some(PartSource::Filling(fill.reader(0)));
            }
            if let Some(whole) = self.whole(now).await {
                return Some(PartSource::Stored(whole, 0));
            }
            // Reading the disk may have taken time.
            let now = clock::unix_millis();
            if let Some(writer) = begin_part(&self.store, &self.object, part.start, now) {
                return Some(PartSource::Filling(self.start_fetch(writer, part.start, end)));
            }
            // It has been stored, or another fill has begun, since the lookup.
        }
        None
    }

    /// Starts a fetch of a part, and of those behind it up to `end`.
    fn start_fetch(&self, part: FillWriter, start: u64, end: u64) -> FillReader {
        let reader = part.fill().reader(0);
        let end = end.checked_next_multiple_of(plan::BLOCK_BYTES).unwrap_or(u64::MAX);
        let range = (start, end.min(self.object.size));
        let fetch =
            PartFetch::new(self.store.clone(), self.origin.clone(), self.object.clone(), range);
        drop(spawn_local(fetch.run(part, None, Some(Rc::downgrade(&self.alive)))));
        reader
    }
}

impl RangeAssembler {
    /// Returns the complete object, which may have been stored since: its parts are gone then.
    async fn whole(&self, now: u64) -> Option<OpenEntry> {
        let entry = open(&self.store, &self.object.key, now).await.0?;
        let meta = Meta::decode(entry.metadata()).filter(|meta| meta.parts.is_none())?;
        let size = Some(entry.body_bytes());
        let identity = Identity::of(meta.status, &meta.headers, size)?;
        (identity == self.object.identity).then_some(entry)
    }
}

/// Returns whether more bytes may arrive in a fill.
fn is_alive(fill: &Fill) -> bool {
    !fill.has_ended() || fill.is_whole()
}

/// Yields the bytes from `at` to `end` of an entry that begins at `start`; returns the offset reached.
async fn yield_entry(
    entry: &OpenEntry,
    (start, at, end): (u64, u64, u64),
    out: &Yielder,
    now: u64,
) -> Result<u64, BodyError> {
    if !is_sound(entry, at - start, end - at, now).await {
        return Ok(at);
    }
    out.put(cut(entry, at - start, end - at)?).await;
    Ok(end)
}

/// Returns a range of a stored part as a chunk.
fn cut(entry: &OpenEntry, start: u64, length: u64) -> Result<Chunk, BodyError> {
    if let Some(bytes) = entry.body_in_memory() {
        let range = usize::try_from(start).ok().zip(usize::try_from(start + length).ok());
        let (start, end) =
            range.filter(|range| range.1 <= bytes.len()).ok_or(BodyError::Incomplete)?;
        return Ok(Chunk::Bytes(bytes.slice(start..end)));
    }
    let file = entry.file().and_then(|file| file.system_file()).ok_or(BodyError::Incomplete)?;
    let offset = entry.body_start() + start;
    Ok(Chunk::File(FileRange::new(file.clone(), offset, length)))
}

/// Yields the bytes of a reader up to `end` or the reader's end; returns the offset reached.
async fn yield_reader(mut reader: FillReader, (mut at, end): (u64, u64), out: &Yielder) -> u64 {
    while at < end {
        let most = usize::try_from(end - at).unwrap_or(usize::MAX).min(PIECE_BYTES_MAX);
        let piece = reader.next(most).await;
        if matches!(piece, Piece::End | Piece::Broken(_)) {
            break;
        }
        let Some(chunk) = chunk_of(piece) else { break };
        at += chunk.length();
        out.put(chunk).await;
    }
    at
}
