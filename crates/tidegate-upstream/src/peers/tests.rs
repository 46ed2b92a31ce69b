//! Choice among servers: weights, failures, backups, limits, keys.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_rt::net::Addr;

use super::*;

mod kept;
mod large;
mod numbers;

fn group(method: BalancingMethod, servers: &[(&str, ServerOptions)]) -> Arc<Group> {
    let servers = servers
        .iter()
        .map(|(name, options)| {
            let address = Addr::Inet(name.parse().expect("an address"));
            ((*name).to_owned(), address, options.clone())
        })
        .collect();
    Arc::new(Group::new("g", method, Keepalive::DEFAULT, servers, tidegate_rt::clock::now()))
}

/// Returns the index of the server among [`A`], [`B`], [`C`].
fn place(peer: &Peer) -> usize {
    peer.text.as_bytes().last().map_or(0, |digit| usize::from(digit - b'1'))
}

/// Returns the server chosen for a request without history, which ends at once.
fn pick(group: &Arc<Group>, choice: &mut Choice, now: Instant) -> Option<usize> {
    group.choose(choice, now).map(|lease| place(lease.peer()))
}

fn report(group: &Group, at: usize, outcome: Outcome, now: Instant) {
    let view = group.view(now);
    let found = view.iter().find(|slot| place(&slot.peer) == at).expect("a server");
    group.report(&found.peer, outcome, now);
}

fn weight(weight: u32) -> ServerOptions {
    ServerOptions { weight, ..ServerOptions::default() }
}

const A: &str = "127.0.0.1:1";
const B: &str = "127.0.0.1:2";
const C: &str = "127.0.0.1:3";

fn order(group: &Arc<Group>, count: usize, now: Instant) -> String {
    let mut text = String::new();
    for _ in 0..count {
        let index = pick(group, &mut Choice::default(), now);
        text.push(index.map_or('-', |index| (b'a' + index as u8) as char));
    }
    text
}

#[test]
fn smooth_weighted_round_robin() {
    let now = tidegate_rt::clock::now();
    let even =
        group(BalancingMethod::RoundRobin, &[(A, weight(1)), (B, weight(1)), (C, weight(1))]);
    assert_eq!(order(&even, 6, now), "abcabc");
    let uneven =
        group(BalancingMethod::RoundRobin, &[(A, weight(5)), (B, weight(1)), (C, weight(1))]);
    assert_eq!(order(&uneven, 7, now), "aabacaa");
}

#[test]
fn failures_make_unavailable_for_a_time() {
    let now = tidegate_rt::clock::now();
    let group = group(BalancingMethod::RoundRobin, &[(A, weight(1)), (B, weight(1))]);
    report(&group, 0, Outcome::Failure, now);
    assert_eq!(order(&group, 3, now), "bbb");
    let later = now + Duration::from_secs(11);
    assert!(order(&group, 2, later).contains('a'));
    report(&group, 0, Outcome::Success, later);
    assert!(order(&group, 4, later).contains('a'));
}

#[test]
fn backups_substitute() {
    let now = tidegate_rt::clock::now();
    let backup = ServerOptions { backup: true, ..ServerOptions::default() };
    let group = group(BalancingMethod::RoundRobin, &[(A, weight(1)), (B, backup)]);
    assert_eq!(order(&group, 2, now), "aa");
    report(&group, 0, Outcome::Failure, now);
    assert_eq!(order(&group, 2, now), "bb");
}

#[test]
fn a_request_tries_each_server_once() {
    let now = tidegate_rt::clock::now();
    let down = ServerOptions { down: true, ..ServerOptions::default() };
    let group = group(BalancingMethod::RoundRobin, &[(A, weight(1)), (B, weight(1)), (C, down)]);
    assert_eq!(group.attempts_max(), 2);
    let mut choice = Choice::default();
    let tried: Vec<_> = (0..3).map(|_| pick(&group, &mut choice, now)).collect();
    assert_eq!(tried, [Some(0), Some(1), None]);
}

#[test]
fn limits_of_connections() {
    let now = tidegate_rt::clock::now();
    let one = ServerOptions { max_conns: 1, ..ServerOptions::default() };
    let group = group(BalancingMethod::RoundRobin, &[(A, one), (B, weight(1))]);
    let lease = group.choose(&mut Choice::default(), now);
    assert_eq!(lease.as_ref().map(|lease| place(lease.peer())), Some(0));
    assert_eq!(order(&group, 2, now), "bb");
    drop(lease);
    assert!(order(&group, 2, now).contains('a'));
}

#[test]
fn keys_stay_with_their_server() {
    let now = tidegate_rt::clock::now();
    for method in [BalancingMethod::IpHash, BalancingMethod::Hash, BalancingMethod::HashConsistent]
    {
        let group = group(method, &[(A, weight(1)), (B, weight(1)), (C, weight(1))]);
        let mut seen = std::collections::BTreeSet::new();
        for key in 0..64u8 {
            let choose = || pick(&group, &mut Choice::by_key(vec![10, key, 7]), now);
            assert_eq!(choose(), choose());
            seen.insert(choose());
        }
        assert_eq!(seen.len(), 3, "{method:?} uses all servers");
    }
}

#[test]
fn check_value_of_crc32() {
    assert_eq!(hashes::crc32(b"123456789"), 0xcbf4_3926);
}

#[test]
fn draining_servers_keep_bound_requests() {
    let now = tidegate_rt::clock::now();
    let routed = |route: &str, drain| {
        let address = Addr::Inet(if route == "a" { A } else { B }.parse().expect("an address"));
        let route = Some(route.into());
        let options = ServerOptions { route, drain, ..ServerOptions::default() };
        Member::fixed("server", vec![address], options)
    };
    let options = GroupOptions { sticky: Stickiness::Routes, ..GroupOptions::default() };
    let specs = vec![routed("a", true), routed("b", false)];
    let group =
        Group::with("g", (BalancingMethod::RoundRobin, Keepalive::DEFAULT, options), specs, now);
    let group = Arc::new(group);
    assert_eq!(order(&group, 3, now), "bbb");
    let bound = |route: &[u8]| Choice::bound_to(route);
    assert_eq!(pick(&group, &mut bound(b"a"), now), Some(0));
    assert_eq!(pick(&group, &mut bound(b"unknown"), now), Some(1));
    report(&group, 0, Outcome::Failure, now);
    assert_eq!(pick(&group, &mut bound(b"a"), now), Some(1), "a failing server binds no request");
}

#[test]
fn recovered_servers_start_slowly() {
    let now = tidegate_rt::clock::now();
    let slow = ServerOptions { slow_start: Duration::from_secs(100), ..ServerOptions::default() };
    let group = group(BalancingMethod::RoundRobin, &[(A, slow), (B, weight(1))]);
    report(&group, 0, Outcome::Failure, now);
    let later = now + Duration::from_secs(11);
    assert!(order(&group, 4, later).contains('a'), "it is probed");
    report(&group, 0, Outcome::Success, later);
    let share = |at: Instant| order(&group, 100, at).matches('a').count();
    let early = share(later + Duration::from_secs(5));
    assert!((2..=10).contains(&early), "{early} of 100 after a twentieth of the time");
    let late = share(later + Duration::from_secs(100));
    assert!((48..=52).contains(&late), "{late} of 100 in the end");
}

/// Records a request to a server that takes this number of milliseconds.
fn slot_takes(peer: &Arc<Peer>, kind: TimeKind, millis: u64, now: Instant) {
    InFlight::begin(peer, kind, now - Duration::from_millis(millis)).header(now);
}

#[test]
fn faster_servers_are_preferred() {
    let now = tidegate_rt::clock::now();
    let kind = TimeKind::Header { inflight: false };
    let group = group(BalancingMethod::LeastTime(kind), &[(A, weight(1)), (B, weight(1))]);
    let slow = group.view(now).into_iter().find(|slot| place(&slot.peer) == 0).expect("a server");
    slot_takes(&slow.peer, kind, 90, now);
    assert_eq!(order(&group, 4, now), "bbbb");
    // With five in progress it would take longer than the slow one.
    let leases: Vec<_> = (0..4).map(|_| group.choose(&mut Choice::default(), now)).collect();
    assert_eq!(leases.iter().flatten().filter(|lease| place(lease.peer()) == 1).count(), 4);
    assert_eq!(order(&group, 1, now), "a");
}

#[test]
fn statistics_contain_elapsed_times() {
    let now = tidegate_rt::clock::now();
    let group = group(BalancingMethod::LeastConnections, &[(A, weight(1)), (B, weight(1))]);
    let first = group.view(now)[0].peer.clone();
    let times = |at: u64| {
        let (statistics, at) = (&first.statistics, now + Duration::from_secs(at));
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs());
        (
            seconds(statistics.since_selected(at)),
            seconds(statistics.down_for(at)),
            statistics.down_time(at).as_secs(),
        )
    };
    assert_eq!(times(1), (None, None, 0));
    assert_eq!(order(&group, 1, now + Duration::from_secs(1)), "a");
    report(&group, 0, Outcome::Failure, now + Duration::from_secs(2));
    assert_eq!(times(5), (Some(4), Some(3), 3));
    let back = now + Duration::from_secs(20);
    assert!(order(&group, 4, back).contains('a'));
    report(&group, 0, Outcome::Success, back);
    assert_eq!(times(30), (Some(10), None, 18));
}

#[test]
fn servers_that_stay_keep_their_state() {
    let now = tidegate_rt::clock::now();
    let spec = |address: &str, weight: u32| {
        let options = ServerOptions { weight, ..ServerOptions::default() };
        Member::fixed(address, vec![Addr::Inet(address.parse().expect("an address"))], options)
    };
    let make = |specs| {
        let options = GroupOptions { mutability: Mutability::Changing, ..GroupOptions::default() };
        Group::with("g", (BalancingMethod::RoundRobin, Keepalive::DEFAULT, options), specs, now)
    };
    let group = Arc::new(make(vec![spec(A, 1), spec(B, 1)]));
    report(&group, 0, Outcome::Failure, now);
    group.change_members(now, |members| *members = vec![spec(A, 1), spec(C, 1)]);
    assert_eq!(order(&group, 2, now), "cc", "the failure is remembered");
    let mut next = make(vec![spec(B, 1), spec(A, 3)]);
    next.inherit(&group, now);
    let next = Arc::new(next);
    assert_eq!(next.id, group.id);
    assert_eq!(order(&next, 2, now), "bb");
    let numbers: Vec<_> = next.view(now).iter().map(|slot| slot.number).collect();
    assert_eq!(numbers, [3, 0], "numbers are never used again");
}

#[test]
fn servers_keep_their_state_wherever_they_are_written() {
    let now = tidegate_rt::clock::now();
    let names: Vec<String> = (1..=9).map(|port| format!("127.0.0.1:{port}")).collect();
    let all: Vec<(&str, ServerOptions)> = names.iter().map(|name| (&**name, weight(1))).collect();
    let group = group(BalancingMethod::RoundRobin, &all);
    report(&group, 3, Outcome::Failure, now);
    let state = || -> Vec<(u32, String, bool)> {
        let view = group.view(now);
        view.iter().map(|slot| (slot.number, slot.peer.text.to_string(), slot.resting)).collect()
    };
    let mut known = state();
    known.sort();
    let changes: [fn(&mut Vec<Member>); 6] = [
        |members| members.rotate_left(1),
        |members| members.reverse(),
        |members| members.swap(0, 8),
        |members| members[5].options.backup = true,
        |members| members[5].options.backup = false,
        |members| members[0].options.weight = 2,
    ];
    for (number, change) in changes.iter().enumerate() {
        group.change_members(now, change);
        let mut found = state();
        found.sort();
        assert_eq!(found, known, "change {number}");
    }
    // One is new, one is gone.
    group.change_members(now, |members| {
        let (old, new) = (members[4].server.clone(), Addr::Inet(C.parse().expect("an address")));
        members[4] = Member::fixed("new", vec![new], weight(1));
        known.retain(|(_, text, _)| **text != *old);
    });
    known.push((9, C.to_owned(), false));
    let mut found = state();
    found.sort();
    known.sort();
    assert_eq!(found, known);
}

#[test]
fn the_worst_check_decides() {
    let now = tidegate_rt::clock::now();
    let group = group(BalancingMethod::RoundRobin, &[(A, weight(1)), (B, weight(1))]);
    let rule =
        |name: &str, mandatory| CheckRule { name: name.into(), mandatory, persistent: false };
    let first = group.view(now)[0].peer.clone();
    let quick = group.add_check(rule("quick", false), now);
    assert!(order(&group, 2, now).contains('a'));
    group.judge(&first, quick, Health::Unhealthy, now);
    assert_eq!(order(&group, 2, now), "bb");
    let thorough = group.add_check(rule("thorough", true), now);
    assert_eq!(order(&group, 2, now), "--", "no server has passed the mandatory check");
    group.judge(&first, thorough, Health::Fine, now);
    assert_eq!(order(&group, 2, now), "--");
    group.judge(&first, quick, Health::Fine, now);
    assert_eq!(order(&group, 2, now), "aa");
}

#[test]
fn check_results_outlast_a_reload() {
    let now = tidegate_rt::clock::now();
    let members = || vec![Member::fixed(A, vec![Addr::Inet(A.parse().expect("one"))], weight(1))];
    let options = GroupOptions { mutability: Mutability::Changing, ..GroupOptions::default() };
    let make = || {
        Group::with("g", (BalancingMethod::RoundRobin, Keepalive::DEFAULT, options), members(), now)
    };
    for (mandatory, persistent, said, after) in [
        (false, false, Health::Unhealthy, "-"),
        (true, true, Health::Fine, "a"),
        (true, false, Health::Fine, "-"),
    ] {
        let rule = CheckRule { name: "check".into(), mandatory, persistent };
        let before = Arc::new(make());
        let check = before.add_check(rule.clone(), now);
        before.judge(&before.view(now)[0].peer, check, said, now);
        let mut next = make();
        next.inherit(&before, now);
        next.add_check(rule.clone(), now);
        assert_eq!(order(&Arc::new(next), 1, now), after, "{rule:?}");
    }
}

#[test]
fn the_queue_is_served_in_the_order_of_arrival() {
    let order = tidegate_rt::block_on(async {
        let now = tidegate_rt::clock::now();
        let options =
            GroupOptions { queue: Some((8, Duration::from_secs(600))), ..GroupOptions::default() };
        let address = Addr::Inet(A.parse().expect("an address"));
        let limited = ServerOptions { max_conns: 1, ..ServerOptions::default() };
        let members = vec![Member::fixed(A, vec![address], limited)];
        let group = Group::with(
            "g",
            (BalancingMethod::RoundRobin, Keepalive::DEFAULT, options),
            members,
            now,
        );
        let group = Arc::new(group);
        let first = group.choose_in_order(&mut Choice::default(), now).expect("it is free");
        let order = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
        let mut tasks = Vec::new();
        for number in 0..4 {
            let (group, order) = (group.clone(), order.clone());
            let waits = group.clone();
            tasks.push(tidegate_rt::spawn_local(async move {
                let lease = waits.wait(&mut Choice::default()).await.expect("a server");
                order.borrow_mut().push(number);
                drop(lease);
            }));
            while group.waiting() <= number {
                tidegate_rt::yield_now().await;
            }
        }
        drop(first);
        // The server is free, and belongs to the first one in the queue.
        assert!(group.choose_in_order(&mut Choice::default(), now).is_none());
        for task in tasks {
            task.await.expect("no panic");
        }
        assert!(group.choose_in_order(&mut Choice::default(), now).is_some());
        order.take()
    });
    assert_eq!(order.expect("a loop"), [0, 1, 2, 3]);
}

#[test]
fn who_waits_for_its_last_server_holds_none_up() {
    let run = tidegate_rt::block_on(async {
        let now = tidegate_rt::clock::now();
        let options =
            GroupOptions { queue: Some((8, Duration::from_secs(600))), ..GroupOptions::default() };
        let limited = ServerOptions { max_conns: 1, ..ServerOptions::default() };
        let member = |name: &str| {
            let address = Addr::Inet(name.parse().expect("an address"));
            Member::fixed(name, vec![address], limited.clone())
        };
        let settings = (BalancingMethod::RoundRobin, Keepalive::DEFAULT, options);
        let group = Arc::new(Group::with("g", settings, vec![member(A), member(B)], now));
        let mut retried = Choice::default();
        let first = group.choose_in_order(&mut retried, now).expect("it is free");
        let second = group.choose_in_order(&mut Choice::default(), now).expect("it is free");
        let busy = place(second.peer());
        let wait = |mut choice: Choice| {
            let waits = group.clone();
            tidegate_rt::spawn_local(async move {
                waits.wait(&mut choice).await.map(|(lease, _)| lease)
            })
        };
        // It has failed at one server, and the other one is busy.
        let retried = wait(retried);
        let arrives = wait(Choice::default());
        while group.waiting() < 2 {
            tidegate_rt::yield_now().await;
        }
        drop(first);
        let lease = arrives.await.expect("no panic").expect("the server that was freed");
        assert_ne!(place(lease.peer()), busy);
        drop(second);
        let lease = retried.await.expect("no panic").expect("its last server");
        assert_eq!(place(lease.peer()), busy);
    });
    run.expect("a loop");
}
