//! Files and folders.

use std::fs::{self, File};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::io::{Errno, ReadWriteFlags};

use super::super::{file, open, watch};
use crate::types::{FileKind, Nowait, OpenHow};

const PLAIN: OpenHow = OpenHow {
    no_symlinks: false,
    write: false,
    create: false,
    exclusive: false,
    truncate: false,
    directory: false,
    mode: 0,
};
const NO_SYMLINKS: OpenHow = OpenHow { no_symlinks: true, ..PLAIN };

type Open = fn(BorrowedFd<'_>, &Path, &OpenHow) -> rustix::io::Result<OwnedFd>;
/// Both ways must agree on everything.
const WAYS: [(&str, Open); 2] =
    [("openat2", open::open_by_kernel), ("by steps", open::open_by_steps)];

/// A root with folders and links beside a secret that must not be reached.
fn site() -> (tempfile::TempDir, OwnedFd) {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().join("root");
    fs::create_dir_all(root.join("a/b")).unwrap();
    fs::write(temp.path().join("secret"), "secret").unwrap();
    fs::write(root.join("index"), "index").unwrap();
    fs::write(root.join("a/b/deep"), "deep").unwrap();
    for (target, link) in [
        ("index", "link"),
        ("a/b", "folder"),
        ("../../index", "a/b/up"),
        ("../secret", "escape"),
        ("/etc/passwd", "absolute"),
        ("loop", "loop"),
        ("folder/up", "chain"),
    ] {
        symlink(target, root.join(link)).unwrap();
    }
    let root = open::open_directory(&root).unwrap();
    (temp, root)
}

#[test]
fn no_name_leads_out_of_the_folder() {
    #[track_caller]
    fn check(path: &str, how: OpenHow, expected: Result<&str, Errno>) {
        let (_temp, root) = site();
        for (name, open) in WAYS {
            let text = open(root.as_fd(), Path::new(path), &how)
                .map(|fd| io::read_to_string(File::from(fd)).unwrap());
            assert_eq!(text.as_deref().map_err(|error| *error), expected, "{name}: {path}");
        }
    }
    check("index", PLAIN, Ok("index"));
    check("a/b/deep", PLAIN, Ok("deep"));
    check("a//b/./deep", PLAIN, Ok("deep"));
    check("a/../index", PLAIN, Ok("index"));
    check("link", PLAIN, Ok("index"));
    check("folder/deep", PLAIN, Ok("deep"));
    check("folder/up", PLAIN, Ok("index"));
    check("chain", PLAIN, Ok("index"));
    check("absent", PLAIN, Err(Errno::NOENT));
    check("index/x", PLAIN, Err(Errno::NOTDIR));
    check("index/", PLAIN, Err(Errno::NOTDIR));
    check("../secret", PLAIN, Err(Errno::XDEV));
    check("a/../../secret", PLAIN, Err(Errno::XDEV));
    check("/etc/passwd", PLAIN, Err(Errno::XDEV));
    check("escape", PLAIN, Err(Errno::XDEV));
    check("absolute", PLAIN, Err(Errno::XDEV));
    check("loop", PLAIN, Err(Errno::LOOP));
    check("index", NO_SYMLINKS, Ok("index"));
    check("link", NO_SYMLINKS, Err(Errno::LOOP));
    check("folder/deep", NO_SYMLINKS, Err(Errno::LOOP));
    check("escape", NO_SYMLINKS, Err(Errno::LOOP));
}

#[test]
fn folders_open_both_ways() {
    let (_temp, root) = site();
    let folder = OpenHow { directory: true, ..PLAIN };
    for (name, open) in WAYS {
        for path in ["", ".", "a", "a/", "a/b/..", "folder", "folder/"] {
            let fd = open(root.as_fd(), Path::new(path), &folder).expect(name);
            assert_eq!(file::fstat(fd).unwrap().kind, FileKind::Directory, "{name}: {path}");
        }
        let refused = open(root.as_fd(), Path::new("index"), &folder);
        assert_eq!(refused.unwrap_err(), Errno::NOTDIR, "{name}");
    }
}

#[test]
fn files_are_created_beneath() {
    let (temp, root) = site();
    let how = OpenHow { create: true, exclusive: true, mode: 0o640, ..PLAIN };
    for (number, (_, open)) in WAYS.into_iter().enumerate() {
        let path = format!("a/new{number}");
        let fd = open(root.as_fd(), Path::new(&path), &how).unwrap();
        file::pwrite_all(&fd, b"text", 0).unwrap();
        let again = open(root.as_fd(), Path::new(&path), &how).unwrap_err();
        assert_eq!(again, Errno::EXIST);
        let stat = file::stat(&temp.path().join("root").join(&path), false).unwrap();
        assert_eq!((stat.size, stat.mode & 0o700), (4, 0o600));
    }
}

#[test]
fn the_public_way_opens_and_refuses() {
    let (temp, root) = site();
    let opened = open::open_beneath(&root, Path::new("folder/deep"), &PLAIN).unwrap();
    assert_eq!(io::read_to_string(opened).unwrap(), "deep");
    let error = open::open_beneath(&root, Path::new("escape"), &PLAIN).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::CrossesDevices);

    let opened = open::open_following(&root, Path::new("escape"), &PLAIN).unwrap();
    assert_eq!(io::read_to_string(opened).unwrap(), "secret");
    assert!(open::open_following(&root, Path::new("../secret"), &PLAIN).is_err());
    assert!(open::open_following(&root, &temp.path().join("secret"), &PLAIN).is_err());
}

#[test]
fn a_fifo_never_blocks() {
    let temp = tempfile::tempdir().unwrap();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let path = temp.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).unwrap();
    let fifo = open::open_nonblock(&path).unwrap();
    assert_eq!(file::fstat(&fifo).unwrap().kind, FileKind::Other);
    let root = open::open_directory(temp.path()).unwrap();
    for (_, open) in WAYS {
        open(root.as_fd(), Path::new("fifo"), &PLAIN).unwrap();
    }
}

#[test]
fn reads_and_writes_at_offsets() {
    let temp = tempfile::tempfile().unwrap();
    file::pwrite_all(&temp, b"0123456789", 0).unwrap();
    let pieces = [IoSlice::new(b"ab"), IoSlice::new(b"c")];
    assert_eq!(file::pwrite_vectored(&temp, &pieces, 10).unwrap(), 3);
    let mut buffer = [0; 8];
    assert_eq!(file::pread(&temp, &mut buffer, 6).unwrap(), 7);
    assert_eq!(&buffer[..7], b"6789abc");
    assert_eq!(file::pread(&temp, &mut buffer, 13).unwrap(), 0);

    // Just written, so in the page cache; file systems that never promise it may refuse.
    match file::pread_nowait(&temp, &mut buffer, 0).unwrap() {
        Nowait::Read(length) => assert_eq!(&buffer[..length], b"01234567"),
        Nowait::WouldBlock => {}
    }
    // A flag that the kernel does not know gives the same error as a file system without NOWAIT.
    let unknown = ReadWriteFlags::from_bits_retain(1 << 30);
    let read = file::pread_flagged(temp.as_fd(), &mut buffer, 2, unknown).unwrap();
    assert_eq!(read, Nowait::Read(8));
    assert_eq!(&buffer, b"23456789");

    file::fadvise(&temp, 0, 0, file::Advice::DontNeed);
    file::fallocate(&temp, 0, 1 << 16).unwrap();
    file::fallocate(&temp, 0, 0).unwrap();
    let stat = file::fstat(&temp).unwrap();
    assert_eq!((stat.size, stat.kind), (13, FileKind::File));
    assert!(stat.mtime_seconds > 0 && stat.inode > 0);
}

#[test]
fn a_nameless_file_gets_its_name() {
    let temp = tempfile::tempdir().unwrap();
    let nameless = match file::open_temp(temp.path(), 0o600) {
        Ok(nameless) => nameless,
        Err(error) if error.kind() == io::ErrorKind::Unsupported => return,
        Err(error) => panic!("{error}"),
    };
    file::pwrite_all(&nameless, b"whole", 0).unwrap();
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
    let fresh = temp.path().join("fresh");
    file::link_temp(&nameless, &fresh).unwrap();
    let error = file::link_temp(&nameless, &fresh).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    let final_name = temp.path().join("final");
    fs::write(&final_name, "old").unwrap();
    file::rename(&fresh, &final_name).unwrap();
    file::sync_directory(temp.path()).unwrap();
    assert_eq!(fs::read_to_string(&final_name).unwrap(), "whole");
    assert!(file::statfs_free(temp.path()).unwrap() > 0);
    assert!(file::block_size(temp.path()).unwrap() >= 512);
}

#[test]
fn links_are_described_or_followed() {
    let (temp, _) = site();
    let link = temp.path().join("root/link");
    assert_eq!(file::stat(&link, false).unwrap().kind, FileKind::Symlink);
    assert_eq!(file::stat(&link, true).unwrap().size, 5);
}

#[test]
fn changes_are_noticed() {
    let temp = tempfile::tempdir().unwrap();
    let watcher = watch::Watcher::new().unwrap();
    assert!(watcher.read().unwrap().is_empty());
    let flags = watch::WatchFlags::CREATE | watch::WatchFlags::DELETE;
    let number = watcher.add(temp.path(), flags).unwrap();
    fs::write(temp.path().join("file"), "").unwrap();
    fs::remove_file(temp.path().join("file")).unwrap();
    let events = watcher.read().unwrap();
    let seen: Vec<_> = events.iter().map(|event| (event.watch, event.what)).collect();
    let expected = [(number, watch::ReadFlags::CREATE), (number, watch::ReadFlags::DELETE)];
    assert_eq!(seen, expected);
    assert!(events.iter().all(|event| event.name.as_deref() == Some("file".as_ref())));
    watcher.remove(number).unwrap();
    assert_eq!(watcher.read().unwrap()[0].what, watch::ReadFlags::IGNORED);
    assert!(watcher.add(&temp.path().join("absent"), flags).is_err());
}

#[test]
fn pending_changes_are_seen_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let watcher = watch::Watcher::new().unwrap();
    let (one, other) =
        (watch::Pending::new(&watcher).unwrap(), watch::Pending::new(&watcher).unwrap());
    watcher.add(folder.path(), watch::WatchFlags::CREATE).unwrap();
    for _ in 0..3 {
        assert!(!one.check().unwrap().events);
        std::fs::write(folder.path().join("file"), "").unwrap();
        for pending in [&one, &one, &other] {
            assert!(pending.check().unwrap().events);
        }
        assert!(one.wait().unwrap().events);
        assert_eq!(watcher.read().unwrap().len(), 1);
        assert!(!other.check().unwrap().events);
        std::fs::remove_file(folder.path().join("file")).unwrap();
    }
}

#[test]
fn direct_reads_want_aligned_places() {
    // In the working folder: what /tmp is on may have no direct reads.
    let mut temp = tempfile::tempfile_in(".").unwrap();
    std::io::Write::write_all(&mut temp, &[7; 8192]).unwrap();
    if file::set_direct(&temp).is_err() {
        return;
    }
    let flags = rustix::fs::fcntl_getfl(&temp).unwrap();
    assert!(flags.contains(rustix::fs::OFlags::DIRECT | rustix::fs::OFlags::RDWR));
    let mut memory = vec![0; 3 * 4096];
    let lead = memory.as_ptr().align_offset(4096);
    assert_eq!(file::pread(&temp, &mut memory[lead..lead + 4096], 4096).unwrap(), 4096);
    assert_eq!(memory[lead], 7);
}
