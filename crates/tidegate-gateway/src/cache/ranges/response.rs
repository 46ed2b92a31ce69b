//! The response to a request for a range of an object in parts.

use tidegate_cache::Fill;
use tidegate_codec::Known;
use tidegate_codec::range::ByteRange;
use tidegate_core::{Body, Exchange, Step};

use crate::cache::gateway::{Gateway, StoredResponse};
use crate::cache::meta::{Decoded, Meta};
use crate::cache::ranges::assemble::{AssembledBody, RangeAssembler};
use crate::cache::ranges::plan::{FAR_BYTES, RequestedRange};
use crate::cache::status::{CacheStatus, note};

/// Returns whether a request's range begins so far ahead of the bytes that have arrived that it is fetched
/// separately.
pub(crate) fn is_far(x: &Exchange, fill: &Fill) -> bool {
    let wanted = x.request.header(Known::Range).and_then(RequestedRange::parse);
    let near = fill.watermark().saturating_add(FAR_BYTES);
    wanted.is_some_and(|wanted| wanted.start >= near) && !fill.is_whole()
}

/// Responds with an object in parts, once the range's first byte has arrived; `None` when it does not arrive. The
/// range filter cuts the range out.
pub(crate) async fn respond(
    x: &mut Exchange,
    gateway: &dyn Gateway,
    wanted: RequestedRange,
    assembler: RangeAssembler,
) -> Option<Step<'static>> {
    let object = assembler.object.clone();
    let is_there = assembler.has(wanted.start);
    let end = wanted.end.unwrap_or(object.size).min(object.size);
    if !is_there && !assembler.prepare(ByteRange { start: wanted.start, end }).await {
        return None;
    }
    let Decoded { head, .. } = Decoded::of_meta(Meta::clone(&object.meta));
    let status = if is_there { CacheStatus::Hit } else { CacheStatus::Miss };
    note(x, |note| {
        note.status = status;
        note.stored_at = if is_there { object.times.created } else { 0 };
    });
    gateway.show_head(x, head.clone());
    let content_length = Some(object.size);
    let body = Body::Stream(Box::new(AssembledBody::new(assembler)));
    Some(gateway.respond_stored(x, StoredResponse { head: &head, body, content_length }))
}
