//! The reading of an object: its head, then its body, of which no byte is passed on before its block was compared.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use tidegate_cache::KeyHash;
use tidegate_core::body::BodyStream;
use tidegate_core::{Body, BodyError, Chunk};
use tidegate_rt::timer::Deadline;
use tidegate_upstream::OriginResponse;

use super::CacheTier;
use super::client::Failure;
use super::object::{BLOCK_BYTES, Beginning, Blocks, ObjectHead};
use crate::cache::fill::origin::length_of;

/// Bytes of a body that are read and compared before the object counts as found: damage in them is a miss, which no client
/// notices. Behind them it breaks the fill, which the origin completes: larger bodies are used only where it can.
pub(super) const CHECKED_BYTES: u64 = 256 * 1024;
/// Bytes of the largest head.
const HEAD_BYTES_MAX: u64 = 2 << 20;

/// An object whose head has arrived, and the beginning of its body.
pub(super) struct Opened {
    pub head: ObjectHead,
    pub body: Body,
}

/// Why an object is of no use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unusable {
    /// The store has failed.
    Failed(Failure),
    /// It is damaged, or of another form.
    Damaged(&'static str),
}

/// Reads the head of an object and the beginning of its body. What is found behind it is noted in `cache`: the end of the body,
/// or that the object of the key with this hash is of no use.
///
/// Cancelling: dropped at its await, it closes the connection.
pub(super) async fn open(
    response: OriginResponse,
    cache: &Arc<CacheTier>,
    hash: &KeyHash,
) -> Result<Opened, Unusable> {
    let body_max = cache.tier.settings.object_max;
    let announced = length_of(&response);
    if announced.is_some_and(|length| length > body_max.saturating_add(HEAD_BYTES_MAX)) {
        return Err(Unusable::Damaged("larger than allowed"));
    }
    let mut inner = response.body.into_body();
    let mut arrived = BytesMut::new();
    let mut head = loop {
        match ObjectHead::parse(&arrived, body_max) {
            Beginning::Head(head, bytes) => {
                let _ = arrived.split_to(bytes);
                break head;
            }
            Beginning::Invalid(reason) => return Err(Unusable::Damaged(reason)),
            Beginning::More(_) => {}
        }
        match poll_fn(|context| inner.poll_chunk(context)).await {
            Some(Ok(Chunk::Bytes(bytes))) => arrived.extend_from_slice(&bytes),
            Some(Ok(Chunk::Flush | Chunk::File(_))) => {}
            Some(Err(_)) => return Err(Unusable::Failed(Failure::Broken)),
            None => return Err(Unusable::Damaged("it ends in its head")),
        }
    };
    let blocks = head.blocks();
    let checked = head.body_bytes.min(CHECKED_BYTES);
    let mut body = CheckedBody {
        inner,
        arrived,
        blocks,
        ready: VecDeque::new(),
        pause: Deadline::new(),
        cache: cache.clone(),
        hash: *hash,
        ended: false,
    };
    let (mut ready, mut length) = (VecDeque::new(), 0);
    while length < checked {
        match poll_fn(|context| body.poll_block(context)).await {
            Ok(Some(block)) => {
                length += block.len() as u64;
                ready.push_back(block);
            }
            Ok(None) => break,
            Err(unusable) => return Err(unusable),
        }
    }
    if body.blocks.is_over() {
        let chunks = ready.into_iter().map(Chunk::Bytes).collect();
        return Ok(Opened { head, body: Body::Chunks(chunks) });
    }
    body.ready = ready;
    Ok(Opened { head, body: Body::Stream(Box::new(body)) })
}

/// The body of an object. Each block has to arrive within the tier's time limit, as far as its reader waits for it: a store
/// that trickles bytes has failed.
struct CheckedBody {
    inner: Body,
    arrived: BytesMut,
    blocks: Blocks,
    /// Compared blocks.
    ready: VecDeque<Bytes>,
    /// Set while a reader waits.
    pause: Deadline,
    cache: Arc<CacheTier>,
    hash: KeyHash,
    ended: bool,
}

impl CheckedBody {
    /// Returns the next compared block; `None` at the end.
    fn poll_block(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Unusable>> {
        loop {
            if self.blocks.is_over() {
                return Poll::Ready(Ok(None));
            }
            match self.blocks.take(&mut self.arrived) {
                Ok(Some(block)) => {
                    self.pause.clear();
                    return Poll::Ready(Ok(Some(block)));
                }
                Ok(None) => {}
                Err(_) => return Poll::Ready(Err(Unusable::Damaged("the checksum of a block"))),
            }
            match self.inner.poll_chunk(context) {
                Poll::Ready(Some(Ok(Chunk::Bytes(bytes)))) => {
                    self.arrived.reserve(BLOCK_BYTES.min(bytes.len()));
                    self.arrived.extend_from_slice(&bytes);
                }
                Poll::Ready(Some(Ok(Chunk::Flush | Chunk::File(_)))) => {}
                Poll::Ready(Some(Err(_))) => {
                    return Poll::Ready(Err(Unusable::Failed(Failure::Broken)));
                }
                Poll::Ready(None) => {
                    return Poll::Ready(Err(Unusable::Damaged("it ends in its body")));
                }
                Poll::Pending => {
                    if self.pause.at().is_none() {
                        self.pause.set_after(self.cache.tier.settings.timeout);
                    }
                    if self.pause.poll_elapsed(context).is_ready() {
                        return Poll::Ready(Err(Unusable::Failed(Failure::Broken)));
                    }
                    return Poll::Pending;
                }
            }
        }
    }
}

impl BodyStream for CheckedBody {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        if let Some(block) = self.ready.pop_front() {
            return Poll::Ready(Some(Ok(Chunk::Bytes(block))));
        }
        if self.ended {
            return Poll::Ready(None);
        }
        self.poll_block(context).map(|block| match block {
            Ok(Some(block)) => {
                if self.blocks.is_over() {
                    self.cache.tier.note_success();
                }
                Some(Ok(Chunk::Bytes(block)))
            }
            Ok(None) => {
                self.ended = true;
                None
            }
            Err(unusable) => {
                self.ended = true;
                self.cache.note_unusable(&self.hash, &unusable);
                Some(Err(BodyError::Incomplete))
            }
        })
    }

    fn is_over(&self) -> bool {
        self.ready.is_empty() && self.blocks.is_over()
    }
}
