//! Shares of turns: when they end, and that each kind of call ends with them.

use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;

use super::*;
use crate::net::{Addr, Datagram, ListenOptions, Stream};
use crate::{block_on, spawn_local};

/// Calls without an end to all purposes: in their time a share ends thousands of times.
const CALLS_MAX: u32 = 1_000_000;

#[test]
fn a_share_ends_with_its_time_and_the_turn_with_everyones() {
    let start = exact_now();
    let at = |micros| start + Duration::from_micros(micros);
    let fresh = Turn::default();
    let late = Turn { ends: Some(at(4000)), is_long: false };
    // (limit, now in microseconds, turn) → (units, is the turn long)
    let table = [
        (Limit::Unbounded, 0, fresh, u32::MAX, false),
        (Limit::Unasked, 0, fresh, UNITS_BETWEEN, false),
        (Limit::Until(at(250)), 249, fresh, UNITS_BETWEEN, false),
        (Limit::Until(at(250)), 250, fresh, 0, false),
        (Limit::Unasked, 3999, late, UNITS_BETWEEN, false),
        (Limit::Unasked, 4000, late, 0, true),
    ];
    for (limit, now, mut turn, units, is_long) in table {
        let (left, limit_then) = asked(limit, at(now), &mut turn);
        assert_eq!((left, turn.is_long), (units, is_long), "{limit:?} at {now}");
        assert_eq!(limit_then == Limit::Unbounded, limit == Limit::Unbounded);
    }
}

#[test]
fn a_common_request_is_served_without_a_look_at_the_clock() {
    let ((), waited) = run(|| {
        let read_and_writes = [16 * 1024 - 1, 400, 8 * 1024];
        read_and_writes.into_iter().for_each(spend);
        assert_eq!(LIMIT.get(), Limit::Unasked);
        apart(|| spend(100 << 20));
        assert_eq!(LIMIT.get(), Limit::Unasked, "another's share is its own");
        spend(100 << 20);
        assert!(matches!(LIMIT.get(), Limit::Until(_)));
    });
    assert!(!waited);
    assert_eq!((UNITS.get(), LIMIT.get()), (u32::MAX, Limit::Unbounded));
}

/// Runs `step` again and again beside a task that waits for bytes, which come with the first step.
async fn beside_a_quiet_one(what: &str, mut step: impl AsyncFnMut() + 'static) {
    let (there, here) = Stream::pair().unwrap();
    let (served, calls) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
    let quiet = spawn_local({
        let served = served.clone();
        async move {
            here.read(&mut [0; 8]).await.unwrap();
            served.set(true);
        }
    });
    let busy = spawn_local({
        let calls = calls.clone();
        async move {
            crate::yield_now().await;
            there.try_write(b"x").unwrap();
            while !served.get() && calls.get() < CALLS_MAX {
                step().await;
                calls.set(calls.get() + 1);
            }
        }
    });
    busy.await.unwrap();
    assert!(calls.get() < CALLS_MAX, "{what}: nobody else was served");
    quiet.await.unwrap();
}

fn datagrams() -> (Datagram, SocketAddr) {
    let any = Addr::Inet((Ipv4Addr::LOCALHOST, 0).into());
    let socket = Datagram::bind(&any, &ListenOptions::default()).unwrap();
    let Addr::Inet(address) = socket.local_addr().unwrap() else { unreachable!() };
    (socket, address)
}

/// What the runtime bounds by itself is not asked here: neither sockets that were not waited for yet, nor what
/// awaits readiness and then calls.
#[test]
fn whoever_never_has_to_wait_lets_others_be_served() {
    let all = block_on(async {
        let (left, right) = Stream::pair().unwrap();
        beside_a_quiet_one("stream", async move || {
            left.write_all(b"x").await.unwrap();
            right.read(&mut [0; 8]).await.unwrap();
        })
        .await;
        let (stream, _peer) = Stream::pair().unwrap();
        beside_a_quiet_one("room to write", async move || {
            stream.writable().await.unwrap();
            spend(0);
        })
        .await;
        let (socket, address) = datagrams();
        beside_a_quiet_one("datagrams", async move || {
            socket.try_send(b"x", Some(&address)).unwrap();
            socket.receive_from(&mut [0; 8]).await.unwrap();
        })
        .await;
        let (socket, address) = datagrams();
        beside_a_quiet_one("datagrams to a port", async move || {
            socket.try_send(b"x", Some(&address)).unwrap();
            socket.receive_with_local(&mut [0; 8]).await.unwrap();
        })
        .await;
        beside_a_quiet_one("work without a socket", async || {
            if is_over() {
                crate::yield_now().await;
            }
        })
        .await;
        beside_a_quiet_one("pieces of a file", async || {
            wait().await;
            spend(UNIT_BYTES);
        })
        .await;
    });
    all.unwrap();
}

#[test]
fn late_in_a_long_turn_one_step_is_left() {
    TURN.set(Turn { ends: Some(exact_now()), is_long: true });
    apart(|| assert_eq!([is_over(), is_over()], [false, true]));
    begin_turn();
}
