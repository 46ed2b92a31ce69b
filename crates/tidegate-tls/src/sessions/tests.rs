//! The time limit and the number limit of sessions.

use std::time::Duration;

use super::SessionCache;

const TIMEOUT: Duration = Duration::from_secs(300);

#[test]
fn sessions_end_in_time_and_by_number() {
    let cache = SessionCache::with_entries(16);
    cache.put(b"a\x01".to_vec(), b"1".to_vec(), 1000);
    let find = |key: &[u8], remove, now| cache.find(key, remove, TIMEOUT, now);
    assert_eq!(find(b"a\x01", false, 301_000).as_deref(), Some(&b"1"[..]));
    assert_eq!(find(b"b\x01", false, 1000), None);
    assert_eq!(find(b"a\x01", false, 301_001), None, "too old");
    assert_eq!(find(b"a\x01", false, 1000), None, "and gone");
    cache.put(b"a\x01".to_vec(), b"2".to_vec(), 1000);
    assert!(find(b"a\x01", true, 1000).is_some());
    assert!(find(b"a\x01", false, 1000).is_none(), "taken");
    cache.put(b"a\x01".to_vec(), b"3".to_vec(), 1000);
    for round in 0..1000u32 {
        let key = [&round.to_be_bytes()[..], b"\x01"].concat();
        cache.put(key.clone(), b"x".to_vec(), 1000);
        assert!(find(&key, false, 1000).is_some());
    }
    assert!(find(b"a\x01", false, 1000).is_none(), "made room");
}

#[test]
fn sessions_of_a_clock_that_was_ahead_are_gone() {
    let cache = SessionCache::with_entries(16);
    for (stored, is_there) in [(1000, true), (601_000, true), (601_001, false)] {
        cache.put(b"a".to_vec(), b"1".to_vec(), stored);
        assert_eq!(cache.find(b"a", false, TIMEOUT, 1000).is_some(), is_there, "{stored}");
    }
}

#[test]
fn a_value_that_is_replaced_takes_no_more_room() {
    let cache = SessionCache::with_entries(16);
    for round in 0..1000u32 {
        cache.put(b"a".to_vec(), round.to_be_bytes().to_vec(), 1000);
    }
    assert_eq!(cache.shard(b"a").order.len(), 1);
    let found = cache.find(b"a", false, TIMEOUT, 1000);
    assert_eq!(found.as_deref(), Some(&999u32.to_be_bytes()[..]));
}
