//! The decisions of `proxy_cache_rfc9111` beside storing and serving responses: their age, the effect of a response
//! to HEAD on the stored one, and the keys that an unsafe method invalidates. No I/O, no clock.

use bytes::Bytes;
use tidegate_cache::{Key, Times};
use tidegate_codec::caching::rfc9111::invalidation::{TargetUri, related};
use tidegate_codec::response::ResponseHead;
use tidegate_codec::{Headers, Known, connection};

use crate::cache::decide::policy::{Refusal, Storable};
use crate::cache::meta::{Meta, tags_of};

/// Returns the seconds since the origin generated a response (RFC 9111 section 4.2.3), both times in Unix
/// milliseconds; `None` for one that was not stored (0).
pub(crate) fn age(generated_at: u64, now: u64) -> Option<u64> {
    (generated_at != 0).then(|| now.saturating_sub(generated_at) / 1000)
}

/// The effect of the origin's response to HEAD on the stored response to GET (RFC 9111 section 4.3.5).
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HeadVerdict {
    /// None: one of the two is no 200.
    Keep,
    /// The stored response becomes fresh, with this metadata and these times.
    Renew(Bytes, Times),
    /// The origin has another representation, or forbids storing it now.
    Remove,
}

/// A stored response to GET.
pub(crate) struct StoredGet<'a> {
    pub meta: &'a Meta,
    pub body_bytes: u64,
}

/// Decides the effect of a response to HEAD with this `head`, requested at `requested_at`, on a stored one. `decide` says
/// whether a response with these fields may be stored, by the rules of the location.
pub(crate) fn after_head(
    stored: StoredGet<'_>,
    head: &ResponseHead,
    tag_headers: &[Box<[u8]>],
    (requested_at, now): (u64, u64),
    decide: impl FnOnce(u16, &Headers) -> Result<Storable, Refusal>,
) -> HeadVerdict {
    if head.status != 200 || stored.meta.status != 200 {
        return HeadVerdict::Keep;
    }
    if !is_same(&stored, &head.headers) {
        return HeadVerdict::Remove;
    }
    let mut meta = stored.meta.refreshed_rfc9111(&head.headers, now);
    let Ok(decided) = decide(meta.status, &meta.headers) else { return HeadVerdict::Remove };
    meta.must_revalidate = decided.must_revalidate;
    meta.requested_at = requested_at;
    meta.tags = tags_of(&meta.headers, tag_headers);
    HeadVerdict::Renew(meta.encode(), decided.times)
}

/// Returns whether a response to HEAD is about the stored representation: neither its validators nor its length
/// contradict.
fn is_same(stored: &StoredGet<'_>, headers: &Headers) -> bool {
    let own = &stored.meta.headers;
    let same = |known: Known| headers.first(known).is_none_or(|one| own.first(known) == Some(one));
    let length = headers.first(Known::ContentLength).and_then(connection::parse_length);
    same(Known::Etag)
        && same(Known::LastModified)
        && length.is_none_or(|length| length == stored.body_bytes)
}

/// Returns the keys of the targets that `Location` and `Content-Location` name (RFC 9111 section 4.4): the request's
/// key with their path in place of its own, provided its own path occurs there byte for byte. `response` has the
/// fields as the client sees them, behind `proxy_redirect`.
pub(crate) fn other_keys(request: TargetUri<'_>, response: &Headers, main: &Key) -> Vec<Key> {
    let (text, target) = (main.text(), request.target);
    let Some(at) = text.windows(target.len().max(1)).rposition(|part| part == target) else {
        return Vec::new();
    };
    let (before, behind) = (&text[..at], &text[at + target.len()..]);
    let others = related(request, response);
    others.iter().map(|other| Key::new([before, other, behind].concat())).collect()
}
