//! `aio threads=NAME`: the pool on which a location's files are read, and temporary files written.

use std::sync::Arc;
use std::task::{Context, Poll};

use tidegate_codec::Headers;
use tidegate_codec::range::ByteRange;
use tidegate_core::body::{BodyError, BodyStream};
use tidegate_core::pool_choice::{self, PoolChoice};
use tidegate_core::{Body, Chunk};
use tidegate_plan::LocationBuilder;
use tidegate_rt::blocking::ThreadPool;

/// Makes a location's files be read on another pool than the default one, whatever handler sends them: a filter
/// before all others marks the bodies.
pub(super) fn use_in(location: &mut LocationBuilder<'_, '_>, choice: PoolChoice) {
    location.location.extensions.insert(choice);
    location.filter(Box::new(|x, body| {
        if matches!(body, Body::Empty | Body::Bytes(_) | Body::Tunnel(_)) {
            return body;
        }
        match pool_choice::pool_of(x) {
            Some(pool) => marked(body, &pool),
            None => {
                x.disposition.replace_response(500);
                Body::Empty
            }
        }
    }));
}

fn marked(body: Body, pool: &Arc<ThreadPool>) -> Body {
    match body {
        Body::File(mut range) => {
            range.pool = Some(pool.clone());
            Body::File(range)
        }
        Body::Chunks(chunks) => {
            Body::Chunks(chunks.into_iter().map(|chunk| marked_chunk(chunk, pool)).collect())
        }
        Body::Stream(stream) => Body::Stream(Box::new(PooledStream { stream, pool: pool.clone() })),
        other => other,
    }
}

fn marked_chunk(mut chunk: Chunk, pool: &Arc<ThreadPool>) -> Chunk {
    if let Chunk::File(range) = &mut chunk {
        range.pool = Some(pool.clone());
    }
    chunk
}

/// A stream whose files are read on a pool.
struct PooledStream {
    stream: Box<dyn BodyStream>,
    pool: Arc<ThreadPool>,
}

impl BodyStream for PooledStream {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        let next = self.stream.poll_chunk(context);
        next.map(|next| next.map(|chunk| chunk.map(|chunk| marked_chunk(chunk, &self.pool))))
    }

    fn narrow(&mut self, range: ByteRange) -> bool {
        self.stream.narrow(range)
    }

    fn skip(&mut self, count: u64) -> u64 {
        self.stream.skip(count)
    }

    fn trailers(&mut self) -> Option<Headers> {
        self.stream.trailers()
    }
}
