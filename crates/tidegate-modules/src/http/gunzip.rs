//! `gunzip`: decompresses responses with `Content-Encoding: gzip` for clients that do not accept it.
//!
//! ```nginx
//! location /storage/ {
//!     gunzip      on;
//!     gzip_static always;
//! }
//! ```
//! Only the compressed form needs to be stored then. A decompressed response has no length and no ranges, and its
//! entity tag is weak.

mod filter;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tidegate_codec::Known;
use tidegate_codec::request::Method;
use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, once, row};
use tidegate_core::exchange::RangeSupport;
use tidegate_core::{Body, Exchange};
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::{BlockInfo, Module};

use super::gzip::accept::CompressionRules;
use super::gzip::weaken_etag;

/// `ngx_http_gunzip_filter_module`.
pub(crate) struct Gunzip;

#[derive(Default)]
pub(crate) struct Conf {
    on: Option<bool>,
    buffer_bytes: Option<usize>,
}

/// Default of `gunzip_buffers`: 32 buffers of 4 kB, as nginx has on most machines.
const BUFFER_BYTES: usize = 128 << 10;

impl Module for Gunzip {
    type Conf = Conf;
    const NAME: &'static str = "gunzip";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[&[
        row(
            "gunzip",
            Contexts::HTTP_SERVER_LOCATION,
            Arity::FLAG,
            "off",
            "Decompresses responses with `Content-Encoding: gzip` for clients that do not accept gzip.",
            |conf, args| once(&mut conf.on, args.flag(0)?, args),
        ),
        row(
            "gunzip_buffers",
            Contexts::HTTP_SERVER_LOCATION,
            Arity::TWO,
            "32 4k",
            "Number and size of the buffers for decompressed data: together the most that is decompressed at once.",
            set_buffers,
        ),
    ]];

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        child.on = child.on.or(parent.on);
        child.buffer_bytes = child.buffer_bytes.or(parent.buffer_bytes);
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        if conf.on == Some(true) {
            let buffer_bytes = conf.buffer_bytes.unwrap_or(BUFFER_BYTES);
            location.plan.show(&buffer_bytes);
            location.filter(Box::new(move |x, body| apply(x, body, buffer_bytes)));
        }
        Ok(())
    }
}

fn set_buffers(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let (count, size) = (args.number(0, 0..=u64::MAX)?, args.size(1)?);
    if count == 0 || size == 0 {
        return Err(args.invalid(if count == 0 { 0 } else { 1 }));
    }
    let bytes = usize::try_from(count.saturating_mul(size)).unwrap_or(usize::MAX);
    once(&mut conf.buffer_bytes, bytes, args)
}

fn apply(x: &mut Exchange, body: Body, buffer_bytes: usize) -> Body {
    let coding = x.response.headers.first(Known::ContentEncoding);
    let is_packed = coding.is_some_and(|coding| coding.eq_ignore_ascii_case(b"gzip"));
    // A range of compressed data cannot be decompressed.
    if !is_packed
        || matches!(x.disposition.status(), 204 | 206 | 304)
        || matches!(body, Body::Tunnel(_))
    {
        return body;
    }
    let location = x.plan.location(x.routing.location);
    if let Some(rules) = location.extensions.of::<Arc<CompressionRules>>() {
        rules.add_vary(&x.routing, &mut x.response);
        if rules.allow(x, b"gzip") {
            return body;
        }
    }
    let response = &mut x.response;
    response.content_length = None;
    response.ranges = RangeSupport::None;
    for known in [Known::ContentEncoding, Known::ContentLength, Known::AcceptRanges] {
        response.headers.remove(known);
    }
    weaken_etag(&mut response.headers);
    if x.request.method == Method::Head {
        return Body::of_unknown_length();
    }
    filter::decompressed(body, buffer_bytes)
}
