//! The files of a configuration in one piece: the master reads them, the worker parses them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::loader::Loader;

/// All files that were read for one configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bundle {
    /// Files in order of reading.
    pub files: Vec<(PathBuf, Arc<[u8]>)>,
    /// Patterns with the paths that matched them.
    pub globs: Vec<(String, Vec<PathBuf>)>,
}

/// The reason why bytes are no bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BundleError {
    /// They do not begin with this version's mark.
    Foreign,
    /// They end too early, or continue after the end.
    Length,
    /// A path or pattern cannot be a path on this system.
    Path,
}

impl std::fmt::Display for BundleError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            BundleError::Foreign => "not a configuration bundle of this version",
            BundleError::Length => "configuration bundle has a wrong length",
            BundleError::Path => "configuration bundle holds an impossible path",
        })
    }
}

impl std::error::Error for BundleError {}

/// First bytes of a bundle; the digit is the version.
const MARK: &[u8] = b"tidegate-conf-1\n";

impl Bundle {
    /// Encodes the bundle: a mark, then counts, lengths (64 bits, little endian) and contents.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MARK.to_vec();
        push_length(&mut bytes, self.files.len());
        for (path, content) in &self.files {
            push_piece(&mut bytes, path.as_os_str().as_encoded_bytes());
            push_piece(&mut bytes, content);
        }
        push_length(&mut bytes, self.globs.len());
        for (pattern, paths) in &self.globs {
            push_piece(&mut bytes, pattern.as_bytes());
            push_length(&mut bytes, paths.len());
            for path in paths {
                push_piece(&mut bytes, path.as_os_str().as_encoded_bytes());
            }
        }
        bytes
    }

    /// Decodes the bytes of [`Bundle::to_bytes`].
    ///
    /// # Errors
    /// The bytes are not those of a bundle.
    pub fn from_bytes(bytes: &[u8]) -> Result<Bundle, BundleError> {
        let rest = bytes.strip_prefix(MARK).ok_or(BundleError::Foreign)?;
        let mut input = Input { rest };
        let mut bundle = Bundle::default();
        for _ in 0..input.length()? {
            let path = input.path()?;
            bundle.files.push((path, input.piece()?.into()));
        }
        for _ in 0..input.length()? {
            let pattern = input.text()?.to_owned();
            let mut paths = Vec::new();
            for _ in 0..input.length()? {
                paths.push(input.path()?);
            }
            bundle.globs.push((pattern, paths));
        }
        if input.rest.is_empty() { Ok(bundle) } else { Err(BundleError::Length) }
    }
}

/// A loader of a [`Bundle`]: a file that it does not contain does not exist.
#[derive(Clone, Debug, Default)]
pub struct BundleLoader {
    files: HashMap<PathBuf, Arc<[u8]>>,
    globs: HashMap<String, Vec<PathBuf>>,
}

impl BundleLoader {
    /// Makes a loader of a bundle's files.
    pub fn new(bundle: Bundle) -> Self {
        BundleLoader {
            files: bundle.files.into_iter().collect(),
            globs: bundle.globs.into_iter().collect(),
        }
    }
}

impl Loader for BundleLoader {
    fn read(&self, path: &Path) -> io::Result<Arc<[u8]>> {
        self.files.get(path).cloned().ok_or_else(|| io::Error::from_raw_os_error(NOT_FOUND))
    }

    fn glob(&self, pattern: &str) -> io::Result<Vec<PathBuf>> {
        Ok(self.globs.get(pattern).cloned().unwrap_or_default())
    }
}

/// `ENOENT`, and `ERROR_FILE_NOT_FOUND` on Windows.
const NOT_FOUND: i32 = 2;

/// A loader that calls another one and records the files.
pub struct RecordingLoader<L> {
    inner: L,
    bundle: RefCell<Bundle>,
}

impl<L: Loader> RecordingLoader<L> {
    /// Makes a loader that records the files of `inner`.
    pub fn new(inner: L) -> Self {
        RecordingLoader { inner, bundle: RefCell::default() }
    }

    /// Returns the files that were read until now.
    pub fn into_bundle(self) -> Bundle {
        self.bundle.into_inner()
    }
}

impl<L: Loader> Loader for RecordingLoader<L> {
    fn read(&self, path: &Path) -> io::Result<Arc<[u8]>> {
        let content = self.inner.read(path)?;
        self.bundle.borrow_mut().files.push((path.to_owned(), content.clone()));
        Ok(content)
    }

    fn glob(&self, pattern: &str) -> io::Result<Vec<PathBuf>> {
        let paths = self.inner.glob(pattern)?;
        self.bundle.borrow_mut().globs.push((pattern.to_owned(), paths.clone()));
        Ok(paths)
    }
}

fn push_length(bytes: &mut Vec<u8>, length: usize) {
    bytes.extend_from_slice(&(length as u64).to_le_bytes());
}

fn push_piece(bytes: &mut Vec<u8>, piece: &[u8]) {
    push_length(bytes, piece.len());
    bytes.extend_from_slice(piece);
}

/// A reader of a bundle's bytes. No length allocates more than the bytes that are present.
struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    fn length(&mut self) -> Result<usize, BundleError> {
        let (length, rest) = self.rest.split_first_chunk::<8>().ok_or(BundleError::Length)?;
        self.rest = rest;
        usize::try_from(u64::from_le_bytes(*length)).map_err(|_| BundleError::Length)
    }

    fn piece(&mut self) -> Result<&'a [u8], BundleError> {
        let length = self.length()?;
        let (piece, rest) = self.rest.split_at_checked(length).ok_or(BundleError::Length)?;
        self.rest = rest;
        Ok(piece)
    }

    fn text(&mut self) -> Result<&'a str, BundleError> {
        std::str::from_utf8(self.piece()?).map_err(|_| BundleError::Path)
    }

    fn path(&mut self) -> Result<PathBuf, BundleError> {
        path_from_bytes(self.piece()?).ok_or(BundleError::Path)
    }
}

/// Makes a path of bytes: any bytes on Unix, UTF-8 elsewhere.
#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "fails on other systems")]
pub(crate) fn path_from_bytes(bytes: &[u8]) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(bytes)))
}

/// Makes a path of bytes: any bytes on Unix, UTF-8 elsewhere.
#[cfg(not(unix))]
pub(crate) fn path_from_bytes(bytes: &[u8]) -> Option<PathBuf> {
    std::str::from_utf8(bytes).ok().map(PathBuf::from)
}
