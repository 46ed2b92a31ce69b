//! Certificates, private keys and pass phrases from the files that directives of TLS name.

use std::path::Path;

use pkcs8::EncryptedPrivateKeyInfoRef;
pub use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateRevocationListDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tidegate_conf::{Diagnostic, Word};

use crate::builder::{PlanBuilder, os_error};
use crate::x509::RevocationList;

/// Pass phrases tried for one key, as many as nginx takes.
const PASSWORDS_MAX: usize = 1000;

/// Reads a file of pass phrases (`ssl_password_file`).
///
/// # Errors
/// The file cannot be read.
pub fn passwords(plan: &PlanBuilder<'_>, file: &Word) -> Result<Vec<Vec<u8>>, Diagnostic> {
    let bytes = read_file(plan, file)?;
    let lines = bytes.split(|byte| *byte == b'\n');
    let lines = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    Ok(lines.filter(|line| !line.is_empty()).take(PASSWORDS_MAX).map(<[u8]>::to_vec).collect())
}

/// Reads a file that a directive names.
///
/// # Errors
/// `open() "X" failed (2: No such file or directory)`.
pub fn read_file(plan: &PlanBuilder<'_>, file: &Word) -> Result<Vec<u8>, Diagnostic> {
    let path = plan.conf_path(&file.display());
    plan.environment.resources.read(&path).map_err(|error| {
        let message = format!("open() \"{}\" failed ({})", path.display(), os_error(&error));
        Diagnostic::emerg(message).at(file.span)
    })
}

/// The certificates of a PEM argument, in order, at least one.
///
/// # Errors
/// In nginx's words, at the directive.
pub fn certificates(
    plan: &PlanBuilder<'_>,
    word: &Word,
) -> Result<Vec<CertificateDer<'static>>, Diagnostic> {
    let (name, bytes) = pem(plan, word, "certificate")?;
    let failed = |reason: &str| {
        let message = format!("cannot load certificate \"{name}\": {reason}");
        Diagnostic::emerg(message).at(word.span)
    };
    let chain: Result<Vec<_>, _> = match contains(&bytes, b"BEGIN TRUSTED CERTIFICATE") {
        false => CertificateDer::pem_slice_iter(&bytes).collect(),
        // OpenSSL's own format: its remarks on trust stand behind the certificate.
        true => {
            let text =
                String::from_utf8_lossy(&bytes).replace("TRUSTED CERTIFICATE", "CERTIFICATE");
            let sections = CertificateDer::pem_slice_iter(text.as_bytes());
            sections.map(|der| der.map(|der| bare(&der))).collect()
        }
    };
    let chain = chain.map_err(|error| failed(&format!("PEM_read_bio_X509() failed ({error})")))?;
    if chain.is_empty() {
        let reason = "PEM_read_bio_X509_AUX() failed (SSL: no start line:Expecting: CERTIFICATE)";
        return Err(failed(reason).label("no certificate in this file"));
    }
    Ok(chain)
}

fn bare(der: &CertificateDer<'_>) -> CertificateDer<'static> {
    crate::x509::first_element(der).unwrap_or(der).to_vec().into()
}

/// The lists of revoked certificates (DER) in a PEM file, at least one; each can be read.
///
/// # Errors
/// In nginx's words, at the directive.
pub fn revocation_lists(plan: &PlanBuilder<'_>, word: &Word) -> Result<Vec<Vec<u8>>, Diagnostic> {
    let path = plan.conf_path(&word.display());
    let name = path.display();
    let failed = |reason: &str| {
        let message = format!("X509_LOOKUP_load_file(\"{name}\") failed (SSL: {reason})");
        Diagnostic::emerg(message).at(word.span)
    };
    let bytes = plan.environment.resources.read(&path);
    let bytes = bytes.map_err(|error| failed(&os_error(&error)))?;
    let lists: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(&bytes).collect();
    let lists = lists.map_err(|error| failed(&error.to_string()))?;
    if lists.is_empty() {
        return Err(failed("no certificate or crl found").label("no revocation list in this file"));
    }
    if lists.iter().any(|list| RevocationList::parse(list).is_none()) {
        return Err(failed("bad revocation list"));
    }
    Ok(lists.iter().map(|list| list.to_vec()).collect())
}

/// The private key of a PEM argument, and how messages call its file.
///
/// # Errors
/// In nginx's words, at the directive.
pub fn private_key(
    plan: &PlanBuilder<'_>,
    word: &Word,
    passwords: &[Vec<u8>],
) -> Result<(String, PrivateKeyDer<'static>), Diagnostic> {
    for kind in ["engine:", "store:"] {
        if word.bytes.starts_with(kind.as_bytes()) {
            let name = word.display();
            let message = format!("cannot load certificate key \"{name}\": not supported");
            let diagnostic = Diagnostic::emerg(message).at(word.span);
            return Err(diagnostic.label(format!("there is no `{kind}`, only files")));
        }
    }
    let (name, bytes) = pem(plan, word, "certificate key")?;
    let failed = |reason: &str| {
        let reason = format!("PEM_read_bio_PrivateKey() failed (SSL: {reason})");
        let message = format!("cannot load certificate key \"{name}\": {reason}");
        Diagnostic::emerg(message).at(word.span)
    };
    if contains(&bytes, b"BEGIN ENCRYPTED PRIVATE KEY") {
        let key = decrypt(&bytes, passwords).map_err(|reason| {
            failed(&reason).help("`ssl_password_file` names the file with pass phrases")
        })?;
        return Ok((name, key));
    }
    if contains(&bytes, b"Proc-Type: 4,ENCRYPTED") {
        return Err(failed("unsupported encryption")
            .label("encrypted in OpenSSL's old format")
            .help("convert it: `openssl pkcs8 -topk8 -in old.key -out new.key`"));
    }
    let key = PrivateKeyDer::from_pem_slice(&bytes);
    let key =
        key.map_err(|_| failed("unsupported:No supported data to decode. Input type: PEM"))?;
    Ok((name, key))
}

/// The text of a PEM argument (a file's name or `data:…`) and how messages call it.
fn pem(plan: &PlanBuilder<'_>, word: &Word, what: &str) -> Result<(String, Vec<u8>), Diagnostic> {
    if let Some(data) = word.bytes.strip_prefix(b"data:") {
        return Ok(("data:...".to_owned(), data.to_vec()));
    }
    let path = plan.conf_path(&word.display());
    let name = path.display().to_string();
    match plan.environment.resources.read(Path::new(&path)) {
        Ok(bytes) => Ok((name, bytes)),
        Err(error) => {
            let reason = os_error(&error);
            let message = format!("cannot load {what} \"{name}\": open() failed ({reason})");
            Err(Diagnostic::emerg(message).at(word.span))
        }
    }
}

/// Decrypts a PKCS#8 key (RFC 5958 section 3) with the first pass phrase that fits.
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

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    memchr::memmem::find(bytes, text).is_some()
}
