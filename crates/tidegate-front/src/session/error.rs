//! Why a session ends before its content, and why it cannot be passed on.

use std::fmt;

/// A session ends before its content. The reason has been logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionError {
    /// The TLS handshake failed, or took longer than `ssl_handshake_timeout`.
    Handshake,
    /// The client's certificate is not what `ssl_verify_client` requires.
    Certificate,
    /// The plan has no listener at the address where the session was accepted.
    NoListener,
}

impl SessionError {
    /// Returns the status for the log.
    pub(crate) fn status(self) -> u16 {
        super::INTERNAL_ERROR
    }
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SessionError::Handshake => "the TLS handshake failed",
            SessionError::Certificate => "the client's certificate is not accepted",
            SessionError::NoListener => "no listener at the session's address",
        })
    }
}

impl std::error::Error for SessionError {}

/// A session cannot be passed on (`pass`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PassError {
    /// Nothing listens at this address.
    NoListener(String),
    /// The session is a UDP session.
    Datagrams,
    /// It was passed on too many times.
    Cycle,
}

impl fmt::Display for PassError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PassError::NoListener(address) => {
                write!(f, "no listening socket for \"{address}\" of \"pass\"")
            }
            PassError::Cycle => f.write_str("stream pass cycle"),
            PassError::Datagrams => f.write_str("datagrams cannot be passed on by \"pass\""),
        }
    }
}

impl std::error::Error for PassError {}
