//! The parts of a tier that wait for nothing: objects, purges, the breaker, the tables; and the race.

use std::cell::Cell;
use std::future::{pending, ready};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use tidegate_cache::{Key, KeyHash, Scope, Times};
use tidegate_core::error_log::ErrorLog;
use tidegate_rt::clock;

use super::breaker::{Breaker, FAILURES_MAX};
use super::client::{Client, Endpoint, Failure};
use super::list::PurgeList;
use super::memory::{ABSENT_FOR_MILLIS, Absent, Uses};
use super::object::{BLOCK_BYTES, Beginning, Damaged, FIXED_BYTES, ObjectHead};
use super::purges::{INVALIDATED_MAX, Purgeable, Purges, SKEW_MILLIS, TierPurge};
use super::race::{Winner, race};
use super::{CacheTier, Kept, Tier, TierSettings};

const BODY_MAX: u64 = 1 << 20;

fn times() -> Times {
    Times { created: 1, valid_until: 2, updating_until: 3, error_until: 4 }
}

fn object(body: &[u8]) -> (ObjectHead, Vec<u8>) {
    let head = ObjectHead::new(Bytes::from("key"), Bytes::from("metadata"), times(), body);
    let mut bytes = head.encode().expect("a head");
    bytes.extend_from_slice(body);
    (head, bytes)
}

/// What is read of an object: its head, its body as far as it is right, and whether it is damaged there.
type Read = (ObjectHead, Vec<u8>, Result<(), Damaged>);

/// Reads an object.
fn read(bytes: &[u8]) -> Result<Read, Box<Beginning>> {
    let (mut head, length) = match ObjectHead::parse(bytes, BODY_MAX) {
        Beginning::Head(head, length) => (head, length),
        other => return Err(Box::new(other)),
    };
    let parsed = head.clone();
    let (mut blocks, mut arrived) = (head.blocks(), BytesMut::from(&bytes[length..]));
    let mut body = Vec::new();
    let end = loop {
        match blocks.take(&mut arrived) {
            Ok(Some(block)) => body.extend_from_slice(&block),
            Ok(None) => break Ok(()),
            Err(damaged) => break Err(damaged),
        }
    };
    Ok((parsed, body, end))
}

fn body_of(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 % 251) as u8).collect()
}

#[test]
fn objects_are_read_as_they_were_written() {
    for length in [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES] {
        let body = body_of(length);
        let (head, bytes) = object(&body);
        assert_eq!(read(&bytes), Ok((head, body, Ok(()))), "{length}");
    }
}

#[test]
fn heads_are_refused_or_incomplete() {
    let (_, whole) = object(&body_of(BLOCK_BYTES + 1));
    let changed = |at: usize, to: u8| {
        let mut bytes = whole.clone();
        bytes[at] = to;
        bytes
    };
    let head_bytes = FIXED_BYTES + 3 + 8 + 16;
    let table = [
        (Vec::new(), Beginning::More(FIXED_BYTES)),
        (whole[..FIXED_BYTES - 1].to_vec(), Beginning::More(FIXED_BYTES)),
        (whole[..FIXED_BYTES].to_vec(), Beginning::More(head_bytes)),
        (b"<?xml".to_vec(), Beginning::Invalid("another form")),
        (changed(8, 2), Beginning::Invalid("another version")),
        // The length of the key, of the metadata, and of the body: 16 MB and more.
        (changed(15, 1), Beginning::Invalid("larger than allowed")),
        (changed(19, 1), Beginning::Invalid("larger than allowed")),
        (changed(28, 1), Beginning::Invalid("larger than allowed")),
        (changed(20, 9), Beginning::Invalid("the number of blocks")),
        (changed(32, 9), Beginning::Invalid("the checksum of the head")),
        (changed(FIXED_BYTES, b'K'), Beginning::Invalid("the checksum of the head")),
    ];
    for (bytes, expected) in table {
        assert_eq!(read(&bytes).err().map(|beginning| *beginning), Some(expected));
    }
}

proptest! {
    /// A changed bit is found before a byte of its block is used, wherever it is.
    #[test]
    fn no_changed_bit_is_served(length in 0_usize..200_000, at in any::<prop::sample::Index>(), bit in 0_u32..8) {
        let body = body_of(length);
        let (head, mut bytes) = object(&body);
        let at = at.index(bytes.len());
        bytes[at] ^= 1_u8 << bit;
        // The reserved bytes are a part of what the checksum protects as well.
        match read(&bytes) {
            Err(_) => prop_assert!(at < bytes.len() - length),
            Ok((read, served, end)) => {
                prop_assert_eq!(read, head);
                prop_assert_eq!(end, Err(Damaged));
                prop_assert_eq!(&served[..], &body[..served.len()]);
                let block = (at - (bytes.len() - length)) / BLOCK_BYTES;
                prop_assert_eq!(served.len(), block * BLOCK_BYTES);
            }
        }
    }

    /// Of a truncated object no more is served than what is there, and it is not complete.
    #[test]
    fn a_truncated_object_is_not_complete(length in 1_usize..200_000, left in any::<prop::sample::Index>()) {
        let body = body_of(length);
        let (_, bytes) = object(&body);
        match read(&bytes[..left.index(bytes.len())]) {
            Err(beginning) => prop_assert!(matches!(*beginning, Beginning::More(_))),
            Ok((_, served, end)) => {
                prop_assert_eq!(end, Ok(()));
                prop_assert!(served.len() < length);
                prop_assert_eq!(&served[..], &body[..served.len()]);
            }
        }
    }

    /// Any bytes are read, and what is read encodes to itself.
    #[test]
    fn any_bytes_are_read(mut bytes in prop::collection::vec(any::<u8>(), 0..300), is_object: bool) {
        if is_object {
            let (_, object) = object(b"x");
            let length = bytes.len().min(10);
            bytes[..length].copy_from_slice(&object[..length]);
        }
        super::fuzz(&bytes);
    }

    /// Lists of purges are read as they were written, the order of merging does not matter, and merging loses nothing.
    #[test]
    fn lists_of_purges(one in purges(), two in purges(), requested_at in 0_u64..10_000) {
        prop_assert_eq!(Purges::decode(&one.encode()), Some(one.clone()));
        let (mut left, mut right) = (one.clone(), two.clone());
        left.merge(&two);
        right.merge(&one);
        prop_assert_eq!(&left, &right);
        for key in ["a", "ab", "b"] {
            for tags in ["", "t", "t u"] {
                let hash = *Key::new(key.as_bytes()).hash();
                let (main, key, tags) = (&hash, key.as_bytes(), tags.as_bytes());
                let object = Purgeable { main, key, tags, requested_at };
                let each = one.allow(&object) && two.allow(&object);
                prop_assert_eq!(left.allow(&object), each);
                prop_assert_eq!(right.allow(&object), each);
            }
        }
    }
}

fn purges() -> impl Strategy<Value = Purges> {
    let key = prop::sample::select(vec!["a", "b"])
        .prop_map(|key| TierPurge::Key(*Key::new(key.as_bytes()).hash()));
    let prefix = prop::sample::select(vec!["", "a", "ab", "c"])
        .prop_map(|text| TierPurge::Scope(Scope::Prefix(text.as_bytes().into())));
    let tag = prop::sample::select(vec!["t", "u"])
        .prop_map(|text| TierPurge::Scope(Scope::Tag(text.as_bytes().into())));
    let invalidated = prop::sample::select(vec!["a", "b"])
        .prop_map(|key| TierPurge::Invalidated(*Key::new(key.as_bytes()).hash()));
    let one = (prop_oneof![key, prefix, tag, invalidated], 1_u64..8_000);
    prop::collection::vec(one, 0..6).prop_map(|list| {
        let mut purges = Purges::default();
        list.into_iter().for_each(|(purge, through)| purges.add(purge, through));
        purges
    })
}

#[test]
fn a_purge_concerns_what_is_older() {
    let hash = *Key::new(&b"/a"[..]).hash();
    let other = *Key::new(&b"/b"[..]).hash();
    let scope = |scope: Scope| TierPurge::Scope(scope);
    let table = [
        (TierPurge::Key(hash), true),
        (TierPurge::Key(other), false),
        (TierPurge::Invalidated(hash), true),
        (TierPurge::Invalidated(other), false),
        (scope(Scope::Prefix(b"/".as_slice().into())), true),
        (scope(Scope::Prefix(b"/b".as_slice().into())), false),
        (scope(Scope::Prefix(Box::default())), true),
        (scope(Scope::Tag(b"two".as_slice().into())), true),
        (scope(Scope::Tag(b"tw".as_slice().into())), false),
    ];
    for (purge, concerns) in table {
        let mut purges = Purges::default();
        purges.add(purge.clone(), 10_000);
        let at = |requested_at| {
            purges.allow(&Purgeable {
                main: &hash,
                key: b"/a\0variant",
                tags: b"one two",
                requested_at,
            })
        };
        assert_eq!(!at(9_999), concerns, "{purge:?}");
        assert_eq!(!at(10_000 + SKEW_MILLIS), concerns, "{purge:?}");
        assert!(at(10_001 + SKEW_MILLIS), "{purge:?}");
    }
}

#[test]
fn purges_without_room_concern_everything_that_is_older() {
    let mut purges = Purges::default();
    for number in 0..20_000_u64 {
        let mut hash = [0; 16];
        hash[..8].copy_from_slice(&number.to_be_bytes());
        purges.add(TierPurge::Key(KeyHash(hash)), 100_000 + number);
        let tag = Scope::Tag(number.to_string().as_bytes().into());
        purges.add(TierPurge::Scope(tag), 100_000 + number);
    }
    assert!(purges.len() < 10_000, "{}", purges.len());
    assert_eq!(Purges::decode(&purges.encode()), Some(purges.clone()));
    let hash = *Key::new(&b"other"[..]).hash();
    let at = |requested_at| {
        purges.allow(&Purgeable { main: &hash, key: b"other", tags: b"", requested_at })
    };
    // Not purged itself, but it cannot be distinguished from what was.
    assert!(!at(100_000));
    assert!(at(120_000 + SKEW_MILLIS));
}

#[test]
fn invalidations_without_room_concern_nothing_else() {
    let hash = |number: u64| {
        let mut hash = [0; 16];
        hash[..8].copy_from_slice(&number.to_be_bytes());
        KeyHash(hash)
    };
    let mut lists = [Purges::default(), Purges::default()];
    for number in 0..20_000_u64 {
        let list = &mut lists[number as usize % 2];
        list.add(TierPurge::Invalidated(hash(number)), 100_000 + number);
    }
    let [mut one, two] = lists;
    let mut other = two.clone();
    other.merge(&one);
    one.merge(&two);
    assert_eq!(one, other);
    assert!(one.len() <= INVALIDATED_MAX, "{}", one.len());
    assert_eq!(Purges::decode(&one.encode()), Some(one.clone()));
    let allows =
        |main| one.allow(&Purgeable { main: &main, key: b"k", tags: b"", requested_at: 1 });
    // The newest are known, the oldest are not.
    assert!(!allows(hash(19_999)));
    assert!(!allows(hash(19_998)));
    assert!(allows(hash(0)));
    assert!(allows(hash(u64::MAX)));
}

#[test]
fn the_file_of_a_list_is_read_before_it_is_written() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("list");
    let at = |number: u64| TierPurge::Scope(Scope::Tag(number.to_string().as_bytes().into()));
    let in_file = || Purges::decode(&std::fs::read(&path).expect("a file")).expect("a list");
    let first = PurgeList::default();
    first.save(&path, 1).expect("a save");
    assert!(!path.exists(), "there is nothing to save");
    first.add(vec![at(1)], 10);
    first.save(&path, 1).expect("a save");
    // A purge that comes before the list was read does not replace it.
    let second = PurgeList::default();
    second.add(vec![at(2)], 20);
    second.save(&path, 1).expect("a save");
    assert_eq!(in_file().len(), 2);
    // What another one has saved meanwhile is not written again.
    std::fs::remove_file(&path).expect("removed");
    second.save(&path, 1).expect("a save");
    assert!(!path.exists());
    // A file that cannot be read is neither replaced nor taken for a damaged one.
    std::fs::create_dir(&path).expect("a directory");
    let third = PurgeList::default();
    third.add(vec![at(3)], 30);
    assert!(third.save(&path, 1).is_err());
    std::fs::remove_dir(&path).expect("removed");
    third.save(&path, 1).expect("a save");
    assert_eq!(in_file().len(), 1);
}

#[test]
fn a_list_is_unknown_from_each_doubt_to_the_next_reading() {
    let (list, theirs) = (PurgeList::default(), Purges::default());
    assert!(!list.is_known());
    list.learn(&theirs, 0);
    assert!(list.is_known());
    list.doubt();
    assert!(!list.is_known());
    // A reading that began before.
    list.learn(&theirs, 0);
    assert!(!list.is_known());
    list.learn(&theirs, 1);
    assert!(list.is_known());
}

#[test]
fn a_damaged_file_concerns_its_own_server() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("list");
    std::fs::write(&path, b"something else").expect("a file");
    PurgeList::default().save(&path, 10_000).expect("a save");
    let restarted = PurgeList::default();
    restarted.save(&path, 30_000).expect("a save");
    let in_file = Purges::decode(&std::fs::read(&path).expect("a file")).expect("a list");
    assert_eq!(in_file.shared(), Purges::default());
    let hash = *Key::new(&b"/a"[..]).hash();
    let at = |requested_at| Purgeable { main: &hash, key: b"/a", tags: b"", requested_at };
    assert!(!restarted.allows(&at(10_000)));
    assert!(restarted.allows(&at(10_001 + SKEW_MILLIS)));
}

#[test]
fn lists_of_others_are_refused() {
    let mut purges = Purges::default();
    purges.add(TierPurge::Scope(Scope::Tag(b"t".as_slice().into())), 7);
    let good = purges.encode();
    for at in 0..good.len() {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        // Two reserved bytes of the head are not protected.
        assert_eq!(Purges::decode(&bytes).is_none(), !(10..12).contains(&at), "{at}");
        assert_eq!(Purges::decode(&good[..at]), None, "{at}");
    }
}

#[test]
fn the_breaker_waits_longer_each_time() {
    let (mut breaker, start) = (Breaker::default(), clock::exact_now());
    let mut now = start;
    for _ in 1..FAILURES_MAX {
        assert_eq!(breaker.failed(now), None);
        assert!(breaker.allows(now));
    }
    for seconds in [5, 10, 20, 40, 60, 60] {
        let pause = Duration::from_secs(seconds);
        assert_eq!(breaker.failed(now), Some(pause));
        // Requests that began before do not count.
        assert_eq!(breaker.failed(now), None);
        assert!(!breaker.allows(now + pause - Duration::from_millis(1)));
        now += pause;
        assert!(breaker.allows(now));
    }
    breaker.succeeded();
    assert_eq!(breaker.failed(now), None);
    assert!(breaker.allows(now));
}

#[test]
fn absent_keys_are_remembered_for_a_while() {
    let (absent, now) = (Absent::default(), 1_800_000_000_000);
    let (one, two) = (Key::new(&b"one"[..]), Key::new(&b"two"[..]));
    assert!(!absent.has(one.hash(), now));
    absent.note(one.hash(), now);
    assert!(absent.has(one.hash(), now) && !absent.has(two.hash(), now));
    assert!(absent.has(one.hash(), now + ABSENT_FOR_MILLIS - 1));
    assert!(!absent.has(one.hash(), now + ABSENT_FOR_MILLIS));
    // The clock was set back.
    assert!(!absent.has(one.hash(), now - 60_000));
    absent.forget(one.hash());
    assert!(!absent.has(one.hash(), now));
}

#[test]
fn uses_reach_their_number_once() {
    let (uses, key) = (Uses::default(), Key::new(&b"key"[..]));
    let count = |min: u32, times: usize| {
        let one = |_| {
            uses.add(key.hash());
            uses.reaches(key.hash(), min)
        };
        (0..times).map(one).collect::<Vec<_>>()
    };
    assert_eq!(count(3, 5), [false, false, true, false, false]);
    uses.restart(key.hash());
    assert_eq!(count(2, 2), [true, false]);
    uses.restart(key.hash());
    assert_eq!(count(3, 3), [false, true, false]);
    uses.restart(key.hash());
    assert_eq!(count(1, 2), [true, false]);
    uses.restart(key.hash());
    uses.done(key.hash());
    assert_eq!(count(1, 2), [false, false]);
}

/// A cache with a tier whose store is never asked.
fn cache_tier() -> Arc<CacheTier> {
    let endpoint = Endpoint {
        tls: None,
        host: "127.0.0.1".into(),
        port: 1,
        authority: "127.0.0.1:1".into(),
        base: "/b/".into(),
        region: "r".into(),
        credentials: None,
        resolver: None,
    };
    let settings = TierSettings {
        uses_min: 2,
        object_max: BODY_MAX,
        uploads_max: 1,
        hedge: Duration::ZERO,
        timeout: Duration::from_secs(1),
    };
    let tier = Tier {
        name: "t".into(),
        url: "s3://b".into(),
        endpoint: "http://127.0.0.1:1".into(),
        settings,
        kept: Arc::new(Kept::new(Client::new(endpoint, settings.timeout))),
        log: ErrorLog::new(Vec::new()),
    };
    let (store, kept) = (Arc::default(), Arc::default());
    Arc::new(CacheTier {
        tier: Arc::new(tier),
        cache: "z".into(),
        store,
        kept,
        pauses: true,
        completes: true,
    })
}

#[test]
fn a_tier_that_is_left_alone_queues_no_uploads() {
    let (cache, key) = (cache_tier(), Key::new(&b"key"[..]));
    (0..FAILURES_MAX).for_each(|_| cache.tier.note_failure("reading", &Failure::Late));
    (0..10).for_each(|_| cache.used(&key, &key));
    assert_eq!(cache.tier.queued(), 0);
    // The pause is over: the next use uploads it, once.
    cache.tier.note_success();
    (0..10).for_each(|_| cache.used(&key, &key));
    assert_eq!(cache.tier.queued(), 1);
}

#[test]
fn keys_that_may_only_read_stop_uploads_alone() {
    let (cache, key) = (cache_tier(), Key::new(&b"key"[..]));
    let denied = Failure::Status(403, Some("AccessDenied".into()));
    (0..FAILURES_MAX).for_each(|_| cache.tier.note_denied("an upload", &denied));
    assert!(cache.tier.is_asked() && !cache.tier.may_upload());
    assert!(cache.tier.show()["reason"].as_str().is_some_and(|reason| reason.contains("403")));
    // Neither does a read that succeeds let them begin again.
    cache.tier.note_success();
    (0..10).for_each(|_| cache.used(&key, &key));
    assert!(!cache.tier.may_upload() && cache.tier.queued() == 0);
    cache.tier.note_upload();
    assert!(cache.tier.may_upload());
}

/// What wins, and whether the origin was asked.
fn run_race(
    tier: impl Future<Output = Option<&'static str>> + 'static,
    origin: impl Future<Output = Result<&'static str, u16>>,
    hedge: Duration,
) -> (Result<&'static str, u16>, bool, bool) {
    let asked = Cell::new(false);
    let begin = || {
        asked.set(true);
        Box::pin(origin)
    };
    let winner = tidegate_rt::block_on(race(Box::pin(tier), begin, hedge)).expect("a loop");
    let (result, from_tier) = match winner {
        Winner::Tier(found) => (Ok(found), true),
        Winner::Origin(result, _) => (result, false),
    };
    (result, from_tier, asked.get())
}

#[test]
fn the_first_response_wins() {
    const LONG: Duration = Duration::from_secs(3600);
    let none = Duration::ZERO;
    let later = || async {
        tidegate_rt::yield_now().await;
        tidegate_rt::timer::sleep(Duration::from_millis(1)).await;
    };
    let found = run_race(ready(Some("t")), pending(), LONG);
    assert_eq!(found, (Ok("t"), true, false));
    // The tier does not have it: the origin is asked at once.
    assert_eq!(run_race(ready(None), ready(Ok("o")), LONG), (Ok("o"), false, true));
    assert_eq!(run_race(ready(None), ready(Err(502)), LONG), (Err(502), false, true));
    // The tier is late.
    assert_eq!(run_race(pending(), ready(Ok("o")), none), (Ok("o"), false, true));
    let tier = async move {
        later().await;
        Some("t")
    };
    assert_eq!(run_race(tier, pending(), none), (Ok("t"), true, true));
    // The origin has failed: the tier is waited for.
    let tier = async move {
        later().await;
        Some("t")
    };
    assert_eq!(run_race(tier, ready(Err(502)), none), (Ok("t"), true, true));
    let tier = async move {
        later().await;
        None
    };
    assert_eq!(run_race(tier, ready(Err(502)), none), (Err(502), false, true));
}
