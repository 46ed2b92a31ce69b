//! How far the loader's walk over the cache directory has come.

use std::path::PathBuf;

use super::books::Restoring;
use super::options::Options;
use crate::disk::DirectoryItem;
use crate::key::KeyHash;

/// How far the walk has come.
pub(super) struct Loader {
    pub(super) restoring: Option<Restoring>,
    pub(super) directories: Vec<Directory>,
    pub(super) items: Vec<DirectoryItem>,
    /// The directory that the items are in.
    pub(super) place: Place,
    /// After the walk: remembered files that were not met.
    pub(super) unseen: Vec<KeyHash>,
    pub(super) shards_checked: usize,
}

pub(super) struct Directory {
    pub(super) path: PathBuf,
    pub(super) place: Place,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// So many directories below the root of the cache.
    Cache(usize),
    TemporaryDirectory,
}

impl Loader {
    pub(super) fn new(options: &Options, is_owner: bool) -> Loader {
        let mut directories = Vec::new();
        directories.extend(
            options
                .temporary_directory
                .clone()
                .map(|path| Directory { path, place: Place::TemporaryDirectory }),
        );
        directories.push(Directory { path: options.path.clone(), place: Place::Cache(0) });
        Loader {
            restoring: is_owner.then_some(Restoring::Begin),
            directories,
            items: Vec::new(),
            place: Place::Cache(0),
            unseen: Vec::new(),
            shards_checked: 0,
        }
    }
}
