//! Certificates and keys that are named while the server runs: `ssl_certificate $ssl_server_name.pem;`. They are read
//! for each handshake, or found in a [`PairCache`].
//!
//! ```text
//! value of a template → PemSource → (PairCache) → load → LoadedPair → KeyPair of a handshake
//! ```

#[cfg(test)]
pub(crate) mod tests;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use std::{error, fmt};

use rustls::sign::SigningKey;
use tidegate_os::file;

use crate::error::KeyPairError;
use crate::key_pair::{self, KeyPair};
use crate::pair_cache::PairCache;
use crate::pem::{self, PemError, PrivateKey};

/// Where the PEM text of a certificate or a key is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PemSource {
    /// In a file.
    File(PathBuf),
    /// In the value itself, behind `data:`.
    Text(Vec<u8>),
    /// In an engine or a store of OpenSSL (`engine:`, `store:`), which do not exist here; the value.
    OpenSsl(String),
}

/// The certificates of a file, the server's own first (DER).
pub(crate) type Chain = Arc<Vec<Vec<u8>>>;

/// A private key that is ready to sign.
pub(crate) struct ReadyKey {
    private: PrivateKey,
    signing: Arc<dyn SigningKey>,
}

/// A certificate with those between it and its root, and its key, as they were found at a time. Clones share them.
#[derive(Clone)]
pub struct LoadedPair {
    pair: KeyPair,
    key: Arc<ReadyKey>,
}

/// The reason why a certificate and its key cannot be used, in nginx's words; files are named by their paths.
#[derive(Debug)]
pub enum LoadError {
    /// The certificate cannot be read or parsed.
    Certificate(String, PemError),
    /// The key cannot be read, decrypted or parsed.
    Key(String, PemError),
    /// The key, whose name this is, belongs to another certificate or cannot sign.
    Pair(String, KeyPairError),
    /// The first certificate of this file is no X.509.
    NoCertificate(String, KeyPairError),
}

/// The state of a file by which a later one is recognised as unchanged: time of modification and inode, as nginx
/// compares them.
pub(crate) type FileStamp = (i64, u32, u64, u64);

/// The most bytes that are read of a file; a chain of certificates has a few thousand.
const FILE_BYTES_MAX: u64 = 1 << 20;

impl PemSource {
    /// Makes a source of a value; relative names of files are below `directory`.
    pub fn new(value: &[u8], directory: &Path) -> PemSource {
        if let Some(text) = value.strip_prefix(b"data:") {
            return PemSource::Text(text.to_vec());
        }
        let name = String::from_utf8_lossy(value);
        if name.starts_with("engine:") || name.starts_with("store:") {
            return PemSource::OpenSsl(name.into_owned());
        }
        PemSource::File(directory.join(&*name))
    }

    /// Returns the name for messages. A text may be a key and is not shown.
    fn name(&self) -> String {
        match self {
            PemSource::File(path) => path.display().to_string(),
            PemSource::Text(_) => "data:...".to_owned(),
            PemSource::OpenSsl(value) => value.clone(),
        }
    }

    fn read(&self) -> Result<(Vec<u8>, Option<FileStamp>), PemError> {
        match self {
            PemSource::Text(text) => Ok((text.clone(), None)),
            PemSource::OpenSsl(_) => Err(PemError::unsupported()),
            PemSource::File(path) => read_file(path).map_err(|error| PemError::unopened(&error)),
        }
    }

    /// Returns whether a file is as it was; a text always is.
    pub(crate) fn is_unchanged(&self, stamp: Option<FileStamp>) -> bool {
        match self {
            PemSource::File(path) => stamp.is_some() && stamp_of(path).ok() == stamp,
            _ => true,
        }
    }
}

/// Reads a file. Its state is taken before, so that a change in between is noticed later.
fn read_file(path: &Path) -> io::Result<(Vec<u8>, Option<FileStamp>)> {
    let stamp = stamp_of(path)?;
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok((bytes, Some(stamp)))
}

fn stamp_of(path: &Path) -> io::Result<FileStamp> {
    let stat = file::stat(path, true)?;
    Ok((stat.mtime_seconds, stat.mtime_nanos, stat.inode, stat.device))
}

impl LoadedPair {
    pub(crate) fn new(chain: &Chain, key: Arc<ReadyKey>) -> Result<LoadedPair, KeyPairError> {
        let pair = KeyPair::of(chain.to_vec(), key.signing.clone())?;
        Ok(LoadedPair { pair, key })
    }

    /// Returns the pair.
    pub fn pair(&self) -> &KeyPair {
        &self.pair
    }

    /// Returns the key (DER).
    pub fn key_der(&self) -> &[u8] {
        self.key.private.der()
    }
}

/// Loads a certificate and its key: from the cache where that has them, else from their files. It reads files, and
/// parsing and decrypting a key take time, so this is work for a thread pool.
///
/// What the cache has may be older than the other's file, and a file can be replaced between two reads: where the two
/// do not match, both are read again, once. Encrypted keys are not cached, as in nginx.
///
/// # Errors
/// Either cannot be read, parsed or decrypted, or they do not match.
pub fn load(
    cache: Option<&PairCache>,
    certificate: &PemSource,
    key: &PemSource,
    passwords: &[Vec<u8>],
    now: Instant,
) -> Result<LoadedPair, LoadError> {
    let loader = Loader { cache, certificate, key, passwords, now };
    match loader.load(false) {
        Err(LoadError::Pair(_, KeyPairError::Mismatch)) => loader.load(true),
        result => result,
    }
}

struct Loader<'a> {
    cache: Option<&'a PairCache>,
    certificate: &'a PemSource,
    key: &'a PemSource,
    passwords: &'a [Vec<u8>],
    now: Instant,
}

impl Loader<'_> {
    fn load(&self, afresh: bool) -> Result<LoadedPair, LoadError> {
        let (chain, key) = (self.chain(afresh)?, self.key(afresh)?);
        LoadedPair::new(&chain, key).map_err(|error| match error {
            KeyPairError::NoCertificate => LoadError::NoCertificate(self.certificate.name(), error),
            _ => LoadError::Pair(self.key.name(), error),
        })
    }

    fn chain(&self, afresh: bool) -> Result<Chain, LoadError> {
        if let (Some(cache), false) = (self.cache, afresh)
            && let Some(chain) = cache.chain(self.certificate, self.now, true)
        {
            return Ok(chain);
        }
        let failed = |error| LoadError::Certificate(self.certificate.name(), error);
        let (bytes, stamp) = self.certificate.read().map_err(failed)?;
        let chain = Arc::new(pem::certificates(&bytes).map_err(failed)?);
        if let Some(cache) = self.cache {
            cache.keep_chain(self.certificate, chain.clone(), stamp, self.now);
        }
        Ok(chain)
    }

    fn key(&self, afresh: bool) -> Result<Arc<ReadyKey>, LoadError> {
        if let (Some(cache), false) = (self.cache, afresh)
            && let Some(key) = cache.key(self.key, self.now, true)
        {
            return Ok(key);
        }
        let failed = |error| LoadError::Key(self.key.name(), error);
        let (bytes, stamp) = self.key.read().map_err(failed)?;
        let private = pem::private_key(&bytes, self.passwords).map_err(failed)?;
        let signing = key_pair::signing(&private);
        let signing = signing.map_err(|error| LoadError::Pair(self.key.name(), error))?;
        let key = Arc::new(ReadyKey { private, signing });
        if let (Some(cache), false) = (self.cache, pem::is_encrypted(&bytes)) {
            cache.keep_key(self.key, key.clone(), stamp, self.now);
        }
        Ok(key)
    }
}

impl fmt::Debug for LoadedPair {
    /// Writes it without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadedPair").field("pair", &self.pair).finish_non_exhaustive()
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Certificate(name, error) => f.write_str(&error.message("certificate", name)),
            LoadError::Key(name, error) => f.write_str(&error.message("certificate key", name)),
            LoadError::Pair(name, error) => {
                write!(f, "SSL_use_PrivateKey(\"{name}\") failed (SSL: {error})")
            }
            LoadError::NoCertificate(name, error) => {
                write!(f, "cannot load certificate \"{name}\": {error}")
            }
        }
    }
}

impl error::Error for LoadError {}
