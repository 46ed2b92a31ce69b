//! Kills and lost results between any two steps: one order, one account, no lost key.

use proptest::prelude::*;

use super::world::{End, Fault, World, wanted};
use crate::key::KeyKind;
use crate::step::{Event, Step};

fn world(has_list: bool) -> World {
    let mut world = World::new();
    // One of the two ways in which servers let an order be found again.
    (world.authority.has_list, world.authority.reuses_orders) = (has_list, !has_list);
    world
}

fn check(world: &World, certificates: usize) {
    world.check_issued();
    let authority = &world.authority;
    let counts = (authority.orders(), authority.issued, authority.accounts.len());
    assert_eq!(counts, (certificates, certificates, 1), "{:#?}", world.log);
}

/// The number of steps of an undisturbed order.
const STEPS: usize = 24;

#[test]
fn one_kill_anywhere() {
    for has_list in [true, false] {
        for at in 0..STEPS {
            for after in [false, true] {
                let mut world = world(has_list);
                let mut issuer = world.start();
                let mut count = 0;
                let end = world.run(&mut issuer, 3600, &mut |_| {
                    count += 1;
                    match (count == at + 1, after) {
                        (false, _) => Fault::Done,
                        (true, false) => Fault::KilledBefore,
                        (true, true) => Fault::KilledAfter,
                    }
                });
                assert_eq!(end, End::Killed, "{at}");
                let mut issuer = world.start();
                world.run_well(&mut issuer, 3600);
                check(&world, 1);
            }
        }
    }
}

#[test]
fn a_kill_at_every_step_of_one_order() {
    for has_list in [true, false] {
        let mut world = world(has_list);
        let mut kills = 0;
        // Each life is one step longer than the last one that made no progress.
        for steps in 1.. {
            let mut issuer = world.start();
            let mut left = steps;
            let end = world.run(&mut issuer, 3600, &mut |_| {
                left -= 1;
                if left == 0 { Fault::KilledAfter } else { Fault::Done }
            });
            match end {
                End::Killed => kills += 1,
                End::Waits(_) => break,
            }
        }
        assert!(kills > 3, "{kills}");
        let mut issuer = world.start();
        world.run_well(&mut issuer, 3600);
        check(&world, 1);
    }
}

#[test]
fn one_result_is_lost_anywhere() {
    for has_list in [true, false] {
        for at in 0..STEPS {
            let mut world = world(has_list);
            let mut issuer = world.start();
            let mut count = 0;
            world.run(&mut issuer, 3600, &mut |_| {
                count += 1;
                if count == at + 1 { Fault::Lost } else { Fault::Done }
            });
            check(&world, 1);
            // The withdrawal has no consequence.
            let expected = usize::from(!world.log[at].starts_with("withdraw"));
            assert_eq!(world.failures(), vec!["connection reset"; expected], "{at}");
        }
    }
}

/// Two certificates for the same names: the search for one order does not take that of the other.
#[test]
fn the_same_names_with_two_kinds_of_keys() {
    for at in 0..2 * STEPS {
        let mut world = world(true);
        // The first order waits while the second one is made.
        world.authority.slow = 2;
        let kinds = [KeyKind::Ecdsa256, KeyKind::Ecdsa384];
        world.wanted = kinds.map(|kind| wanted(&["a.test"], kind)).to_vec();
        let mut issuer = world.start();
        let mut count = 0;
        world.run(&mut issuer, 3600, &mut |_| {
            count += 1;
            if count == at + 1 { Fault::KilledAfter } else { Fault::Done }
        });
        // The search of the second order is before the end of the first one.
        world.wanted.reverse();
        let mut issuer = world.start();
        world.run_well(&mut issuer, 3600);
        check(&world, 2);
    }
}

#[test]
fn an_order_is_found_again_and_reported() {
    let mut world = world(true);
    let mut issuer = world.start();
    world.run(&mut issuer, 3600, &mut |step| match step {
        Step::Send(request) if request.url.ends_with("/new-order") => Fault::KilledAfter,
        _ => Fault::Done,
    });
    let mut issuer = world.start();
    world.run_well(&mut issuer, 3600);
    let found = Event::Found("https://ca.test/order/0".to_owned());
    assert!(world.reports.iter().any(|report| report.event == found), "{:?}", world.reports);
    check(&world, 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Fifty kills at random places, and results that are lost.
    #[test]
    fn kills_and_losses(
        lives in prop::collection::vec((1_usize..9, 0_u8..3), 50),
        has_list: bool,
        slow in 0_u32..3,
    ) {
        let mut world = world(has_list);
        world.authority.slow = slow;
        for (steps, kind) in lives {
            let mut issuer = world.start();
            let mut left = steps;
            world.run(&mut issuer, 3600, &mut |_| {
                left = left.saturating_sub(1);
                match (left, kind) {
                    (0, 0) => Fault::KilledBefore,
                    (0, 1) => Fault::KilledAfter,
                    (1, 2) => Fault::Lost,
                    (0, _) => Fault::KilledBefore,
                    _ => Fault::Done,
                }
            });
        }
        let mut issuer = world.start();
        world.run_well(&mut issuer, 7200);
        check(&world, 1);
    }
}
