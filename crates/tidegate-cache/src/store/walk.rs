//! The progress of the loader's walk over the cache directory.

use std::path::PathBuf;

use super::options::Options;
use super::ownership::Restoring;
use crate::disk::DirectoryItem;
use crate::key::KeyHash;

/// The progress of the walk.
pub(super) struct Loader {
    pub(super) restoring: Option<Restoring>,
    pub(super) directories: Vec<Directory>,
    pub(super) items: Vec<DirectoryItem>,
    /// The directory of the items.
    pub(super) place: DirectoryKind,
    /// After the walk: files of the snapshot that were not found.
    pub(super) unseen: Vec<KeyHash>,
    pub(super) shards_checked: usize,
}

pub(super) struct Directory {
    pub(super) path: PathBuf,
    pub(super) place: DirectoryKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DirectoryKind {
    /// A directory at this depth below the root of the cache.
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
                .map(|path| Directory { path, place: DirectoryKind::TemporaryDirectory }),
        );
        directories.push(Directory { path: options.path.clone(), place: DirectoryKind::Cache(0) });
        Loader {
            restoring: is_owner.then_some(Restoring::Begin),
            directories,
            items: Vec::new(),
            place: DirectoryKind::Cache(0),
            unseen: Vec::new(),
            shards_checked: 0,
        }
    }
}
