//! Pairs that are loaded from files and texts.

use std::path::Path;
use std::time::{Duration, Instant};

use tidegate_rt::clock;

use super::{PemSource, load};
use crate::pair_cache::PairCache;

/// Returns a certificate and its key (PEM).
pub(crate) fn own(name: &str) -> (String, String) {
    let key = rcgen::KeyPair::generate().expect("a key");
    let params = rcgen::CertificateParams::new(vec![name.to_owned()]).expect("a name");
    (params.self_signed(&key).expect("signed").pem(), key.serialize_pem())
}

/// A directory that is removed with it.
pub(crate) struct Scratch(std::path::PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("tidegate-tls-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a directory");
        Scratch(path)
    }

    /// Puts a pair in the place of another, by names, so that the files are other ones.
    pub(crate) fn put(&self, name: &str, pair: &(String, String)) {
        for (extension, text) in [("crt", &pair.0), ("key", &pair.1)] {
            let (new, file) = (self.0.join("new"), self.0.join(format!("{name}.{extension}")));
            std::fs::write(&new, text).expect("written");
            std::fs::rename(new, file).expect("renamed");
        }
    }

    pub(crate) fn sources(&self, name: &str) -> (PemSource, PemSource) {
        let source = |extension| PemSource::new(format!("{name}.{extension}").as_bytes(), &self.0);
        (source("crt"), source("key"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns the first bytes of the certificate that is loaded, or the error's text without the directory.
pub(crate) fn loaded(
    scratch: &Scratch,
    cache: Option<&PairCache>,
    name: &str,
    now: Instant,
) -> Result<Vec<u8>, String> {
    let (certificate, key) = scratch.sources(name);
    let pair = load(cache, &certificate, &key, &[], now);
    let directory = format!("{}/", scratch.0.display());
    let pair = pair.map_err(|error| error.to_string().replace(&directory, ""))?;
    Ok(pair.pair().chain().next().expect("a certificate").to_vec())
}

#[test]
fn sources_are_files_below_the_directory_or_texts() {
    let directory = Path::new("/conf");
    for (value, expected) in [
        ("a.pem", PemSource::File("/conf/a.pem".into())),
        ("/b/a.pem", PemSource::File("/b/a.pem".into())),
        ("data:text", PemSource::Text(b"text".to_vec())),
        ("data:", PemSource::Text(Vec::new())),
        ("engine:a:b", PemSource::OpenSsl("engine:a:b".to_owned())),
        ("store:a:b", PemSource::OpenSsl("store:a:b".to_owned())),
    ] {
        assert_eq!(PemSource::new(value.as_bytes(), directory), expected);
    }
}

#[test]
fn texts_are_loaded_and_never_shown() {
    let (certificate, key) = own("a");
    let text = |text: &str| PemSource::new(format!("data:{text}").as_bytes(), Path::new("/"));
    let now = clock::now();
    assert!(load(None, &text(&certificate), &text(&key), &[], now).is_ok());
    let error = load(None, &text(&certificate), &text("secret"), &[], now).expect_err("no key");
    let error = error.to_string();
    assert!(error.starts_with("cannot load certificate key \"data:...\": PEM_read_bio"), "{error}");
}

#[test]
fn errors_name_the_file_and_the_reason() {
    let scratch = Scratch::new("errors");
    let (own, other) = (own("a"), self::own("b"));
    scratch.put("mixed", &(own.0.clone(), other.1));
    scratch.put("text", &("text".to_owned(), own.1.clone()));
    scratch.put("nokey", &(own.0, "text".to_owned()));
    for (name, expected) in [
        (
            "none",
            "cannot load certificate \"none.crt\": open() failed (2: No such file or directory)",
        ),
        ("mixed", "SSL_use_PrivateKey(\"mixed.key\") failed (SSL: key values mismatch)"),
        (
            "text",
            "cannot load certificate \"text.crt\": PEM_read_bio_X509_AUX() failed (SSL: no start line:Expecting: CERTIFICATE)",
        ),
        (
            "nokey",
            "cannot load certificate key \"nokey.key\": PEM_read_bio_PrivateKey() failed (SSL: unsupported:No supported data to decode. Input type: PEM)",
        ),
    ] {
        assert_eq!(loaded(&scratch, None, name, clock::now()), Err(expected.to_owned()));
    }
    let store = PemSource::new(b"store:a", Path::new("/"));
    let (certificate, _) = scratch.sources("mixed");
    let error = load(None, &certificate, &store, &[], clock::now()).expect_err("a store");
    assert_eq!(error.to_string(), "cannot load certificate key \"store:a\": not supported");
}

/// A file that is replaced between two handshakes makes a certificate that belongs to no cached key.
#[test]
fn parts_that_do_not_match_are_read_again() {
    let scratch = Scratch::new("again");
    let (cache, now) = (PairCache::new(1, Duration::MAX, Duration::MAX), clock::now());
    scratch.put("a", &own("a"));
    let first = loaded(&scratch, Some(&cache), "a", now).expect("the first");
    scratch.put("a", &own("a"));
    let second = loaded(&scratch, Some(&cache), "a", now).expect("the second");
    assert_ne!(first, second, "the cache has the key of the first, and room for one object");
}
