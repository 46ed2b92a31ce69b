//! Compression of a body.

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

use super::accept::CompressionRules;
use super::codec::{Coding, Compressor, EncoderShape};
use super::conf::{CodingConf, Conf};
use crate::http::media_types::MediaTypes;

/// Bytes of output in one chunk.
const OUTPUT_BYTES: usize = 16 << 10;

/// The compression settings of a location.
#[derive(Debug)]
pub(super) struct CompressionFilter {
    rules: Arc<CompressionRules>,
    /// The enabled codings, in order of preference.
    codings: Vec<CodingRules>,
}

/// The responses that a coding applies to, and its parameters.
#[derive(Debug)]
struct CodingRules {
    shape: EncoderShape,
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
            // Level 1 of this library is faster and its output larger than zlib's, which users expect: level 2
            // replaces it.
            Coding::Gzip => level.max(2),
            Coding::Brotli | Coding::Zstd => level,
        };
        let window_bits = conf.window_bits.unwrap_or(window_bits);
        (conf.enabled == Some(true)).then(|| CodingRules {
            shape: EncoderShape { coding, level, window_bits },
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
    /// Makes the filter of a location; `None` if no coding is enabled.
    pub(super) fn new(conf: &Conf, rules: Arc<CompressionRules>) -> Option<CompressionFilter> {
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
                x.log(
                    Level::Alert,
                    format_args!(
                        "cannot create an encoder, the response is sent uncompressed: {error}"
                    ),
                );
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

    /// Chooses the coding with the client's largest weight among those for this response; of equal ones the first.
    fn choose(&self, x: &Exchange, length: Option<u64>) -> Option<EncoderShape> {
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
pub(super) fn compressed_for_tests(body: Body, shape: EncoderShape) -> Body {
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

/// Makes an entity tag weak, as the bytes differ from those that it was made for. An invalid tag is removed.
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

/// Bytes before and after compression, for `$gzip_ratio` and the like.
#[derive(Clone)]
pub(super) struct Sizes {
    pub coding: Coding,
    totals: Rc<Cell<(u64, u64)>>,
}

impl Sizes {
    /// Returns the ratio in hundredths, rounded; `None` before the end.
    pub(super) fn ratio_hundredths(&self) -> Option<u64> {
        let (before, after) = self.totals.get();
        (after > 0).then(|| (before * 1000 / after + 5) / 10)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The compressor has buffered nothing.
    Clean,
    /// The compressor has buffered input.
    Holding,
    /// The flushed bytes were returned, and the flush itself is to be passed on.
    Flushed,
}

/// A body that is being compressed.
struct Compressed {
    source: Option<ByteBody>,
    /// Rest of the current input chunk.
    input: Bytes,
    compressor: Compressor,
    sizes: Sizes,
    state: State,
    trailers: Option<Headers>,
}

/// | state | meaning | next |
/// |---|---|---|
/// | clean | nothing is in the compressor | input is fed: holding |
/// | holding | the compressor has bytes that the receiver has not | a flush, a source that is pending or ends: clean |
/// | flushed | a flush of the source, whose bytes were returned | the flush itself is passed on: clean |
///
/// Invariant: a pending source leaves nothing in the compressor: the client can decode everything that the source
/// has sent so far. Output is returned in chunks of about [`OUTPUT_BYTES`], and the connection yields to others
/// when its time share is used. Nothing is taken from the source before it is ready: a pending poll can be dropped.
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
                // Output that is there is sent first: its write ends the time share as well.
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
                // The client gets what the source has sent so far, instead of waiting for the rest.
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
    /// Outputs what the compressor has buffered, if anything.
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
