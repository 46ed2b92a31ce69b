//! Certificates and private keys of PEM texts (RFC 7468).

#[cfg(test)]
mod tests;

use std::{error, fmt, io};

use pkcs8::EncryptedPrivateKeyInfoRef;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tidegate_os::os_error;

/// The reason why a text cannot be used as a certificate or a key, in words for the log; for a configuration
/// also the label at its place, and advice.
#[derive(Debug)]
pub struct PemError {
    /// The reason in OpenSSL's words.
    reason: String,
    /// The label at the place of the text in a configuration.
    pub(crate) label: Option<&'static str>,
    /// The advice.
    pub(crate) help: Option<&'static str>,
}

/// A private key in the format of its text: PKCS#8 (RFC 5958), PKCS#1 or SEC1. Whether it can sign is checked
/// when it becomes part of a [`KeyPair`](crate::KeyPair). `Debug` does not show it.
pub struct PrivateKey(pub(crate) PrivateKeyDer<'static>);

impl PrivateKey {
    /// Returns the key (DER).
    pub fn der(&self) -> &[u8] {
        self.0.secret_der()
    }
}

impl fmt::Debug for PrivateKey {
    /// Writes it without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrivateKey").finish_non_exhaustive()
    }
}

/// Returns the certificates (DER) of a text, in order, at least one.
///
/// # Errors
/// There is none, or one cannot be decoded.
pub fn certificates(bytes: &[u8]) -> Result<Vec<Vec<u8>>, PemError> {
    let chain: Result<Vec<_>, _> = match contains(bytes, b"BEGIN TRUSTED CERTIFICATE") {
        false => {
            CertificateDer::pem_slice_iter(bytes).map(|der| der.map(|der| der.to_vec())).collect()
        }
        // OpenSSL's own format: its trust settings follow the certificate.
        true => {
            let text = String::from_utf8_lossy(bytes).replace("TRUSTED CERTIFICATE", "CERTIFICATE");
            let sections = CertificateDer::pem_slice_iter(text.as_bytes());
            sections.map(|der| der.map(|der| bare(&der).to_vec())).collect()
        }
    };
    let chain =
        chain.map_err(|error| PemError::new(format!("PEM_read_bio_X509() failed ({error})")))?;
    if chain.is_empty() {
        let reason = "PEM_read_bio_X509_AUX() failed (SSL: no start line:Expecting: CERTIFICATE)";
        let label = Some("no certificate in this file");
        return Err(PemError { label, ..PemError::new(reason.to_owned()) });
    }
    Ok(chain)
}

fn bare<'a>(der: &'a CertificateDer<'_>) -> &'a [u8] {
    crate::x509::first_element(der).unwrap_or(der)
}

/// Returns the private key of a text, decrypted with the first matching pass phrase.
///
/// # Errors
/// There is none, or it cannot be decoded or decrypted.
pub fn private_key(bytes: &[u8], passwords: &[Vec<u8>]) -> Result<PrivateKey, PemError> {
    let failed =
        |reason: &str| PemError::new(format!("PEM_read_bio_PrivateKey() failed (SSL: {reason})"));
    if is_encrypted(bytes) {
        return decrypt(bytes, passwords).map(PrivateKey).map_err(|error| {
            let help = Some("`ssl_password_file` names the file with pass phrases");
            PemError { help, ..failed(&error.to_string()) }
        });
    }
    if contains(bytes, b"Proc-Type: 4,ENCRYPTED") {
        return Err(PemError {
            label: Some("encrypted in OpenSSL's old format"),
            help: Some("convert it: `openssl pkcs8 -topk8 -in old.key -out new.key`"),
            ..failed("unsupported encryption")
        });
    }
    PrivateKeyDer::from_pem_slice(bytes)
        .map(PrivateKey)
        .map_err(|_| failed("unsupported:No supported data to decode. Input type: PEM"))
}

/// Returns whether a text has an encrypted private key.
pub(crate) fn is_encrypted(bytes: &[u8]) -> bool {
    contains(bytes, b"BEGIN ENCRYPTED PRIVATE KEY")
}

/// Decrypts a PKCS#8 key (RFC 5958 section 3).
fn decrypt(bytes: &[u8], passwords: &[Vec<u8>]) -> Result<PrivateKeyDer<'static>, DecryptError> {
    // The PEM reader supports the plain label only.
    let text = String::from_utf8_lossy(bytes).replace("ENCRYPTED PRIVATE KEY", "PRIVATE KEY");
    let section = PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes());
    let section = section.map_err(DecryptError::Pem)?;
    let encrypted = EncryptedPrivateKeyInfoRef::try_from(section.secret_pkcs8_der());
    let encrypted = encrypted.map_err(DecryptError::Der)?;
    let mut error = DecryptError::NoPassPhrase;
    for password in passwords {
        match encrypted.decrypt(password) {
            Ok(key) => return Ok(PrivatePkcs8KeyDer::from(key.as_bytes().to_vec()).into()),
            Err(_) => error = DecryptError::WrongPassPhrase,
        }
    }
    Err(error)
}

/// The reason why an encrypted private key cannot be decrypted.
#[derive(Debug)]
enum DecryptError {
    /// It is no PEM section; the library's words.
    Pem(rustls_pki_types::pem::Error),
    /// It is no `EncryptedPrivateKeyInfo`; the library's words.
    Der(pkcs8::Error),
    NoPassPhrase,
    /// No pass phrase matches.
    WrongPassPhrase,
}

impl fmt::Display for DecryptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecryptError::Pem(error) => write!(f, "{error}"),
            DecryptError::Der(error) => write!(f, "{error}"),
            DecryptError::NoPassPhrase => f.write_str("no pass phrase"),
            DecryptError::WrongPassPhrase => f.write_str("bad decrypt"),
        }
    }
}

impl error::Error for DecryptError {}

impl PemError {
    fn new(reason: String) -> PemError {
        PemError { reason, label: None, help: None }
    }

    /// Makes the error for a file that cannot be read.
    pub fn unopened(error: &io::Error) -> PemError {
        PemError::new(format!("open() failed ({})", os_error(error)))
    }

    /// Makes the error for a key of an OpenSSL engine or store.
    pub(crate) fn unsupported() -> PemError {
        PemError::new("not supported".to_owned())
    }

    /// Returns the error in nginx's words; `what` is "certificate" or "certificate key".
    pub fn message(&self, what: &str, name: &str) -> String {
        format!("cannot load {what} \"{name}\": {}", self.reason)
    }
}

impl fmt::Display for PemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl error::Error for PemError {}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    memchr::memmem::find(bytes, text).is_some()
}
