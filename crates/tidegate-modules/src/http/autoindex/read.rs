//! What is in a directory.

use std::fs::{DirEntry, Metadata, ReadDir};
use std::io;
use std::time::UNIX_EPOCH;

/// Kinds of entries, in the order of lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Directory,
    File,
    /// A pipe, socket or device, or a link that leads nowhere.
    Other,
}

/// One line of a list. A link is what it leads to.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub name: Vec<u8>,
    pub kind: Kind,
    /// Seconds since 1970.
    pub modified: i64,
    pub size: u64,
}

/// All visible entries: directories first, each part by name.
///
/// # Errors
/// The directory cannot be read on.
pub(super) fn entries(directory: ReadDir) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for entry in directory {
        let entry = entry?;
        let name = entry.file_name().into_encoded_bytes();
        if name.starts_with(b".") {
            continue;
        }
        // What went away meanwhile is left out, and so is what may not be looked at.
        let Some(metadata) = describe(&entry) else { continue };
        let kind = match () {
            () if metadata.is_dir() => Kind::Directory,
            () if metadata.is_file() => Kind::File,
            () => Kind::Other,
        };
        entries.push(Entry { name, kind, modified: seconds(&metadata), size: metadata.len() });
    }
    sort(&mut entries);
    Ok(entries)
}

/// The order of lists.
pub(super) fn sort(entries: &mut [Entry]) {
    entries.sort_by(|one, other| {
        let key = |entry: &Entry| entry.kind != Kind::Directory;
        (key(one), &one.name).cmp(&(key(other), &other.name))
    });
}

fn describe(entry: &DirEntry) -> Option<Metadata> {
    std::fs::metadata(entry.path()).or_else(|_| entry.metadata()).ok()
}

/// When it was modified, seconds since 1970.
fn seconds(metadata: &Metadata) -> i64 {
    let Ok(modified) = metadata.modified() else { return 0 };
    match modified.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
        // Downwards, as with all times that have a fraction.
        Err(before) => {
            let before = before.duration();
            let whole = i64::try_from(before.as_secs()).unwrap_or(i64::MAX);
            -whole - i64::from(before.subsec_nanos() > 0)
        }
    }
}
