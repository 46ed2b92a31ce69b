//! The share of a fill that a request needs: all of it, a part that may have arrived already, or its head alone.

use tidegate_cache::FillHead;
use tidegate_codec::conditional::{Condition, IfModifiedSince, evaluate};
use tidegate_codec::range::{RangeDecision, decide, if_range_holds};
use tidegate_codec::request::Method;
use tidegate_codec::{Headers, Known, date};
use tidegate_core::Exchange;

use super::conditions;
use crate::cache::meta::Meta;

/// Returns how many bytes of a fill's body suffice for a request; `None`: all of them.
pub(crate) fn needed(x: &Exchange, head: &FillHead) -> Option<u64> {
    if x.is_subrequest() {
        return None;
    }
    if x.request.method == Method::Head {
        return Some(0);
    }
    let meta = Meta::decode(&head.metadata)?;
    needed_by(&x.request.head.headers, &meta, head.body_bytes, conditions::comparison(x))
}

/// Returns the same by the request's fields, for GET.
pub(crate) fn needed_by(
    request: &Headers,
    meta: &Meta,
    size: Option<u64>,
    mode: IfModifiedSince,
) -> Option<u64> {
    if meta.status != 200 {
        return None;
    }
    let (etag, modified) = (meta.etag(), meta.last_modified().and_then(date::parse_http));
    if evaluate(request, etag, modified, mode) != Condition::Proceed {
        return Some(0);
    }
    let field = request.first(Known::Range)?;
    let condition = request.first(Known::IfRange);
    if condition.is_some_and(|condition| !if_range_holds(condition, etag, modified)) {
        return None;
    }
    match decide(field, size?, usize::MAX) {
        RangeDecision::Whole => None,
        RangeDecision::Single(range) => Some(range.end),
        RangeDecision::Multiple(ranges) => ranges.iter().map(|range| range.end).max(),
        RangeDecision::Unsatisfiable => Some(0),
    }
}
