//! Time shares: when they end, and that each kind of call ends with them.

use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::task::Waker;

use super::*;
use crate::net::{Addr, Datagram, ListenOptions, Stream};
use crate::{block_on, spawn_local};

/// Calls that are practically endless: in their time a share ends thousands of times.
const CALLS_MAX: u32 = 1_000_000;

#[test]
fn a_share_ends_with_its_time_and_all_with_the_iteration() {
    let start = exact_now();
    let at = |micros| start + Duration::from_micros(micros);
    // (limit, units left, now in microseconds, whether the iteration is long) → units
    let table = [
        (Limit::Unbounded, 3, 0, false, usize::MAX),
        (Limit::Unbounded, 3, 0, true, usize::MAX),
        (Limit::ClockUnread, 0, 0, false, UNITS_BETWEEN),
        (Limit::ClockUnread, UNITS_BEFORE_CLOCK, 0, false, UNITS_BETWEEN),
        (Limit::Until(at(250)), 0, 249, false, UNITS_BETWEEN),
        (Limit::Until(at(250)), 0, 250, false, 0),
        (Limit::Until(at(250)), UNITS_LEAST, 250, false, 0),
        (Limit::Until(at(250)), UNITS_LEAST, 0, true, 0),
        (Limit::ClockUnread, 0, 4000, true, 0),
        (Limit::ClockUnread, UNITS_LEAST, 4000, true, UNITS_LEAST),
    ];
    for (limit, left, now, is_late, units) in table {
        let (units_then, limit_then) = after_reading(limit, left, at(now), is_late);
        assert_eq!(units_then, units, "{limit:?} with {left} at {now}, late: {is_late}");
        assert_eq!(limit_then == Limit::Unbounded, limit == Limit::Unbounded);
    }
}

#[test]
fn a_common_request_is_served_without_a_look_at_the_clock() {
    let limit = || SHARE.with(|share| share.limit.get());
    let ((), waiting) = run(|| {
        let read_and_writes = [16 * 1024 - 1, 400, 8 * 1024];
        read_and_writes.into_iter().for_each(spend);
        assert_eq!(limit(), Limit::ClockUnread);
        apart(|| spend(100 << 20));
        assert_eq!(limit(), Limit::ClockUnread, "another's share is its own");
        spend(100 << 20);
        assert!(matches!(limit(), Limit::Until(_)));
    });
    assert_eq!(waiting, None);
    assert_eq!((SHARE.with(|share| share.units.get()), limit()), (usize::MAX, Limit::Unbounded));
}

/// Runs `step` again and again beside a task that waits for bytes, which arrive with the first step.
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
    assert!(calls.get() < CALLS_MAX, "{what}: no other task was served");
    quiet.await.unwrap();
}

#[test]
fn a_share_that_is_ended_waits_at_its_next_step() {
    let ((), waiting) = run(|| {
        let mut context = Context::from_waker(Waker::noop());
        assert!(poll(&mut context).is_ready());
        apart(end);
        assert!(poll(&mut context).is_ready(), "another's share is its own");
        end();
        assert!(is_used_up());
    });
    assert_eq!(waiting, None);
    end();
    assert!(!is_used_up(), "outside of tasks there is no bound");
}

fn datagrams() -> (Datagram, SocketAddr) {
    let any = Addr::Inet((Ipv4Addr::LOCALHOST, 0).into());
    let socket = Datagram::bind(&any, &ListenOptions::default()).unwrap();
    let Addr::Inet(address) = socket.local_addr().unwrap() else { unreachable!() };
    (socket, address)
}

/// What the runtime bounds by itself is not tested here: neither sockets without a watch, nor what awaits readiness and
/// then calls.
#[test]
fn a_task_that_never_waits_lets_others_run() {
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
fn late_in_a_long_iteration_one_step_is_left() {
    let is_left = || SHARE.with(|share| share.units.get() > 0);
    SHARE.with(|share| share.iteration_ends.set(Some(exact_now())));
    // The clock is read.
    apart(is_over);
    // Steps with and without a socket, and both.
    apart(|| assert_eq!([is_over(), is_over()], [false, true]));
    apart(|| {
        let calls = (0..10).take_while(|_| is_left()).map(|_| spend(0)).count();
        assert_eq!(calls, UNITS_LEAST);
    });
    apart(|| {
        spend(0);
        assert_eq!([is_over(), is_over()], [false, true]);
    });
    begin_iteration();
    apart(|| assert!(!is_over()));
    begin_iteration();
}

/// Far more tasks than have a share of their own in an iteration.
const MANY: usize = 100;

#[test]
fn many_tasks_that_never_wait_share_an_iteration() {
    let calls = block_on(async {
        let tasks: Vec<_> = (0..MANY)
            .map(|_| {
                spawn_local(async {
                    // The calls of each run except the first ones, in which iterations may have begun with other tasks.
                    let mut runs = Vec::new();
                    while runs.len() < 5 {
                        wait().await;
                        let calls = (0..CALLS_MAX).take_while(|_| {
                            spend(0);
                            SHARE.with(|share| share.units.get() > 0)
                        });
                        runs.push(calls.count() + 1);
                    }
                    runs.split_off(2)
                })
            })
            .collect();
        let mut calls = Vec::new();
        for task in tasks {
            calls.extend(task.await.unwrap());
        }
        calls
    });
    let calls = calls.unwrap();
    let late = calls.iter().filter(|calls| **calls == UNITS_LEAST).count();
    assert!(late > calls.len() / 2, "{late} of {} runs were late in their iteration", calls.len());
    assert!(late < calls.len(), "no task had a share");
}
