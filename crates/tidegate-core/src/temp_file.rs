//! Temporary files below the `*_temp_path` directories, named and spread over levels as nginx names them.

#[cfg(test)]
mod tests;

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_os::file;

/// Attempts before a name clash counts as an error: leftovers of a crash are few.
const ATTEMPTS_MAX: usize = 1000;

/// Permissions of the files: what clients send and are sent is nobody else's affair.
const FILE_MODE: u32 = 0o600;
/// Permissions of the directories.
const DIRECTORY_MODE: u32 = 0o700;

/// Creates a new file for reading and writing: ten digits, directories named by the last digits.
pub fn create(directory: &Path, levels: &[usize]) -> io::Result<(File, PathBuf)> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    for _ in 0..ATTEMPTS_MAX {
        let name = format!("{:010}", NEXT.fetch_add(1, Ordering::Relaxed));
        let path = place(directory, &name, levels);
        match open_new(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
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

/// `…/9/98/0123456789` for levels 1 and 2: digits are taken from the end of the name.
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
