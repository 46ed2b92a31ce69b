//! Files and directories.

use std::fs;
use std::io::IoSlice;
use std::os::fd::AsFd;
use std::os::unix::fs::symlink;

use rustix::io::ReadWriteFlags;

use super::super::{file, open, watch};
use crate::types::{FileKind, Nowait};

#[test]
fn a_fifo_never_blocks() {
    let temp = tempfile::tempdir().unwrap();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let path = temp.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).unwrap();
    let fifo = open::open_nonblock(&path).unwrap();
    assert_eq!(file::fstat(&fifo).unwrap().kind, FileKind::Other);
    for by_kernel in [true, false] {
        open::open_checking_links_by(&path, 0, false, false, by_kernel).unwrap();
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

    // Just written, so in the page cache; file systems that never promise that may refuse.
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
    assert!(file::statfs_free(&std::env::temp_dir()).unwrap() > 0);
}

#[test]
fn links_are_described_or_followed() {
    let temp = tempfile::tempdir().unwrap();
    fs::write(temp.path().join("index"), "index").unwrap();
    let link = temp.path().join("link");
    symlink("index", &link).unwrap();
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
    let directory = tempfile::tempdir().unwrap();
    let watcher = watch::Watcher::new().unwrap();
    let (one, other) =
        (watch::Pending::new(&watcher).unwrap(), watch::Pending::new(&watcher).unwrap());
    watcher.add(directory.path(), watch::WatchFlags::CREATE).unwrap();
    for _ in 0..3 {
        assert!(!one.check().unwrap().events);
        std::fs::write(directory.path().join("file"), "").unwrap();
        for pending in [&one, &one, &other] {
            assert!(pending.check().unwrap().events);
        }
        assert!(one.wait().unwrap().events);
        assert_eq!(watcher.read().unwrap().len(), 1);
        assert!(!other.check().unwrap().events);
        std::fs::remove_file(directory.path().join("file")).unwrap();
    }
}

#[test]
fn direct_reads_need_aligned_buffers() {
    // In the working directory: the file system of /tmp may have no direct reads.
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
