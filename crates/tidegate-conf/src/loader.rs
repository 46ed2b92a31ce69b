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
    /// When a directory cannot be read for another reason than that it does not exist.
    fn glob(&self, pattern: &str) -> io::Result<Vec<PathBuf>>;
}

/// Files that directives name, such as those with certificates and keys: where they lie, and their content.
/// Who builds the server from a configuration has them; they may come from another process.
pub trait NamedFiles {
    /// The path of a file by its name as written, which need not be absolute.
    fn path_of(&self, name: &str) -> PathBuf;

    /// The content of a small file, by its path.
    ///
    /// # Errors
    /// As the operating system reports them.
    fn content_of(&self, path: &Path) -> io::Result<Vec<u8>>;
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
