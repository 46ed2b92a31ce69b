//! The words of failures, as genuine nginx on OpenSSL 3.0 logs them.

use std::io;

use rustls::{
    AlertDescription, ContentType, Error, InvalidMessage, PeerIncompatible, PeerMisbehaved,
};

use super::OpensslError;

fn check(error: &Error, severe: bool, words: &str) {
    let found = OpensslError::from(error);
    assert_eq!((found.is_severe(), found.to_string().as_str()), (severe, words), "{error:?}");
}

#[test]
fn alerts_have_their_numbers() {
    for (alert, words) in [
        (10, "error:0A0003F2:SSL routines::sslv3 alert unexpected message:SSL alert number 10"),
        (20, "error:0A0003FC:SSL routines::sslv3 alert bad record mac:SSL alert number 20"),
        (40, "error:0A000410:SSL routines::sslv3 alert handshake failure:SSL alert number 40"),
        (46, "error:0A000416:SSL routines::sslv3 alert certificate unknown:SSL alert number 46"),
        (48, "error:0A000418:SSL routines::tlsv1 alert unknown ca:SSL alert number 48"),
        (99, "error:0A00044B:SSL routines::reason(1099):SSL alert number 99"),
        (109, "error:0A000455:SSL routines::tlsv13 alert missing extension:SSL alert number 109"),
        (112, "error:0A000458:SSL routines::tlsv1 unrecognized name:SSL alert number 112"),
        (
            120,
            "error:0A000460:SSL routines::tlsv1 alert no application protocol:SSL alert number 120",
        ),
    ] {
        check(&Error::AlertReceived(AlertDescription::from(alert)), false, words);
    }
}

#[test]
fn mistakes_of_peers_have_openssls_reasons() {
    let unexpected = |got_type| Error::InappropriateMessage { expect_types: Vec::new(), got_type };
    let extension = PeerIncompatible::SignatureAlgorithmsExtensionRequired;
    for (error, severe, words) in [
        (InvalidMessage::UnknownProtocolVersion.into(), false, "0A00010B wrong version number"),
        (InvalidMessage::MessageTooLarge.into(), false, "0A0000C6 packet length too long"),
        (InvalidMessage::MissingData("Random").into(), false, "0A00009F length mismatch"),
        (
            InvalidMessage::MissingData("CipherSuite").into(),
            false,
            "0A000097 error in received cipher list",
        ),
        (
            InvalidMessage::IllegalEmptyList("CipherSuites").into(),
            false,
            "0A0000B7 no ciphers specified",
        ),
        (InvalidMessage::DuplicateExtension(10).into(), false, "0A00006E bad extension"),
        (PeerIncompatible::NoCipherSuitesInCommon.into(), false, "0A0000C1 no shared cipher"),
        (PeerIncompatible::Tls12NotOffered.into(), false, "0A000102 unsupported protocol"),
        (extension.into(), false, "0A000102 unsupported protocol"),
        (PeerMisbehaved::InvalidKeyShare.into(), false, "0A00006C bad key share"),
        (
            PeerMisbehaved::IllegalMiddleboxChangeCipherSpec.into(),
            true,
            "0A000104 invalid ccs message",
        ),
        (Error::DecryptError, false, "0A000119 decryption failed or bad record mac"),
        (Error::NoApplicationProtocol, false, "0A0000EB no application protocol"),
        (unexpected(ContentType::ApplicationData), false, "0A0000F5 unexpected record"),
        (unexpected(ContentType::ChangeCipherSpec), false, "0A0000F4 unexpected message"),
        (Error::General("a".to_owned()), true, "0A0C0103 internal error"),
    ] {
        let (number, text) = words.split_once(' ').unwrap_or_default();
        check(&error, severe, &format!("error:{number}:SSL routines::{text}"));
    }
}

#[test]
fn first_bytes_of_other_protocols_have_their_words() {
    for (bytes, words) in [
        (&b"GET / HTTP/1.0\r\n"[..], "http request"),
        (b"CONNECT a:1 HTTP/1.0\r\n", "https proxy request"),
        (b"\x15\x03\x03\0\x02\x02\x30", "unexpected message"),
        (b"hello there", "wrong version number"),
        (b"", "wrong version number"),
    ] {
        let found = OpensslError::of_first_bytes(bytes).to_string();
        assert!(found.ends_with(words), "{found}");
    }
}

#[test]
fn errors_of_sockets_are_no_failures_of_tls() {
    assert_eq!(OpensslError::of_stream(&io::Error::other("own")), None);
    assert_eq!(OpensslError::of_stream(&io::ErrorKind::ConnectionReset.into()), None);
    let wrapped = io::Error::new(io::ErrorKind::InvalidData, Error::DecryptError);
    assert!(OpensslError::of_stream(&wrapped).is_some());
}
