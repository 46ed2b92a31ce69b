//! A stamp of a path: detects without opening it whether the object at the path is still there, and unchanged.
//!
//! One call by the full name (`NtQueryFullAttributesFile`) returns kind, size and times, at a cost that hardly depends
//! on the depth; opening a file and reading its name costs several times as much. It is made for each request, so it
//! reflects the present state, while notifications arrive late. It does not show that a directory above got another
//! spelling, under which the old name still leads to the same file; the directory's tree is watched for that
//! ([`super::tree`]).
//!
//! Only for objects on drives of this machine: the client of a network file system caches such results for seconds.

use std::path::Path;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use windows_sys::Wdk::Foundation::OBJECT_ATTRIBUTES;
use windows_sys::Wdk::Storage::FileSystem::{
    FILE_NETWORK_OPEN_INFORMATION, NtQueryFullAttributesFile,
};
use windows_sys::Win32::Foundation::{OBJ_CASE_INSENSITIVE, UNICODE_STRING};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_ATTRIBUTE_DIRECTORY, FILE_ATTRIBUTE_REPARSE_POINT, GetDriveTypeW, GetFullPathNameW,
};
use windows_sys::Win32::System::WindowsProgramming::{DRIVE_FIXED, DRIVE_RAMDISK};

use super::file::nanos;
use super::open;
use super::tree::{self, Tree};
use crate::names;
use crate::types::{FileKind, Seen, Stat};

/// The recorded state of a path.
#[derive(Debug)]
pub struct PathStamp {
    name: Name,
    facts: Facts,
    /// Where the name has to be the file's own: the tree of its directories, and the tree's count of renames when the
    /// name was checked.
    tree: Option<(Arc<Tree>, AtomicU64)>,
}

/// A name in the kernel's form: `\??\C:\www\file`.
#[derive(Debug)]
struct Name(Vec<u16>);

/// The result of one call. Replaced files differ in at least one time: giving a file another name changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Facts {
    attributes: u32,
    size: i64,
    created: i64,
    written: i64,
    changed: i64,
}

impl PathStamp {
    /// Records the object at a path, whose name has to be its own from byte `from` on. Call it before the object is
    /// opened, so that later changes are seen. `None` for links, where nothing exists, where the file system keeps no
    /// times of changes, and where the directories cannot be watched.
    pub fn take(path: &Path, from: usize) -> Option<PathStamp> {
        let bytes = path.as_os_str().as_encoded_bytes();
        let tree = tree::of(super::path::of(bytes.get(..from)?))?;
        let names = AtomicU64::new(tree.renames());
        let name = Name::of(path)?;
        let facts = name.facts().filter(Facts::shows_changes)?;
        is_near(path).then_some(PathStamp { name, facts, tree: Some((tree, names)) })
    }

    /// Records that nothing is at a path, by the directory that would hold it: a new entry changes its directory. If
    /// the directory is missing as well, the one above is used.
    pub fn take_absent(path: &Path) -> Option<PathStamp> {
        for directory in path.ancestors().skip(1).take(ANCESTORS_MAX) {
            let name = Name::of(directory)?;
            if let Some(facts) = name.facts() {
                let holds = facts.shows_changes() && facts.is_directory() && is_near(directory);
                return holds.then_some(PathStamp { name, facts, tree: None });
            }
        }
        None
    }

    /// Whether this is the file that was described.
    pub fn is_file(&self, stat: &Stat) -> bool {
        let Facts { size, written, changed, .. } = self.facts;
        let modified =
            i128::from(stat.mtime_seconds) * 1_000_000_000 + i128::from(stat.mtime_nanos);
        self.tree.is_some()
            && stat.kind == FileKind::File
            && !self.facts.is_directory()
            && u64::try_from(size).is_ok_and(|size| size == stat.size)
            && nanos(changed.max(written)) == stat.changed_nanos
            && nanos(written) == modified
    }

    /// Whether a directory was there.
    pub fn is_directory(&self) -> bool {
        self.tree.is_some() && self.facts.is_directory()
    }

    /// Whether nothing was there.
    pub fn is_absence(&self) -> bool {
        self.tree.is_none()
    }

    /// Whether its last change is older than `limit`, in nanoseconds since 1970.
    pub fn is_older(&self, limit: i128) -> bool {
        let Facts { created, written, changed, .. } = self.facts;
        nanos(created.max(written).max(changed)) < limit
    }

    /// Compares the path with the stamp.
    pub fn check(&self) -> Seen {
        #[cfg(feature = "name-rules")]
        if let Some(rule) = super::rules::chosen() {
            let own = rule.allows(&self.name.shown()) && self.name.facts() == Some(self.facts);
            return if own { Seen::Same } else { Seen::Changed };
        }
        let names = self.tree.as_ref().map(|(tree, _)| tree.renames());
        if self.name.facts() != Some(self.facts) {
            return Seen::Changed;
        }
        match (&self.tree, names) {
            (Some((tree, confirmed)), Some(names))
                if names != confirmed.load(Ordering::Acquire) || !tree.is_watched() =>
            {
                Seen::Renamed(names)
            }
            _ => Seen::Same,
        }
    }

    /// Confirms that the name was found to be the file's own, after [`Seen::Renamed`] returned this number.
    pub fn confirm(&self, names: u64) {
        if let Some((_, confirmed)) = &self.tree {
            confirmed.store(names, Ordering::Release);
        }
    }
}

impl Name {
    /// Converts a path with a drive.
    fn of(path: &Path) -> Option<Name> {
        let full = full(path.to_str()?)?;
        let has_drive = names::is_drive_path(String::from_utf16_lossy(&full).as_bytes());
        let units: Vec<u16> = PREFIX.encode_utf16().chain(full).collect();
        (has_drive && units.len() < UNITS_MAX).then_some(Name(units))
    }

    fn facts(&self) -> Option<Facts> {
        let bytes = u16::try_from(size_of_val(self.0.as_slice())).ok()?;
        let name = UNICODE_STRING {
            Length: bytes,
            MaximumLength: bytes,
            Buffer: self.0.as_ptr().cast_mut(),
        };
        let object = OBJECT_ATTRIBUTES {
            Length: size_of::<OBJECT_ATTRIBUTES>() as u32,
            ObjectName: &raw const name,
            Attributes: OBJ_CASE_INSENSITIVE,
            ..OBJECT_ATTRIBUTES::default()
        };
        let mut found = FILE_NETWORK_OPEN_INFORMATION::default();
        // SAFETY: all pointers are to values that live over the call; the name's buffer, which is only read,
        // has the length that is given.
        let status = unsafe { NtQueryFullAttributesFile(&raw const object, &raw mut found) };
        (status == 0).then_some(Facts {
            attributes: found.FileAttributes,
            size: found.EndOfFile,
            created: found.CreationTime,
            written: found.LastWriteTime,
            changed: found.ChangeTime,
        })
    }

    /// Returns the name without the kernel's prefix, ended by a zero unit.
    #[cfg(feature = "name-rules")]
    fn shown(&self) -> Vec<u16> {
        self.0.iter().skip(PREFIX.len()).copied().chain([0]).collect()
    }
}

impl Facts {
    /// Whether they show every change. For a link they describe the link, not its target.
    fn shows_changes(&self) -> bool {
        self.changed != 0 && self.attributes & FILE_ATTRIBUTE_REPARSE_POINT == 0
    }

    fn is_directory(&self) -> bool {
        self.attributes & FILE_ATTRIBUTE_DIRECTORY != 0
    }
}

/// Whether the target of a path, through any links, is on a drive of this machine.
fn is_near(path: &Path) -> bool {
    let Ok(found) = open::handle(path, 0, true).and_then(|opened| open::final_path(&opened)) else {
        return false;
    };
    let drive = found.strip_prefix(r"\\?\").and_then(|path| path.get(..3));
    drive.filter(|drive| names::is_drive_path(drive.as_bytes())).is_some_and(|drive| {
        let drive = super::wide(drive);
        // SAFETY: the text ends in a zero unit.
        let kind = unsafe { GetDriveTypeW(drive.as_ptr()) };
        matches!(kind, DRIVE_FIXED | DRIVE_RAMDISK)
    })
}

/// Returns the path from its drive on, with backslashes and without `.` and `..`.
fn full(path: &str) -> Option<Vec<u16>> {
    let path = super::wide(path);
    let mut buffer = vec![0_u16; path.len() + 512];
    let room = u32::try_from(buffer.len()).ok()?;
    // SAFETY: the path ends in a zero unit, and the buffer has `room` units; the last pointer may be null.
    let length = unsafe { GetFullPathNameW(path.as_ptr(), room, buffer.as_mut_ptr(), null_mut()) };
    buffer.truncate(length as usize);
    (0 < length && length < room).then_some(buffer)
}

const PREFIX: &str = r"\??\";
/// Units of a name: its length in bytes has 16 bits.
const UNITS_MAX: usize = 32_000;
/// Most directories above a missing one that are checked.
const ANCESTORS_MAX: usize = 128;
