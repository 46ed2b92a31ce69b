//! `$upstream_cache_status` and the other variables that describe what the cache did for a request.

use std::sync::Arc;

use tidegate_cache::OpenEntry;
use tidegate_codec::response::ResponseHead;
use tidegate_core::Exchange;
use tidegate_core::debug_log;
use tidegate_core::variables::Variable;
use tidegate_rt::clock;

use crate::cache::decide::rfc9111;
use crate::cache::meta::decoded;

/// The values of `$upstream_cache_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheStatus {
    Miss,
    Bypass,
    Expired,
    Stale,
    Updating,
    Revalidated,
    Hit,
}

impl CacheStatus {
    pub(crate) fn text(self) -> &'static [u8] {
        match self {
            CacheStatus::Miss => b"MISS",
            CacheStatus::Bypass => b"BYPASS",
            CacheStatus::Expired => b"EXPIRED",
            CacheStatus::Stale => b"STALE",
            CacheStatus::Updating => b"UPDATING",
            CacheStatus::Revalidated => b"REVALIDATED",
            CacheStatus::Hit => b"HIT",
        }
    }
}

/// The cache's state of a request; kept in the exchange's extensions.
#[derive(Clone)]
pub(crate) struct CacheNote {
    pub status: CacheStatus,
    /// The text of the key.
    pub key: Arc<[u8]>,
    /// When the served object was stored, in Unix milliseconds; 0 for a response from the origin.
    pub stored_at: u64,
    /// Validators of a stale object, while it is revalidated.
    pub last_modified: Vec<u8>,
    pub etag: Vec<u8>,
    /// `proxy_cache_rfc9111` is on.
    pub rfc9111: bool,
    /// The object that is served, whose head `$upstream_http_*` shows.
    pub entry: Option<OpenEntry>,
}

impl CacheNote {
    pub(crate) fn new(key: Arc<[u8]>, status: CacheStatus) -> CacheNote {
        let (last_modified, etag) = (Vec::new(), Vec::new());
        CacheNote { status, key, stored_at: 0, last_modified, etag, rfc9111: false, entry: None }
    }
}

/// Forgets the cache's state of a request, which a location without a cache passes to an origin.
pub(crate) fn forget(x: &mut Exchange) {
    x.modules.extensions.remove::<CacheNote>();
}

/// Changes the cache's state of a request.
pub(crate) fn note(x: &mut Exchange, change: impl FnOnce(&mut CacheNote)) {
    if let Some(note) = x.modules.extensions.of_mut::<CacheNote>() {
        change(note);
        if debug_log::is_on() {
            debug(x);
        }
    }
}

/// Logs the state at the level `debug`.
#[cold]
fn debug(x: &Exchange) {
    let Some(note) = x.modules.extensions.of::<CacheNote>() else { return };
    let (status, key) = (note.status.text(), String::from_utf8_lossy(&note.key));
    x.debug(|| format!("cache: {}, key \"{key}\"", String::from_utf8_lossy(status)));
}

/// Returns whether this request is served by a cache that follows RFC 9111.
pub(crate) fn follows_rfc9111(x: &Exchange) -> bool {
    x.modules.extensions.of::<CacheNote>().is_some_and(|note| note.rfc9111)
}

/// Returns whether the response came from the cache.
pub(crate) fn is_hit(x: &Exchange) -> bool {
    x.modules.extensions.of::<CacheNote>().is_some_and(|note| note.status == CacheStatus::Hit)
}

/// Returns the origin's head of the object that is served, for `$upstream_http_*`.
pub(crate) fn stored_head(x: &Exchange) -> Option<&ResponseHead> {
    let note = x.modules.extensions.of::<CacheNote>()?;
    decoded(note.entry.as_ref()?).map(|decoded| &decoded.head)
}

pub(crate) const VARIABLES: &[Variable] = &[
    Variable::fixed(
        "upstream_cache_status",
        "What the cache did: `MISS`, `BYPASS`, `EXPIRED`, `STALE`, `UPDATING`, \
            `REVALIDATED` or `HIT`.",
        |x, out| {
            with_note(x, out, |note, out| {
                out.extend_from_slice(note.status.text());
                true
            })
        },
    ),
    Variable::fixed("upstream_cache_key", "Key of the response in the cache.", |x, out| {
        with_note(x, out, |note, out| {
            out.extend_from_slice(&note.key);
            true
        })
    }),
    Variable::fixed(
        "upstream_cache_age",
        "Seconds that the response has been in the cache.",
        |x, out| {
            with_note(x, out, |note, out| {
                let age = rfc9111::age(note.stored_at, clock::unix_millis());
                let Some(age) = age else { return false };
                out.extend_from_slice(age.to_string().as_bytes());
                true
            })
        },
    ),
    Variable::fixed(
        "upstream_cache_last_modified",
        "`Last-Modified` field of the stored response.",
        |x, out| {
            with_note(x, out, |note, out| {
                out.extend_from_slice(&note.last_modified);
                !note.last_modified.is_empty()
            })
        },
    ),
    Variable::fixed("upstream_cache_etag", "`ETag` field of the stored response.", |x, out| {
        with_note(x, out, |note, out| {
            out.extend_from_slice(&note.etag);
            !note.etag.is_empty()
        })
    }),
];

fn with_note(
    x: &mut Exchange,
    out: &mut Vec<u8>,
    write: impl FnOnce(&CacheNote, &mut Vec<u8>) -> bool,
) -> bool {
    x.modules.extensions.of::<CacheNote>().is_some_and(|note| write(note, out))
}
