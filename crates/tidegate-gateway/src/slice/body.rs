//! The assembled body: the wanted parts, one after another, each requested when the one before has been read.

use std::task::{Context, Poll};

use tidegate_codec::range::ByteRange;
use tidegate_core::body::{BodyError, BodyStream};
use tidegate_core::generated::{Yielder, generate};
use tidegate_core::{Body, Chunk, Exchange, Level};

use super::part::{Part, PartInfo, judge_next};
use crate::cache::StoredObject;
use crate::cache::status::is_hit;
use tidegate_core::body::cut;

/// The complete body, or the range that [`BodyStream::narrow`] is called with.
pub(super) struct Sliced {
    wanted: ByteRange,
    parts: Option<PartFetcher>,
    /// Set once reading begins.
    body: Body,
}

/// The means to fetch the parts.
struct PartFetcher {
    /// The body of the first part, which has arrived.
    body: Body,
    part: Part,
    first: PartInfo,
    /// Where the first part is stored, if there is a cache.
    stored: Option<StoredObject>,
    /// The request, to be repeated for each further part.
    template: Option<Exchange>,
    held_bytes_max: usize,
}

impl Sliced {
    /// Makes the body. `first` is the response whose body has arrived, `template` a fork of its request unless that
    /// is the only part. Less than `held_bytes_max` bytes are held back until more have arrived.
    pub(super) fn new(
        body: Body,
        (part, first, stored): (Part, PartInfo, Option<StoredObject>),
        template: Option<Exchange>,
        held_bytes_max: usize,
    ) -> Sliced {
        let wanted = ByteRange { start: 0, end: first.size };
        let parts = Some(PartFetcher { body, part, first, stored, template, held_bytes_max });
        Sliced { wanted, parts, body: Body::Empty }
    }
}

impl BodyStream for Sliced {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        if let Some(parts) = self.parts.take() {
            let wanted = self.wanted;
            self.body = generate(move |out| parts.run(wanted, out));
        }
        self.body.poll_chunk(context)
    }

    fn narrow(&mut self, range: ByteRange) -> bool {
        if self.parts.is_some() {
            self.wanted = range;
        }
        self.parts.is_some()
    }
}

impl PartFetcher {
    /// Yields the wanted bytes, part after part (`slice`).
    ///
    /// Invariant: all bytes before `position` have been yielded, once and in order, and every part is of the same
    /// object as the first (entity tag and size). A part is requested when the one before has been read, so no more
    /// than one is in progress, at the pace of the client.
    ///
    /// States: the first part, whose body has arrived, unless the range begins behind it; further parts, each a
    /// repetition of the request; the end. A part that does not fit, or ends early, ends the response visibly broken
    /// (RFC 9112 section 8); while less than `postpone_output` is held back, no response is sent at all.
    ///
    /// Cancelling: when the client leaves, this is dropped at an await. A repetition in progress ends with it; a
    /// cache fill that it has begun continues.
    async fn run(mut self, wanted: ByteRange, out: Yielder) -> Result<(), BodyError> {
        let mut out = HeldOutput { out, held: Vec::new(), bytes_left: self.held_bytes_max as u64 };
        let mut position = wanted.start;
        let mut body = std::mem::take(&mut self.body);
        let mut range = self.first.range;
        loop {
            if (range.start..range.end).contains(&position) {
                let end = range.end.min(wanted.end);
                out.copy(body, range, ByteRange { start: position, end }).await?;
                position = end;
            }
            if position >= wanted.end {
                break;
            }
            (body, range) = self.next(position).await?;
        }
        out.release().await;
        Ok(())
    }

    /// Requests the part that contains a byte.
    async fn next(&mut self, byte: u64) -> Result<(Body, ByteRange), BodyError> {
        let Some(template) = &mut self.template else { return Err(BodyError::Incomplete) };
        let part = self.part.at(byte);
        let mut repetition = template.repetition();
        repetition.exchange().modules.extensions.insert(part);
        let mut reply = repetition.run().await;
        let x = reply.exchange();
        match judge_next(x.disposition.status(), &x.response, &part, &self.first) {
            Ok(info) => Ok((reply.into_body(), info.range)),
            Err(problem) => {
                x.log(Level::Error, format_args!("{problem}"));
                // The object has changed. The part stored before is removed, or no request could be served any more.
                let second = x.modules.extensions.remove::<StoredObject>().filter(|_| is_hit(x));
                for stored in self.stored.take().into_iter().chain(second) {
                    stored.forget().await;
                }
                Err(BodyError::Incomplete)
            }
        }
    }
}

/// Holds the first bytes back until there are enough for a packet (`postpone_output`), so that no response is sent if
/// the second part fails early.
struct HeldOutput {
    out: Yielder,
    held: Vec<Chunk>,
    bytes_left: u64,
}

impl HeldOutput {
    /// Copies `wanted` out of a body that holds `range`.
    async fn copy(
        &mut self,
        body: Body,
        range: ByteRange,
        wanted: ByteRange,
    ) -> Result<(), BodyError> {
        let shifted = |byte: u64| byte - range.start;
        let part = ByteRange { start: shifted(wanted.start), end: shifted(wanted.end) };
        // A body that is wanted completely is read to its end, so that its connection can be kept.
        let mut body = if part.len() == range.len() { body } else { cut::single(body, part) };
        let mut left = wanted.len();
        while let Some(chunk) = body.next().await {
            let chunk = chunk?;
            left = left.checked_sub(chunk.length()).ok_or(BodyError::Incomplete)?;
            self.put(chunk).await;
        }
        if left == 0 { Ok(()) } else { Err(BodyError::Incomplete) }
    }

    async fn put(&mut self, chunk: Chunk) {
        if self.bytes_left == 0 {
            return self.out.put(chunk).await;
        }
        self.bytes_left = self.bytes_left.saturating_sub(chunk.length());
        self.held.push(chunk);
        if self.bytes_left == 0 {
            self.release().await;
        }
    }

    async fn release(&mut self) {
        self.bytes_left = 0;
        for chunk in self.held.drain(..) {
            self.out.put(chunk).await;
        }
    }
}
