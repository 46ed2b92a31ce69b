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
    let sessions = Sessions::new(1 << 20, false);
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
    let sessions = Sessions::new(4 * 256, false);
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

mod of_a_store {
    use std::sync::Arc;

    use tidegate_rt::clock;
    use tidegate_store::{CallError, Value};

    use super::super::shared::SharedSessions;
    use super::{LONG, Sessions, route};
    use crate::zone_sync::{Member, SyncStore};

    fn zone() -> (Arc<Sessions>, Arc<SyncStore>, SharedSessions) {
        let (sessions, store) =
            (Arc::new(Sessions::new(1 << 20, false)), SyncStore::detached(LONG));
        sessions.configure(1 << 20, true);
        let shared = SharedSessions::new("z", sessions.clone(), store.clone());
        (sessions, store, shared)
    }

    #[test]
    fn what_was_used_is_sent_once() {
        let (sessions, store, shared) = zone();
        let now = clock::exact_now();
        assert!(shared.begin(&store).is_empty(), "nothing has changed");
        shared.end(&store, Vec::new(), now);
        for number in 0..300_u32 {
            sessions.put(&number.to_be_bytes(), b"route", LONG, now);
        }
        sessions.put(&7_u32.to_be_bytes(), b"other", LONG, now);
        assert_eq!((shared.figures().records, shared.figures().pending), (300, 300));
        assert_eq!(shared.begin(&store).len(), 2, "in calls of 256");
        assert_eq!(shared.figures().pending, 0);
        shared.end(&store, vec![Ok(Value::Integer(256)), Ok(Value::Integer(44))], now);
        assert!(shared.begin(&store).is_empty());
        shared.end(&store, Vec::new(), now);
    }

    #[test]
    fn what_was_not_taken_is_sent_again() {
        let (sessions, store, shared) = zone();
        let now = clock::exact_now();
        sessions.put(b"s", b"route", LONG, now);
        assert_eq!(shared.begin(&store).len(), 1);
        shared.end(&store, vec![Err(CallError::TimedOut)], now);
        assert_eq!(shared.figures().pending, 1);
        assert_eq!(shared.begin(&store).len(), 1);
    }

    #[test]
    fn changes_have_the_room_of_the_zone() {
        let sessions = Arc::new(Sessions::new(2 * 256, false));
        let store = SyncStore::detached(LONG);
        sessions.configure(2 * 256, true);
        let shared = SharedSessions::new("z", sessions.clone(), store);
        let now = clock::exact_now();
        for number in 0..10_u8 {
            sessions.put(&[number], b"route", LONG, now);
        }
        assert_eq!((shared.figures().records, shared.figures().pending), (2, 2));
        sessions.configure(2 * 256, false);
        sessions.put(b"x", b"route", LONG, now);
        assert_eq!(shared.figures().pending, 0);
    }

    #[test]
    fn an_engine_that_is_not_ready_is_not_asked() {
        let (sessions, store, shared) = zone();
        let asking = async move { shared.learn(b"s", LONG).await };
        tidegate_rt::block_on(asking).expect("an event loop");
        assert_eq!(store.engine().queued(), 0);
        assert_eq!(route(&sessions, "s", clock::exact_now()), None);
    }
}
