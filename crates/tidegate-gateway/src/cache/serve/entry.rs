//! Responses from stored objects.

use tidegate_cache::OpenEntry;
use tidegate_codec::request::Method;
use tidegate_core::{Body, Exchange, Step};

use crate::cache::gateway::{Gateway, StoredResponse};
use crate::cache::meta::{Decoded, decoded};
use crate::cache::ring::serve;
use crate::cache::serve::verified;
use crate::cache::status::{CacheStatus, note};

/// Responds with a stored object; `None` when its head cannot be decoded.
pub(crate) fn respond(
    x: &mut Exchange,
    gateway: &dyn Gateway,
    entry: &OpenEntry,
    status: CacheStatus,
    now: u64,
) -> Option<Step<'static>> {
    let Decoded { meta, head } = decoded(entry)?;
    note(x, |note| {
        note.status = status;
        note.stored_at = entry.times().created;
        note.entry = Some(entry.clone());
    });
    serve::note_terms(x, meta, entry.times(), now);
    let mut content_length = meta.head_length.filter(|_| x.request.method == Method::Head);
    let body = match entry.body_in_memory() {
        Some(bytes) => Body::from(bytes),
        None => verified::body(x, entry, now),
    };
    if let Body::Stream(_) = body {
        content_length = content_length.or(Some(entry.body_bytes()));
    }
    Some(gateway.respond_stored(x, StoredResponse { head, body, content_length }))
}
