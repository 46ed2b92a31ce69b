//! Byte ranges: 206 with one part or several, 416, `If-Range`. It has no directives of its own
//! (`max_ranges` is the core's).

#[cfg(test)]
mod tests;

use tidegate_codec::Known;
use tidegate_codec::range::{
    ByteRange, RangeDecision, decide, if_range_holds, multipart_len, write_content_range,
    write_unsatisfied_range,
};
use tidegate_codec::request::Version;
use tidegate_conf::{Diagnostic, Directive};
use tidegate_core::body::cut;
use tidegate_core::exchange::RangeSupport;
use tidegate_core::{Body, Exchange};
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::Module;

/// `ngx_http_range_filter_module`.
pub(crate) struct Ranges;

impl Module for Ranges {
    type Conf = ();
    const NAME: &'static str = "range";
    const DIRECTIVES: &'static [&'static [Directive<()>]] = &[];

    fn prepare(_conf: &(), location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        location.filter(Box::new(filter));
        Ok(())
    }
}

fn filter(x: &mut Exchange, body: Body) -> Body {
    let ranges_max = x.settings().max_ranges.unwrap_or(u64::MAX);
    if x.response.ranges == RangeSupport::None
        || x.disposition.status() != 200
        || x.is_subrequest()
        || ranges_max == 0
        || x.request.version() < Version::H10
    {
        return body;
    }
    let Some(size) = x.response.content_length.or_else(|| body.known_length()) else {
        return body;
    };
    match decision(x, &body, size, ranges_max) {
        RangeDecision::Whole => {
            x.response.headers.set_known(Known::AcceptRanges, b"bytes");
            body
        }
        RangeDecision::Single(range) => single(x, body, range, size),
        RangeDecision::Multiple(ranges) => multiple(x, body, &ranges, size),
        RangeDecision::Unsatisfiable => {
            let mut value = Vec::new();
            write_unsatisfied_range(size, &mut value);
            x.response.headers.set_known(Known::ContentRange, &value);
            x.response.content_length = None;
            x.disposition.set_status(416);
            x.disposition.replace_response(416);
            Body::Empty
        }
    }
}

fn decision(x: &Exchange, body: &Body, size: u64, ranges_max: u64) -> RangeDecision {
    let Some(field) = x.request.header(Known::Range) else { return RangeDecision::Whole };
    if let Some(condition) = x.request.header(Known::IfRange) {
        let etag = x.response.headers.first(Known::Etag);
        if !if_range_holds(condition, etag, x.response.last_modified) {
            return RangeDecision::Whole;
        }
    }
    let ranges_max = if x.response.ranges == RangeSupport::One { 1 } else { ranges_max };
    let decision = decide(field, size, usize::try_from(ranges_max).unwrap_or(usize::MAX));
    match &decision {
        // A stream can be read only once, from its beginning.
        RangeDecision::Multiple(ranges)
            if matches!(body, Body::Stream(_))
                && !ranges.is_sorted_by(|first, next| first.end <= next.start) =>
        {
            RangeDecision::Whole
        }
        // As in nginx, a range of an empty body is not refused where it begins at its start.
        RangeDecision::Unsatisfiable if size == 0 && begins_at_start(field) => RangeDecision::Whole,
        _ => decision,
    }
}

fn begins_at_start(field: &[u8]) -> bool {
    let ranges = field.split(|byte| *byte == b'=').nth(1).unwrap_or_default();
    let mut starts = ranges.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    starts.any(|range| range.starts_with(b"0-") || range.starts_with(b"-"))
}

fn single(x: &mut Exchange, body: Body, range: ByteRange, size: u64) -> Body {
    let mut value = Vec::new();
    write_content_range(range, Some(size), &mut value);
    x.disposition.set_status(206);
    let response = &mut x.response;
    response.reason = None;
    response.headers.remove(Known::AcceptRanges);
    response.headers.set_known(Known::ContentRange, &value);
    response.content_length = Some(range.len());
    cut::single(body, range)
}

fn multiple(x: &mut Exchange, body: Body, ranges: &[ByteRange], size: u64) -> Body {
    // Twenty digits, as in nginx; unpredictable, so that no content can contain it on purpose.
    let mut random = [0; 8];
    tidegate_rt::random::unpredictable(&mut random);
    let boundary = format!("{:020}", u64::from_ne_bytes(random));
    let content_type = x.response.headers.first(Known::ContentType).map(<[u8]>::to_vec);
    let content_type = content_type.as_deref();
    let Some(length) = multipart_len(boundary.as_bytes(), content_type, ranges, size) else {
        return body;
    };
    let cut = cut::multiple(body, ranges, size, boundary.as_bytes(), content_type);
    x.disposition.set_status(206);
    let response = &mut x.response;
    response.reason = None;
    response.headers.remove(Known::AcceptRanges);
    // An origin's own field would contradict those of the parts.
    response.headers.remove(Known::ContentRange);
    response.content_length = Some(length);
    let value = format!("multipart/byteranges; boundary={boundary}");
    response.headers.set_known(Known::ContentType, value.as_bytes());
    cut
}
