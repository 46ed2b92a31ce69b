//! The tree of watched paths: for each name that an entry was derived from, a watch that reports its change.
//!
//! A node is a path. It depends on the directory that contains it, and if it is a link also on the link's target.
//! Every existing file and directory on the way is watched itself (by inode: writes through another hard link, a
//! renamed directory far above and a replaced link are all reported there); for a name that does not exist its
//! directory is watched for new names. When a node changes, it and all that depends on it are removed. Nothing here
//! reads a file; the caller holds the lock.

use std::collections::{HashMap, HashSet};
use std::io;

use tidegate_os::watch::{Event, ReadFlags, WatchFlags, Watcher};
use tidegate_os::{FileKind, Stat, file};

/// What a node was when its watch began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeKind {
    File,
    Directory,
    Missing,
}

/// A node's number; never reused.
pub(super) type NodeId = u64;

/// The path cannot be watched: the file system has to be queried each time.
#[derive(Debug)]
pub(super) struct Unwatchable;

struct Node {
    path: Box<[u8]>,
    kind: NodeKind,
    /// Real path, without links on the way; `None` when that is its own path.
    real: Option<Box<[u8]>>,
    watch: Option<i32>,
    parents: Vec<NodeId>,
    dependents: HashSet<NodeId>,
    /// Keys of the entries that depend on this node.
    keys: HashSet<Box<[u8]>>,
    /// Names that do not exist in this directory, by their case-folded spelling.
    absent: HashMap<Box<[u8]>, Vec<NodeId>>,
}

impl Node {
    /// Ends the wait for an absent name in this directory.
    fn found(&mut self, path: &[u8], id: NodeId) {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let fold = folded(name).unwrap_or_default();
        if let Some(ids) = self.absent.get_mut(&fold) {
            ids.retain(|absent| *absent != id);
            if ids.is_empty() {
                self.absent.remove(&fold);
            }
        }
    }
}

/// All watched nodes of the process.
#[derive(Default)]
pub(super) struct WatchTree {
    nodes: HashMap<NodeId, Node>,
    by_path: HashMap<Box<[u8]>, NodeId>,
    by_watch: HashMap<i32, Vec<NodeId>>,
    /// Whether the file system of a device number reports changes, of directories and of files.
    devices: HashMap<(u64, bool), bool>,
    next: NodeId,
}

impl WatchTree {
    /// Returns the number of nodes.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the node of an absolute path; adds it if there is none.
    pub(super) fn ensure(
        &mut self,
        watcher: &Watcher,
        path: &[u8],
    ) -> Result<(NodeId, NodeKind), Unwatchable> {
        if !path.starts_with(b"/") {
            return Err(Unwatchable);
        }
        let mut links_left = LINKS_MAX;
        let id = self.walk(watcher, b"/", path, &mut links_left)?;
        let node = self.nodes.get(&id).ok_or(Unwatchable)?;
        Ok((id, node.kind))
    }

    /// Records that the entry of `key` depends on a node; returns false when the node has changed meanwhile.
    pub(super) fn attach(&mut self, id: NodeId, key: &[u8]) -> bool {
        let Some(node) = self.nodes.get_mut(&id) else { return false };
        if !node.keys.contains(key) {
            node.keys.insert(key.into());
        }
        true
    }

    /// Records that the entry of `key` is no longer kept; an unused watch ends.
    pub(super) fn detach(&mut self, watcher: &Watcher, id: NodeId, key: &[u8]) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.keys.remove(key);
        if node.keys.is_empty() && node.dependents.is_empty() {
            self.forget(watcher, id, &mut Vec::new());
        }
    }

    /// Applies an event; keys whose entries are no longer valid are appended to `gone`. Returns false when events
    /// were lost and all entries have to be removed.
    pub(super) fn apply(
        &mut self,
        watcher: &Watcher,
        event: &Event,
        gone: &mut Vec<Box<[u8]>>,
    ) -> bool {
        if event.what.contains(ReadFlags::QUEUE_OVERFLOW) {
            return false;
        }
        let Some(nodes) = self.by_watch.get(&event.watch).cloned() else { return true };
        if event.what.contains(ReadFlags::IGNORED) {
            self.by_watch.remove(&event.watch);
        }
        for id in nodes {
            match &event.name {
                None => self.forget(watcher, id, gone),
                Some(name) => self.named(watcher, id, name.as_encoded_bytes(), event.what, gone),
            }
        }
        true
    }

    /// Removes all nodes and ends all watches.
    pub(super) fn clear(&mut self, watcher: &Watcher) {
        for watch in self.by_watch.keys() {
            let _ = watcher.remove(*watch);
        }
        let next = self.next;
        *self = WatchTree { next, ..WatchTree::default() };
    }

    /// Applies an event of a name in a watched directory.
    fn named(
        &mut self,
        watcher: &Watcher,
        directory: NodeId,
        name: &[u8],
        what: ReadFlags,
        gone: &mut Vec<Box<[u8]>>,
    ) {
        let Some(node) = self.nodes.get_mut(&directory) else { return };
        let mut changed = Vec::new();
        if what.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) && !node.absent.is_empty() {
            match folded(name) {
                // In a directory that ignores case the new name may be any spelling of an absent one.
                None => changed.extend(node.absent.drain().flat_map(|(_, ids)| ids)),
                Some(fold) => {
                    changed.extend(node.absent.remove(&*fold).unwrap_or_default());
                    changed.extend(node.absent.remove(&b""[..]).unwrap_or_default());
                }
            }
        }
        if what.contains(ReadFlags::DELETE) {
            let path = join(&node.path, name);
            changed.extend(self.by_path.get(&*path));
        }
        for id in changed {
            self.forget(watcher, id, gone);
        }
    }

    /// Removes a node and all that depends on it.
    fn forget(&mut self, watcher: &Watcher, id: NodeId, gone: &mut Vec<Box<[u8]>>) {
        let mut waiting = vec![id];
        while let Some(id) = waiting.pop() {
            let Some(node) = self.nodes.remove(&id) else { continue };
            self.by_path.remove(&node.path);
            if let Some(watch) = node.watch
                && let Some(sharers) = self.by_watch.get_mut(&watch)
            {
                sharers.retain(|other| *other != id);
                if sharers.is_empty() {
                    self.by_watch.remove(&watch);
                    let _ = watcher.remove(watch);
                }
            }
            for parent in &node.parents {
                if let Some(parent) = self.nodes.get_mut(parent) {
                    parent.dependents.remove(&id);
                    if node.kind == NodeKind::Missing {
                        parent.found(&node.path, id);
                    }
                }
            }
            waiting.extend(node.dependents);
            gone.extend(node.keys);
        }
    }

    /// Walks `path` from the real directory `start`; returns the node at its end, whose path is real.
    fn walk(
        &mut self,
        watcher: &Watcher,
        start: &[u8],
        path: &[u8],
        links_left: &mut usize,
    ) -> Result<NodeId, Unwatchable> {
        let mut id = self.directory(watcher, start, links_left)?;
        let mut parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).peekable();
        while let Some(name) = parts.next() {
            match name {
                b"." => continue,
                b".." => return Err(Unwatchable),
                _ => id = self.child(watcher, id, name, links_left)?,
            }
            let node = self.nodes.get(&id).ok_or(Unwatchable)?;
            match node.kind {
                // A name below a missing directory is missing as long as the directory is.
                NodeKind::Missing => return Ok(id),
                NodeKind::File if parts.peek().is_some() => return Err(Unwatchable),
                NodeKind::File | NodeKind::Directory => {}
            }
        }
        Ok(id)
    }

    fn directory(
        &mut self,
        watcher: &Watcher,
        path: &[u8],
        links_left: &mut usize,
    ) -> Result<NodeId, Unwatchable> {
        if let Some(id) = self.by_path.get(path) {
            return Ok(*id);
        }
        if path != b"/" {
            return self.walk(watcher, b"/", path, links_left);
        }
        let stat = stat(path).map_err(|_| Unwatchable)?;
        let watch = self.watch(watcher, path, &stat)?;
        Ok(self.add(path, NodeKind::Directory, None, Some(watch), &[]))
    }

    /// Returns the node of a name in a directory.
    ///
    /// | found | watched | the node is |
    /// |---|---|---|
    /// | a symbolic link | the link | what its target is ([`WatchTree::link`]) |
    /// | a file, a directory | itself, and for a directory its name in the parent | that |
    /// | nothing | new names of the parent | missing |
    /// | anything else | nothing | unwatchable |
    ///
    /// Invariant: what was found is what is watched. It may be replaced between the query and the watch, so it is
    /// queried again behind the watch, at most [`RACES_MAX`] times. In a directory that was reached by a link the
    /// node follows that of the real directory. A watch without a node is ended.
    fn child(
        &mut self,
        watcher: &Watcher,
        directory: NodeId,
        name: &[u8],
        links_left: &mut usize,
    ) -> Result<NodeId, Unwatchable> {
        let parent = self.nodes.get(&directory).ok_or(Unwatchable)?;
        let path = join(&parent.path, name);
        if let Some(id) = self.by_path.get(&path) {
            return Ok(*id);
        }
        if let Some(real) = parent.real.clone() {
            // A directory reached by a link: the watches are on the real one.
            let directory_real = self.directory(watcher, &real, links_left)?;
            let target = self.child(watcher, directory_real, name, links_left)?;
            return self.follow(&path, target, &[directory, target], None);
        }
        let parent_watch = parent.watch;
        for _ in 0..RACES_MAX {
            match stat(&path) {
                Ok(before) if before.kind == FileKind::Symlink => {
                    let watch = self.watch(watcher, &path, &before)?;
                    return self.link(watcher, directory, &path, watch, links_left);
                }
                Ok(before) => {
                    let kind = match before.kind {
                        FileKind::File => NodeKind::File,
                        FileKind::Directory => NodeKind::Directory,
                        FileKind::Symlink | FileKind::Other => return Err(Unwatchable),
                    };
                    if kind == NodeKind::Directory {
                        // A directory that is a process's working directory reports its own removal too late.
                        self.watch_names(watcher, directory, WatchFlags::DELETE)?;
                    }
                    let watch = self.watch(watcher, &path, &before)?;
                    let after = stat(&path).ok();
                    if after.is_some_and(|after| same_file(&before, &after)) {
                        return Ok(self.add(&path, kind, None, Some(watch), &[directory]));
                    }
                    // Replaced meanwhile: the watch may be on another file than was found.
                    self.unused(watcher, watch);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    parent_watch.ok_or(Unwatchable)?;
                    let names = WatchFlags::CREATE | WatchFlags::MOVED_TO;
                    self.watch_names(watcher, directory, names)?;
                    if stat(&path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
                        return Ok(self.add_missing(directory, &path, name));
                    }
                }
                Err(_) => return Err(Unwatchable),
            }
        }
        Err(Unwatchable)
    }

    /// Returns the node of a symbolic link, which is watched itself.
    ///
    /// Invariant: `links_left` falls with each link, so that loops of links end. The node depends on the link and
    /// on all of its target's path; its kind is the target's. `watch` is ended on each return without a node.
    fn link(
        &mut self,
        watcher: &Watcher,
        directory: NodeId,
        path: &[u8],
        watch: i32,
        links_left: &mut usize,
    ) -> Result<NodeId, Unwatchable> {
        let target = std::fs::read_link(tidegate_os::path::of(path));
        let left = links_left.checked_sub(1);
        let (Ok(target), Some(left)) = (target, left) else {
            self.unused(watcher, watch);
            return Err(Unwatchable);
        };
        *links_left = left;
        let target = target.into_os_string().into_encoded_bytes();
        let node = self.nodes.get(&directory).ok_or(Unwatchable)?;
        let mut start = node.path.to_vec();
        let mut rest = &target[..];
        if target.starts_with(b"/") {
            start = b"/".to_vec();
        }
        // `..` at the beginning leaves real directories, which needs no watch of its own.
        while let Some(after) = rest.strip_prefix(b"..")
            && (after.is_empty() || after.starts_with(b"/"))
        {
            let end = start.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
            start.truncate(end.max(1));
            rest = after.get(1..).unwrap_or_default();
        }
        match self.walk(watcher, &start, rest, links_left) {
            Ok(end) if self.nodes.contains_key(&directory) => {
                self.follow(path, end, &[directory, end], Some(watch))
            }
            _ => {
                self.unused(watcher, watch);
                Err(Unwatchable)
            }
        }
    }

    /// Adds a node for a link: its kind and real path are the target's.
    fn follow(
        &mut self,
        path: &[u8],
        target: NodeId,
        parents: &[NodeId],
        watch: Option<i32>,
    ) -> Result<NodeId, Unwatchable> {
        let node = self.nodes.get(&target).ok_or(Unwatchable)?;
        let real = node.real.as_ref().unwrap_or(&node.path).clone();
        let kind = node.kind;
        Ok(self.add(path, kind, Some(real), watch, parents))
    }

    fn add_missing(&mut self, directory: NodeId, path: &[u8], name: &[u8]) -> NodeId {
        let id = self.add(path, NodeKind::Missing, None, None, &[directory]);
        if let Some(node) = self.nodes.get_mut(&directory) {
            node.absent.entry(folded(name).unwrap_or_default()).or_default().push(id);
        }
        id
    }

    fn add(
        &mut self,
        path: &[u8],
        kind: NodeKind,
        real: Option<Box<[u8]>>,
        watch: Option<i32>,
        parents: &[NodeId],
    ) -> NodeId {
        self.next += 1;
        let id = self.next;
        for parent in parents {
            if let Some(parent) = self.nodes.get_mut(parent) {
                parent.dependents.insert(id);
            }
        }
        if let Some(watch) = watch {
            self.by_watch.entry(watch).or_default().push(id);
        }
        self.by_path.insert(path.into(), id);
        let node = Node {
            path: path.into(),
            kind,
            real,
            watch,
            parents: parents.to_vec(),
            dependents: HashSet::new(),
            keys: HashSet::new(),
            absent: HashMap::new(),
        };
        self.nodes.insert(id, node);
        id
    }

    /// Watches the file or directory at `path` itself.
    fn watch(&mut self, watcher: &Watcher, path: &[u8], stat: &Stat) -> Result<i32, Unwatchable> {
        let directory = stat.kind == FileKind::Directory;
        let path = tidegate_os::path::of(path);
        if stat.kind != FileKind::Symlink {
            let known = self.devices.get(&(stat.device, directory)).copied();
            let reports = match known {
                Some(reports) => reports,
                None => {
                    let reports = file::reports_changes(path, directory).unwrap_or(false);
                    self.devices.insert((stat.device, directory), reports);
                    reports
                }
            };
            if !reports {
                return Err(Unwatchable);
            }
        }
        watcher.add(path, flags_of(stat.kind)).map_err(|_| Unwatchable)
    }

    /// Watches a directory for events of its names, too. If the path leads to another directory by now, the watch
    /// on the old one has reported that.
    fn watch_names(
        &self,
        watcher: &Watcher,
        directory: NodeId,
        what: WatchFlags,
    ) -> Result<(), Unwatchable> {
        let node = self.nodes.get(&directory).ok_or(Unwatchable)?;
        let path = tidegate_os::path::of(&node.path);
        let flags = what | WatchFlags::ONLYDIR | WatchFlags::DONT_FOLLOW | WatchFlags::MASK_ADD;
        let watch = watcher.add(path, flags).map_err(|_| Unwatchable)?;
        if node.watch == Some(watch) {
            return Ok(());
        }
        self.unused(watcher, watch);
        Err(Unwatchable)
    }

    /// Ends a watch unless a node uses it.
    pub(super) fn unused(&self, watcher: &Watcher, watch: i32) {
        if !self.by_watch.contains_key(&watch) {
            let _ = watcher.remove(watch);
        }
    }
}

/// Returns the events to watch of a file or directory itself.
pub(super) fn flags_of(kind: FileKind) -> WatchFlags {
    let mut flags = WatchFlags::ATTRIB
        | WatchFlags::MOVE_SELF
        | WatchFlags::DELETE_SELF
        | WatchFlags::DONT_FOLLOW
        | WatchFlags::MASK_ADD;
    if kind == FileKind::File {
        flags |= WatchFlags::MODIFY | WatchFlags::CLOSE_WRITE;
    }
    flags
}

/// Links on one path, as in the kernel.
const LINKS_MAX: usize = 40;
/// Attempts when the file changes between query and watch.
const RACES_MAX: usize = 3;

fn stat(path: &[u8]) -> io::Result<Stat> {
    file::stat(tidegate_os::path::of(path), false)
}

fn same_file(one: &Stat, other: &Stat) -> bool {
    (one.inode, one.device, one.kind) == (other.inode, other.device, other.kind)
}

fn join(directory: &[u8], name: &[u8]) -> Box<[u8]> {
    let mut path = Vec::with_capacity(directory.len() + name.len() + 1);
    path.extend_from_slice(directory);
    if !path.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path.into()
}

/// Returns a name in lower case; `None` beyond ASCII, where the folding rules of file systems differ.
fn folded(name: &[u8]) -> Option<Box<[u8]>> {
    name.is_ascii().then(|| name.to_ascii_lowercase().into())
}
