//! The byte stream of a client.

/// A client's byte stream, plain or TLS.
pub(crate) type Io = tidegate_tls::Io<tidegate_tls::Server>;
