//! Conversion of the library's errors.

use std::io::{self, ErrorKind};
use std::sync::Arc;

use tokio_rustls::rustls::{AlertDescription, CertificateError, Error, OtherError};

use super::HandshakeError;
use crate::x509::VerifyError;

#[test]
fn errors_of_the_library_are_sorted_out() {
    let other = |fault: VerifyError| CertificateError::Other(OtherError(Arc::new(fault)));
    let wrapped = |error: Error| io::Error::new(ErrorKind::InvalidData, error);
    for (error, expected) in [
        (io::Error::from(ErrorKind::UnexpectedEof), "Closed"),
        (io::Error::other("own"), "Socket"),
        (io::Error::from(ErrorKind::ConnectionReset), "Socket"),
        (wrapped(Error::General("a".to_owned())), "Internal a"),
        (wrapped(other(VerifyError::Expired).into()), "Certificate 10:certificate has expired"),
        (wrapped(Error::AlertReceived(AlertDescription::UnknownCA)), "Protocol UnknownCA"),
    ] {
        let found = HandshakeError::from(error);
        let (kind, text) = match &found {
            HandshakeError::Closed => ("Closed", ""),
            HandshakeError::Socket(_) => ("Socket", ""),
            HandshakeError::Certificate(text) => ("Certificate", text.as_str()),
            HandshakeError::Protocol(text) => ("Protocol", text.as_str()),
            HandshakeError::Internal(text) => ("Internal", text.as_str()),
        };
        let (expected_kind, words) = expected.split_once(' ').unwrap_or((expected, ""));
        assert_eq!(kind, expected_kind, "{found:?}");
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn certificates_are_named_as_the_library_does() {
    let error: Error = CertificateError::BadSignature.into();
    assert_eq!(HandshakeError::from(&error).to_string(), error.to_string());
}
