//! Test harness: case language, scripted clients and origins (development only)
#![forbid(unsafe_code)]
