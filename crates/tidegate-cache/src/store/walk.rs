//! How far the loader's walk over the cache folder has come.

use std::path::PathBuf;

use super::books::Restoring;
use super::options::Options;
use crate::disk::FolderItem;
use crate::key::KeyHash;

/// How far the walk has come.
pub(super) struct Loader {
    pub(super) restoring: Option<Restoring>,
    pub(super) folders: Vec<Folder>,
    pub(super) items: Vec<FolderItem>,
    /// The folder that the items are in.
    pub(super) place: Place,
    /// After the walk: remembered files that were not met.
    pub(super) unseen: Vec<KeyHash>,
    pub(super) shards_checked: usize,
}

pub(super) struct Folder {
    pub(super) path: PathBuf,
    pub(super) place: Place,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// So many folders below the root of the cache.
    Cache(usize),
    TemporaryFolder,
}

impl Loader {
    pub(super) fn new(options: &Options, is_owner: bool) -> Loader {
        let mut folders = Vec::new();
        folders.extend(
            options
                .temporary_folder
                .clone()
                .map(|path| Folder { path, place: Place::TemporaryFolder }),
        );
        folders.push(Folder { path: options.path.clone(), place: Place::Cache(0) });
        Loader {
            restoring: is_owner.then_some(Restoring::Begin),
            folders,
            items: Vec::new(),
            place: Place::Cache(0),
            unseen: Vec::new(),
            shards_checked: 0,
        }
    }
}
