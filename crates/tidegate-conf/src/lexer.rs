//! Bytes to words, by nginx's rules.
