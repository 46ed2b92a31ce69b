//! Reads the entries of a directory.

use std::fs::{DirEntry, Metadata, ReadDir};
use std::io;
use std::time::UNIX_EPOCH;

/// The kind of an entry, in the order of listings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListedKind {
    Directory,
    File,
    /// A pipe, socket or device, or a broken symbolic link.
    Other,
}

/// One line of a listing. A symbolic link is listed as its target.
#[derive(Clone, Debug)]
pub(super) struct ListedEntry {
    pub name: Vec<u8>,
    pub kind: ListedKind,
    /// Modification time, seconds since 1970.
    pub modified: i64,
    pub size: u64,
}

/// Returns all visible entries: directories first, each group by name.
///
/// # Errors
/// The directory cannot be read to its end.
pub(super) fn entries(directory: ReadDir) -> io::Result<Vec<ListedEntry>> {
    let mut entries = Vec::new();
    for entry in directory {
        let entry = entry?;
        let name = entry.file_name().into_encoded_bytes();
        if name.starts_with(b".") {
            continue;
        }
        // Entries that were removed meanwhile, and those without permission, are left out.
        let Some(metadata) = describe(&entry) else { continue };
        let kind = match () {
            () if metadata.is_dir() => ListedKind::Directory,
            () if metadata.is_file() => ListedKind::File,
            () => ListedKind::Other,
        };
        entries.push(ListedEntry {
            name,
            kind,
            modified: seconds(&metadata),
            size: metadata.len(),
        });
    }
    sort(&mut entries);
    Ok(entries)
}

/// Sorts entries in the order of listings.
pub(super) fn sort(entries: &mut [ListedEntry]) {
    entries.sort_by(|one, other| {
        let key = |entry: &ListedEntry| entry.kind != ListedKind::Directory;
        (key(one), &one.name).cmp(&(key(other), &other.name))
    });
}

fn describe(entry: &DirEntry) -> Option<Metadata> {
    std::fs::metadata(entry.path()).or_else(|_| entry.metadata()).ok()
}

/// Returns the modification time, seconds since 1970.
fn seconds(metadata: &Metadata) -> i64 {
    let Ok(modified) = metadata.modified() else { return 0 };
    match modified.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
        // Rounded down, also before 1970.
        Err(before) => {
            let before = before.duration();
            let whole = i64::try_from(before.as_secs()).unwrap_or(i64::MAX);
            -whole - i64::from(before.subsec_nanos() > 0)
        }
    }
}
