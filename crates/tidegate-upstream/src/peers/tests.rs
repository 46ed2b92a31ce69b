//! Choice among servers: weights, failures, backups, limits, keys.

use std::time::{Duration, Instant};

use super::*;

fn group(method: Method, servers: &[(&str, ServerOptions)]) -> Group {
    let servers = servers
        .iter()
        .map(|(name, options)| {
            let address = Addr::Inet(name.parse().expect("an address"));
            ((*name).to_owned(), address, options.clone())
        })
        .collect();
    Group::new("g", method, Keepalive::DEFAULT, servers)
}

fn weight(weight: u32) -> ServerOptions {
    ServerOptions { weight, ..ServerOptions::default() }
}

const A: &str = "127.0.0.1:1";
const B: &str = "127.0.0.1:2";
const C: &str = "127.0.0.1:3";

fn order(group: &Group, count: usize, now: Instant) -> String {
    let mut text = String::new();
    for _ in 0..count {
        let index = group.choose(&mut Choice::default(), now);
        text.push(index.map_or('-', |index| (b'a' + index as u8) as char));
    }
    text
}

#[test]
fn smooth_weighted_round_robin() {
    let now = tidegate_rt::clock::now();
    let even = group(Method::RoundRobin, &[(A, weight(1)), (B, weight(1)), (C, weight(1))]);
    assert_eq!(order(&even, 6, now), "abcabc");
    let uneven = group(Method::RoundRobin, &[(A, weight(5)), (B, weight(1)), (C, weight(1))]);
    assert_eq!(order(&uneven, 7, now), "aabacaa");
}

#[test]
fn failures_rest_and_come_back() {
    let now = tidegate_rt::clock::now();
    let group = group(Method::RoundRobin, &[(A, weight(1)), (B, weight(1))]);
    group.report(0, Outcome::Failure, now);
    assert_eq!(order(&group, 3, now), "bbb");
    let later = now + Duration::from_secs(11);
    assert!(order(&group, 2, later).contains('a'));
    group.report(0, Outcome::Success, later);
    assert!(order(&group, 4, later).contains('a'));
}

#[test]
fn backups_stand_in() {
    let now = tidegate_rt::clock::now();
    let backup = ServerOptions { backup: true, ..ServerOptions::default() };
    let group = group(Method::RoundRobin, &[(A, weight(1)), (B, backup)]);
    assert_eq!(order(&group, 2, now), "aa");
    group.report(0, Outcome::Failure, now);
    assert_eq!(order(&group, 2, now), "bb");
}

#[test]
fn a_request_tries_each_server_once() {
    let now = tidegate_rt::clock::now();
    let down = ServerOptions { down: true, ..ServerOptions::default() };
    let group = group(Method::RoundRobin, &[(A, weight(1)), (B, weight(1)), (C, down)]);
    assert_eq!(group.attempts_max(), 2);
    let mut choice = Choice::default();
    let tried: Vec<_> = (0..3).map(|_| group.choose(&mut choice, now)).collect();
    assert_eq!(tried, [Some(0), Some(1), None]);
}

#[test]
fn limits_of_connections() {
    let now = tidegate_rt::clock::now();
    let one = ServerOptions { max_conns: 1, ..ServerOptions::default() };
    let group = Arc::new(group(Method::RoundRobin, &[(A, one), (B, weight(1))]));
    let lease = group.lease(0);
    assert_eq!(order(&group, 2, now), "bb");
    drop(lease);
    assert!(order(&group, 2, now).contains('a'));
}

#[test]
fn keys_stay_with_their_server() {
    let now = tidegate_rt::clock::now();
    for method in [Method::IpHash, Method::Hash, Method::HashConsistent] {
        let group = group(method, &[(A, weight(1)), (B, weight(1)), (C, weight(1))]);
        let mut seen = std::collections::BTreeSet::new();
        for key in 0..64u8 {
            let choose = || group.choose(&mut Choice::by_key(vec![10, key, 7]), now);
            assert_eq!(choose(), choose());
            seen.insert(choose());
        }
        assert_eq!(seen.len(), 3, "{method:?} uses all servers");
    }
}

#[test]
fn check_value_of_crc32() {
    assert_eq!(choose::crc32(b"123456789"), 0xcbf4_3926);
}
