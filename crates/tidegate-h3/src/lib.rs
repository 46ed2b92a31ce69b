//! HTTP/3 without I/O and without a clock (RFC 9114, 9204, 9218, 9220).
//!
//! Nothing uses this crate yet: the driver between it and a QUIC library is still to be written.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod error;
pub mod frame;
#[doc(hidden)]
pub mod fuzzing;
pub mod qpack;
pub mod settings;
pub mod varint;

pub use error::{ConnectionError, ErrorCode, Fault, Flood, SendError};
pub use settings::Settings;
