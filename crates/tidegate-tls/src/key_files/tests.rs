//! Errors of directives with key files.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use tidegate_conf::{Diagnostic, NamedFiles, SourceMap, Span, Word};

use super::{PASSWORDS_MAX, certificates, passwords, private_key, revocation_lists};

/// Files of a directory `/conf`.
struct Files(HashMap<&'static str, &'static str>);

impl NamedFiles for Files {
    fn path_of(&self, name: &str) -> PathBuf {
        Path::new("/conf").join(name)
    }

    fn content_of(&self, path: &Path) -> io::Result<Vec<u8>> {
        let name = path.strip_prefix("/conf").ok().and_then(Path::to_str).unwrap_or_default();
        let found = self.0.get(name).map(|text| text.as_bytes().to_vec());
        found.ok_or_else(|| io::Error::from_raw_os_error(2))
    }
}

const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nMAMCAQE=\n-----END CERTIFICATE-----\n";
const LIST: &str = "-----BEGIN X509 CRL-----\nMAMCAQE=\n-----END X509 CRL-----\n";

fn files() -> Files {
    Files(HashMap::from([("a.pem", CERTIFICATE), ("list.pem", LIST), ("empty.pem", "")]))
}

/// Returns a place other than the empty one.
fn place() -> Span {
    let file = SourceMap::new().add_fragment("test", b"name".to_vec()).expect("a file");
    Span { file, start: 1, end: 3 }
}

fn word(text: &str) -> Word {
    Word { bytes: text.as_bytes().to_vec(), span: place(), quoted: false }
}

/// Checks the beginning of the message; file names are the system's.
fn check<T>(found: Result<T, Diagnostic>, expected: &str) {
    let Err(found) = found else { panic!("no mistake: {expected}") };
    let message = found.message.replace('\\', "/");
    assert!(message.starts_with(expected), "{message}\n{expected}");
    assert_eq!(found.span, Some(place()));
}

#[test]
fn certificates_are_files_or_data() {
    let expected = vec![vec![0x30, 3, 2, 1, 1]];
    assert_eq!(certificates(&files(), &word("a.pem")).ok(), Some(expected.clone()));
    let data = word(&format!("data:{CERTIFICATE}"));
    assert_eq!(certificates(&files(), &data).ok(), Some(expected));
    check(
        certificates(&files(), &word("none.pem")),
        "cannot load certificate \"/conf/none.pem\": open() failed (2: ",
    );
    check(
        certificates(&files(), &word("empty.pem")),
        "cannot load certificate \"/conf/empty.pem\": PEM_read_bio_X509_AUX() failed",
    );
    check(
        certificates(&files(), &word("data:")),
        "cannot load certificate \"data:...\": PEM_read_bio_X509_AUX() failed",
    );
}

#[test]
fn keys_are_files_or_data() {
    let key = |text: &str| private_key(&files(), &word(text), &[]);
    check(key("engine:a:b"), "cannot load certificate key \"engine:a:b\": not supported");
    check(key("store:a"), "cannot load certificate key \"store:a\": not supported");
    check(key("none.pem"), "cannot load certificate key \"/conf/none.pem\": open() failed (2: ");
    check(
        key("a.pem"),
        "cannot load certificate key \"/conf/a.pem\": PEM_read_bio_PrivateKey() failed",
    );
}

#[test]
fn revocation_lists_must_be_readable() {
    let list = |text: &str| revocation_lists(&files(), &word(text));
    check(list("none.pem"), "X509_LOOKUP_load_file(\"/conf/none.pem\") failed (SSL: 2: ");
    check(
        list("a.pem"),
        "X509_LOOKUP_load_file(\"/conf/a.pem\") failed (SSL: no certificate or crl found)",
    );
    check(
        list("list.pem"),
        "X509_LOOKUP_load_file(\"/conf/list.pem\") failed (SSL: bad revocation list)",
    );
}

#[test]
fn pass_phrases_are_lines() {
    for (text, expected) in [("", &[][..]), ("a", &["a"]), ("a\n\nb\r\n c \n", &["a", "b", " c "])]
    {
        let expected: Vec<Vec<u8>> = expected.iter().map(|word| word.as_bytes().to_vec()).collect();
        assert_eq!(passwords(text.as_bytes()), expected, "{text:?}");
    }
    assert_eq!(passwords("a\n".repeat(PASSWORDS_MAX + 1).as_bytes()).len(), PASSWORDS_MAX);
}
