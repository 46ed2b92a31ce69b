//! Groups that are too large to check each server.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use tidegate_rt::net::Addr;

use super::super::tree::Tree;
use super::super::*;

fn large(method: BalancingMethod, weights: &[u32]) -> Arc<Group> {
    let server = |(at, weight): (usize, &u32)| {
        let address = SocketAddr::from((Ipv4Addr::from(0x7f00_0000 + at as u32), 80));
        let options = ServerOptions { weight: *weight, ..ServerOptions::default() };
        (address.to_string(), Addr::Inet(address), options)
    };
    let servers = weights.iter().enumerate().map(server).collect();
    Arc::new(Group::new("g", method, Keepalive::DEFAULT, servers, tidegate_rt::clock::now()))
}

fn shares(group: &Arc<Group>, count: u32, now: Instant) -> BTreeMap<u64, u32> {
    let mut shares = BTreeMap::new();
    for _ in 0..count {
        let lease = group.choose(&mut Choice::default(), now).expect("a server");
        *shares.entry(lease.peer().id).or_insert(0) += 1;
    }
    shares
}

#[test]
fn every_server_gets_its_share() {
    let now = tidegate_rt::clock::now();
    let weights: Vec<u32> = (0..500).map(|at| 1 + at % 7).collect();
    let group = large(BalancingMethod::RoundRobin, &weights);
    let total = weights.iter().sum();
    let shares: Vec<u32> = shares(&group, total, now).into_values().collect();
    assert_eq!(shares, weights);
}

#[test]
fn failing_servers_are_unavailable_for_a_time() {
    let now = tidegate_rt::clock::now();
    let group = large(BalancingMethod::RoundRobin, &[1; 100]);
    let view = group.view(now);
    for slot in &view[..90] {
        group.report(&slot.peer, Outcome::Failure, now);
    }
    assert_eq!(shares(&group, 100, now).len(), 10);
    let later = now + Duration::from_secs(11);
    assert_eq!(shares(&group, 100, later).len(), 100);
}

#[test]
fn requests_of_an_earlier_configuration_count_until_they_end() {
    let now = tidegate_rt::clock::now();
    let method = BalancingMethod::LeastConnections;
    let before = large(method, &[1; 100]);
    let leases: Vec<_> = (0..50).map(|_| before.choose(&mut Choice::default(), now)).collect();
    let mut group = Arc::into_inner(large(method, &[1; 100])).expect("one owner");
    group.inherit(&before, now);
    let group = Arc::new(group);
    assert_eq!(shares(&group, 200, now).len(), 50);
    drop(leases);
    assert_eq!(shares(&group, 200, now + Duration::from_secs(2)).len(), 100);
}

#[test]
fn the_least_busy_of_many() {
    let now = tidegate_rt::clock::now();
    let group = large(BalancingMethod::LeastConnections, &[1; 200]);
    let leases: Vec<_> = (0..200).map(|_| group.choose(&mut Choice::default(), now)).collect();
    let ids: std::collections::BTreeSet<_> =
        leases.iter().flatten().map(|lease| lease.peer().id).collect();
    assert_eq!(ids.len(), 200, "each one once while all are busy");
    let free = leases[77].as_ref().map(|lease| lease.peer().id);
    let mut leases = leases;
    leases.remove(77);
    let next = group.choose(&mut Choice::default(), now);
    assert_eq!(next.map(|lease| lease.peer().id), free);
}

#[test]
fn a_request_tries_others() {
    let now = tidegate_rt::clock::now();
    for method in [
        BalancingMethod::RoundRobin,
        BalancingMethod::LeastConnections,
        BalancingMethod::Random,
        BalancingMethod::RandomTwo,
    ] {
        let group = large(method, &[1; 70]);
        let mut choice = Choice::default();
        let tried: std::collections::BTreeSet<_> =
            std::iter::from_fn(|| group.choose(&mut choice, now).map(|lease| lease.peer().id))
                .collect();
        assert_eq!(tried.len(), 70, "{method:?}");
        assert_eq!(shares(&group, 700, now).values().sum::<u32>(), 700);
    }
}

#[test]
fn ten_thousand_servers_take_fourteen_steps() {
    let mut tree = Tree::new(10_000);
    (0..10_000).for_each(|at| tree.set(at, Some((0, 1 + at as u32 % 5))));
    for _ in 0..1000 {
        tree.steps.set(0);
        let at = tree.next().expect("a server");
        assert_eq!(tree.steps.get(), 14, "down from the root: 2^14 is the next power of two");
        tree.set(at, None);
        tree.set(at, Some((0, 1)));
        assert!(tree.steps.get() <= 3 * 14);
    }
}

proptest! {
    /// Compares the tree with a list.
    #[test]
    fn the_tree_finds_the_least(
        values in prop::collection::vec(prop::option::of((0_u64..4, 1_u32..5)), 1..40),
        changes in prop::collection::vec((0_usize..40, prop::option::of((0_u64..4, 1_u32..5))), 0..40),
    ) {
        let mut list = values.clone();
        let mut tree = Tree::new(list.len());
        for (at, value) in values.into_iter().enumerate() {
            tree.set(at, value);
        }
        for (at, value) in changes {
            if at < list.len() {
                list[at] = value;
                tree.set(at, value);
            }
        }
        let lowest = list.iter().flatten().map(|value| value.0).min();
        let mut expected = Vec::new();
        for (at, value) in list.iter().enumerate() {
            if let Some((load, weight)) = value
                && Some(*load) == lowest
            {
                expected.extend(std::iter::repeat_n(at, *weight as usize));
            }
        }
        prop_assert_eq!(tree.weight(), expected.len() as u64);
        let found: Vec<_> = (0..tree.weight()).filter_map(|place| tree.at(place)).collect();
        prop_assert_eq!(&found, &expected);
        let mut visited: Vec<_> = (0..tree.weight()).filter_map(|_| tree.next()).collect();
        visited.sort_unstable();
        prop_assert_eq!(visited, expected);
    }
}
