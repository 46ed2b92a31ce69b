//! Conditional requests: 304 and 412 for responses with validators (`If-Modified-Since`, `If-None-Match`,
//! `If-Match`, `If-Unmodified-Since`). It has no directives of its own.

#[cfg(test)]
mod tests;

use tidegate_codec::Known;
use tidegate_codec::conditional::{Condition, evaluate};
use tidegate_conf::{Diagnostic, Directive};
use tidegate_core::exchange::{Conditions, RangeSupport};
use tidegate_core::{Body, Exchange};
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::Module;

use tidegate_gateway::if_modified_since;

/// `ngx_http_not_modified_filter_module`.
pub(crate) struct NotModified;

impl Module for NotModified {
    type Conf = ();
    const NAME: &'static str = "not_modified";
    const DIRECTIVES: &'static [&'static [Directive<()>]] = &[];

    fn prepare(_conf: &(), location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        location.filter(Box::new(filter));
        Ok(())
    }
}

/// The fields that make a request conditional.
const CONDITIONS: [Known; 4] =
    [Known::IfModifiedSince, Known::IfNoneMatch, Known::IfUnmodifiedSince, Known::IfMatch];

fn filter(x: &mut Exchange, body: Body) -> Body {
    let fields = &x.request.head.headers;
    if x.disposition.status() != 200
        || x.response.conditions == Conditions::Origin
        || x.is_subrequest()
        || !CONDITIONS.iter().any(|known| fields.contains(*known))
    {
        return body;
    }
    let etag = x.response.headers.first(Known::Etag);
    match evaluate(fields, etag, x.response.last_modified, if_modified_since(x)) {
        Condition::Proceed => body,
        Condition::Failed => {
            x.response.headers.clear();
            x.disposition.replace_response(412);
            Body::Empty
        }
        Condition::NotModified => {
            x.disposition.set_status(304);
            x.delivery.expects_trailers = false;
            let response = &mut x.response;
            response.reason = None;
            response.content_length = None;
            response.ranges = RangeSupport::None;
            for known in [Known::ContentType, Known::ContentEncoding, Known::AcceptRanges] {
                response.headers.remove(known);
            }
            response.headers.remove(Known::ContentLength);
            Body::Empty
        }
    }
}
