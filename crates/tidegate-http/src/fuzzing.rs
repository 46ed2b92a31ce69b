//! Entry points for fuzzers; plain functions, so that ordinary tests replay a corpus through them.

use crate::caching::{self, IgnoredFields};
use crate::headers::{Headers, Known};
use crate::proxy_protocol::{self, ParsedProxy};
use crate::range::{self, RangeDecision};
use crate::uri::normalise;

/// Target normalisation with and without `merge_slashes`.
pub fn fuzz_uri(data: &[u8]) {
    let mut decoded = Vec::new();
    for merge_slashes in [true, false] {
        if let Ok(uri) = normalise(data, merge_slashes, &mut decoded) {
            let path = uri.path(data, &decoded);
            assert!(uri.plain || path.first() == Some(&b'/') || data.first() != Some(&b'/'));
            let _ = uri.args(data);
        }
    }
}

/// `Range` for several sizes: ranges lie within the representation.
pub fn fuzz_range(data: &[u8]) {
    for size in [0, 1, 1000, u64::MAX] {
        for field in [data.to_vec(), [b"bytes=", data].concat()] {
            if let RangeDecision::Multiple(ranges) = range::decide(&field, size, usize::MAX) {
                assert!(ranges.iter().all(|range| range.start < range.end && range.end <= size));
            }
        }
    }
    let _ = range::if_range_holds(data, Some(b"\"a\""), Some(0));
}

/// `Cache-Control`, `Vary` and `X-Accel-Expires` with the bytes as every value.
pub fn fuzz_cache_control(data: &[u8]) {
    let mut headers = Headers::new();
    for known in [Known::CacheControl, Known::Vary, Known::XAccelExpires, Known::Expires] {
        headers.push_known(known, data);
    }
    for now in [i64::MIN, 0, i64::MAX] {
        if let Ok(stored) = caching::storable(&headers, IgnoredFields::default(), Some(1), now) {
            let _ = stored.freshness(now);
            caching::write_variant(&stored.vary, &headers, &mut Vec::new());
        }
    }
}

/// PROXY protocol headers: a shorter input is partial or wrong, never complete otherwise.
pub fn fuzz_proxy_protocol(data: &[u8]) {
    if let Ok(ParsedProxy::Complete(header, len)) = proxy_protocol::parse(data) {
        assert!(len <= data.len());
        assert_eq!(proxy_protocol::parse(&data[..len - 1]), Ok(ParsedProxy::Partial));
        let _ = (header.ssl_verify(), header.ssl_tlv(0x21), header.tlv(1));
    }
}
