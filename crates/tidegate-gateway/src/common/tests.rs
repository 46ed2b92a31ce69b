//! Buffered responses: order, spilling, ends.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::blocking;
use tidegate_core::body::{BodyError, BodyStream, Chunk};

use super::buffered::{self, SpillLog, Spool};
use super::settings::SpoolSettings;

/// A source that always has the next of `count` pieces ready, and counts the pieces taken.
struct Source {
    next: u8,
    count: u8,
    taken: Rc<RefCell<u8>>,
}

const PIECE: usize = 100;

impl BodyStream for Source {
    fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        if self.next == self.count {
            return Poll::Ready(None);
        }
        self.next += 1;
        *self.taken.borrow_mut() = self.next;
        Poll::Ready(Some(Ok(Chunk::Bytes(Bytes::from(vec![self.next; PIECE])))))
    }

    fn is_over(&self) -> bool {
        self.next == self.count
    }
}

fn bytes_of(chunk: &Chunk) -> Vec<u8> {
    match chunk {
        Chunk::Bytes(bytes) => bytes.to_vec(),
        Chunk::File(range) => {
            use std::os::unix::fs::FileExt;
            let mut bytes = vec![0; range.length as usize];
            range.file.read_exact_at(&mut bytes, range.offset).expect("the spilled part is there");
            bytes
        }
        Chunk::Flush => Vec::new(),
    }
}

fn spool(memory: u64, file: u64, directory: &Path, log: SpillLog) -> Spool {
    let settings = SpoolSettings {
        memory_bytes_max: memory,
        file_bytes_max: file,
        path: directory.to_path_buf(),
        levels: Vec::new(),
    };
    Spool { settings: Arc::new(settings), pool: blocking::pool(blocking::DEFAULT), log }
}

/// Checks a client that takes two pieces and then nothing until `stalled` pieces were read in its place.
fn check(name: &str, memory: u64, file: u64, stalled: u8) {
    let directory = tempfile::tempdir().expect("a directory");
    check_in(directory.path(), name, memory, file, stalled, Box::new(|_| {}));
    let left = std::fs::read_dir(directory.path()).expect("the directory").count();
    assert_eq!(left, 0, "{name}: temporary files have no name");
}

fn check_in(directory: &Path, name: &str, memory: u64, file: u64, stalled: u8, log: SpillLog) {
    let taken = Rc::new(RefCell::new(0));
    let spool = spool(memory, file, directory, log);
    let source = Box::new(Source { next: 0, count: 50, taken: taken.clone() });
    let got = tidegate_rt::block_on(async move {
        let mut body = buffered::body(source, Some(spool), Rc::default());
        let mut got = Vec::new();
        for _ in 0..2 {
            got.extend(bytes_of(&body.next().await.expect("a piece").expect("no error")));
        }
        while *taken.borrow() < stalled {
            tidegate_rt::timer::timeout(Duration::from_secs(10), tidegate_rt::yield_now())
                .await
                .expect("in time");
        }
        while let Some(chunk) = body.next().await {
            got.extend(bytes_of(&chunk.expect("no error")));
        }
        got
    })
    .expect("a loop");
    let expected: Vec<u8> = (1..=50).flat_map(|piece| vec![piece; PIECE]).collect();
    assert!(got == expected, "{name}: the body arrives whole and in order");
}

#[test]
fn slow_clients_are_decoupled() {
    check("all in memory", 10_000, 0, 50);
    check("memory, then the file", 500, 100_000, 50);
    check("a small file, then back-pressure", 500, 1_000, 17);
    check("nothing but memory", 500, 0, 7);
}

#[test]
fn nothing_is_lost_when_the_disk_fails() {
    let directory = tempfile::tempdir().expect("a directory");
    let no_directory = directory.path().join("file");
    std::fs::write(&no_directory, "").expect("a file");
    let log = Rc::new(RefCell::new(Vec::new()));
    let count = log.clone();
    let note: SpillLog = Box::new(move |made| count.borrow_mut().push(made.is_ok()));
    // Two pieces for the client, five in memory, and one that the disk has refused.
    check_in(&no_directory, "no file", 500, 100_000, 8, note);
    assert_eq!(*log.borrow(), [false], "asked once");
}

#[test]
fn a_source_that_is_over_is_not_watched() {
    let taken = Rc::new(RefCell::new(0));
    let holders = |count: u8| {
        let source = Box::new(Source { next: 0, count, taken: taken.clone() });
        let spool = spool(0, 0, Path::new(""), Box::new(|_| {}));
        let holders = tidegate_rt::block_on(async {
            let mut body = buffered::body(source, Some(spool), Rc::default());
            for _ in 0..2 {
                body.next().await.expect("a piece").expect("no error");
            }
            drop(body);
            Rc::strong_count(&taken)
        });
        holders.expect("a loop")
    };
    assert_eq!(holders(2), 1, "the second piece was the last one");
    assert_eq!(holders(3), 2, "a task holds the source");
}
