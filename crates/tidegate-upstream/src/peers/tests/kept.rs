//! Which servers keep their state when the servers of a group change.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use tidegate_rt::net::Addr;

use super::super::*;

/// Servers by a digit; those from 5 on are the same again as backups.
fn members(digits: &[u8]) -> Vec<Member> {
    let member = |digit: &u8| {
        let address = format!("127.0.0.{}:80", digit % 5);
        // Other parameters than before.
        let fail_timeout = Duration::from_secs(10 + u64::from(digit % 2));
        let options = ServerOptions { backup: *digit >= 5, fail_timeout, ..Default::default() };
        Member::fixed(&address, vec![Addr::Inet(address.parse().expect("one"))], options)
    };
    digits.iter().map(member).collect()
}

/// Returns the numbers of the servers by address.
fn numbers(group: &Group) -> BTreeMap<String, BTreeSet<u32>> {
    let mut all: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    for slot in group.view(tidegate_rt::clock::now()) {
        all.entry(slot.peer.text.to_string()).or_default().insert(slot.number);
    }
    all
}

proptest! {
    #[test]
    fn each_old_server_is_taken_once_wherever_it_is(
        old in prop::collection::vec(0u8..10, 1..12),
        new in prop::collection::vec(0u8..10, 1..12),
        same in 0usize..12,
    ) {
        // Mostly the last ones remain.
        let new = [new, old[same.min(old.len())..].to_vec()].concat();
        let now = tidegate_rt::clock::now();
        let options = GroupOptions { mutability: Mutability::Changing, ..Default::default() };
        let by = (BalancingMethod::RoundRobin, Keepalive::DEFAULT, options);
        let group = Group::with("g", by, members(&old), now);
        let before = numbers(&group);
        group.change_members(now, |all| *all = members(&new));
        let after = numbers(&group);
        prop_assert_eq!(after.values().map(BTreeSet::len).sum::<usize>(), new.len());
        for (address, numbers) in &after {
            let known = before.get(address).cloned().unwrap_or_default();
            let kept = numbers.intersection(&known).count();
            prop_assert_eq!(kept, numbers.len().min(known.len()), "{}", address);
        }
    }
}
