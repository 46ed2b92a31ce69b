//! Adds entries to the cache: a thread of its own loads them and begins their watches.
//!
//! To begin a watch on a directory the kernel walks all cached names of it, 18 ms for a directory in which many
//! names were looked up. That is done before the lock is taken, and not on an event loop.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use tidegate_os::error::is_missing;
use tidegate_os::open::HOLDS_NAME;
use tidegate_os::path_stamp::PathStamp;
use tidegate_os::watch::{WatchFlags, Watcher};
use tidegate_os::{FileKind, file, path};

use super::Memory;
use super::shared::Shared;
use crate::http::static_files::entry::{Entry, EntryKind, LinkRule, Links};
use crate::http::static_files::watch_tree::{NodeKind, flags_of};

/// Requests for admission that may wait.
const ADMISSIONS_MAX: usize = 1024;

/// A path that was requested often enough to be added.
pub(super) struct Admission {
    key: Box<[u8]>,
    path: Box<[u8]>,
    rule: LinkRule,
    memory: Memory,
}

/// A command to the admission thread.
pub(super) enum Command {
    Admit(Admission),
    /// All earlier commands are done.
    #[cfg(test)]
    Notify(SyncSender<()>),
}

impl Admission {
    pub(super) fn new(key: &[u8], path: &[u8], rule: LinkRule, memory: Memory) -> Admission {
        Admission { key: key.into(), path: path.into(), rule, memory }
    }
}

/// Makes the queue of commands.
pub(super) fn queue() -> (SyncSender<Command>, Receiver<Command>) {
    sync_channel(ADMISSIONS_MAX)
}

/// Runs the admission thread, which lives as long as the process.
pub(super) fn serve(shared: &Shared, commands: &Receiver<Command>) {
    // Where lowering its priority is forbidden, the thread runs at the usual one.
    let _ = tidegate_os::affinity::use_batch_policy();
    while let Ok(command) = commands.recv() {
        match command {
            Command::Admit(admission) => admit(shared, &admission),
            #[cfg(test)]
            Command::Notify(done) => drop(done.send(())),
        }
    }
}

/// Waits until all paths requested so far are in the cache.
#[cfg(test)]
pub(crate) fn admitted() {
    let (done, notified) = sync_channel(1);
    super::shared().command(Command::Notify(done));
    notified.recv().unwrap();
}

/// Loads an entry and keeps it, if its changes can be detected.
pub(super) fn admit(shared: &Shared, admission: &Admission) {
    let Admission { key, path, rule, memory } = admission;
    if shared.get(key).is_some() {
        return;
    }
    // Clients choose the names of absent files: long ones would take much memory.
    if key.len() > ABSENT_KEY_MAX && file::stat(path::of(path), true).is_err() {
        return;
    }
    // The watch begins first: all changes after it are reported.
    let node = shared.watcher.as_ref().and_then(|watcher| {
        let ahead = watch_ahead(watcher, path);
        shared.ensure(watcher, path, &ahead)
    });
    let follows = rule.links == Links::Follow;
    let path_stamp = match node {
        None if follows => path_stamp(path, rule.from),
        _ => None,
    };
    let mut entry = Entry::load(path, *rule, memory.file_max);
    let now = tidegate_rt::clock::unix_millis();
    if let Some(path_stamp) = path_stamp {
        entry.set_path_stamp(path_stamp, now);
    }
    let id = match (node, &entry.what) {
        (Some((id, NodeKind::File)), EntryKind::File(_)) => Some(id),
        (Some((id, NodeKind::Directory)), EntryKind::Directory) => Some(id),
        (Some((id, NodeKind::Missing)), EntryKind::Failed(code)) if is_missing(*code) => Some(id),
        (None, EntryKind::File(file)) if follows => {
            if !file.is_settled(now) || (HOLDS_NAME && file.is_open()) {
                return;
            }
            None
        }
        (None, _) if entry.path_stamp.is_some() => None,
        _ => return,
    };
    entry.watched = id.is_some();
    *entry.checked.get_mut() = now;
    shared.keep(key, &Arc::new(entry), id, *memory);
}

/// Longest key in bytes of an entry for a name that does not exist.
const ABSENT_KEY_MAX: usize = 1024;

/// Takes a path stamp at a path, or else at its parent directory.
fn path_stamp(path: &[u8], from: usize) -> Option<PathStamp> {
    let name = path::of(path);
    PathStamp::take(name, from).or_else(|| PathStamp::take_absent(name))
}

/// Watches the directories of a path, and of the real path where links lead elsewhere; returns the watch numbers.
/// The lock is not held, so these watches belong to no node yet.
fn watch_ahead(watcher: &Watcher, name: &[u8]) -> Vec<i32> {
    let name = path::of(name);
    let mut watches = Vec::new();
    watch_directories(watcher, name, &mut watches);
    let real = name.parent().and_then(|directory| directory.canonicalize().ok());
    if let (Some(real), Some(last)) = (real, name.file_name())
        && Some(&*real) != name.parent()
    {
        watch_directories(watcher, &real.join(last), &mut watches);
    }
    watches
}

/// Watches from the root down, each directory with the events that the next name needs.
fn watch_directories(watcher: &Watcher, name: &Path, watches: &mut Vec<i32>) {
    let mut directories: Vec<&Path> = name.ancestors().collect();
    directories.reverse();
    for pair in directories.windows(2) {
        let [directory, child] = pair else { return };
        let child = file::stat(child, false).map(|stat| stat.kind);
        let names = match &child {
            Ok(FileKind::Directory) => WatchFlags::DELETE,
            Ok(_) => flags_of(FileKind::Directory),
            Err(_) => WatchFlags::CREATE | WatchFlags::MOVED_TO,
        };
        watches.extend(watcher.add(directory, flags_of(FileKind::Directory) | names));
        if child.is_err() {
            return;
        }
    }
}
