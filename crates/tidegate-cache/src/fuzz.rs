//! Operation fuzzing of fills: for any sequence of appends, flushes, reads, failures and ends, every reader
//! gets a prefix of the body, or all of it, and never anything else.

use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use bytes::Bytes;

use crate::disk::{Disk, read_full_at};
use crate::fake::{Faults, MemoryDisk};
use crate::fill::{BreakReason, Fill, FillReader, Head, Piece};
use crate::index::Remembered;
use crate::journal::SnapshotWriter;
use crate::key::{Key, Levels};
use crate::store::{Options, Store};
use crate::times::Times;
use crate::writer::{Committed, FillWriter};

/// The most readers at one time.
const READERS_MAX: usize = 6;

/// Runs a future on this thread, which is parked while the future waits.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let woken =
        Arc::new(Unparker { thread: std::thread::current(), woken: AtomicBool::new(false) });
    let waker = Waker::from(woken.clone());
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        while !woken.woken.swap(false, Ordering::AcqRel) {
            std::thread::park();
        }
    }
}

struct Unparker {
    thread: Thread,
    woken: AtomicBool,
}

impl Wake for Unparker {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Runs one operation on one key's fills for each byte of the input. Panics when a reader gets a wrong byte
/// or an early end, when a waiting reader is not woken, or when the store serves anything but a whole body.
pub fn fuzz_operations(input: &[u8]) {
    let disk = MemoryDisk::default();
    let mut options = Options::new("/cache");
    options.levels = Levels::new(&[1, 2]).unwrap_or_default();
    options.fill_tail_bytes_max = 64;
    options.memory_body_bytes_max = 48;
    let store = match Store::open(options, Arc::new(disk.clone())) {
        Ok(store) => store,
        Err(error) => panic!("a disk without faults failed: {error}"),
    };
    let mut run = Run {
        key: Key::new(&b"fuzz"[..]),
        store,
        disk,
        round: 0,
        writer: None,
        readers: Vec::new(),
        stored: None,
        now: 1,
    };
    let mut bytes = input.iter().copied();
    while let Some(operation) = bytes.next() {
        run.step(operation & 15, operation >> 4, bytes.next().unwrap_or(0));
        run.check_wakeups();
    }
    drop(run.writer.take());
    run.check_wakeups();
    for _ in 0..4 {
        run.read_all();
    }
    run.check_store();
}

struct Run {
    key: Key,
    store: Store,
    disk: MemoryDisk,
    /// The number of the fill. The bytes of its body depend on it.
    round: u8,
    writer: Option<(FillWriter, WrittenFill)>,
    readers: Vec<Follower>,
    /// The round and length of the last committed body.
    stored: Option<(u8, u64)>,
    now: u64,
}

struct WrittenFill {
    round: u8,
    bytes: u64,
    published: bool,
    promised: Option<u64>,
}

struct Follower {
    round: u8,
    start: u64,
    reader: FillReader,
    woken: Arc<Flag>,
    waiting: bool,
    ended: bool,
}

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

impl Run {
    /// Runs one operation, chosen by bytes of the input. Whatever they are, the store must hold the state
    /// that [`Run`] expects: an operation that makes no sense at this moment (a commit without a fill) does
    /// nothing.
    fn step(&mut self, operation: u8, small: u8, large: u8) {
        self.now += u64::from(small);
        match operation {
            0 | 1 => self.begin(),
            2 => self.publish(large),
            3..=4 => self.append(large, false),
            5 => self.append(large, true),
            6 => {
                if let Some((writer, _)) = &self.writer {
                    writer.flush_step();
                    match small & 3 {
                        0 => writer.flusher().show_flushed(),
                        2 => writer.flusher().trim(),
                        1 => writer.show(),
                        _ => {}
                    }
                }
            }
            7 | 8 => self.follow(u64::from(large) * u64::from(small & 1)),
            9 | 10 => {
                let at = usize::from(small);
                if let Some(follower) = self.readers.get_mut(at % READERS_MAX) {
                    follower.read(usize::from(large) + 1);
                }
            }
            11 => self.commit(),
            12 if small & 1 == 1 => self.hand_over(),
            12 => self.end_early(large),
            13 if small & 1 == 1 => {
                if let Some(follower) = self.readers.first_mut() {
                    follower.reader.skip(u64::from(large));
                    follower.read(1);
                }
            }
            13 => drop((!self.readers.is_empty()).then(|| self.readers.remove(0))),
            14 => {
                let faults = Faults {
                    fail_at: (small < 4).then(|| u64::from(large % 8) + 1),
                    fail_on: small & 1 == 1,
                    torn_writes: small & 2 == 2,
                    bytes_max: usize::from(large >> 5) * 7,
                };
                self.disk.set_faults(faults);
            }
            _ => {
                self.disk.set_faults(Faults::default());
                if small & 1 == 1 {
                    let _ = self.store.remove(&self.key);
                    self.stored = None;
                }
                self.store.manage_step(self.now, 100);
                self.check_store();
            }
        }
    }

    fn begin(&mut self) {
        if self.writer.is_some() {
            return;
        }
        // The writer is the only one of this key, so only a leftover could prevent it.
        if let Ok(writer) = self.store.begin_fill(&self.key, self.now) {
            self.round = self.round.wrapping_add(1);
            let written =
                WrittenFill { round: self.round, bytes: 0, published: false, promised: None };
            self.writer = Some((writer, written));
        } else {
            panic!("a fill without a writer is in the way");
        }
    }

    fn publish(&mut self, large: u8) {
        let Some((writer, written)) = &mut self.writer else { return };
        let promised = (large & 3 == 0).then(|| u64::from(large >> 2));
        let metadata = Bytes::from(vec![written.round; usize::from(large)]);
        writer.publish_head(metadata, times(self.now), promised, self.now);
        if !written.published {
            written.published = true;
            written.promised = promised;
        }
    }

    fn append(&mut self, length: u8, held: bool) {
        let Some((writer, written)) = &mut self.writer else { return };
        let offsets = written.bytes..written.bytes + u64::from(length);
        let bytes: Vec<u8> = offsets.map(|offset| body_byte(written.round, offset)).collect();
        written.bytes += u64::from(length);
        match held {
            true => writer.hold(bytes.into(), self.now),
            false => writer.append(bytes.into(), self.now),
        };
    }

    fn follow(&mut self, start: u64) {
        let Some((writer, written)) = &self.writer else { return };
        if self.readers.len() < READERS_MAX {
            let fill: &Arc<Fill> = writer.fill();
            self.readers.push(Follower {
                round: written.round,
                start,
                reader: fill.reader(start),
                woken: Arc::default(),
                waiting: false,
                ended: false,
            });
        }
    }

    fn commit(&mut self) {
        let Some((writer, written)) = self.writer.take() else { return };
        let matches = written.promised.is_none_or(|promised| promised == written.bytes);
        match writer.commit(self.now) {
            Committed::Stored => {
                assert!(written.published && matches, "stored an unfinished body");
                self.stored = Some((written.round, written.bytes));
            }
            Committed::NotStored(_) => assert!(written.published && matches),
            Committed::Broken(_) => assert!(!written.published || !matches),
        }
    }

    /// Replaces this fill by another one of the same body, which takes its readers.
    fn hand_over(&mut self) {
        let Some((silent, written)) = self.writer.take_if(|(_, written)| written.published) else {
            return;
        };
        let writer = self.store.take_over_fill(&self.key, self.now);
        let waker = Waker::from(Arc::<Flag>::default());
        let polled = silent.poll_successor(&mut Context::from_waker(&waker));
        // A fill that the index has forgotten has no successor there.
        if let Poll::Ready(successor) = polled {
            assert!(Arc::ptr_eq(&successor, writer.fill()));
        }
        let metadata = Bytes::from(vec![written.round; 3]);
        writer.publish_head(metadata, times(self.now), written.promised, self.now);
        silent.hand_over(writer.fill());
        self.writer = Some((writer, WrittenFill { bytes: 0, ..written }));
    }

    fn end_early(&mut self, large: u8) {
        let Some((writer, _)) = self.writer.take() else { return };
        match large % 3 {
            0 => writer.abort("origin died"),
            1 => writer.release(),
            _ => drop(writer),
        }
    }

    fn read_all(&mut self) {
        for follower in &mut self.readers {
            while !follower.ended && follower.read(1000) {}
            assert!(follower.ended, "the writer is gone and a reader still waits");
        }
    }

    /// Checks that a waiting reader was woken if a piece is ready for it.
    fn check_wakeups(&mut self) {
        for follower in self.readers.iter_mut().filter(|follower| follower.waiting) {
            let woken = follower.woken.0.load(Ordering::Acquire);
            let progressed = follower.read(1);
            assert!(!progressed || woken, "a reader sleeps though there is something to read");
        }
    }

    /// Checks that the store serves the last committed body, whole, or nothing.
    fn check_store(&mut self) {
        self.disk.set_faults(Faults::default());
        let opened = match self.store.open_entry(&self.key, self.now) {
            Ok(opened) => opened,
            Err(error) => panic!("a disk without faults failed: {error}"),
        };
        let Some(entry) = opened else { return };
        let Some((round, length)) = self.stored else { panic!("served what was not stored") };
        assert_eq!(entry.body_bytes(), length);
        let mut body = vec![0; length as usize];
        match (entry.body_in_memory(), entry.file()) {
            (Some(memory), _) => body.copy_from_slice(&memory),
            (None, Some(file)) => {
                let count = read_full_at(&**file, &mut body, entry.body_start());
                assert_eq!(count.ok(), Some(length as usize));
            }
            (None, None) => panic!("an entry without a body"),
        }
        for (offset, byte) in body.iter().enumerate() {
            assert_eq!(*byte, body_byte(round, offset as u64), "wrong byte at {offset}");
        }
    }
}

impl Follower {
    /// Reads one piece; returns false when there is none yet.
    fn read(&mut self, max: usize) -> bool {
        let waker = Waker::from(self.woken.clone());
        self.woken.0.store(false, Ordering::Release);
        let mut context = Context::from_waker(&waker);
        if let Poll::Ready(Head::Ready(head)) = self.reader.poll_head(&mut context) {
            assert!(head.metadata.iter().all(|byte| *byte == self.round));
        }
        let from = self.reader.offset();
        let Poll::Ready(piece) = self.reader.poll_next(&mut context, max) else {
            self.waiting = true;
            return false;
        };
        self.waiting = false;
        match piece {
            Piece::Bytes(bytes) => self.check(from, &bytes, max),
            Piece::File { handle, offset, length, .. } => {
                let mut bytes = vec![0; length as usize];
                // A failing disk breaks this reader's response, not the test.
                if let Ok(count) = read_full_at(&*handle, &mut bytes, offset) {
                    assert_eq!(count, bytes.len(), "a promised range is not in the file");
                    self.check(from, &bytes, max);
                }
            }
            Piece::End => {
                assert!(self.reader.fill().watermark() <= from.max(self.start));
                self.ended = true;
            }
            Piece::Broken(reason) => {
                assert_ne!(reason, BreakReason::Aborted("".into()));
                self.ended = true;
            }
        }
        true
    }

    fn check(&self, from: u64, bytes: &[u8], max: usize) {
        assert!(!bytes.is_empty() && bytes.len() <= max);
        for (at, byte) in bytes.iter().enumerate() {
            let offset = from + at as u64;
            assert_eq!(*byte, body_byte(self.round, offset), "wrong byte at {offset}");
        }
    }
}

fn body_byte(round: u8, offset: u64) -> u8 {
    (offset.wrapping_mul(7) as u8) ^ (offset >> 8) as u8 ^ round.wrapping_mul(31)
}

fn times(now: u64) -> Times {
    Times { created: now, valid_until: now + 10, updating_until: now + 20, error_until: now + 30 }
}

/// Writes a snapshot of `count` generated entries and the one of `key`, for measurements. The file of `key`
/// is assumed to be of 24 kilobytes.
pub fn write_snapshot_of(
    disk: &dyn Disk,
    root: &Path,
    levels: Levels,
    key: &Key,
    entries: u64,
    now: u64,
) {
    let written = SnapshotWriter::create(disk, root, now).and_then(|mut writer| {
        for number in 0..entries {
            let other = Key::new(number.to_le_bytes());
            let hash = if number == entries / 2 { *key.hash() } else { *other.hash() };
            writer.add(Remembered {
                hash,
                body_bytes: 20_000,
                blocks: 6,
                last_access: now,
                heat: (number % 4) as u8,
                is_main: number % 10 != 0,
            })?;
        }
        writer.finish(disk, root, levels, now, false)
    });
    if let Err(error) = written {
        panic!("{}: {error}", root.display());
    }
}
