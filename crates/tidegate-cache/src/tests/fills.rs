//! Running fills: what readers get while a body arrives.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use proptest::prelude::*;

use super::support::*;
use crate::fake::{Faults, MemoryDisk};
use crate::fuzz::{block_on, fuzz_operations};
use crate::{BreakReason, Committed, FillWriter, Head, Piece};

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn counted() -> (Arc<Count>, Waker) {
    let count = Arc::new(Count::default());
    (count.clone(), Waker::from(count))
}

fn publish(writer: &FillWriter, length: Option<u64>) {
    writer.publish_head(Bytes::from_static(b"head"), times(1), length, 1);
}

#[test]
fn readers_get_the_attached_value() {
    let store = open(&MemoryDisk::default());
    let writer = begin(&store, &key("a"), 1);
    let reader = writer.fill().reader(0);
    assert_eq!(reader.fill().attached::<u32>(), None);
    writer.fill().attach(1_u32);
    writer.fill().attach(2_u32);
    assert_eq!(reader.fill().attached::<u32>(), Some(&1), "the first stays");
    assert_eq!(reader.fill().attached::<u64>(), None, "another type");
}

#[test]
fn followers_stream_what_has_arrived() {
    let disk = MemoryDisk::default();
    let store = open(&disk);
    let writer = begin(&store, &key("a"), 1);
    let follow = store.begin_fill(&key("a"), 2).err().expect("a fill runs");
    assert!(Arc::ptr_eq(&follow, writer.fill()));
    let mut reader = follow.reader(0);
    publish(&writer, Some(8));
    assert!(matches!(block_on(reader.head()), Head::Ready(head) if head.metadata[..] == *b"head"));
    writer.append(Bytes::from_static(b"1234"), 7);
    assert!(matches!(block_on(reader.next(3)), Piece::Bytes(bytes) if bytes[..] == *b"123"));
    assert!(matches!(block_on(reader.next(9)), Piece::Bytes(bytes) if bytes[..] == *b"4"));
    assert_eq!(follow.last_progress_at(), 7);
    writer.append(Bytes::from_static(b"5678"), 8);
    assert!(matches!(writer.commit(9), Committed::Stored));
    assert_eq!(drain(&mut reader, 100), (b"5678".to_vec(), Ok(())));
    assert_eq!(drain(&mut follow.reader(6), 100), (b"78".to_vec(), Ok(())));
    assert_eq!(served(&store, &key("a")), Some((b"head".to_vec(), b"12345678".to_vec())));
    assert!(store.lookup(&key("a"), 10).fill.is_none());
}

#[test]
fn pieces_of_any_size_are_written_in_their_order() {
    let disk = MemoryDisk::default();
    // Larger than one write, at its limit, and more than one write takes.
    let tables: [&[usize]; 4] =
        [&[300_000], &[65_536, 65_536, 1], &[1, 65_535, 70_000, 3], &[100; 700]];
    for (seed, lengths) in tables.into_iter().enumerate() {
        let store = open(&disk);
        let writer = begin(&store, &key("a"), 1);
        publish(&writer, None);
        let whole = body(lengths.iter().sum(), seed as u8);
        let mut rest = Bytes::from(whole.clone());
        for length in lengths {
            writer.hold(rest.split_to(*length), 1);
        }
        if seed % 2 == 0 {
            writer.flush_step();
        }
        assert!(matches!(writer.commit(2), Committed::Stored));
        let stored = served(&store, &key("a")).expect("stored");
        assert!(stored.1 == whole, "{lengths:?}");
    }
}

#[test]
fn an_append_wakes_the_readers_it_concerns() {
    let store = open(&MemoryDisk::default());
    let writer = begin(&store, &key("a"), 1);
    let (mut near, mut far) = (writer.fill().reader(0), writer.fill().reader(10));
    let (near_count, near_waker) = counted();
    let (far_count, far_waker) = counted();
    assert!(near.poll_head(&mut Context::from_waker(&near_waker)).is_pending());
    publish(&writer, None);
    assert_eq!(near_count.0.load(Ordering::SeqCst), 1);
    assert!(near.poll_next(&mut Context::from_waker(&near_waker), 9).is_pending());
    assert!(far.poll_next(&mut Context::from_waker(&far_waker), 9).is_pending());
    writer.append(Bytes::from_static(b"12345"), 1);
    writer.append(Bytes::from_static(b"67890"), 1);
    assert_eq!(near_count.0.load(Ordering::SeqCst), 2, "woken once, by the first append");
    assert_eq!(far_count.0.load(Ordering::SeqCst), 0, "nothing for it yet");
    writer.append(Bytes::from_static(b"x"), 1);
    assert_eq!(far_count.0.load(Ordering::SeqCst), 1);
    assert!(far.poll_next(&mut Context::from_waker(&far_waker), 9).is_ready());
}

#[test]
fn a_thousand_readers_are_woken_once_for_each_part() {
    const READERS: usize = 1000;
    const PARTS: usize = 20;
    let store = open(&MemoryDisk::default());
    let writer = begin(&store, &key("a"), 1);
    publish(&writer, None);
    let mut readers: Vec<_> = (0..READERS)
        .map(|_| {
            let (count, waker) = counted();
            (writer.fill().reader(0), count, waker)
        })
        .collect();
    let mut pieces = 0;
    for part in 1..=PARTS {
        for (reader, count, waker) in &mut readers {
            assert!(reader.poll_next(&mut Context::from_waker(waker), 100).is_pending());
            assert_eq!(
                count.0.load(Ordering::SeqCst),
                part - 1,
                "no byte arrived, no reader is woken"
            );
        }
        writer.append(body(10, part as u8).into(), 1);
        writer.flush_step();
        for (reader, count, waker) in &mut readers {
            assert_eq!(count.0.load(Ordering::SeqCst), part, "one wake-up for one part");
            let piece = reader.poll_next(&mut Context::from_waker(waker), 100);
            pieces += match piece {
                Poll::Ready(Piece::Bytes(bytes)) => bytes.len() / 10,
                Poll::Ready(Piece::File { length, .. }) => length as usize / 10,
                _ => 0,
            };
        }
    }
    assert_eq!(pieces, READERS * PARTS, "each part was read once");
    // A reader that does not wait is not woken.
    for _ in 0..5 {
        writer.append(body(10, 0).into(), 1);
    }
    let woken: usize = readers.iter().map(|(_, count, _)| count.0.load(Ordering::SeqCst)).sum();
    assert_eq!(woken, READERS * PARTS);
}

#[test]
fn held_bytes_are_seen_once_they_are_in_the_file() {
    let store = open(&MemoryDisk::default());
    let writer = begin(&store, &key("a"), 1);
    publish(&writer, None);
    let mut reader = writer.fill().reader(0);
    let (count, waker) = counted();
    let mut context = Context::from_waker(&waker);
    let whole = body(400, 2);
    assert!(reader.poll_next(&mut context, 500).is_pending());
    assert_eq!(writer.hold(Bytes::copy_from_slice(&whole[..150]), 1).held, 150);
    writer.flush_step();
    assert_eq!(writer.hold(Bytes::copy_from_slice(&whole[150..200]), 1).held, 200);
    assert!(reader.poll_next(&mut context, 500).is_pending());
    assert_eq!(count.0.load(Ordering::SeqCst), 0);
    writer.flusher().show_flushed();
    assert_eq!((count.0.load(Ordering::SeqCst), writer.pending().held), (1, 50));
    let piece = reader.poll_next(&mut context, 500);
    assert!(matches!(piece, Poll::Ready(Piece::File { length: 150, .. })));
    assert!(reader.poll_next(&mut context, 500).is_pending());
    // Bytes that have to wait too long are read from memory.
    writer.show();
    assert_eq!(count.0.load(Ordering::SeqCst), 2);
    let piece = reader.poll_next(&mut context, 500);
    assert!(matches!(piece, Poll::Ready(Piece::Bytes(bytes)) if bytes[..] == whole[150..200]));
    assert!(reader.poll_next(&mut context, 500).is_pending());
    // The end shows all bytes.
    writer.hold(Bytes::copy_from_slice(&whole[200..]), 1);
    assert_eq!(writer.finish(), Ok(()));
    assert_eq!(count.0.load(Ordering::SeqCst), 3);
    assert_eq!(drain(&mut reader, 1000), (whole[200..].to_vec(), Ok(())));
}

#[test]
fn an_unshared_fill_is_found_once_it_is_complete() {
    let store = open(&MemoryDisk::default());
    store.lookup(&key("a"), 1);
    let alone = store.begin_fill_beside(&key("a"), 1);
    let other = store.begin_fill_beside(&key("a"), 1);
    for writer in [&alone, &other] {
        publish(writer, Some(4));
        writer.append(Bytes::from_static(b"12"), 1);
    }
    assert!(store.lookup(&key("a"), 1).fill.is_none());
    alone.append(Bytes::from_static(b"34"), 1);
    let found = store.lookup(&key("a"), 1).fill.expect("it is whole");
    assert!(Arc::ptr_eq(&found, alone.fill()));
    assert_eq!(alone.finish(), Ok(()));
    assert_eq!(drain(&mut found.reader(0), 9), (b"1234".to_vec(), Ok(())));
    // The last one counts, whatever the order in which they are stored.
    other.append(Bytes::from_static(b"56"), 1);
    let found = store.lookup(&key("a"), 1).fill.expect("it is whole");
    assert!(Arc::ptr_eq(&found, other.fill()));
    assert!(matches!(alone.commit(2), Committed::NotStored(None)));
    assert!(matches!(other.commit(2), Committed::Stored));
    let lookup = store.lookup(&key("a"), 2);
    assert!(lookup.fill.is_none() && lookup.entry.is_some());
    assert_eq!(served(&store, &key("a")).map(|(_, body)| body), Some(b"1256".to_vec()));
}

#[test]
fn a_fill_removed_meanwhile_is_not_offered() {
    let store = open(&MemoryDisk::default());
    store.lookup(&key("a"), 1);
    let alone = store.begin_fill_beside(&key("a"), 1);
    publish(&alone, Some(2));
    store.remove(&key("a")).expect("disk");
    store.lookup(&key("a"), 1);
    alone.append(Bytes::from_static(b"12"), 1);
    assert!(store.lookup(&key("a"), 1).fill.is_none());
    assert!(matches!(alone.commit(2), Committed::NotStored(None)));
}

#[test]
fn without_a_file_nothing_is_held() {
    let disk = MemoryDisk::default();
    let store = open(&disk);
    let writer = begin(&store, &key("a"), 1);
    publish(&writer, None);
    let mut reader = writer.fill().reader(0);
    let (count, waker) = counted();
    let mut context = Context::from_waker(&waker);
    assert!(reader.poll_next(&mut context, 500).is_pending());
    writer.hold(Bytes::from_static(b"12"), 1);
    disk.set_faults(Faults { fail_at: Some(1), fail_on: true, ..Faults::default() });
    writer.flush_step();
    assert_eq!(count.0.load(Ordering::SeqCst), 1, "there will be no file to wait for");
    assert_eq!(writer.hold(Bytes::from_static(b"34"), 1).held, 0);
    assert_eq!(writer.finish(), Ok(()));
    assert_eq!(drain(&mut reader, 500), (b"1234".to_vec(), Ok(())));
}

#[test]
fn skipping_ahead_waits_for_the_byte_there() {
    let store = open(&MemoryDisk::default());
    let writer = begin(&store, &key("a"), 1);
    publish(&writer, Some(20));
    let mut reader = writer.fill().reader(0);
    let (count, waker) = counted();
    let mut context = Context::from_waker(&waker);
    assert!(reader.poll_next(&mut context, 9).is_pending());
    reader.skip(12);
    assert_eq!(reader.offset(), 12);
    assert!(reader.poll_next(&mut context, 9).is_pending());
    writer.append(body(12, 0).into(), 1);
    assert_eq!(count.0.load(Ordering::SeqCst), 0);
    writer.append(Bytes::from_static(b"12345678"), 1);
    assert_eq!(count.0.load(Ordering::SeqCst), 1);
    assert_eq!(writer.finish(), Ok(()));
    assert_eq!(drain(&mut reader, 3), (b"12345678".to_vec(), Ok(())));
    reader.skip(u64::MAX);
    assert!(matches!(block_on(reader.next(1)), Piece::End));
}

#[test]
fn readers_of_a_silent_fill_move_to_its_successor() {
    let disk = MemoryDisk::default();
    let store = open(&disk);
    let whole = body(600, 5);
    let silent = begin(&store, &key("a"), 1);
    publish(&silent, Some(600));
    silent.append(Bytes::copy_from_slice(&whole[..200]), 1);
    silent.flush_step();
    silent.append(Bytes::copy_from_slice(&whole[200..300]), 1);
    let (mut near, mut far) = (silent.fill().reader(0), silent.fill().reader(0));
    let mut ahead = silent.fill().reader(550);
    let (count, waker) = counted();
    let mut context = Context::from_waker(&waker);
    assert!(silent.poll_successor(&mut context).is_pending());
    while let Poll::Ready(piece) = near.poll_next(&mut context, 1000) {
        assert!(!matches!(piece, Piece::End | Piece::Broken(_)));
    }
    assert_eq!(near.offset(), 300);

    let fresh = store.take_over_fill(&key("a"), 2);
    assert_eq!(count.0.load(Ordering::SeqCst), 1, "the writer of the silent fill is woken");
    let Poll::Ready(successor) = silent.poll_successor(&mut context) else {
        panic!("no successor")
    };
    assert!(Arc::ptr_eq(&successor, fresh.fill()));
    publish(&fresh, Some(600));
    silent.hand_over(&successor);
    assert_eq!(count.0.load(Ordering::SeqCst), 2, "and its reader");
    assert!(near.poll_next(&mut context, 1000).is_pending());
    fresh.append(Bytes::copy_from_slice(&whole[..400]), 2);
    assert_eq!(count.0.load(Ordering::SeqCst), 3);
    fresh.append(Bytes::copy_from_slice(&whole[400..]), 2);
    assert!(matches!(fresh.commit(3), Committed::Stored));
    assert_eq!(drain(&mut near, 100), (whole[300..].to_vec(), Ok(())));
    assert_eq!(drain(&mut far, 100), (whole.clone(), Ok(())));
    assert_eq!(drain(&mut ahead, 100), (whole[550..].to_vec(), Ok(())));
    assert!(matches!(near.poll_stored(&mut context), Poll::Ready(true)));
    assert_eq!(served(&store, &key("a")).map(|(_, body)| body), Some(whole));
    store.manage_step(4, 10);
    assert_eq!(disk.paths().len(), 1, "the silent one leaves no file");
}

#[test]
fn far_readers_get_ranges_of_the_file() {
    let disk = MemoryDisk::default();
    let store = open(&disk);
    let writer = begin(&store, &key("a"), 1);
    publish(&writer, None);
    let whole = body(5000, 3);
    for part in whole.chunks(100) {
        writer.append(Bytes::copy_from_slice(part), 1);
        writer.flush_step();
    }
    let fill = writer.fill().clone();
    let mut reader = fill.reader(0);
    assert!(matches!(block_on(reader.next(50)), Piece::File { length: 50, .. }));
    assert!(matches!(writer.commit(2), Committed::Stored));
    // The file has another name now.
    assert_eq!(drain(&mut reader, 1 << 20), (whole[50..].to_vec(), Ok(())));
    assert_eq!(served(&store, &key("a")), Some((b"head".to_vec(), whole)));
    let names = disk.paths();
    assert_eq!(names.len(), 1, "{names:?}");
}

#[test]
fn early_ends_are_reported_to_readers() {
    let check = |end: fn(FillWriter), expected: BreakReason| {
        let disk = MemoryDisk::default();
        let store = open(&disk);
        let writer = begin(&store, &key("a"), 1);
        publish(&writer, Some(9));
        writer.append(Bytes::from_static(b"1234"), 1);
        writer.flush_step();
        let mut reader = writer.fill().reader(0);
        end(writer);
        assert_eq!(drain(&mut reader, 100), (b"1234".to_vec(), Err(expected)));
        assert!(store.lookup(&key("a"), 2).entry.is_none());
        assert_eq!(store.manage_step(2, 10).removed_files, 1);
        assert!(disk.paths().is_empty());
        drop(begin(&store, &key("a"), 3));
    };
    check(|writer| writer.abort("reset"), BreakReason::Aborted("reset".into()));
    check(drop, BreakReason::WriterGone);
    check(
        |writer| assert!(matches!(writer.commit(2), Committed::Broken(_))),
        BreakReason::LengthMismatch { promised: 9, received: 4 },
    );
}

#[test]
fn uncacheable_heads_wake_waiting_readers() {
    let store = open(&MemoryDisk::default());
    let writer = begin(&store, &key("a"), 1);
    let mut reader = writer.fill().reader(0);
    let (count, waker) = counted();
    assert!(reader.poll_head(&mut Context::from_waker(&waker)).is_pending());
    writer.release();
    assert_eq!(count.0.load(Ordering::SeqCst), 1);
    assert_eq!(block_on(reader.head()), Head::Uncacheable);
    assert!(matches!(block_on(reader.next(1)), Piece::Broken(BreakReason::Uncacheable)));
    assert!(store.lookup(&key("a"), 2).fill.is_none());
}

#[test]
fn the_end_is_seen_before_the_commit() {
    let store = open(&MemoryDisk::default());
    let writer = begin(&store, &key("a"), 1);
    let mut reader = writer.fill().reader(0);
    publish(&writer, None);
    writer.append(Bytes::from_static(b"x"), 1);
    assert_eq!(writer.finish(), Ok(()));
    assert_eq!(drain(&mut reader, 9), (b"x".to_vec(), Ok(())));
    writer.append(Bytes::from_static(b"too late"), 1);
    assert!(matches!(writer.commit(1), Committed::Stored));
    assert_eq!(served(&store, &key("a")).map(|(_, body)| body), Some(b"x".to_vec()));
}

#[test]
fn a_reader_that_skips_lets_the_writer_go_on() {
    let disk = MemoryDisk::default();
    let store = open(&disk);
    let writer = begin(&store, &key("a"), 1);
    publish(&writer, None);
    let mut reader = writer.fill().reader(0);
    disk.set_faults(Faults { fail_at: Some(1), fail_on: true, ..Faults::default() });
    writer.append(body(300, 1).into(), 1);
    assert!(!writer.flush_step().storing);
    let (count, waker) = counted();
    let mut context = Context::from_waker(&waker);
    let mut waiting = std::pin::pin!(writer.backpressure());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    reader.skip(1000);
    assert_eq!(count.0.load(Ordering::SeqCst), 1);
    assert!(
        waiting.as_mut().poll(&mut context).is_ready(),
        "the next byte that is read has not arrived"
    );
}

#[test]
fn a_full_disk_breaks_only_slow_readers() {
    let disk = MemoryDisk::default();
    let store = open(&disk);
    let writer = begin(&store, &key("a"), 1);
    publish(&writer, None);
    let (mut fast, mut slow) = (writer.fill().reader(0), writer.fill().reader(0));
    disk.set_faults(Faults { fail_at: Some(1), fail_on: true, ..Faults::default() });
    let whole = body(3000, 1);
    let mut got = Vec::new();
    let (_, waker) = counted();
    let mut context = Context::from_waker(&waker);
    for part in whole.chunks(100) {
        writer.append(Bytes::copy_from_slice(part), 1);
        assert!(!writer.flush_step().storing);
        block_on(writer.backpressure());
        while let Poll::Ready(Piece::Bytes(bytes)) = fast.poll_next(&mut context, 1000) {
            got.extend_from_slice(&bytes);
        }
    }
    assert!(store.lookup(&key("a"), 2).fill.is_none(), "others start anew");
    assert!(matches!(writer.commit(2), Committed::NotStored(None)));
    assert_eq!(drain(&mut fast, 100).1, Ok(()));
    assert_eq!(got, whole);
    let (part, end) = drain(&mut slow, 100);
    assert_eq!(end, Err(BreakReason::ReaderTooSlow));
    assert!(whole.starts_with(&part));
    assert!(store.stats().disk_errors > 0);
}

#[test]
fn without_a_disk_the_foremost_reader_misses_nothing() {
    let disk = MemoryDisk::default();
    let store = open(&disk);
    let writer = begin(&store, &key("a"), 1);
    let mut reader = writer.fill().reader(0);
    publish(&writer, None);
    disk.set_faults(Faults { fail_at: Some(1), fail_on: true, ..Faults::default() });
    writer.append(body(300, 0).into(), 1);
    writer.flush_step();
    writer.append(Bytes::from_static(b"more"), 1);
    assert_eq!(writer.finish(), Ok(()));
    assert_eq!(drain(&mut reader, 1000), ([&body(300, 0)[..], b"more"].concat(), Ok(())));
}

#[test]
fn a_reader_close_behind_the_foremost_misses_nothing_either() {
    let disk = MemoryDisk::default();
    let store = open(&disk);
    let writer = begin(&store, &key("a"), 1);
    let [mut foremost, mut close, mut slow] = [0; 3].map(|at| writer.fill().reader(at));
    publish(&writer, None);
    disk.set_faults(Faults { fail_at: Some(1), fail_on: true, ..Faults::default() });
    let whole = body(400, 0);
    for part in whole.chunks(20) {
        writer.append(Bytes::copy_from_slice(part), 1);
    }
    [(&mut foremost, 10), (&mut close, 5), (&mut slow, 1)]
        .into_iter()
        .for_each(|(reader, parts)| (0..parts).for_each(|_| drop(block_on(reader.next(20)))));
    writer.flush_step();
    assert_eq!(writer.finish(), Ok(()));
    assert_eq!(drain(&mut slow, 1000).1, Err(BreakReason::ReaderTooSlow));
    assert_eq!(drain(&mut close, 1000), (whole[100..].to_vec(), Ok(())));
    assert_eq!(drain(&mut foremost, 1000), (whole[200..].to_vec(), Ok(())));
}

#[test]
fn chunks_of_any_size_reach_their_place() {
    let mut settings = options();
    settings.fill_tail_bytes_max = 4 << 20;
    settings.memory_bytes = 0;
    let store = open_with(&MemoryDisk::default(), settings);
    let whole = body(2_000_000, 3);
    let writer = begin(&store, &key("a"), 1);
    publish(&writer, None);
    let (mut rest, mut due) = (&whole[..], 0);
    for size in [1000, 90_000, 3, 300_000, 500].into_iter().cycle() {
        let (part, after) = rest.split_at(size.min(rest.len()));
        due += usize::from(writer.append(Bytes::copy_from_slice(part), 1).flush_due);
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    assert!(due > 0);
    assert!(matches!(writer.commit(2), Committed::Stored));
    assert!(served(&store, &key("a")).is_some_and(|(_, body)| body == whole));
}

#[test]
fn the_writer_waits_for_room_and_for_the_end_of_readers() {
    let store = open(&MemoryDisk::default());
    let writer = begin(&store, &key("a"), 1);
    publish(&writer, None);
    let reader = writer.fill().reader(0);
    let (count, waker) = counted();
    let mut context = Context::from_waker(&waker);
    assert!(!writer.append(body(300, 0).into(), 1).has_room);
    {
        let mut waiting = std::pin::pin!(writer.backpressure());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        assert_eq!(writer.flush_step().unflushed, 0);
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        assert!(waiting.poll(&mut context).is_ready());
    }
    let mut abandoned = std::pin::pin!(writer.abandoned());
    assert!(abandoned.as_mut().poll(&mut context).is_pending());
    drop(reader);
    assert_eq!(count.0.load(Ordering::SeqCst), 2);
    assert!(abandoned.poll(&mut context).is_ready());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn any_operations_keep_the_invariants(input in prop::collection::vec(any::<u8>(), 0..400)) {
        fuzz_operations(&input);
    }
}
