//! Entry points for fuzzers; plain functions, so that ordinary tests replay a corpus through them.

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
