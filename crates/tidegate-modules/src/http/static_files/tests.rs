//! The cache against a real file system: after each change the very next lookup must be current.

mod direct;
mod handler;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::cache::{Policy, admitted, find, test};
use super::entry::{Content, Entry, EntryKind, LinkRule, Links};

/// A directory that tests change.
struct Tree {
    dir: tempfile::TempDir,
}

impl Tree {
    fn new(files: &[(&str, &str)]) -> Tree {
        let tree = Tree { dir: tempfile::tempdir().unwrap() };
        for (name, text) in files {
            fs::create_dir_all(tree.at(name).parent().unwrap()).unwrap();
            fs::write(tree.at(name), text).unwrap();
        }
        tree
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    /// Returns the cached state of a name: a file's text, `/`, `other`, or the error's number.
    fn lookup(&self, name: &str) -> String {
        self.lookup_by(name, LinkRule::default())
    }

    fn lookup_by(&self, name: &str, rule: LinkRule) -> String {
        shown(&find(self.at(name).as_os_str().as_bytes(), rule, &Policy::default()))
    }

    /// Looks up until the entry is in the cache, which must not change it.
    fn warm(&self, name: &str, expected: &str) {
        for _ in 0..2 {
            assert_eq!(self.lookup(name), expected, "{name} while unchanged");
        }
        admitted();
        for _ in 0..2 {
            assert_eq!(self.lookup(name), expected, "{name} while unchanged");
        }
    }

    /// Returns whether the cache keeps an entry for this name that events keep current.
    fn is_watched(&self, name: &str) -> bool {
        find(self.at(name).as_os_str().as_bytes(), LinkRule::default(), &Policy::default()).watched
    }
}

fn shown(entry: &Entry) -> String {
    match &entry.what {
        EntryKind::File(file) => match &file.content {
            Content::Memory(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Content::File(open, _) => {
                let mut bytes = vec![0; file.size as usize];
                std::os::unix::fs::FileExt::read_exact_at(&**open, &mut bytes, 0).unwrap();
                String::from_utf8_lossy(&bytes).into_owned()
            }
        },
        EntryKind::Directory => "/".to_owned(),
        EntryKind::Other => "other".to_owned(),
        EntryKind::Failed(errno) => errno.to_string(),
    }
}

/// Makes one change of a tree and checks the state of `name` before and after it. The change is made twenty times
/// with everything cached, then checked; each round has a new tree.
fn check(files: &[(&str, &str)], name: &str, before: &str, change: impl Fn(&Tree), after: &str) {
    for _ in 0..ROUNDS {
        let tree = Tree::new(files);
        tree.warm(name, before);
        change(&tree);
        assert_eq!(tree.lookup(name), after, "{name} right after the change");
        tree.warm(name, after);
    }
}

const ROUNDS: usize = 5;

#[test]
fn a_request_sees_what_changed_before_it_was_received() {
    let tree = Tree::new(&[("a/file", "text0")]);
    tree.warm("a/file", "text0");
    tidegate_rt::clock::batch(|| {
        for round in 1..20 {
            // Looked up in this batch; the next request is received later.
            tree.lookup("a/file");
            fs::write(tree.at("a/file"), format!("text{round}")).unwrap();
            tidegate_rt::batch_epoch::advance();
            assert_eq!(tree.lookup("a/file"), format!("text{round}"));
        }
    });
}

#[test]
fn entries_are_kept_and_watched() {
    let tree = Tree::new(&[("a/b/file", "text")]);
    tree.warm("a/b/file", "text");
    tree.warm("a/b/none", "2");
    tree.warm("a", "/");
    for name in ["a/b/file", "a/b/none", "a"] {
        assert!(tree.is_watched(name), "{name}");
    }
}

#[test]
fn contents_change() {
    let file = &[("a/file", "old")];
    check(file, "a/file", "old", |tree| fs::write(tree.at("a/file"), "new").unwrap(), "new");
    check(file, "a/file", "old", |tree| fs::write(tree.at("a/file"), "").unwrap(), "");
    let cut = |tree: &Tree| {
        let file = fs::OpenOptions::new().write(true).open(tree.at("a/file")).unwrap();
        file.set_len(1).unwrap();
    };
    check(file, "a/file", "old", cut, "o");
    let append = |tree: &Tree| {
        use std::io::Write;
        let mut file = fs::OpenOptions::new().append(true).open(tree.at("a/file")).unwrap();
        file.write_all(b"er").unwrap();
    };
    check(file, "a/file", "old", append, "older");
    let by_other_name = |tree: &Tree| {
        fs::create_dir(tree.at("b")).unwrap();
        fs::hard_link(tree.at("a/file"), tree.at("b/file")).unwrap();
        tree.warm("a/file", "old");
        fs::write(tree.at("b/file"), "new").unwrap();
    };
    check(file, "a/file", "old", by_other_name, "new");
}

#[test]
fn the_same_length_and_time_hide_nothing() {
    let same = |tree: &Tree| {
        let time = fs::metadata(tree.at("a/file")).unwrap().modified().unwrap();
        fs::write(tree.at("a/file"), "new").unwrap();
        let file = fs::OpenOptions::new().write(true).open(tree.at("a/file")).unwrap();
        file.set_modified(time).unwrap();
    };
    check(&[("a/file", "old")], "a/file", "old", same, "new");
}

#[test]
fn names_are_added_and_removed() {
    let file = &[("a/file", "old"), ("a/other", "new")];
    let replace = |tree: &Tree| fs::rename(tree.at("a/other"), tree.at("a/file")).unwrap();
    check(file, "a/file", "old", replace, "new");
    check(file, "a/file", "old", |tree| fs::remove_file(tree.at("a/file")).unwrap(), "2");
    let away = |tree: &Tree| fs::rename(tree.at("a/file"), tree.at("gone")).unwrap();
    check(file, "a/file", "old", away, "2");
    let create = |tree: &Tree| fs::write(tree.at("a/new"), "made").unwrap();
    check(file, "a/new", "2", create, "made");
    let moved = |tree: &Tree| fs::rename(tree.at("a/file"), tree.at("a/new")).unwrap();
    check(file, "a/new", "2", moved, "old");
    let linked = |tree: &Tree| fs::hard_link(tree.at("a/file"), tree.at("a/new")).unwrap();
    check(file, "a/new", "2", linked, "old");
    let directory = |tree: &Tree| fs::create_dir(tree.at("a/new")).unwrap();
    check(file, "a/new", "2", directory, "/");
    let directories = |tree: &Tree| {
        fs::create_dir_all(tree.at("x/y")).unwrap();
        fs::write(tree.at("x/y/file"), "deep").unwrap();
    };
    check(file, "x/y/file", "2", directories, "deep");
    let to_directory = |tree: &Tree| {
        fs::remove_file(tree.at("a/file")).unwrap();
        fs::create_dir(tree.at("a/file")).unwrap();
    };
    check(file, "a/file", "old", to_directory, "/");
}

#[test]
fn directories_are_added_and_removed() {
    let files = &[("a/b/c/file", "old"), ("n/b/c/file", "new"), ("e/full", "")];
    let away = |tree: &Tree| fs::rename(tree.at("a"), tree.at("gone")).unwrap();
    check(files, "a/b/c/file", "old", away, "2");
    let swapped = |tree: &Tree| {
        fs::rename(tree.at("a"), tree.at("gone")).unwrap();
        fs::rename(tree.at("n"), tree.at("a")).unwrap();
    };
    check(files, "a/b/c/file", "old", swapped, "new");
    let middle = |tree: &Tree| {
        fs::rename(tree.at("a/b"), tree.at("gone")).unwrap();
        fs::rename(tree.at("n/b"), tree.at("a/b")).unwrap();
    };
    check(files, "a/b/c/file", "old", middle, "new");
    let removed = |tree: &Tree| fs::remove_dir_all(tree.at("a")).unwrap();
    check(files, "a/b", "/", removed, "2");
    // A directory that a process holds open is reported as removed when its name is.
    for _ in 0..ROUNDS {
        let tree = Tree::new(files);
        fs::create_dir(tree.at("empty")).unwrap();
        let held = fs::File::open(tree.at("empty")).unwrap();
        tree.warm("empty", "/");
        tree.warm("empty/", "/");
        fs::remove_dir(tree.at("empty")).unwrap();
        assert_eq!(tree.lookup("empty"), "2");
        assert_eq!(tree.lookup("empty/"), "2");
        drop(held);
    }
    let over = |tree: &Tree| {
        fs::remove_dir_all(tree.at("a/b")).unwrap();
        fs::rename(tree.at("n"), tree.at("a")).unwrap();
    };
    check(files, "a/b/c/file", "old", over, "new");
}

#[test]
fn links_are_followed_to_where_they_lead_now() {
    let files = &[("v1/file", "one"), ("v2/file", "two")];
    for target in ["v1", "./v1", "v1/"] {
        for _ in 0..ROUNDS {
            let tree = Tree::new(files);
            symlink(target, tree.at("current")).unwrap();
            tree.warm("current/file", "one");
            assert!(tree.is_watched("current/file"));
            symlink("v2", tree.at("next")).unwrap();
            fs::rename(tree.at("next"), tree.at("current")).unwrap();
            assert_eq!(tree.lookup("current/file"), "two");
            tree.warm("current/file", "two");
            fs::write(tree.at("v2/file"), "three").unwrap();
            assert_eq!(tree.lookup("current/file"), "three");
            fs::rename(tree.at("v2"), tree.at("v3")).unwrap();
            assert_eq!(tree.lookup("current/file"), "2");
            tree.warm("current/file", "2");
            fs::rename(tree.at("v3"), tree.at("v2")).unwrap();
            assert_eq!(tree.lookup("current/file"), "three");
        }
    }
    let tree = Tree::new(files);
    fs::create_dir_all(tree.at("x/y")).unwrap();
    symlink(tree.at("v1/file"), tree.at("x/absolute")).unwrap();
    symlink("../../v1/file", tree.at("x/y/up")).unwrap();
    symlink("up", tree.at("x/y/twice")).unwrap();
    symlink("nowhere", tree.at("x/dangling")).unwrap();
    symlink("loop", tree.at("x/loop")).unwrap();
    for name in ["x/absolute", "x/y/up", "x/y/twice"] {
        tree.warm(name, "one");
        assert!(tree.is_watched(name), "{name}");
    }
    tree.warm("x/dangling", "2");
    tree.warm("x/loop", "40");
    fs::write(tree.at("v1/file"), "new").unwrap();
    for name in ["x/absolute", "x/y/up", "x/y/twice"] {
        assert_eq!(tree.lookup(name), "new");
    }
    fs::write(tree.at("x/nowhere"), "here").unwrap();
    assert_eq!(tree.lookup("x/dangling"), "here");
}

#[test]
fn links_are_refused_where_rules_say_so() {
    let tree = Tree::new(&[("a/file", "text"), ("b/none", "")]);
    symlink("file", tree.at("a/link")).unwrap();
    symlink("a", tree.at("directory")).unwrap();
    let rule = |links, from| LinkRule { links, from };
    let (base, past_link) =
        (tree.at("a").as_os_str().len(), tree.at("directory").as_os_str().len());
    let table = [
        ("a/file", rule(Links::Refuse, 0), "text"),
        ("a/link", rule(Links::Refuse, 0), "40"),
        ("directory/file", rule(Links::Refuse, 0), "40"),
        ("directory/", rule(Links::Refuse, 0), "40"),
        ("a/", rule(Links::Refuse, 0), "/"),
        ("a/none", rule(Links::Refuse, 0), "2"),
        ("a/link", rule(Links::SameOwner, 0), "text"),
        ("directory/file", rule(Links::SameOwner, 0), "text"),
        ("a/file", rule(Links::Refuse, base), "text"),
        ("a/link", rule(Links::Refuse, base), "40"),
        ("directory/file", rule(Links::Refuse, past_link), "text"),
    ];
    for _ in 0..4 {
        for (name, rule, expected) in table {
            assert_eq!(tree.lookup_by(name, rule), expected, "{name} {rule:?}");
        }
        assert_eq!(tree.lookup("a/link"), "text");
        admitted();
    }
    fs::rename(tree.at("a/file"), tree.at("b/file")).unwrap();
    symlink("../b/file", tree.at("a/file")).unwrap();
    assert_eq!(tree.lookup_by("a/file", rule(Links::Refuse, 0)), "40");
    assert_eq!(tree.lookup("a/file"), "text");
}

#[test]
fn what_is_no_file_is_not_opened() {
    let tree = Tree::new(&[("a/file", "text")]);
    let fifo = std::process::Command::new("mkfifo").arg(tree.at("a/fifo")).status().unwrap();
    assert!(fifo.success());
    let _socket = std::os::unix::net::UnixListener::bind(tree.at("a/socket")).unwrap();
    tree.warm("a/fifo", "other");
    tree.warm("a/socket", "other");
    assert_eq!(shown(&find(b"/dev/null", LinkRule::default(), &Policy::default())), "other");
    tree.warm("a/file/", "20");
    tree.warm("a/file/more", "20");
    tree.warm(&"x".repeat(300), "36");
    tree.warm("a/./file", "text");
    tree.warm("a/../a/file", "text");
    tree.warm("a//file", "text");
    fs::remove_file(tree.at("a/fifo")).unwrap();
    fs::write(tree.at("a/fifo"), "now").unwrap();
    assert_eq!(tree.lookup("a/fifo"), "now");
}

#[test]
fn names_are_bytes() {
    let tree = Tree::new(&[("a/file", "text")]);
    let name = tree.at("a").join(std::ffi::OsStr::from_bytes(b"\xff\xfe \n"));
    let lookup =
        || shown(&find(name.as_os_str().as_bytes(), LinkRule::default(), &Policy::default()));
    for expected in ["one", "two", "2", "one"] {
        match expected {
            "2" => fs::remove_file(&name).unwrap(),
            text => fs::write(&name, text).unwrap(),
        }
        for _ in 0..4 {
            assert_eq!(lookup(), expected);
            admitted();
        }
    }
}

#[test]
fn large_files_are_kept_open_until_they_change() {
    let tree = Tree::new(&[]);
    let large = |byte: &str| byte.repeat(300 * 1024);
    fs::write(tree.at("large"), large("a")).unwrap();
    tree.warm("large", &large("a"));
    let path = tree.at("large");
    let entry = find(path.as_os_str().as_bytes(), LinkRule::default(), &Policy::default());
    assert!(entry.file().unwrap().is_open() && entry.watched);
    fs::write(tree.at("large"), large("b")).unwrap();
    assert_eq!(tree.lookup("large"), large("b"));
    drop(entry);
    tree.warm("large", &large("b"));
    let inode = fs::metadata(&path).unwrap().ino();
    fs::remove_file(&path).unwrap();
    assert_eq!(tree.lookup("large"), "2");
    let held = fs::read_dir("/proc/self/fd").unwrap().filter_map(|fd| fd.ok());
    let held = held.filter_map(|fd| fs::metadata(fd.path()).ok());
    assert_eq!(held.filter(|held| held.ino() == inode && held.nlink() == 0).count(), 0);
}

#[test]
fn permissions_count_from_the_next_request_on() {
    let tree = Tree::new(&[("a/file", "text")]);
    tree.warm("a/file", "text");
    let tested =
        || test(tree.at("a/file").as_os_str().as_bytes(), LinkRule::default(), &Policy::default());
    assert!(!tested().unwrap().executable);
    fs::set_permissions(tree.at("a/file"), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(tested().unwrap().executable);
}

#[test]
fn validators_are_those_of_the_file() {
    let tree = Tree::new(&[("file", "text")]);
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(0x1234_5678);
    tree.warm("file", "text");
    fs::File::open(tree.at("file")).unwrap().set_modified(time).unwrap();
    let entry =
        find(tree.at("file").as_os_str().as_bytes(), LinkRule::default(), &Policy::default());
    let head = &entry.file().unwrap().head;
    assert_eq!(head.first_named(b"etag"), Some(&b"\"12345678-4\""[..]));
    assert_eq!(head.first_named(b"last-modified"), Some(&b"Wed, 05 Sep 1979 22:51:36 GMT"[..]));
}

/// Where changes are not reported the name is checked each time: /proc is such a file system.
#[test]
fn unwatched_files_are_checked() {
    let path = Path::new("/proc/self/comm").as_os_str().as_bytes();
    for _ in 0..4 {
        let entry = find(path, LinkRule::default(), &Policy::default());
        assert!(!entry.watched);
    }
}

#[test]
fn other_threads_see_changes_too() {
    let tree = Tree::new(&[("a/file", "0")]);
    let (names, received) = std::sync::mpsc::channel::<String>();
    let (sender, results) = std::sync::mpsc::channel::<String>();
    std::thread::scope(|scope| {
        let tree = &tree;
        scope.spawn(move || {
            for name in received {
                sender.send(tree.lookup(&name)).unwrap();
            }
        });
        for round in 1..200 {
            fs::write(tree.at("a/file"), round.to_string()).unwrap();
            for _ in 0..3 {
                names.send("a/file".to_owned()).unwrap();
                assert_eq!(tree.lookup("a/file"), round.to_string());
                assert_eq!(results.recv().unwrap(), round.to_string());
                admitted();
            }
        }
        drop(names);
    });
}

/// An entry that may be stale is so at most until changes are applied, which tests cannot prevent; so only entries
/// that must be current are tested.
#[test]
fn a_window_for_files_is_none_for_missing_ones() {
    let policy =
        Policy { window: Some(Duration::from_secs(3600)), errors: false, ..Policy::default() };
    let tree = Tree::new(&[("a/file", "text")]);
    for round in 0..50 {
        let name = format!("a/new{round}");
        let lookup =
            || shown(&find(tree.at(&name).as_os_str().as_bytes(), LinkRule::default(), &policy));
        for _ in 0..2 {
            assert_eq!(lookup(), "2");
        }
        admitted();
        assert_eq!(lookup(), "2");
        fs::write(tree.at(&name), "made").unwrap();
        assert_eq!(lookup(), "made");
    }
}

#[test]
fn uses_are_counted_before_anything_is_kept() {
    let tree = Tree::new(&[("a/1", "text"), ("a/2", "text"), ("a/5", "text")]);
    for uses_min in [1, 2, 5] {
        let policy = Policy { uses_min, ..Policy::default() };
        let path = tree.at(&format!("a/{uses_min}"));
        let lookup = || find(path.as_os_str().as_bytes(), LinkRule::default(), &policy).watched;
        for _ in 0..uses_min {
            admitted();
            assert!(!lookup(), "{uses_min}");
        }
        admitted();
        assert!(lookup(), "{uses_min}");
    }
}
