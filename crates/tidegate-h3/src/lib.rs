//! HTTP/3 without I/O and without a clock (RFC 9114, 9204, 9218, 9220).
//!
//! Nothing uses this crate yet: the driver between it and a QUIC library is still to be written.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

#[doc(hidden)]
pub mod fuzzing;
pub mod qpack;
