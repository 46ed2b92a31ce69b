//! The owner of a key: spread, weights, and what moves when a server is lost.

use std::net::SocketAddr;
use std::sync::Arc;

use tidegate_rt::clock;

use super::rank;
use crate::peers::{BalancingMethod, Choice, Group, Keepalive, Outcome, ServerOptions};

/// Returns the index of the owner of a key.
fn owner(servers: &[(String, u32)], key: &[u8; 16]) -> usize {
    let ranks = servers.iter().map(|(name, weight)| rank(name.as_bytes(), *weight, key));
    let ranks: Vec<f64> = ranks.collect();
    (0..ranks.len()).max_by(|a, b| ranks[*a].total_cmp(&ranks[*b])).unwrap()
}

fn servers(count: usize) -> Vec<(String, u32)> {
    (1..=count).map(|at| (format!("10.0.0.{at}:80"), 1)).collect()
}

/// A hash of a number, spread evenly.
fn key(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&super::mix(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_le_bytes());
    key[8..].copy_from_slice(&super::mix(number ^ 0x5555).to_le_bytes());
    key
}

const KEYS: u64 = 5_000;

#[test]
fn a_lost_server_moves_its_own_keys_alone_and_to_all_others() {
    for count in 2..=9 {
        let all = servers(count);
        for lost in 0..count {
            let mut rest = all.clone();
            rest.remove(lost);
            let mut moved = 0;
            let mut gained = vec![0_u64; count];
            for number in 0..KEYS {
                let before = owner(&all, &key(number));
                let after = owner(&rest, &key(number));
                let after = if after >= lost { after + 1 } else { after };
                if before != lost {
                    assert_eq!(before, after, "a key of another server");
                    continue;
                }
                moved += 1;
                gained[after] += 1;
            }
            let part = KEYS as f64 / count as f64;
            assert!(moved as f64 <= part * 1.2, "{moved} of {KEYS} keys of {count} servers");
            let fair = moved as f64 / (count - 1) as f64;
            for (at, more) in gained.iter().enumerate().filter(|(at, _)| *at != lost) {
                assert!((*more as f64) < fair * 1.5 + 50.0, "server {at} gains {more}");
            }
        }
    }
}

#[test]
fn weights_share_the_keys() {
    let mut all = servers(3);
    all[1].1 = 2;
    let mut owned = [0_u64; 3];
    (0..KEYS).for_each(|number| owned[owner(&all, &key(number))] += 1);
    let parts = owned.map(|count| count as f64 / KEYS as f64);
    assert!((0.23..0.27).contains(&parts[0]) && (0.23..0.27).contains(&parts[2]), "{parts:?}");
    assert!((0.47..0.53).contains(&parts[1]), "{parts:?}");
    // More weight for one server takes keys from the others, and gives none between them.
    for number in 0..KEYS {
        let (even, heavy) = (owner(&servers(3), &key(number)), owner(&all, &key(number)));
        assert!(even == heavy || heavy == 1);
    }
}

#[test]
fn without_weight_nothing_is_owned() {
    let all = [("a".to_owned(), 0), ("b".to_owned(), 1)];
    assert!((0..100).all(|number| owner(&all, &key(number)) == 1));
}

#[test]
fn the_order_of_the_list_does_not_matter() {
    let all = servers(5);
    let reversed: Vec<_> = all.iter().rev().cloned().collect();
    for number in 0..1000 {
        let (one, other) = (owner(&all, &key(number)), owner(&reversed, &key(number)));
        assert_eq!(all[one].0, reversed[other].0);
    }
}

#[test]
fn a_request_for_an_owner_goes_to_no_other_server() {
    let now = clock::now();
    let server = |at: u8| {
        let text = format!("127.0.0.{at}:80");
        let address: SocketAddr = text.parse().unwrap();
        (text, address.into(), ServerOptions { max_fails: 1, ..ServerOptions::default() })
    };
    let servers = (1..=3).map(server).collect();
    let group = Group::new("g", BalancingMethod::RoundRobin, Keepalive::DEFAULT, servers, now);
    let group = Arc::new(group);
    let owners = group.owners(&key(7), now);
    assert!(owners.len() == 3 && owners.iter().all(|owner| owner.is_ready));
    for owner in &owners {
        let mut choice = Choice::only(&owner.peer);
        let chosen = group.choose(&mut choice, now).unwrap();
        assert_eq!(chosen.peer().id, owner.peer.id);
        assert!(group.choose(&mut choice, now).is_none(), "there is one try");
    }
    group.report(&owners[0].peer, Outcome::Failure, now);
    assert!(group.choose(&mut Choice::only(&owners[0].peer), now).is_none());
    let after = group.owners(&key(7), now);
    assert_eq!(after.iter().map(|owner| owner.is_ready).collect::<Vec<_>>(), [false, true, true]);
    assert!(group.has_ip("127.0.0.2".parse().unwrap()));
    assert!(group.has_ip("::ffff:127.0.0.2".parse().unwrap()));
    assert!(!group.has_ip("127.0.0.4".parse().unwrap()));
}
