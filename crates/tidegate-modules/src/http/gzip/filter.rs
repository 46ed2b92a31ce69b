//! Compression of a body on its way.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use flate2::{Compress, Compression, FlushCompress, Status};
use tidegate_core::body::{BodyError, BodyStream, Chunk};
use tidegate_core::byte_body::{ByteBody, Piece};
use tidegate_core::{Body, Exchange};
use tidegate_http::request::Method;
use tidegate_http::{Headers, Known};

use super::accept::Rules;
use super::conf::Conf;
use crate::http::media_types::MediaTypes;

/// Bytes of output in one piece.
const OUTPUT_BYTES: usize = 16 << 10;
/// Input that is compressed at once.
const INPUT_BYTES: usize = 64 << 10;
/// Input that is taken in one turn, so that what compresses well holds no loop.
const INPUT_BYTES_MAX: usize = 256 << 10;
/// Idle compressors that a thread keeps; each has about 400 kB.
const IDLE_MAX: usize = 8;
/// Room that output grows by while a flush or the end still has some.
const GROWTH_BYTES: usize = 4 << 10;

/// A location's compression.
pub struct GzipFilter {
    rules: Arc<Rules>,
    types: MediaTypes,
    length_min: u64,
    shape: Shape,
}

/// What makes one compressor differ from another.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Shape {
    level: u32,
    window_bits: u8,
}

impl GzipFilter {
    pub fn new(conf: &Conf, rules: Arc<Rules>) -> GzipFilter {
        // Level 1 of this library is faster and larger than zlib's, which users know: 2 stands for it.
        let level = conf.level.unwrap_or(1).max(2);
        GzipFilter {
            rules,
            types: conf.types.clone().unwrap_or_else(|| MediaTypes::of(&["text/html"])),
            length_min: conf.length_min.unwrap_or(20),
            shape: Shape { level, window_bits: conf.window_bits.unwrap_or(15) },
        }
    }

    pub fn apply(&self, x: &mut Exchange, body: Body) -> Body {
        let length = x.response.content_length.or_else(|| body.known_length());
        if x.is_subrequest
            || matches!(body, Body::Tunnel(_))
            || !matches!(x.response.status, 200 | 403 | 404)
            || x.response.headers.contains(Known::ContentEncoding)
            // A HEAD whose origin told no length has an empty body that says nothing.
            || length.is_some_and(|length| length < self.length_min)
                && !(length == Some(0) && x.request.head.method == Method::Head)
            || !self.types.matches(x.response.headers.first(Known::ContentType))
        {
            return body;
        }
        self.rules.add_vary(x);
        if !self.rules.allow(x, b"gzip") {
            return body;
        }
        change_head(x);
        if x.request.head.method == Method::Head {
            return body_of_unknown_length();
        }
        let sizes = Sizes::default();
        x.extensions.insert(sizes.clone());
        compressed(body, self.shape, sizes)
    }
}

fn compressed(body: Body, shape: Shape, sizes: Sizes) -> Body {
    Body::Stream(Box::new(Gzipped {
        source: Some(ByteBody::new(body)),
        input: Bytes::new(),
        compressor: Compressor::take(shape),
        sizes,
        state: State::Clean,
        trailers: None,
    }))
}

#[cfg(test)]
pub fn compressed_for_tests(body: Body) -> Body {
    compressed(body, Shape { level: 2, window_bits: 15 }, Sizes::default())
}

fn change_head(x: &mut Exchange) {
    let response = &mut x.response;
    response.content_length = None;
    response.allow_ranges = false;
    response.headers.remove(Known::ContentLength);
    response.headers.remove(Known::AcceptRanges);
    response.headers.set_known(Known::ContentEncoding, b"gzip");
    weaken_etag(&mut response.headers);
}

/// Makes an entity tag a weak one: the bytes differ from those that it was made of. What is no tag goes.
pub fn weaken_etag(headers: &mut Headers) {
    let Some(etag) = headers.first(Known::Etag) else { return };
    match etag {
        [b'W', b'/', ..] => {}
        [b'"', ..] => {
            let weak = [b"W/", etag].concat();
            headers.set_known(Known::Etag, &weak);
        }
        _ => headers.remove(Known::Etag),
    }
}

/// Bytes before and behind the compressor, for `$gzip_ratio`.
#[derive(Clone, Default)]
pub struct Sizes(Rc<Cell<(u64, u64)>>);

impl Sizes {
    /// The ratio in hundredths, rounded; `None` before the end.
    pub fn ratio_hundredths(&self) -> Option<u64> {
        let (before, after) = self.0.get();
        (after > 0).then(|| (before * 1000 / after + 5) / 10)
    }
}

/// The body of an answer to HEAD whose length is not known.
pub fn body_of_unknown_length() -> Body {
    Body::Stream(Box::new(Nothing))
}

struct Nothing;

impl BodyStream for Nothing {
    fn poll_chunk(&mut self, _context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        Poll::Ready(None)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// All that came in went out.
    Clean,
    /// The compressor holds something.
    Holding,
    /// What was flushed is out, and the receiver shall know.
    Flushed,
}

/// A body being compressed.
struct Gzipped {
    source: Option<ByteBody>,
    /// What is left of the piece at hand.
    input: Bytes,
    compressor: Compressor,
    sizes: Sizes,
    state: State,
    trailers: Option<Headers>,
}

impl BodyStream for Gzipped {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        let mut out = Vec::new();
        let mut taken = 0;
        loop {
            if self.state == State::Flushed {
                self.state = State::Clean;
                return Poll::Ready(Some(Ok(Chunk::Flush)));
            }
            if !self.input.is_empty() {
                out.reserve(OUTPUT_BYTES);
                let piece = self.input.len().min(INPUT_BYTES);
                let count = self.compressor.feed(&self.input[..piece], &mut out)?;
                taken += count;
                self.input = self.input.slice(count..);
                self.state = State::Holding;
                if out.len() >= OUTPUT_BYTES {
                    return some(out);
                }
                if taken >= INPUT_BYTES_MAX {
                    if !out.is_empty() {
                        return some(out);
                    }
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                continue;
            }
            let Some(source) = &mut self.source else { return Poll::Ready(None) };
            match source.poll_piece(context) {
                Poll::Ready(Some(Ok(Piece::Bytes(bytes)))) => self.input = bytes,
                Poll::Ready(Some(Ok(Piece::Flush))) => {
                    self.flush(&mut out)?;
                    self.state = State::Flushed;
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => {
                    self.trailers = source.trailers();
                    self.source = None;
                    self.compressor.finish(&mut out)?;
                    self.sizes.0.set(self.compressor.totals());
                    self.compressor.give_back();
                }
                Poll::Pending => {
                    self.flush(&mut out)?;
                    if out.is_empty() {
                        return Poll::Pending;
                    }
                }
            }
            if !out.is_empty() && self.input.is_empty() {
                return some(out);
            }
        }
    }

    fn trailers(&mut self) -> Option<Headers> {
        self.trailers.take()
    }
}

impl Gzipped {
    /// Brings out what the compressor holds, if anything.
    fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), BodyError> {
        if self.state == State::Holding {
            self.compressor.drain(FlushCompress::Sync, out)?;
            self.state = State::Clean;
        }
        Ok(())
    }
}

fn some(out: Vec<u8>) -> Poll<Option<Result<Chunk, BodyError>>> {
    Poll::Ready(Some(Ok(Chunk::Bytes(Bytes::from(out)))))
}

thread_local! {
    /// Compressors at rest. Setting one up costs more than compressing a small page.
    static IDLE: RefCell<Vec<(Shape, Box<Compress>)>> = const { RefCell::new(Vec::new()) };
}

/// A compressor that goes back to its thread's store.
struct Compressor {
    shape: Shape,
    /// Gone once it has been given back.
    compress: Option<Box<Compress>>,
}

impl Compressor {
    fn take(shape: Shape) -> Compressor {
        let idle = IDLE.with_borrow_mut(|idle| {
            let place = idle.iter().rposition(|(other, _)| *other == shape)?;
            Some(idle.swap_remove(place).1)
        });
        let compress = idle.unwrap_or_else(|| {
            Box::new(Compress::new_gzip(Compression::new(shape.level), shape.window_bits))
        });
        Compressor { shape, compress: Some(compress) }
    }

    fn give_back(&mut self) {
        let Some(mut compress) = self.compress.take() else { return };
        // A thread that ends has no store any more.
        let _ = IDLE.try_with(|idle| {
            let mut idle = idle.borrow_mut();
            if idle.len() < IDLE_MAX {
                compress.reset();
                idle.push((self.shape, compress));
            }
        });
    }

    /// Compresses into the room that `out` has; answers how much of `input` was taken.
    fn feed(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<usize, BodyError> {
        let before = self.compress()?.total_in();
        self.run(input, FlushCompress::None, out)?;
        Ok((self.compress()?.total_in() - before) as usize)
    }

    /// The end of the gzip stream.
    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), BodyError> {
        self.drain(FlushCompress::Finish, out)
    }

    /// Brings out all that a flush or the end has.
    fn drain(&mut self, flush: FlushCompress, out: &mut Vec<u8>) -> Result<(), BodyError> {
        loop {
            out.reserve(GROWTH_BYTES);
            let status = self.run(&[], flush, out)?;
            // Room that is left over says that nothing more comes.
            if status == Status::StreamEnd || out.len() < out.capacity() {
                return Ok(());
            }
        }
    }

    /// Bytes taken and made.
    fn totals(&self) -> (u64, u64) {
        self.compress.as_ref().map_or((0, 0), |c| (c.total_in(), c.total_out()))
    }

    fn run(
        &mut self,
        input: &[u8],
        flush: FlushCompress,
        out: &mut Vec<u8>,
    ) -> Result<Status, BodyError> {
        let status = self.compress()?.compress_vec(input, out, flush);
        status.map_err(|error| BodyError::Io(std::io::Error::other(error)))
    }

    fn compress(&mut self) -> Result<&mut Compress, BodyError> {
        self.compress.as_deref_mut().ok_or(BodyError::Incomplete)
    }
}

impl Drop for Compressor {
    fn drop(&mut self) {
        self.give_back();
    }
}
