//! Compression of a body on its way.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tidegate_codec::request::Method;
use tidegate_codec::{Headers, Known};
use tidegate_core::body::{BodyError, BodyStream, Chunk};
use tidegate_core::byte_body::{ByteBody, Piece};
use tidegate_core::exchange::RangeSupport;
use tidegate_core::{Body, Exchange, Level};
use tidegate_rt::share;

use super::accept::Rules;
use super::codec::{Coding, Compressor, Shape};
use super::conf::{CodingConf, Conf};
use crate::http::media_types::MediaTypes;

/// Bytes of output in one piece.
const OUTPUT_BYTES: usize = 16 << 10;

/// A location's compression.
pub(super) struct CompressionFilter {
    rules: Arc<Rules>,
    /// The codings that are on, in the order of preference.
    codings: Vec<CodingRules>,
}

/// Which answers a coding is for.
struct CodingRules {
    shape: Shape,
    types: MediaTypes,
    length_min: u64,
}

impl CodingRules {
    fn new(coding: Coding, conf: &CodingConf) -> Option<CodingRules> {
        let (level, window_bits) = match coding {
            Coding::Brotli => (6, 19),
            Coding::Zstd => (1, 0),
            Coding::Gzip => (1, 15),
        };
        let level = conf.level.unwrap_or(level);
        let level = match coding {
            // Level 1 of this library is faster and larger than zlib's, which users know: 2 stands for it.
            Coding::Gzip => level.max(2),
            Coding::Brotli | Coding::Zstd => level,
        };
        let window_bits = conf.window_bits.unwrap_or(window_bits);
        (conf.enabled == Some(true)).then(|| CodingRules {
            shape: Shape { coding, level, window_bits },
            types: conf.types.clone().unwrap_or_else(|| MediaTypes::of(&["text/html"])),
            length_min: conf.length_min.unwrap_or(20),
        })
    }

    fn fits(&self, x: &Exchange, length: Option<u64>) -> bool {
        length.is_none_or(|length| length >= self.length_min)
            && self.types.matches(x.response.headers.first(Known::ContentType))
    }
}

impl CompressionFilter {
    /// The filter of a location; `None` if nothing is compressed there.
    pub(super) fn new(conf: &Conf, rules: Arc<Rules>) -> Option<CompressionFilter> {
        let confs = [
            (Coding::Brotli, &conf.brotli),
            (Coding::Zstd, &conf.zstd),
            (Coding::Gzip, &conf.gzip),
        ];
        let codings = confs.into_iter().filter_map(|(coding, conf)| CodingRules::new(coding, conf));
        let codings: Vec<_> = codings.collect();
        (!codings.is_empty()).then_some(CompressionFilter { rules, codings })
    }

    pub(super) fn apply(&self, x: &mut Exchange, body: Body) -> Body {
        if x.is_subrequest()
            || matches!(body, Body::Tunnel(_))
            || !matches!(x.disposition.status(), 200 | 403 | 404)
            || x.response.headers.contains(Known::ContentEncoding)
        {
            return body;
        }
        let length = x.response.content_length.or_else(|| body.known_length());
        if !self.codings.iter().any(|coding| coding.fits(x, length)) {
            return body;
        }
        self.rules.add_vary(&x.routing, &mut x.response);
        let Some(shape) = self.choose(x, length) else { return body };
        let compressor = match Compressor::take(shape) {
            Ok(compressor) => compressor,
            Err(error) => {
                x.log(Level::Alert, format_args!("no encoder for an answer: {error}"));
                return body;
            }
        };
        change_head(x, shape.coding);
        if x.request.head.method == Method::Head {
            return Body::of_unknown_length();
        }
        let sizes = Sizes { coding: shape.coding, totals: Rc::default() };
        x.modules.extensions.insert(sizes.clone());
        compressed(body, compressor, sizes)
    }

    /// The coding that the client likes best of those for this answer; of equal ones the first.
    fn choose(&self, x: &Exchange, length: Option<u64>) -> Option<Shape> {
        let fitting = self.codings.iter().filter(|coding| coding.fits(x, length));
        let weighed =
            fitting.map(|coding| (self.rules.weight(x, coding.shape.coding.name()), coding.shape));
        let best = weighed.rev().max_by_key(|(weight, _)| *weight);
        best.filter(|(weight, _)| *weight > 0).map(|(_, shape)| shape)
    }
}

fn compressed(body: Body, compressor: Compressor, sizes: Sizes) -> Body {
    Body::Stream(Box::new(Compressed {
        source: Some(ByteBody::new(body)),
        input: Bytes::new(),
        compressor,
        sizes,
        state: State::Clean,
        trailers: None,
    }))
}

#[cfg(test)]
pub(super) fn compressed_for_tests(body: Body, shape: Shape) -> Body {
    let sizes = Sizes { coding: shape.coding, totals: Rc::default() };
    compressed(body, Compressor::take(shape).unwrap(), sizes)
}

fn change_head(x: &mut Exchange, coding: Coding) {
    let response = &mut x.response;
    response.content_length = None;
    response.ranges = RangeSupport::None;
    response.headers.remove(Known::ContentLength);
    response.headers.remove(Known::AcceptRanges);
    response.headers.set_known(Known::ContentEncoding, coding.name());
    weaken_etag(&mut response.headers);
}

/// Makes an entity tag a weak one: the bytes differ from those that it was made of. What is no tag goes.
pub(crate) fn weaken_etag(headers: &mut Headers) {
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

/// Bytes before and behind the compressor, for `$gzip_ratio` and its kin.
#[derive(Clone)]
pub(super) struct Sizes {
    pub coding: Coding,
    totals: Rc<Cell<(u64, u64)>>,
}

impl Sizes {
    /// The ratio in hundredths, rounded; `None` before the end.
    pub(super) fn ratio_hundredths(&self) -> Option<u64> {
        let (before, after) = self.totals.get();
        (after > 0).then(|| (before * 1000 / after + 5) / 10)
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
struct Compressed {
    source: Option<ByteBody>,
    /// What is left of the piece at hand.
    input: Bytes,
    compressor: Compressor,
    sizes: Sizes,
    state: State,
    trailers: Option<Headers>,
}

/// | state | what is where | then |
/// |---|---|---|
/// | clean | nothing is in the compressor | input is fed: holding |
/// | holding | the compressor has bytes that the receiver has not | a flush, a source that waits or ends: clean |
/// | flushed | a flush of the source, whose bytes are out | the flush itself is passed on: clean |
///
/// Invariant: a source that is not ready leaves nothing in the compressor: what it had so far is decoded by the client
///  while it waits. Output leaves in pieces of about [`OUTPUT_BYTES`], and the turn
/// of the connection ends with its share. Nothing is taken from the source before it is ready: a poll that waits can be
/// dropped.
impl BodyStream for Compressed {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        let mut out = Vec::new();
        let piece_bytes = self.compressor.shape().piece_bytes();
        loop {
            if self.state == State::Flushed {
                self.state = State::Clean;
                return Poll::Ready(Some(Ok(Chunk::Flush)));
            }
            if !self.input.is_empty() {
                // What is there leaves first: its write ends the turn as well.
                if share::is_over() {
                    return if out.is_empty() {
                        share::later(context).map(|()| None)
                    } else {
                        some(out)
                    };
                }
                out.reserve(OUTPUT_BYTES);
                let piece = self.input.len().min(piece_bytes);
                let count = self.compressor.feed(&self.input[..piece], &mut out)?;
                self.input = self.input.slice(count..);
                self.state = State::Holding;
                if out.len() >= OUTPUT_BYTES {
                    return some(out);
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
                    self.sizes.totals.set(self.compressor.totals());
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

impl Compressed {
    /// Brings out what the compressor holds, if anything.
    fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), BodyError> {
        if self.state == State::Holding {
            self.compressor.flush(out)?;
            self.state = State::Clean;
        }
        Ok(())
    }
}

fn some(out: Vec<u8>) -> Poll<Option<Result<Chunk, BodyError>>> {
    Poll::Ready(Some(Ok(Chunk::Bytes(Bytes::from(out)))))
}
