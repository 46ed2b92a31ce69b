//! An entry of the cache: what is at a path, with a file's contents and validators.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use tidegate_codec::{Headers, Known, conditional, date};
use tidegate_core::body::SENDFILE_ABOVE;
use tidegate_core::{Body, FileRange, Resident};
use tidegate_os::open::HOLDS_NAME;
use tidegate_os::path_stamp::PathStamp;
use tidegate_os::{FileKind, Stat, error, file, open};

/// The symbolic links that a path may contain (`disable_symlinks`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Links {
    #[default]
    Follow,
    /// `on`: none.
    Refuse,
    /// `if_not_owner`: those with the same owner as their target.
    SameOwner,
}

/// The treatment of links in one path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LinkRule {
    pub links: Links,
    /// Bytes at the path's beginning that are not checked (`from=`, and `root` where files have aliases).
    pub from: usize,
}

/// The location of a file's bytes.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Memory(Bytes),
    /// An open file, with a copy in memory for connections that cannot use `sendfile`.
    File(Arc<File>, Option<Arc<Resident>>),
}

/// A regular file, open or read.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub size: u64,
    /// Modification time, seconds since 1970.
    pub modified: i64,
    pub content: Content,
    /// `Last-Modified` and `ETag`, ready to be copied into a response.
    pub head: Headers,
    stat: Stat,
}

/// What is at a path.
#[derive(Debug)]
pub(crate) enum EntryKind {
    File(OpenFile),
    Directory,
    /// A FIFO, socket or device: never opened.
    Other,
    /// The error number of the system.
    Failed(i32),
}

/// The state of a path; in the cache it is valid until its node changes.
#[derive(Debug)]
pub(crate) struct Entry {
    pub what: EntryKind,
    /// Whether its owner may execute it, for `if (-x …)`.
    pub executable: bool,
    /// Whether events report changes; else the name is checked each time.
    pub(super) watched: bool,
    /// Stamp that makes this check cheap, where the system has such a thing.
    pub(super) path_stamp: Option<PathStamp>,
    pub(super) valid: AtomicBool,
    /// Whether it was used since the last round of eviction.
    pub(super) used: AtomicBool,
    /// Time of the last check, milliseconds since 1970, for `open_file_cache_valid`.
    pub(super) checked: AtomicU64,
}

impl OpenFile {
    /// Makes a body of the whole file.
    pub(crate) fn body(&self) -> Body {
        match &self.content {
            Content::Memory(bytes) => Body::from(bytes.clone()),
            Content::File(..) if self.size == 0 => Body::Empty,
            Content::File(file, resident) => Body::File(range_of(file, resident, 0, self.size)),
        }
    }

    /// Returns its bytes in memory.
    pub(crate) fn memory(&self) -> usize {
        match &self.content {
            Content::Memory(bytes) => bytes.len(),
            Content::File(_, resident) => resident.as_ref().map_or(0, |it| it.bytes.len()),
        }
    }

    /// Returns whether it keeps a descriptor open.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.content, Content::File(..))
    }

    pub(super) fn is_same(&self, stat: &Stat) -> bool {
        self.stat == *stat
    }

    /// Returns whether it is old enough for a later change to show in its times.
    pub(super) fn is_settled(&self, now_millis: u64) -> bool {
        let settled = settled_nanos(now_millis);
        self.stat.changed_nanos < settled && i128::from(self.modified) * 1_000_000_000 < settled
    }
}

impl Entry {
    /// Queries the file system. A file is opened, and read if it has at most `memory_max` bytes. May block on a
    /// disk if that is not 0.
    pub(crate) fn load(path: &[u8], rule: LinkRule, memory_max: u64) -> Entry {
        match query_path(path, rule) {
            Err(error) => Entry::of(EntryKind::Failed(errno(&error)), false),
            Ok(stat) => {
                let what = match stat.kind {
                    FileKind::File => open_file(path, rule, memory_max),
                    FileKind::Directory => Ok(EntryKind::Directory),
                    FileKind::Symlink | FileKind::Other => Ok(EntryKind::Other),
                };
                let what = what.unwrap_or_else(|error| EntryKind::Failed(errno(&error)));
                Entry::of(what, stat.mode & 0o100 != 0)
            }
        }
    }

    fn of(what: EntryKind, executable: bool) -> Entry {
        Entry {
            what,
            executable,
            watched: false,
            path_stamp: None,
            valid: AtomicBool::new(true),
            used: AtomicBool::new(false),
            checked: AtomicU64::new(0),
        }
    }

    /// Keeps the path stamp that was taken before it was loaded, if it shows the same file and will show changes.
    pub(super) fn set_path_stamp(&mut self, path_stamp: PathStamp, now_millis: u64) {
        let suits = match &self.what {
            EntryKind::File(file) => path_stamp.is_file(&file.stat),
            EntryKind::Directory => path_stamp.is_directory(),
            EntryKind::Failed(code) => error::is_missing(*code) && path_stamp.is_absence(),
            EntryKind::Other => false,
        };
        if suits && path_stamp.is_older(settled_nanos(now_millis)) {
            self.path_stamp = Some(path_stamp);
        }
    }

    pub(super) fn is_valid(&self) -> bool {
        self.valid.load(Ordering::Acquire)
    }

    /// Returns the file, if it is one.
    pub(crate) fn file(&self) -> Option<&OpenFile> {
        match &self.what {
            EntryKind::File(file) => Some(file),
            EntryKind::Directory | EntryKind::Other | EntryKind::Failed(_) => None,
        }
    }
}

/// Queries the file at a path, under the rule for links.
pub(crate) fn query_path(path: &[u8], rule: LinkRule) -> io::Result<Stat> {
    let name = tidegate_os::path::of(path);
    match rule.links {
        Links::Follow => open::stat_own(name, rule.from),
        links => {
            let owner = links == Links::SameOwner;
            file::fstat(open::open_checking_links(name, rule.from, owner, true)?)
        }
    }
}

/// Does the same as [`query_path`], but returns `None` where it might block on a disk.
pub(super) fn query_nonblocking(path: &[u8], rule: LinkRule) -> Option<io::Result<Stat>> {
    let name = tidegate_os::path::of(path);
    match rule.links {
        Links::Follow => open::stat_if_cached(name, rule.from),
        _ => open::is_name_cached(name).then(|| query_path(path, rule)),
    }
}

fn open_file(path: &[u8], rule: LinkRule, memory_max: u64) -> io::Result<EntryKind> {
    let name = tidegate_os::path::of(path);
    let file = match rule.links {
        Links::Follow => open::open_own(name, rule.from)?,
        links => open::open_checking_links(name, rule.from, links == Links::SameOwner, false)?,
    };
    let stat = file::fstat(&file)?;
    match stat.kind {
        FileKind::File => {}
        FileKind::Directory => return Ok(EntryKind::Directory),
        FileKind::Symlink | FileKind::Other => return Ok(EntryKind::Other),
    }
    let bytes = match stat.size <= memory_max {
        true => read_small(&file, stat.size),
        false => None,
    };
    let content = match bytes {
        Some(bytes) if HOLDS_NAME || stat.size <= SENDFILE_ABOVE => Content::Memory(bytes),
        bytes => Content::File(Arc::new(file), bytes.map(|bytes| Arc::new(Resident::new(bytes)))),
    };
    let mut head = Headers::with_capacity(96, 2);
    head.push_known(Known::LastModified, &date::format_http(stat.mtime_seconds));
    let mut etag = Vec::with_capacity(32);
    conditional::write_etag(stat.mtime_seconds, stat.size, &mut etag);
    head.push_known(Known::Etag, &etag);
    Ok(EntryKind::File(OpenFile {
        size: stat.size,
        modified: stat.mtime_seconds,
        content,
        head,
        stat,
    }))
}

/// Makes a chunk of a range of an open file, with its copy in memory.
pub(super) fn range_of(
    file: &Arc<File>,
    resident: &Option<Arc<Resident>>,
    offset: u64,
    length: u64,
) -> FileRange {
    FileRange { resident: resident.clone(), ..FileRange::new(file.clone(), offset, length) }
}

/// Reads a small file; `None` when it cannot be read or its size changes.
fn read_small(file: &File, size: u64) -> Option<Bytes> {
    let size = usize::try_from(size).ok()?;
    // One byte more than expected, to detect a file that has grown.
    let mut bytes = vec![0; size + 1];
    let mut filled = 0;
    loop {
        match file::pread(file, bytes.get_mut(filled..)?, filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(_) => return None,
        }
        if filled > size {
            return None;
        }
    }
    if filled != size {
        return None;
    }
    bytes.truncate(size);
    Some(Bytes::from(bytes))
}

/// Returns the time (nanoseconds since 1970) before which times are old enough for a later change to show, whatever
/// clock the file system has.
fn settled_nanos(now_millis: u64) -> i128 {
    i128::from(now_millis).saturating_sub(SETTLE_MILLIS).saturating_mul(1_000_000)
}

/// Returns the system's number of an error.
pub(crate) fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(error::INVALID)
}

/// The coarsest clock of a file system in use is that of FAT: 2 seconds.
const SETTLE_MILLIS: i128 = 2500;
