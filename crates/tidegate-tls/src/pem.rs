//! Certificates and private keys out of PEM texts (RFC 7468), whoever read them.

use std::io;

use pkcs8::EncryptedPrivateKeyInfoRef;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tidegate_os::os_error;

/// Why a text cannot be used, in OpenSSL's words, and what else is to be told of it.
#[derive(Debug)]
pub struct Fault {
    pub reason: String,
    pub label: Option<&'static str>,
    pub help: Option<&'static str>,
}

/// The certificates of a text, in order, at least one.
///
/// # Errors
/// There is none, or one cannot be decoded.
pub fn certificates(bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, Fault> {
    let chain: Result<Vec<_>, _> = match contains(bytes, b"BEGIN TRUSTED CERTIFICATE") {
        false => CertificateDer::pem_slice_iter(bytes).collect(),
        // OpenSSL's own format: its remarks on trust stand behind the certificate.
        true => {
            let text = String::from_utf8_lossy(bytes).replace("TRUSTED CERTIFICATE", "CERTIFICATE");
            let sections = CertificateDer::pem_slice_iter(text.as_bytes());
            sections.map(|der| der.map(|der| bare(&der))).collect()
        }
    };
    let chain =
        chain.map_err(|error| Fault::new(format!("PEM_read_bio_X509() failed ({error})")))?;
    if chain.is_empty() {
        let reason = "PEM_read_bio_X509_AUX() failed (SSL: no start line:Expecting: CERTIFICATE)";
        let label = Some("no certificate in this file");
        return Err(Fault { label, ..Fault::new(reason.to_owned()) });
    }
    Ok(chain)
}

fn bare(der: &CertificateDer<'_>) -> CertificateDer<'static> {
    crate::x509::first_element(der).unwrap_or(der).to_vec().into()
}

/// The private key of a text, decrypted with the first pass phrase that fits.
///
/// # Errors
/// There is none, or it cannot be decoded or decrypted.
pub fn private_key(bytes: &[u8], passwords: &[Vec<u8>]) -> Result<PrivateKeyDer<'static>, Fault> {
    let failed =
        |reason: &str| Fault::new(format!("PEM_read_bio_PrivateKey() failed (SSL: {reason})"));
    if contains(bytes, b"BEGIN ENCRYPTED PRIVATE KEY") {
        return decrypt(bytes, passwords).map_err(|reason| {
            let help = Some("`ssl_password_file` names the file with pass phrases");
            Fault { help, ..failed(&reason) }
        });
    }
    if contains(bytes, b"Proc-Type: 4,ENCRYPTED") {
        return Err(Fault {
            label: Some("encrypted in OpenSSL's old format"),
            help: Some("convert it: `openssl pkcs8 -topk8 -in old.key -out new.key`"),
            ..failed("unsupported encryption")
        });
    }
    PrivateKeyDer::from_pem_slice(bytes)
        .map_err(|_| failed("unsupported:No supported data to decode. Input type: PEM"))
}

/// Decrypts a PKCS#8 key (RFC 5958 section 3).
fn decrypt(bytes: &[u8], passwords: &[Vec<u8>]) -> Result<PrivateKeyDer<'static>, String> {
    // The PEM reader knows the plain label only.
    let text = String::from_utf8_lossy(bytes).replace("ENCRYPTED PRIVATE KEY", "PRIVATE KEY");
    let section = PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes());
    let section = section.map_err(|error| error.to_string())?;
    let encrypted = EncryptedPrivateKeyInfoRef::try_from(section.secret_pkcs8_der());
    let encrypted = encrypted.map_err(|error| error.to_string())?;
    let mut reason = "no pass phrase".to_owned();
    for password in passwords {
        match encrypted.decrypt(password) {
            Ok(key) => return Ok(PrivatePkcs8KeyDer::from(key.as_bytes().to_vec()).into()),
            Err(_) => reason = "bad decrypt".to_owned(),
        }
    }
    Err(reason)
}

impl Fault {
    fn new(reason: String) -> Fault {
        Fault { reason, label: None, help: None }
    }

    /// The file with the text cannot be read.
    pub fn unopened(error: &io::Error) -> Fault {
        Fault::new(format!("open() failed ({})", os_error(error)))
    }

    /// In nginx's words; `what` is "certificate" or "certificate key".
    pub fn told(&self, what: &str, name: &str) -> String {
        format!("cannot load {what} \"{name}\": {}", self.reason)
    }
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    memchr::memmem::find(bytes, text).is_some()
}
