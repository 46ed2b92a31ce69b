//! A stamp of a path, to detect changes without opening it, where that costs less: not on this system, where `statx`
//! does the same.

use std::path::Path;

use crate::types::{Seen, Stat};

/// A stamp; there is none on this system.
#[derive(Debug)]
pub enum PathStamp {}

impl PathStamp {
    /// Records the object at a path: never here.
    pub fn take(_path: &Path, _from: usize) -> Option<PathStamp> {
        None
    }

    /// Records that nothing is at a path: never here.
    pub fn take_absent(_path: &Path) -> Option<PathStamp> {
        None
    }

    /// Whether this is the file that was described.
    pub fn is_file(&self, _stat: &Stat) -> bool {
        match *self {}
    }

    /// Whether a directory was there.
    pub fn is_directory(&self) -> bool {
        match *self {}
    }

    /// Whether nothing was there.
    pub fn is_absence(&self) -> bool {
        match *self {}
    }

    /// Whether its last change is older than `nanos` since 1970.
    pub fn is_older(&self, _nanos: i128) -> bool {
        match *self {}
    }

    /// Compares the path with the stamp.
    pub fn check(&self) -> Seen {
        match *self {}
    }

    /// Confirms that the name was found to be the file's own.
    pub fn confirm(&self, _names: u64) {
        match *self {}
    }
}
