//! `slice`: large responses fetched, and cached, in parts of a fixed size.
//!
//! ```nginx
//! location / {
//!     slice             1m;
//!     proxy_cache       cache;
//!     proxy_cache_key   $uri$is_args$args$slice_range;
//!     proxy_set_header  Range $slice_range;
//!     proxy_cache_valid 200 206 1h;
//!     proxy_pass        http://origin;
//! }
//! ```
//! The request itself fetches the first part: the one in which its `Range` begins. When the origin responds with
//! exactly that part, the response becomes one of the complete object, whose other parts are requested one after
//! another as the client reads them. Any other response of the origin is passed through. Parts that contradict each
//! other end the response, and the stored ones are removed, so that the next request gets the origin's current
//! object.
//!
//! `part` computes the requested part and checks responses, `body` assembles the parts.

mod body;
mod part;
#[cfg(test)]
mod tests;

use std::io::Write;

use tidegate_codec::Known;
use tidegate_conf::{Arity, Contexts, Diagnostic, Directive, once, row};
use tidegate_core::exchange::{HeadSending, RangeSupport};
use tidegate_core::variables::Variable;
use tidegate_core::{Body, Exchange, Level};
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::{BlockInfo, Module};

use super::cache::StoredObject;
use body::Sliced;
use part::Part;

/// `ngx_http_slice_module`: the directive `slice`, the variable `$slice_range`, and the filter that makes one
/// response of the parts. It works with each gateway and each cache, and knows none of them.
pub struct Slice;

#[derive(Default)]
pub struct Conf {
    size: Option<u64>,
}

/// Bytes of a part, stored at its location for the variable.
struct SliceBytes(u64);

impl Module for Slice {
    type Conf = Conf;
    const NAME: &'static str = "slice";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[&[row(
        "slice",
        Contexts::HTTP_SERVER_LOCATION,
        Arity::ONE,
        "0",
        "Size of the parts in which a response is fetched; 0 for no parts. The range of the part is `$slice_range`.",
        |conf, args| once(&mut conf.size, args.size(0)?, args),
    )]];
    const VARIABLES: &'static [Variable] = &[Variable::fixed(
        "slice_range",
        "Range of the present slice, for the `Range` field towards the origin and the \
            cache's key.",
        slice_range,
    )];

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        child.size = child.size.or(parent.size);
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        if let Some(size) = conf.size.filter(|size| *size > 0) {
            location.location.extensions.insert(SliceBytes(size));
            location.filter(Box::new(filter));
        }
        Ok(())
    }
}

/// Writes the part that this request fetches, in the form of a `Range` field.
fn slice_range(x: &mut Exchange, out: &mut Vec<u8>) -> bool {
    let Some(part) = present_part(x) else { return false };
    let _ = write!(out, "bytes={}-{}", part.start, part.last());
    true
}

/// Returns the part that is fetched, chosen at first use, before there is a response. Parts of a page (SSI) are not
/// sliced.
fn present_part(x: &mut Exchange) -> Option<Part> {
    let SliceBytes(size) = *x.location().extensions.of::<SliceBytes>()?;
    if let Some(part) = known_part(x) {
        return Some(part);
    }
    if x.is_subrequest() || x.disposition.status() != 0 {
        return None;
    }
    let range = x.request.header(Known::Range).unwrap_or_default();
    let part = Part::of(x.routing.location, part::first_byte(range), size);
    x.modules.extensions.insert(part);
    Some(part)
}

/// Returns whether this request fetches a part.
pub(crate) fn is_part(x: &Exchange) -> bool {
    known_part(x).is_some()
}

/// Returns the part chosen in this location: after an internal redirect another location chooses anew.
fn known_part(x: &Exchange) -> Option<Part> {
    x.modules.extensions.of::<Part>().copied().filter(|part| part.location == x.routing.location)
}

/// Makes a response of the complete object from the first part.
///
/// | the response | result |
/// |---|---|
/// | is no 206 | passes unchanged; the request fetches no further parts |
/// | is a 206 of another part than requested | none: 444, and the reason in the log |
/// | is the part | 200 with the length of the object (RFC 9110 section 15.3.1), from which the client's `Range` is cut |
fn filter(x: &mut Exchange, body: Body) -> Body {
    let Some(part) = known_part(x).filter(|_| !x.is_subrequest()) else { return body };
    if x.disposition.status() != 206 {
        x.modules.extensions.remove::<Part>();
        return body;
    }
    let first = match part::judge(x.disposition.status(), &x.response, &part) {
        Ok(first) => first,
        Err(problem) => {
            x.log(Level::Error, format_args!("{problem}"));
            x.disposition.replace_response(444);
            return Body::Empty;
        }
    };
    let size = first.size;
    let template = (first.range.len() < size).then(|| x.fork());
    let stored = x.modules.extensions.remove::<StoredObject>();
    x.disposition.set_status(200);
    x.delivery.head = HeadSending::WithBody;
    let response = &mut x.response;
    response.reason = None;
    response.content_length = Some(size);
    response.headers.remove(Known::ContentRange);
    response.headers.remove(Known::AcceptRanges);
    // Parts are sent in their order, once.
    response.ranges = RangeSupport::One;
    let held_bytes_max = x.settings().postpone_output;
    Body::Stream(Box::new(Sliced::new(body, (part, first, stored), template, held_bytes_max)))
}
