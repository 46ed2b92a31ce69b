//! Conversion of the library's errors.

use std::io::{self, ErrorKind};
use std::sync::Arc;

use rustls::{AlertDescription, CertificateError, Error, OtherError};

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
        (wrapped(Error::General("a".to_owned())), "Protocol internal error"),
        (wrapped(other(VerifyError::Expired).into()), "Certificate 10:certificate has expired"),
        (
            wrapped(Error::AlertReceived(AlertDescription::UnknownCA)),
            "Protocol tlsv1 alert unknown ca",
        ),
    ] {
        let found = HandshakeError::from(error);
        let (kind, text) = match &found {
            HandshakeError::Closed => ("Closed", String::new()),
            HandshakeError::Socket(_) => ("Socket", String::new()),
            HandshakeError::Certificate(text) => ("Certificate", text.clone()),
            HandshakeError::Protocol(reason) => ("Protocol", reason.to_string()),
        };
        let (expected_kind, words) = expected.split_once(' ').unwrap_or((expected, ""));
        assert_eq!(kind, expected_kind, "{found:?}");
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn a_peer_without_the_key_of_its_certificate_is_no_question_of_trust() {
    let error: Error = CertificateError::BadSignature.into();
    let words = "error:0A00007B:SSL routines::bad signature";
    assert_eq!(HandshakeError::from(&error).to_string(), words);
}
