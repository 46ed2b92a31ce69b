//! Pure HTTP: heads, chunks, URIs, ranges, dates, caching rules; no I/O
#![forbid(unsafe_code)]
