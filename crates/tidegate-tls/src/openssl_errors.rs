//! Failures of TLS in OpenSSL 3's words, which logs of nginx contain and filters of logs look for: the number, the
//! text, and how serious a failure is.
//!
//! ```text
//! error:0A000418:SSL routines::tlsv1 alert unknown ca:SSL alert number 48
//! error:0A0000C1:SSL routines::no shared cipher
//! ```
//!
//! The rows of the tables were observed: genuine nginx on OpenSSL 3.0 got the same bytes. Where the library tells
//! less apart than OpenSSL, the row has the most frequent reason.

#[cfg(test)]
mod tests;

use std::{error, fmt, io};

use rustls::{CertificateError, Error, InvalidMessage, PeerIncompatible, PeerMisbehaved};

/// A failure with OpenSSL's number and text. `Display` writes it as nginx does behind `SSL: `.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpensslError(Reason);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// The peer sent this fatal alert.
    Alert(u8),
    /// A mistake of the peer, by OpenSSL's number.
    Mistake(u16, &'static str),
    /// A failure on this side.
    Internal,
}

/// OpenSSL's number of the alert zero.
const ALERT_BASE: u16 = 1000;
/// The numbers of mistakes that nginx logs at level `crit`; all other mistakes of peers have level `info`.
const SEVERE: [u16; 2] = [0xd1, 0x104];

impl OpensslError {
    /// The certificate for a handshake could not be loaded; the reason is logged apart.
    pub const CERTIFICATE_CALLBACK: OpensslError =
        OpensslError(Reason::Mistake(0x179, "cert cb error"));

    /// Returns the failure behind an error of a stream after the handshake; `None` for errors of the socket.
    pub fn of_stream(error: &io::Error) -> Option<OpensslError> {
        let inner = error.get_ref()?;
        inner.downcast_ref::<Error>().map(OpensslError::from)
    }

    /// Returns the failure of a peer whose first bytes are no handshake.
    pub fn of_first_bytes(bytes: &[u8]) -> OpensslError {
        const PLAIN: [&[u8]; 4] = [b"GET ", b"POST ", b"HEAD ", b"PUT "];
        const RECORDS: [[u8; 2]; 3] = [[0x14, 3], [0x15, 3], [0x17, 3]];
        let (number, text) = match bytes {
            _ if PLAIN.iter().any(|word| bytes.starts_with(word)) => (0x9c, "http request"),
            _ if bytes.starts_with(b"CONNE") => (0x9b, "https proxy request"),
            _ if RECORDS.iter().any(|record| bytes.starts_with(record)) => UNEXPECTED_MESSAGE,
            _ => WRONG_VERSION_NUMBER,
        };
        OpensslError(Reason::Mistake(number, text))
    }

    /// Returns whether there is no version of the protocol that both sides speak.
    pub fn is_no_common_protocol(&self) -> bool {
        matches!(self.0, Reason::Mistake(number, _) if number == UNSUPPORTED_PROTOCOL.0)
    }

    /// Returns whether there is no cipher that both sides accept.
    pub fn is_no_common_cipher(&self) -> bool {
        matches!(self.0, Reason::Mistake(number, _) if number == NO_SHARED_CIPHER.0)
    }

    /// Returns whether the peer does not accept this side's certificate (RFC 8446 section 6.2).
    pub fn is_rejected_certificate(&self) -> bool {
        matches!(self.0, Reason::Alert(42..=46 | 48))
    }

    /// Returns whether nginx logs the failure of a client at level `crit`, rather than `info`.
    pub fn is_severe(&self) -> bool {
        match self.0 {
            Reason::Alert(_) => false,
            Reason::Mistake(number, _) => SEVERE.contains(&number),
            Reason::Internal => true,
        }
    }
}

impl From<&Error> for OpensslError {
    fn from(error: &Error) -> OpensslError {
        let (number, text) = match error {
            Error::AlertReceived(alert) => return OpensslError(Reason::Alert(u8::from(*alert))),
            Error::InvalidMessage(message) => of_message(message),
            Error::PeerIncompatible(reason) => of_incompatible(reason),
            Error::PeerMisbehaved(reason) => of_misbehaved(reason),
            Error::InappropriateMessage { got_type, .. } => match u8::from(*got_type) {
                APPLICATION_DATA => (0xf5, "unexpected record"),
                _ => UNEXPECTED_MESSAGE,
            },
            Error::InappropriateHandshakeMessage { .. } => UNEXPECTED_MESSAGE,
            Error::DecryptError => (0x119, "decryption failed or bad record mac"),
            Error::PeerSentOversizedRecord => PACKET_TOO_LONG,
            Error::NoApplicationProtocol => (0xeb, "no application protocol"),
            Error::NoCertificatesPresented => (0xc7, "peer did not return a certificate"),
            Error::InvalidCertificate(CertificateError::BadSignature) => (0x7b, "bad signature"),
            Error::InvalidCertificate(_) => (0x86, "certificate verify failed"),
            _ => return OpensslError(Reason::Internal),
        };
        OpensslError(Reason::Mistake(number, text))
    }
}

/// The type of a record with application data (RFC 8446 section 5.1).
const APPLICATION_DATA: u8 = 23;

type Row = (u16, &'static str);

const UNEXPECTED_MESSAGE: Row = (0xf4, "unexpected message");
const PACKET_TOO_LONG: Row = (0xc6, "packet length too long");
const WRONG_VERSION_NUMBER: Row = (0x10b, "wrong version number");
const LENGTH_MISMATCH: Row = (0x9f, "length mismatch");
const BAD_EXTENSION: Row = (0x6e, "bad extension");
const UNSUPPORTED_PROTOCOL: Row = (0x102, "unsupported protocol");
const NO_SHARED_CIPHER: Row = (0xc1, "no shared cipher");
const NO_SIGNATURE_ALGORITHM: Row = (0x76, "no suitable signature algorithm");
const BAD_KEY_SHARE: Row = (0x6c, "bad key share");
const NO_KEY_SHARE: Row = (0x65, "no suitable key share");
const WRONG_SIGNATURE_TYPE: Row = (0x172, "wrong signature type");
const WRONG_CIPHER: Row = (0x105, "wrong cipher returned");
const BAD_PSK: Row = (0xdb, "bad psk");
const UNSOLICITED_EXTENSION: Row = (0xd9, "unsolicited extension");

/// Returns OpenSSL's number and text of a message that cannot be read.
fn of_message(message: &InvalidMessage) -> Row {
    match message {
        InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion => {
            WRONG_VERSION_NUMBER
        }
        InvalidMessage::MessageTooLarge => PACKET_TOO_LONG,
        InvalidMessage::HandshakePayloadTooLarge | InvalidMessage::CertificatePayloadTooLarge => {
            (0x98, "excessive message size")
        }
        InvalidMessage::InvalidEmptyPayload => UNEXPECTED_MESSAGE,
        InvalidMessage::UnexpectedMessage(_) => UNEXPECTED_MESSAGE,
        InvalidMessage::InvalidCcs => (0x104, "invalid ccs message"),
        InvalidMessage::InvalidKeyUpdate => (0x7a, "bad key update"),
        InvalidMessage::IllegalEmptyList("CipherSuites") => (0xb7, "no ciphers specified"),
        InvalidMessage::MissingData("CipherSuite") => (0x97, "error in received cipher list"),
        InvalidMessage::IllegalEmptyList("Compressions") => (0xbb, "no compression specified"),
        InvalidMessage::UnsupportedCompression => (0x101, "unsupported compression algorithm"),
        InvalidMessage::DuplicateExtension(_)
        | InvalidMessage::PreSharedKeyIsNotFinalExtension
        | InvalidMessage::UnknownHelloRetryRequestExtension
        | InvalidMessage::UnknownCertificateExtension
        | InvalidMessage::IllegalEmptyList(_)
        | InvalidMessage::IllegalEmptyValue => BAD_EXTENSION,
        InvalidMessage::InvalidServerName => (0x13f, "ssl3 ext invalid servername"),
        InvalidMessage::NoSignatureSchemes => NO_SIGNATURE_ALGORITHM,
        InvalidMessage::MissingKeyExchange => NO_KEY_SHARE,
        InvalidMessage::UnsupportedCurveType => (0x17a, "wrong curve"),
        InvalidMessage::UnsupportedKeyExchangeAlgorithm(_) => (0xfa, "unknown key exchange type"),
        _ => LENGTH_MISMATCH,
    }
}

/// Returns OpenSSL's number and text of a peer with which nothing can be negotiated.
fn of_incompatible(reason: &PeerIncompatible) -> Row {
    match reason {
        // Clients without the extension are nearly all older than TLS 1.2, which has it.
        PeerIncompatible::SignatureAlgorithmsExtensionRequired
        | PeerIncompatible::ServerDoesNotSupportTls12Or13
        | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
        | PeerIncompatible::SupportedVersionsExtensionRequired
        | PeerIncompatible::Tls12NotOffered
        | PeerIncompatible::Tls12NotOfferedOrEnabled
        | PeerIncompatible::Tls13RequiredForQuic => UNSUPPORTED_PROTOCOL,
        PeerIncompatible::NoCipherSuitesInCommon
        | PeerIncompatible::NoKxGroupsInCommon
        | PeerIncompatible::NamedGroupsExtensionRequired => NO_SHARED_CIPHER,
        PeerIncompatible::NoSignatureSchemesInCommon
        | PeerIncompatible::NoCertificateRequestSignatureSchemesInCommon => NO_SIGNATURE_ALGORITHM,
        PeerIncompatible::KeyShareExtensionRequired => NO_KEY_SHARE,
        PeerIncompatible::NullCompressionRequired => (0xbb, "no compression specified"),
        PeerIncompatible::NoEcPointFormatsInCommon
        | PeerIncompatible::EcPointsExtensionRequired
        | PeerIncompatible::UncompressedEcPointsRequired => {
            (0x9d, "tls invalid ecpointformat list")
        }
        PeerIncompatible::ExtendedMasterSecretExtensionRequired => (0x68, "inconsistent extms"),
        _ => BAD_EXTENSION,
    }
}

/// Returns OpenSSL's number and text of a peer that breaks the rules of TLS.
fn of_misbehaved(reason: &PeerMisbehaved) -> Row {
    use PeerMisbehaved as M;
    match reason {
        M::InvalidKeyShare | M::OfferedDuplicateKeyShares | M::WrongGroupForKeyShare => {
            BAD_KEY_SHARE
        }
        M::MissingKeyShare | M::SelectedUnofferedKxGroup => NO_KEY_SHARE,
        M::IllegalMiddleboxChangeCipherSpec => (0x104, "invalid ccs message"),
        M::IllegalTlsInnerPlaintext => (0x1bb, "bad record type"),
        M::IncorrectBinder => (0xfd, "binder does not verify"),
        M::KeyEpochWithPendingFragment => (0xb6, "not on record boundary"),
        M::MessageInterleavedWithHandshakeMessage => {
            (0x125, "mixed handshake and non handshake data")
        }
        M::MissingPskModesExtension => (0x136, "missing psk kex modes extension"),
        M::PskExtensionMustBeLast | M::MissingPskExtensionInSecondClientHello => BAD_EXTENSION,
        M::MissingBinderInPskExtension
        | M::PskExtensionWithMismatchedIdsAndBinders
        | M::SelectedInvalidPsk
        | M::SelectedUnofferedPsk => BAD_PSK,
        M::RefusedToFollowHelloRetryRequest => BAD_KEY_SHARE,
        M::ResumptionAttemptedWithVariedEms | M::ResumptionOfferedWithVariedEms => {
            (0x68, "inconsistent extms")
        }
        M::SignedKxWithWrongAlgorithm | M::SignedHandshakeWithUnadvertisedSigScheme => {
            WRONG_SIGNATURE_TYPE
        }
        M::SelectedUnofferedCipherSuite
        | M::SelectedDifferentCipherSuiteAfterRetry
        | M::SelectedUnusableCipherSuiteForVersion
        | M::CipherSuiteDifferedOnRetry
        | M::ResumptionOfferedWithVariedCipherSuite
        | M::ResumptionOfferedWithIncompatibleCipherSuite => WRONG_CIPHER,
        M::SelectedUnofferedCompression => (0x101, "unsupported compression algorithm"),
        M::AttemptedDowngradeToTls12WhenTls13IsSupported => (0x175, "inappropriate fallback"),
        M::SelectedTls12UsingTls13VersionExtension => (0x74, "bad protocol version number"),
        M::ServerNameMustContainOneHostName | M::DuplicateServerNameTypes => {
            (0x13f, "ssl3 ext invalid servername")
        }
        M::TooManyEmptyFragments => (0x12a, "record too small"),
        M::TooManyKeyUpdateRequests => (0x84, "too many key updates"),
        M::TooManyRenegotiationRequests => (0x153, "no renegotiation"),
        M::TooManyWarningAlertsReceived => (0x199, "too many warn alerts"),
        M::TooMuchEarlyDataReceived => (0xa4, "too much early data"),
        M::IllegalHelloRetryRequestWithNoChanges => (0xd6, "no change following hrr"),
        M::InvalidCertCompression | M::SelectedUnofferedCertCompression => {
            (0x6b, "bad decompression")
        }
        M::SelectedUnofferedApplicationProtocol | M::OfferedEmptyApplicationProtocol => {
            BAD_EXTENSION
        }
        M::UnsolicitedEncryptedExtension
        | M::UnsolicitedServerHelloExtension
        | M::UnsolicitedCertExtension
        | M::UnsolicitedSctList
        | M::UnexpectedCleartextExtension
        | M::DisallowedEncryptedExtension => UNSOLICITED_EXTENSION,
        _ => BAD_EXTENSION,
    }
}

/// Returns OpenSSL's text of an alert (IANA registry "TLS Alerts"); `None` for numbers that it has no text for.
fn alert(number: u8) -> Option<&'static str> {
    Some(match number {
        10 => "sslv3 alert unexpected message",
        20 => "sslv3 alert bad record mac",
        21 => "tlsv1 alert decryption failed",
        22 => "tlsv1 alert record overflow",
        30 => "sslv3 alert decompression failure",
        40 => "sslv3 alert handshake failure",
        41 => "sslv3 alert no certificate",
        42 => "sslv3 alert bad certificate",
        43 => "sslv3 alert unsupported certificate",
        44 => "sslv3 alert certificate revoked",
        45 => "sslv3 alert certificate expired",
        46 => "sslv3 alert certificate unknown",
        47 => "sslv3 alert illegal parameter",
        48 => "tlsv1 alert unknown ca",
        49 => "tlsv1 alert access denied",
        50 => "tlsv1 alert decode error",
        51 => "tlsv1 alert decrypt error",
        60 => "tlsv1 alert export restriction",
        70 => "tlsv1 alert protocol version",
        71 => "tlsv1 alert insufficient security",
        80 => "tlsv1 alert internal error",
        86 => "tlsv1 alert inappropriate fallback",
        90 => "tlsv1 alert user cancelled",
        100 => "tlsv1 alert no renegotiation",
        109 => "tlsv13 alert missing extension",
        110 => "tlsv1 unsupported extension",
        111 => "tlsv1 certificate unobtainable",
        112 => "tlsv1 unrecognized name",
        113 => "tlsv1 bad certificate status response",
        114 => "tlsv1 bad certificate hash value",
        115 => "tlsv1 alert unknown psk identity",
        116 => "tlsv13 alert certificate required",
        120 => "tlsv1 alert no application protocol",
        _ => return None,
    })
}

impl fmt::Display for OpensslError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Reason::Alert(number) => {
                let code = ALERT_BASE + u16::from(number);
                write!(f, "error:0A{code:06X}:SSL routines::")?;
                match alert(number) {
                    Some(text) => f.write_str(text)?,
                    None => write!(f, "reason({code})")?,
                }
                write!(f, ":SSL alert number {number}")
            }
            Reason::Mistake(code, text) => write!(f, "error:0A{code:06X}:SSL routines::{text}"),
            Reason::Internal => f.write_str("error:0A0C0103:SSL routines::internal error"),
        }
    }
}

impl error::Error for OpensslError {}
