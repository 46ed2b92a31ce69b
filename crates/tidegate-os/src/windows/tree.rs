//! Watches for directories that are renamed, one for each tree of directories.
//!
//! The system reports writes late (when they reach the disk), reports nothing that is written through another link, and
//! reports from another thread: the freshness of content cannot rely on it. But another spelling of a directory is
//! reported, and changes no content.

use std::collections::HashMap;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use windows_sys::Win32::Foundation::{HANDLE, INVALID_HANDLE_VALUE, WAIT_OBJECT_0};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_NOTIFY_CHANGE_DIR_NAME, FindCloseChangeNotification, FindFirstChangeNotificationW,
    FindNextChangeNotification,
};
use windows_sys::Win32::System::Threading::{
    CreateEventW, INFINITE, SetEvent, WaitForMultipleObjects,
};

use super::file;

/// Most watched trees, and threads: each waits for one.
const TREES_MAX: usize = 64;

/// A watched tree.
#[derive(Debug)]
pub(crate) struct Tree {
    renames: AtomicU64,
    watched: AtomicBool,
    /// Volume and number of its directory: another directory may have got its name.
    directory: (u64, u64),
    stop: OwnedHandle,
}

impl Tree {
    /// Returns the number of reports about directories that were renamed, moved, made or removed.
    pub(crate) fn renames(&self) -> u64 {
        self.renames.load(Ordering::Acquire)
    }

    /// Whether reports still arrive.
    pub(crate) fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Acquire)
    }

    fn end(&self) {
        self.watched.store(false, Ordering::Release);
        // SAFETY: the handle is open as long as the tree lives.
        unsafe { SetEvent(self.stop.as_raw_handle()) };
    }
}

/// Returns the tree below a directory, watched from now on at the latest. `None` where there are too many, and where it
/// cannot be watched.
pub(crate) fn of(directory: &Path) -> Option<Arc<Tree>> {
    static TREES: Mutex<Option<HashMap<PathBuf, Arc<Tree>>>> = Mutex::new(None);
    let identity = identity(directory)?;
    let mut trees = TREES.lock().unwrap_or_else(PoisonError::into_inner);
    let trees = trees.get_or_insert_default();
    if let Some(tree) = trees.get(directory) {
        if tree.directory == identity && tree.is_watched() {
            return Some(tree.clone());
        }
        tree.end();
        trees.remove(directory);
    }
    if trees.len() >= TREES_MAX {
        return None;
    }
    let tree = begin(directory, identity)?;
    trees.insert(directory.to_owned(), tree.clone());
    Some(tree)
}

fn identity(directory: &Path) -> Option<(u64, u64)> {
    file::stat(directory, true).ok().map(|stat| (stat.device, stat.inode))
}

fn begin(directory: &Path, seen: (u64, u64)) -> Option<Arc<Tree>> {
    // The directory may have been replaced in between.
    let watch = Watch::begin(directory).filter(|_| identity(directory) == Some(seen))?;
    // SAFETY: the security and the name may be null.
    let event = unsafe { CreateEventW(std::ptr::null(), 1, 0, std::ptr::null()) };
    if event.is_null() {
        return None;
    }
    // SAFETY: the handle was just made, and has no other owner.
    let stop = unsafe { OwnedHandle::from_raw_handle(event) };
    let (renames, watched) = (AtomicU64::new(0), AtomicBool::new(true));
    let tree = Arc::new(Tree { renames, watched, directory: seen, stop });
    let watched_tree = tree.clone();
    let thread = std::thread::Builder::new().name("directory watch".to_owned());
    thread.spawn(move || watch.count_renames(&watched_tree)).ok()?;
    Some(tree)
}

/// The system's watch.
struct Watch {
    handle: HANDLE,
}

// SAFETY: such a handle may be used by any thread.
unsafe impl Send for Watch {}

impl Watch {
    fn begin(directory: &Path) -> Option<Watch> {
        let name = super::wide(directory.to_str()?);
        // SAFETY: the path ends in a zero unit.
        let handle =
            unsafe { FindFirstChangeNotificationW(name.as_ptr(), 1, FILE_NOTIFY_CHANGE_DIR_NAME) };
        (handle != INVALID_HANDLE_VALUE).then_some(Watch { handle })
    }

    /// Counts reports until the tree is dropped or the system reports nothing more.
    fn count_renames(self, tree: &Tree) {
        let handles = [self.handle, tree.stop.as_raw_handle()];
        loop {
            // SAFETY: both handles are open: one is ours, the other the tree's.
            let which = unsafe { WaitForMultipleObjects(2, handles.as_ptr(), 0, INFINITE) };
            // Later changes are reported again, so that no report is counted too early. SAFETY: the handle is open.
            let goes_on =
                which == WAIT_OBJECT_0 && unsafe { FindNextChangeNotification(self.handle) } != 0;
            tree.renames.fetch_add(1, Ordering::AcqRel);
            if !goes_on {
                return tree.watched.store(false, Ordering::Release);
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // SAFETY: the handle is open, and not used after this.
        unsafe { FindCloseChangeNotification(self.handle) };
    }
}
