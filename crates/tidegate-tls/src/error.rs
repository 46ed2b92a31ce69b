//! The reasons why a handshake, or settings for handshakes, failed.

#[cfg(test)]
mod tests;

use std::{error, fmt, io};

use rustls::{CertificateError, Error, InvalidMessage, OtherError, PeerIncompatible};

use crate::openssl_errors::OpensslError;

/// The reason why a handshake failed. The words around it in logs are nginx's and the caller's.
#[derive(Debug)]
pub enum HandshakeError {
    /// The peer closed the connection before the end.
    Closed,
    /// The socket failed.
    Socket(io::Error),
    /// The peer's certificate is not trusted: a [`VerifyError`](crate::x509::VerifyError), as nginx logs it.
    Certificate(String),
    /// Either side aborted: an alert, bytes that are no TLS, or an internal error.
    Protocol(OpensslError),
}

/// The reason why there is no TLS with an origin: the handshake failed, or the certificate is for another
/// name. In both cases no part of a request has been sent.
#[derive(Debug)]
pub enum TlsConnectError {
    /// The handshake failed.
    Handshake(HandshakeError),
    /// The origin's certificate is for other names than the requested one.
    OtherName,
}

/// The reason why settings cannot be used, in the library's words; found while a configuration is built,
/// never in a handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingsError {
    /// Nothing can be negotiated with the protocols, suites and groups that are left.
    Protocols(String),
    /// The certificate or its key cannot be used.
    Key(KeyPairError),
}

/// The reason why a certificate and a private key are no pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPairError {
    /// The key cannot be read, or is of an unknown type; the library's words.
    Unusable(String),
    /// There is no certificate, or the first one is no X.509.
    NoCertificate,
    /// The key belongs to another certificate.
    Mismatch,
}

/// Returns the alert for a failure of a handshake for which the library has made none (RFC 8446 section 6.2); `None`
/// where the peer has ended it by an alert itself.
pub(crate) fn alert_for(error: &Error) -> Option<u8> {
    const UNEXPECTED_MESSAGE: u8 = 10;
    const RECORD_OVERFLOW: u8 = 22;
    const ILLEGAL_PARAMETER: u8 = 47;
    const DECODE_ERROR: u8 = 50;
    const PROTOCOL_VERSION: u8 = 70;
    const INTERNAL_ERROR: u8 = 80;
    Some(match error {
        Error::AlertReceived(_) => return None,
        // As OpenSSL.
        Error::InvalidMessage(InvalidMessage::HandshakePayloadTooLarge) => ILLEGAL_PARAMETER,
        Error::InvalidMessage(_) => DECODE_ERROR,
        // Nearly all such clients are older than TLS 1.2.
        Error::PeerIncompatible(PeerIncompatible::SignatureAlgorithmsExtensionRequired) => {
            PROTOCOL_VERSION
        }
        Error::PeerSentOversizedRecord => RECORD_OVERFLOW,
        Error::PeerMisbehaved(_)
        | Error::InappropriateMessage { .. }
        | Error::InappropriateHandshakeMessage { .. } => UNEXPECTED_MESSAGE,
        _ => INTERNAL_ERROR,
    })
}

/// Returns the record of a fatal alert that is not encrypted.
pub(crate) fn plain_alert(description: u8) -> [u8; 7] {
    [0x15, 3, 3, 0, 2, 2, description]
}

impl From<io::Error> for HandshakeError {
    /// Converts the error of the library: its own errors are wrapped into the socket's type.
    fn from(error: io::Error) -> HandshakeError {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            return HandshakeError::Closed;
        }
        match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
            None => HandshakeError::Socket(error),
            Some(reason) => HandshakeError::from(reason),
        }
    }
}

impl From<&Error> for HandshakeError {
    fn from(error: &Error) -> HandshakeError {
        match error {
            Error::InvalidCertificate(CertificateError::Other(OtherError(fault))) => {
                HandshakeError::Certificate(fault.to_string())
            }
            other => HandshakeError::Protocol(OpensslError::from(other)),
        }
    }
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HandshakeError::Closed => f.write_str("peer closed connection"),
            HandshakeError::Socket(error) => write!(f, "{error}"),
            HandshakeError::Certificate(reason) => write!(f, "invalid peer certificate: {reason}"),
            HandshakeError::Protocol(reason) => write!(f, "{reason}"),
        }
    }
}

impl error::Error for HandshakeError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            HandshakeError::Socket(error) => Some(error),
            _ => None,
        }
    }
}

impl From<HandshakeError> for TlsConnectError {
    fn from(error: HandshakeError) -> TlsConnectError {
        TlsConnectError::Handshake(error)
    }
}

impl fmt::Display for TlsConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlsConnectError::Handshake(error) => write!(f, "{error}"),
            TlsConnectError::OtherName => f.write_str("certificate does not match the name"),
        }
    }
}

impl error::Error for TlsConnectError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            TlsConnectError::Handshake(error) => Some(error),
            TlsConnectError::OtherName => None,
        }
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingsError::Protocols(reason) => f.write_str(reason),
            SettingsError::Key(error) => write!(f, "{error}"),
        }
    }
}

impl error::Error for SettingsError {}

impl fmt::Display for KeyPairError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            KeyPairError::Unusable(reason) => reason,
            KeyPairError::NoCertificate => "no X.509 certificate",
            KeyPairError::Mismatch => "key values mismatch",
        })
    }
}

impl error::Error for KeyPairError {}

impl From<KeyPairError> for SettingsError {
    fn from(error: KeyPairError) -> SettingsError {
        SettingsError::Key(error)
    }
}
