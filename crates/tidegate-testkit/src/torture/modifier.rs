//! Another process in the directory of a cache: changes, truncates, replaces and removes files that a server has open.

use std::fs::{self, FileTimes, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::collect;
use super::object::Random;

/// The last part of a file, where block sums and the ends of bodies are.
const TAIL_BYTES: u64 = 64;

/// Changes one file below the directory in some way. A file that the server removes meanwhile is no error.
pub(super) fn modify(directory: &Path, random: &mut Random) {
    let mut sizes = std::collections::BTreeMap::new();
    collect(directory, &mut sizes);
    // Files that are being written have an ending.
    let files: Vec<_> = sizes.into_iter().filter(|(path, _)| path.extension().is_none()).collect();
    let Some((path, bytes)) = files.get(random.below(files.len() as u64) as usize) else { return };
    let other = files.get(random.below(files.len() as u64) as usize).map_or(path, |(path, _)| path);
    let _ = change(path, *bytes, other, random);
}

fn change(path: &Path, bytes: u64, other: &Path, random: &mut Random) -> io::Result<()> {
    let at = match random.below(4) {
        0 => bytes.saturating_sub(1 + random.below(TAIL_BYTES)),
        _ => random.below(bytes),
    };
    match random.below(16) {
        0 => OpenOptions::new().write(true).open(path)?.set_len(at),
        1 => OpenOptions::new()
            .append(true)
            .open(path)
            .and_then(|file| file.write_all_at(b"more", bytes)),
        2 => replace(path, |spare| damaged_copy(path, spare, at)),
        3 => replace(path, |spare| fs::copy(other, spare).map(drop)),
        4 => fs::remove_file(path),
        5 | 6 => touched_back(path, at),
        7 => fs::set_permissions(path, Permissions::from_mode(0o640)),
        8 => OpenOptions::new().write(true).open(path)?.set_modified(std::time::UNIX_EPOCH),
        9..=11 => there_and_back(path, at),
        _ => overwrite(path, at, random.next()),
    }
}

/// New bytes in the middle of the file.
fn overwrite(path: &Path, at: u64, noise: u64) -> io::Result<()> {
    OpenOptions::new().write(true).open(path)?.write_all_at(&noise.to_le_bytes(), at)
}

/// Other bytes for a moment, then those of before.
fn there_and_back(path: &Path, at: u64) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let mut before = [0; 8];
    file.read_exact_at(&mut before, at)?;
    file.write_all_at(&before.map(|byte| !byte), at)?;
    file.write_all_at(&before, at)
}

/// Other bytes under the times of before.
fn touched_back(path: &Path, at: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    let metadata = file.metadata()?;
    file.write_all_at(b"other", at)?;
    let times = FileTimes::new().set_modified(metadata.modified()?);
    file.set_times(times.set_accessed(metadata.accessed()?))
}

fn damaged_copy(path: &Path, spare: &Path, at: u64) -> io::Result<()> {
    fs::copy(path, spare)?;
    overwrite(spare, at, 0)
}

fn replace(path: &Path, make: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    let spare: PathBuf = path.with_extension("modifier");
    make(&spare)?;
    fs::rename(&spare, path)
}
