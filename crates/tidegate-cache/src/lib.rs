//! The cache store: index, files, live fills, eviction; knows bytes and keys, no HTTP
#![forbid(unsafe_code)]
