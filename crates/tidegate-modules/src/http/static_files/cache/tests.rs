//! Limits, on caches of the tests' own.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::admission::{Admission, admit};
use super::shared::{CacheFigures, Shared};
use super::{Memory, write_key};
use crate::http::static_files::entry::{Content, EntryKind, LinkRule};

struct TestCache {
    dir: tempfile::TempDir,
    shared: Shared,
    memory: Memory,
}

impl TestCache {
    fn new(memory: Memory) -> TestCache {
        TestCache { dir: tempfile::tempdir().unwrap(), shared: Shared::alone(true), memory }
    }

    /// Adds a name to the cache.
    fn admit(&self, name: &str) -> CacheFigures {
        self.admit_path(&self.dir.path().canonicalize().unwrap().join(name))
    }

    fn admit_path(&self, path: &Path) -> CacheFigures {
        let path = path.as_os_str().as_bytes();
        admit(&self.shared, &Admission::new(path, path, LinkRule::default(), self.memory));
        self.shared.figures()
    }

    /// Returns where the content of a name is kept; `None` when nothing is.
    fn content(&self, name: &str) -> Option<Content> {
        let path = self.dir.path().canonicalize().unwrap().join(name);
        let entry = self.shared.get(path.as_os_str().as_bytes())?;
        match &entry.what {
            EntryKind::File(file) => Some(file.content.clone()),
            _ => None,
        }
    }

    fn write(&self, name: &str, bytes: usize) {
        fs::write(self.dir.path().join(name), vec![b'x'; bytes]).unwrap();
    }
}

#[test]
fn names_and_watches_are_bounded() {
    let cache = TestCache::new(Memory::default());
    let (mut entries, mut nodes) = (0, 0);
    for index in 0..20_000 {
        let figures = cache.admit(&format!("none{index}"));
        (entries, nodes) = (entries.max(figures.entries), nodes.max(figures.nodes));
    }
    // Each name has a node, and the directories above have theirs.
    assert!((10_000..=16 * 1024).contains(&entries), "{entries}");
    assert!(nodes < entries + 20, "{nodes}");
}

#[test]
fn directories_and_their_watches_are_bounded() {
    let cache = TestCache::new(Memory::default());
    let mut nodes = 0;
    for index in 0..18_000 {
        fs::create_dir(cache.dir.path().join(index.to_string())).unwrap();
        nodes = nodes.max(cache.admit(&format!("{index}/none")).nodes);
    }
    assert!((20_000..=32 * 1024 + 20).contains(&nodes), "{nodes}");
}

#[test]
fn contents_in_memory_are_bounded() {
    let memory = Memory { bytes_max: 10_000, file_max: 3000 };
    let cache = TestCache::new(memory);
    let mut most = 0;
    for index in 0..40 {
        let name = format!("file{index}");
        cache.write(&name, 100 * index);
        let figures = cache.admit(&name);
        most = most.max(figures.memory);
        let content = cache.content(&name);
        match index <= 30 {
            true => assert!(matches!(content, Some(Content::Memory(_))), "{name}: {content:?}"),
            false => assert!(matches!(content, Some(Content::File(..))), "{name}: {content:?}"),
        }
    }
    assert!((7000..=memory.bytes_max).contains(&most), "{most}");
    let nothing = TestCache::new(Memory { bytes_max: 0, file_max: 0 });
    nothing.write("file", 1);
    assert_eq!(nothing.admit("file").memory, 0);
    assert!(matches!(nothing.content("file"), Some(Content::File(..))));
}

#[test]
fn a_file_that_sendfile_sends_better_is_kept_open_beside_its_copy() {
    let cache = TestCache::new(Memory::default());
    for (name, size, both) in [("small", 32 << 10, false), ("large", (32 << 10) + 1, true)] {
        cache.write(name, size);
        cache.admit(name);
        match cache.content(name) {
            Some(Content::Memory(bytes)) => assert!(!both && bytes.len() == size, "{name}"),
            Some(Content::File(_, Some(copy))) => {
                assert!(both && copy.bytes.len() == size, "{name}")
            }
            other => panic!("{name}: {other:?}"),
        }
    }
    assert_eq!(cache.shared.figures().memory, (64 << 10) + 1);
}

#[test]
fn descriptors_are_bounded() {
    let cache = TestCache::new(Memory { bytes_max: 0, file_max: 0 });
    let limit = (tidegate_os::process::nofile_limit() / 4).min(4096);
    let mut most = 0;
    for index in 0..limit + 50 {
        let name = format!("file{index}");
        cache.write(&name, 1);
        most = most.max(cache.admit(&name).open);
    }
    assert_eq!(most as u64, limit);
}

/// No entry is kept without reports of changes, unless it can be checked.
#[test]
fn without_watches_files_are_checked() {
    let cache = TestCache { shared: Shared::alone(false), ..TestCache::new(Memory::default()) };
    cache.write("file", 5);
    assert_eq!(cache.admit("none").entries, 0);
    // Its times are too young for a later change to show in them.
    assert_eq!(cache.admit("file").entries, 0);
    assert_eq!(cache.admit_path(Path::new("/etc/passwd")).entries, 1);
    let mut key = Vec::new();
    write_key(b"/etc/passwd", LinkRule::default(), &mut key);
    assert!(!cache.shared.get(&key).unwrap().watched);
    assert_eq!(cache.shared.figures().nodes, 0);
}
