//! How the parser reaches files.

use std::io;
use std::path::{Path, PathBuf};

/// Source of configuration files.
pub trait Loader {
    /// The content of a file.
    ///
    /// # Errors
    /// As the operating system reports them; the parser prints them as nginx does.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// The paths that match a pattern, sorted by bytes; none is no error.
    ///
    /// # Errors
    /// When a folder cannot be read for another reason than that it does not exist.
    fn glob(&self, pattern: &str) -> io::Result<Vec<PathBuf>>;
}

/// The file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct FsLoader;

impl Loader for FsLoader {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        std::fs::read(path)
    }

    fn glob(&self, pattern: &str) -> io::Result<Vec<PathBuf>> {
        glob::expand(pattern)
    }
}

pub(crate) mod glob;
