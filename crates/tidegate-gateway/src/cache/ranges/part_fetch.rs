//! Fetches of parts from an origin, one after another, at the pace of origin and disk.

use std::rc::Weak;

use bytes::Bytes;
use tidegate_cache::{FillWriter, Store};
use tidegate_core::Chunk;
use tidegate_rt::clock;

use crate::cache::fill::disk_slots::DiskSlots;
use crate::cache::fill::flush::Flush;
use crate::cache::fill::origin::{BodyRest, OriginRequester, Resume};
use crate::cache::ranges::object::PartialObject;
use crate::cache::ranges::plan;

/// One request to the origin, which may fill several parts.
pub(crate) struct PartFetch {
    store: Store,
    object: PartialObject,
    resume: Resume,
    at: u64,
    /// End of the fetch in bytes: the end of a part.
    end: u64,
}

/// Begins to fill the part at `start`; `None` when it is stored or being filled.
pub(crate) fn begin_part(
    store: &Store,
    object: &PartialObject,
    start: u64,
    now: u64,
) -> Option<FillWriter> {
    let key = object.part_key(start);
    if store.lookup(&key, now).entry.is_some() {
        return None;
    }
    let writer = store.begin_fill(&key, now).ok()?;
    let length = plan::block_of(start, object.size).len();
    writer.publish_head(Bytes::from_static(b"part"), object.times, Some(length), now);
    Some(writer)
}

impl PartFetch {
    /// Makes a fetch of the parts from `start` to `end`.
    pub(crate) fn new(
        store: Store,
        origin: OriginRequester,
        object: PartialObject,
        (start, end): (u64, u64),
    ) -> PartFetch {
        let resume = Resume::in_parts(origin, object.identity.clone());
        PartFetch { store, object, resume, at: start, end }
    }

    /// Fills part after part, beginning with `part`; `rest` is the response where one has arrived. It stops at the
    /// end, at a part that is stored, and at the end of a part when its reader has gone (`wanted`).
    ///
    /// Invariant: at most one writer is open, that of the part that contains `at`. Each iteration copies one
    /// response; if that broke off, the rest of the part is requested from `at` on (`Range`, RFC 9110 section 14.2),
    /// as often as `Resume` allows. Every response carries the object's validator; when the origin has another one,
    /// the object's head is removed and all parts with it.
    ///
    /// Cancelling: it runs in a task of its own. When the thread ends it is dropped: the open writer is dropped, and
    /// its part breaks off for its readers. Finished parts remain.
    pub(crate) async fn run(
        mut self,
        part: FillWriter,
        rest: Option<BodyRest>,
        wanted: Option<Weak<()>>,
    ) {
        let mut part = Some(part);
        let mut rest = rest;
        while let Some(writer) = part.take() {
            let found = match rest.take() {
                Some(found) => Some(found),
                None => self.resume.fetch_part(self.at, self.end).await,
            };
            match found {
                Some(found) => part = self.copy(found, writer, wanted.as_ref()).await,
                None => {
                    // A later lookup must not find it.
                    if self.resume.has_changed() {
                        self.object.forget(&self.store, clock::unix_millis()).await;
                    }
                    writer.abort("the origin does not send this part");
                }
            }
        }
    }

    /// Copies a response; returns the part that is left unfinished if it broke off.
    async fn copy(
        &mut self,
        rest: BodyRest,
        part: FillWriter,
        wanted: Option<&Weak<()>>,
    ) -> Option<FillWriter> {
        let mut body = rest.body;
        let mut part = part;
        let mut flush = Flush::of(&self.store);
        while let Some(Ok(piece)) = body.next().await {
            let Chunk::Bytes(mut bytes) = piece else { continue };
            while !bytes.is_empty() {
                let end = plan::block_of(self.at, self.object.size).end.min(self.end);
                let count = usize::try_from(end - self.at).unwrap_or(usize::MAX).min(bytes.len());
                let appended = part.append(bytes.split_to(count), clock::unix_millis());
                self.at += count as u64;
                if !appended.has_room {
                    flush.finish(&part).await;
                    part.backpressure().await;
                }
                if self.at == end {
                    part = self.next(part, wanted, clock::unix_millis()).await?;
                }
            }
        }
        Some(part)
    }

    /// Ends a part and begins the next one at `now`, in Unix milliseconds.
    async fn next(
        &mut self,
        part: FillWriter,
        wanted: Option<&Weak<()>>,
        now: u64,
    ) -> Option<FillWriter> {
        let _ = part.finish();
        // The next one is begun before this one is stored, so that its readers find it.
        let gone = wanted.is_some_and(|wanted| wanted.strong_count() == 0);
        let next = match self.at < self.end && !gone {
            true => begin_part(&self.store, &self.object, self.at, now),
            false => None,
        };
        let _ = DiskSlots::of(&self.store).run(move || Ok(part.commit(now))).await;
        next
    }
}
