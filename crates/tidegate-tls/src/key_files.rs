//! Certificates, private keys and pass phrases of the files in TLS directives.

#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;

use aws_lc_rs::digest;
use rustls_pki_types::CertificateRevocationListDer;
use rustls_pki_types::pem::PemObject as _;
use tidegate_conf::{Diagnostic, NamedFiles, Word};
use tidegate_os::os_error;

use crate::pem::{self, PrivateKey};
use crate::x509::RevocationList;

/// The most pass phrases that are tried for one key, as in nginx.
const PASSWORDS_MAX: usize = 1000;

/// What to do where a key was in an engine or a store.
const KEY_ADVICE: &str = "put the key into a PEM file that only root can read: the worker gets it from the master; it \
                          may be encrypted, with `ssl_password_file`";

/// Where systems have the certificates that they trust: Debian, Fedora, Alpine, SUSE.
const SYSTEM_BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
];

/// Returns the certificates (DER) that the system trusts; empty where it has none. `read` reads a file.
pub fn system_certificates(read: impl Fn(&Path) -> io::Result<Vec<u8>>) -> Vec<Vec<u8>> {
    let found = SYSTEM_BUNDLES.iter().find_map(|file| read(Path::new(file)).ok());
    found.and_then(|bytes| pem::certificates(&bytes).ok()).unwrap_or_default()
}

/// Returns the pass phrases in the content of a file (`ssl_password_file`): one a line, without empty lines,
/// the first thousand.
pub fn passwords(bytes: &[u8]) -> Vec<Vec<u8>> {
    let lines = bytes.split(|byte| *byte == b'\n');
    let lines = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    lines.filter(|line| !line.is_empty()).take(PASSWORDS_MAX).map(<[u8]>::to_vec).collect()
}

/// Returns the digest of a certificate's text, its key's and the pass phrases, by which the same pair is recognised.
/// `None` where a file cannot be read: the functions below report that.
pub fn digest(
    files: &dyn NamedFiles,
    (certificate, key): (&Word, &Word),
    passwords: &[Vec<u8>],
) -> Option<[u8; 32]> {
    let certificate = pem_text(files, certificate, "certificate").ok()?.1;
    let key = pem_text(files, key, "certificate key").ok()?.1;
    let mut context = digest::Context::new(&digest::SHA256);
    for part in [&certificate, &key].into_iter().chain(passwords) {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    context.finish().as_ref().first_chunk().copied()
}

/// Returns the certificates (DER) of a PEM argument, in order, at least one.
///
/// # Errors
/// In nginx's words, at the directive.
pub fn certificates(files: &dyn NamedFiles, word: &Word) -> Result<Vec<Vec<u8>>, Diagnostic> {
    let (name, bytes) = pem_text(files, word, "certificate")?;
    pem::certificates(&bytes).map_err(|fault| fault.at(word, "certificate", &name))
}

/// Returns the lists of revoked certificates (DER) in a PEM file, at least one; each can be parsed.
///
/// # Errors
/// In nginx's words, at the directive.
pub fn revocation_lists(files: &dyn NamedFiles, word: &Word) -> Result<Vec<Vec<u8>>, Diagnostic> {
    let path = files.path_of(&word.display());
    let name = path.display();
    let failed = |reason: &str| {
        let message = format!("X509_LOOKUP_load_file(\"{name}\") failed (SSL: {reason})");
        Diagnostic::emerg(message).at(word.span)
    };
    let bytes = files.content_of(&path);
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

/// Returns the private key of a PEM argument, and the name of its file for messages.
///
/// # Errors
/// In nginx's words, at the directive.
pub fn private_key(
    files: &dyn NamedFiles,
    word: &Word,
    passwords: &[Vec<u8>],
) -> Result<(String, PrivateKey), Diagnostic> {
    for kind in ["engine:", "store:"] {
        if word.bytes.starts_with(kind.as_bytes()) {
            let name = word.display();
            let message = format!("cannot load certificate key \"{name}\": not supported");
            let diagnostic = Diagnostic::emerg(message).at(word.span);
            let diagnostic = diagnostic.label(format!("there is no `{kind}`, only files"));
            return Err(diagnostic.help(KEY_ADVICE));
        }
    }
    let (name, bytes) = pem_text(files, word, "certificate key")?;
    match pem::private_key(&bytes, passwords) {
        Ok(key) => Ok((name, key)),
        Err(fault) => Err(fault.at(word, "certificate key", &name)),
    }
}

impl pem::PemError {
    fn at(self, word: &Word, what: &str, name: &str) -> Diagnostic {
        let mut diagnostic = Diagnostic::emerg(self.message(what, name)).at(word.span);
        if let Some(label) = self.label {
            diagnostic = diagnostic.label(label);
        }
        match self.help {
            Some(help) => diagnostic.help(help),
            None => diagnostic,
        }
    }
}

/// Returns the text of a PEM argument (a file's name or `data:…`) and its name for messages.
fn pem_text(
    files: &dyn NamedFiles,
    word: &Word,
    what: &str,
) -> Result<(String, Vec<u8>), Diagnostic> {
    if let Some(data) = word.bytes.strip_prefix(b"data:") {
        return Ok(("data:...".to_owned(), data.to_vec()));
    }
    let path = files.path_of(&word.display());
    let name = path.display().to_string();
    match files.content_of(&path) {
        Ok(bytes) => Ok((name, bytes)),
        Err(error) => Err(pem::PemError::unopened(&error).at(word, what, &name)),
    }
}
