//! Lists what is stored, in pages. Keys are in the files alone, so a page reads the heads of files; it blocks, and its cost is
//! limited by the caller.

use std::fmt;

use bytes::Bytes;

use super::files::Examined;
use super::handle::Store;
use super::inner::StoreInner;
use crate::key::KeyHash;
use crate::purge::PurgeEffect;
use crate::times::Times;

/// Most bytes of keys of one page, so that long keys make it no larger than many.
const KEYS_BYTES_MAX: usize = 256 * 1024;

/// A place between two entries. The order is that of the index, which does not change with what is stored: an entry that is
/// there all the time is listed once, one that comes or goes while pages are read once or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListPosition {
    shard: usize,
    /// The last hash that was looked at.
    after: Option<KeyHash>,
}

impl fmt::Display for ListPosition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hash = self.after.map(|hash| hash.hexadecimal()).unwrap_or_default();
        write!(formatter, "{}-{hash}", self.shard)
    }
}

impl ListPosition {
    /// Parses what a position was written as.
    pub fn parse(text: &str) -> Option<ListPosition> {
        let (shard, hash) = text.split_once('-')?;
        let after = match hash {
            "" => None,
            hash => Some(KeyHash::from_hexadecimal(hash)?),
        };
        Some(ListPosition { shard: shard.parse().ok()?, after })
    }
}

/// What a page may cost.
#[derive(Clone, Copy, Debug)]
pub struct PageLimits {
    /// Most entries of it.
    pub entries: usize,
    /// Most files that are looked at.
    pub files: usize,
}

/// A stored entry.
#[derive(Clone, Debug)]
pub struct ListedEntry {
    /// The text of the key.
    pub key: Bytes,
    /// As given to the store.
    pub metadata: Bytes,
    /// Its times, as purges have changed them.
    pub times: Times,
    /// Bytes of the body.
    pub body_bytes: u64,
}

/// A part of a list; the last one has no next. A page may have no entries and a next one.
#[derive(Clone, Debug)]
pub struct ListedPage {
    /// In the order of the index.
    pub entries: Vec<ListedEntry>,
    /// Where the next page begins.
    pub next: Option<ListPosition>,
}

impl Store {
    /// Returns a page of the entries whose keys begin with `prefix`, from a position on. Files that are damaged or cannot be
    /// read, and entries that are purged, are left out. Blocks.
    pub fn list(&self, from: ListPosition, prefix: &[u8], limits: PageLimits) -> ListedPage {
        let (mut position, mut files, mut bytes) = (from, 0, 0);
        let mut entries = Vec::new();
        // Each round looks at a file or goes to the next shard.
        while let Some(mut hashes) = self.inner.index.with_files(position.shard) {
            hashes.sort_unstable();
            let seen = |hash: &KeyHash| position.after.is_some_and(|after| *hash <= after);
            let first = hashes.partition_point(seen);
            for hash in &hashes[first..] {
                if files >= limits.files
                    || entries.len() >= limits.entries
                    || bytes > KEYS_BYTES_MAX
                {
                    return ListedPage { entries, next: Some(position) };
                }
                files += 1;
                position.after = Some(*hash);
                if let Some(entry) = self.inner.listed(hash, prefix) {
                    bytes += entry.key.len();
                    entries.push(entry);
                }
            }
            position = ListPosition { shard: position.shard + 1, after: None };
        }
        ListedPage { entries, next: None }
    }
}

impl StoreInner {
    fn listed(&self, hash: &KeyHash, prefix: &[u8]) -> Option<ListedEntry> {
        // The failure of the disk has been counted.
        let Examined::Whole(opened) = self.examine_header(hash, &self.path_of(hash)).ok()? else {
            return None;
        };
        let header = &opened.header;
        if !header.key_text.starts_with(prefix) {
            return None;
        }
        let times = match self.purges.effect_on(&header.key_text, &header.metadata, 0).0 {
            PurgeEffect::Kept => header.times,
            PurgeEffect::Stale(at) => header.times.stale_since(at),
            PurgeEffect::Gone => return None,
        };
        Some(ListedEntry {
            // Copies: the originals are parts of the whole beginning of the file.
            key: Bytes::copy_from_slice(&header.key_text),
            metadata: Bytes::copy_from_slice(&header.metadata),
            times,
            body_bytes: header.body_bytes,
        })
    }
}
