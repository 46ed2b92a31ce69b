//! Temporary files below the `*_temp_path` directories, with nginx's names and levels of directories.

#[cfg(test)]
mod tests;

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_os::file;

/// Attempts before existing names are an error.
const ATTEMPTS_MAX: usize = 1000;
/// The most numbers that are passed over where a name exists: files that stay (`client_body_in_file_only on`) have numbers
/// in a row, and a process begins with the first one.
const JUMP_MAX: u64 = 1 << 20;

/// Permissions of the files: the bodies of requests and responses are readable by the worker's user alone.
const FILE_MODE: u32 = 0o600;
/// Permissions of the directories.
const DIRECTORY_MODE: u32 = 0o700;

/// Creates a file for reading and writing. Its name has ten digits; the directories are named by the last digits,
/// with `levels` digits each, and are created where needed.
///
/// # Errors
/// Those of the file system, and no free name after 1000 attempts.
pub fn create(directory: &Path, levels: &[usize]) -> io::Result<(File, PathBuf)> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    for _ in 0..ATTEMPTS_MAX {
        let name = format!("{:010}", NEXT.fetch_add(1, Ordering::Relaxed));
        let path = place(directory, &name, levels);
        match open_new(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                NEXT.fetch_add(tidegate_rt::random::below(JUMP_MAX), Ordering::Relaxed);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if let Some(parent) = path.parent() {
                    file::create_directory(parent, DIRECTORY_MODE, true)?;
                }
                return open_new(&path).map(|made| (made, path));
            }
            result => return result.map(|made| (made, path)),
        }
    }
    Err(io::Error::other("no free name for a temporary file"))
}

fn open_new(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    file::with_mode(&mut options, FILE_MODE).open(path)
}

/// Returns `…/9/78/0123456789` for levels 1 and 2: digits are taken from the end of the name.
fn place(directory: &Path, name: &str, levels: &[usize]) -> PathBuf {
    let mut path = directory.to_path_buf();
    let mut end = name.len();
    for level in levels {
        let start = end.saturating_sub(*level);
        path.push(&name[start..end]);
        end = start;
    }
    path.push(name);
    path
}
