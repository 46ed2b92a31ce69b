//! Sessions: found, prolonged, replaced, expired, removed from a full zone.

use std::time::{Duration, Instant};

use super::Sessions;

const LONG: Duration = Duration::from_secs(10);

fn route(sessions: &Sessions, session: &str, now: Instant) -> Option<String> {
    let found = sessions.find(session.as_bytes(), now);
    found.map(|route| String::from_utf8_lossy(&route).into_owned())
}

#[test]
fn sessions_last_as_long_as_they_are_used() {
    let now = tidegate_rt::clock::now();
    let sessions = Sessions::new(1 << 20);
    sessions.put(b"s", b"a", LONG, now);
    assert_eq!(route(&sessions, "s", now + LONG / 2).as_deref(), Some("a"));
    assert_eq!(route(&sessions, "s", now + LONG), None);
    sessions.touch(b"s", LONG, now + LONG / 2);
    assert_eq!(route(&sessions, "s", now + LONG).as_deref(), Some("a"));
    sessions.put(b"s", b"b", LONG, now + LONG);
    assert_eq!(route(&sessions, "s", now + LONG).as_deref(), Some("b"));
    assert_eq!(route(&sessions, "S", now + LONG), None);
    sessions.touch(b"s", LONG, now + LONG * 3);
    assert_eq!(route(&sessions, "s", now + LONG * 3), None, "what has expired is not revived");
}

#[test]
fn a_full_zone_removes_the_session_that_expires_first() {
    let now = tidegate_rt::clock::now();
    let sessions = Sessions::new(4 * 256);
    for number in 0..10_u32 {
        let name = number.to_string();
        sessions.put(name.as_bytes(), b"a", LONG, now + Duration::from_millis(u64::from(number)));
    }
    assert_eq!(sessions.count(), 4);
    let later = now + Duration::from_millis(10);
    let left: Vec<_> =
        (0..10).filter(|number| route(&sessions, &number.to_string(), later).is_some()).collect();
    assert_eq!(left, [6, 7, 8, 9]);
    sessions.put(b"new", b"a", LONG, now + LONG * 2);
    assert_eq!(sessions.count(), 1, "those that expired are gone");
}
