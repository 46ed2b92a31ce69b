//! Listeners, TLS, HTTP/1: from a socket to an Exchange and back
#![forbid(unsafe_code)]
