//! A client's byte stream.

/// A client's byte stream, plain or TLS.
pub(crate) type Io = tidegate_tls::Io<tidegate_tls::Server>;
