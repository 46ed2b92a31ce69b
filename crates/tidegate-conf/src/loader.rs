//! Access of the parser to files.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Source of configuration files.
pub trait Loader {
    /// Returns the content of a file. It is shared: a configuration may be large.
    ///
    /// # Errors
    /// As the operating system reports them; the parser prints them as nginx does.
    fn read(&self, path: &Path) -> io::Result<Arc<[u8]>>;

    /// Returns the paths that match a pattern, sorted by bytes; no match is no error.
    ///
    /// # Errors
    /// A directory cannot be read for another reason than that it does not exist.
    fn glob(&self, pattern: &str) -> io::Result<Vec<PathBuf>>;
}

/// Files that directives name, such as those with certificates and keys: their paths and contents. The code
/// that builds the server from a configuration provides them; they may come from another process.
pub trait NamedFiles {
    /// Returns the path of a file by its name as written, which need not be absolute.
    fn path_of(&self, name: &str) -> PathBuf;

    /// Returns the content of a small file, by its path.
    ///
    /// # Errors
    /// As the operating system reports them.
    fn content_of(&self, path: &Path) -> io::Result<Vec<u8>>;
}

/// The file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct FsLoader;

impl Loader for FsLoader {
    fn read(&self, path: &Path) -> io::Result<Arc<[u8]>> {
        std::fs::read(path).map(Arc::from)
    }

    fn glob(&self, pattern: &str) -> io::Result<Vec<PathBuf>> {
        glob::expand(pattern)
    }
}

pub(crate) mod glob;
