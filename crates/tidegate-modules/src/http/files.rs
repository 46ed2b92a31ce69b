//! What is at a path: the one place where `try_files`, `index` and `if (-f …)` ask the file system.

use std::io;

use tidegate_core::builder::os_error;
use tidegate_core::{Exchange, Level, Step};
use tidegate_os::FileKind;

use super::static_files;

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    Directory,
    /// A socket, device or pipe.
    Other,
}

/// What a test tells of a file.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    pub kind: Kind,
    /// Executable by its owner, as `if (-x …)` asks.
    pub executable: bool,
}

/// Looks at a path as the present location has it: by the cache of open files and `disable_symlinks`.
pub fn look(x: &mut Exchange, path: &[u8]) -> io::Result<Found> {
    let tested = static_files::test(x, path)?;
    let kind = match tested.kind {
        FileKind::File => Kind::File,
        FileKind::Directory => Kind::Directory,
        FileKind::Symlink | FileKind::Other => Kind::Other,
    };
    Ok(Found { kind, executable: tested.executable })
}

/// The folder at a path, to be read: nothing but its own name leads there. `from` is the length of the path's
/// begin that the configuration wrote (`file_path::root_length`). Waits for the disk.
///
/// # Errors
/// Absent, no folder, another name than its own.
pub fn read_folder(path: &[u8], from: usize) -> io::Result<std::fs::ReadDir> {
    let path = tidegate_os::path::of(path);
    tidegate_os::path::check(path, from)?;
    std::fs::read_dir(path)
}

/// Looks at a path of the configuration's, links followed.
pub fn file_test(path: &[u8]) -> io::Result<Found> {
    let metadata = std::fs::metadata(tidegate_os::path::of(path))?;
    let kind = match () {
        () if metadata.is_file() => Kind::File,
        () if metadata.is_dir() => Kind::Directory,
        () => Kind::Other,
    };
    Ok(Found { kind, executable: tidegate_os::file::mode(&metadata) & 0o100 != 0 })
}

/// True for errors that mean "there is no such file", so that another may be tried.
pub fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::InvalidFilename
            | io::ErrorKind::InvalidInput
    )
}

/// True for errors that mean "not for you": no permission, or a link that must not be followed.
pub fn is_refused(error: &io::Error) -> bool {
    static_files::is_refused(static_files::errno(error))
}

/// Logs why a folder could not be listed, and answers.
pub fn folder_failed(x: &Exchange, folder: &[u8], error: &io::Error) -> Step<'static> {
    let (status, level) = match () {
        () if is_absent(error) => (404, Level::Error),
        () if is_refused(error) => (403, Level::Error),
        () => (500, Level::Crit),
    };
    if status != 404 || x.settings().log_not_found {
        let folder = String::from_utf8_lossy(folder.strip_suffix(b"/").unwrap_or(folder));
        let error = os_error(error);
        x.log(level, format_args!("opendir() \"{folder}\" failed ({error})"));
    }
    Step::Status(status)
}
