//! Renewals: by life, by the server's window, after a restart.

use std::time::Duration;

use super::world::{End, Fault, START, World};
use crate::key::Key;
use crate::step::Step;
use crate::time::Time;
use crate::wire::Response;

const DAY: u64 = 86_400;

fn key(world: &World) -> Key {
    let file = world.disk.keys().find(|file| file.ends_with(".pem")).expect("a certificate");
    Key::from_pem(&String::from_utf8_lossy(&world.disk[file])).expect("a key")
}

#[test]
fn by_life() {
    let mut world = World::new();
    let mut issuer = world.start();
    world.run_well(&mut issuer, 3600);
    let first = key(&world);
    world.run_well(&mut issuer, 55 * DAY);
    assert_eq!(world.authority.orders(), 1);
    world.run_well(&mut issuer, 5 * DAY);
    assert_eq!((world.authority.orders(), world.authority.issued), (2, 2));
    world.check_issued();
    assert!(key(&world) != first, "the key is new");
    assert_eq!(world.authority.new_orders[1].get("replaces"), None);
    assert!(world.chain().not_after() > Time(START.0 + 140 * DAY));
}

#[test]
fn by_the_servers_window() {
    let mut world = World::new();
    world.authority.window = Some((Time(START.0 + 20 * DAY), Time(START.0 + 22 * DAY)));
    let mut issuer = world.start();
    world.run_well(&mut issuer, 20 * DAY - 1);
    assert_eq!(world.authority.orders(), 1);
    let asked = world.log.iter().filter(|line| line.starts_with("GET /ari/")).count();
    assert!((75..=81).contains(&asked), "every 6 hours: {asked}");
    // The next window is that of the next certificate.
    world.run_well(&mut issuer, 2 * DAY);
    assert!(world.authority.orders() >= 2);
    world.check_issued();
    assert!(world.authority.new_orders[1]["replaces"].as_str().is_some_and(|id| id.contains('.')));
}

/// The certificate is revoked: the window has passed, and the next look at it leads to an order.
#[test]
fn a_window_that_has_passed() {
    let mut world = World::new();
    world.authority.window = Some((Time(START.0 + 60 * DAY), Time(START.0 + 61 * DAY)));
    let mut issuer = world.start();
    world.run_well(&mut issuer, 5 * DAY);
    assert_eq!(world.authority.orders(), 1);
    world.authority.window = Some((Time(START.0), Time(START.0 + DAY)));
    // Before the next certificate is asked for its window, that of the first one has led to its renewal.
    let mut orders = 0;
    world.run(&mut issuer, DAY, &mut |step| {
        if let crate::Step::Send(request) = step
            && request.url.ends_with("/new-order")
        {
            orders += 1;
            return super::world::Fault::KilledAfter;
        }
        super::world::Fault::Done
    });
    assert_eq!((orders, world.authority.orders()), (1, 2));
}

#[test]
fn a_restart_keeps_the_certificate_and_its_renewal() {
    let mut world = World::new();
    let mut issuer = world.start();
    world.run_well(&mut issuer, 3600);
    for day in 1..70 {
        let mut issuer = world.start();
        assert_eq!(issuer.certificates().filter(|(_, found)| found.is_some()).count(), 1, "{day}");
        world.run_well(&mut issuer, DAY);
        world.now = world.now.max(Time(START.0 + day * DAY));
    }
    assert_eq!(world.authority.orders(), 2);
    // A certificate that has expired is not in use.
    world.now = Time(START.0 + 400 * DAY);
    let mut issuer = world.start();
    assert_eq!(issuer.certificates().filter(|(_, found)| found.is_some()).count(), 0);
    world.run_well(&mut issuer, 3600);
    world.check_issued();
    assert_eq!(world.authority.orders(), 3);
}

#[test]
fn certificates_of_six_days() {
    let mut world = World::new();
    world.authority.life = std::time::Duration::from_secs(6 * DAY);
    let mut issuer = world.start();
    world.run_well(&mut issuer, 30 * DAY);
    assert!((10..=12).contains(&world.authority.orders()), "{}", world.authority.orders());
    world.check_issued();
}

#[test]
fn windows_that_have_always_passed() {
    let mut world = World::new();
    world.authority.window = Some((Time(START.0 - DAY), Time(START.0 - 1)));
    let mut issuer = world.start();
    world.run_well(&mut issuer, 3 * DAY);
    assert!((10..=13).contains(&world.authority.orders()), "{}", world.authority.orders());
}

/// With a clock that is 70 days ahead each certificate is due when it is issued.
#[test]
fn a_clock_that_is_ahead() {
    let mut world = World::new();
    world.set_clock(Duration::from_secs(70 * DAY));
    let mut issuer = world.start();
    world.run_well(&mut issuer, 3 * DAY);
    assert!((10..=13).contains(&world.authority.orders()), "{}", world.authority.orders());
    world.check_issued();
    // Set right, the last one is renewed in its time.
    let orders = world.authority.orders();
    world.set_clock(Duration::ZERO);
    world.run_well(&mut issuer, 50 * DAY);
    assert_eq!(world.authority.orders(), orders);
    world.run_well(&mut issuer, 15 * DAY);
    assert_eq!(world.authority.orders(), orders + 1);
    world.check_issued();
}

/// The certificate seems to have expired, and so do those that are issued then.
#[test]
fn a_clock_that_is_years_ahead_for_a_moment() {
    let years = Duration::from_secs(3650 * DAY);
    let mut world = World::new();
    let mut issuer = world.start();
    world.run_well(&mut issuer, 3600);
    world.set_clock(years);
    world.run_well(&mut issuer, 2 * DAY);
    let orders = world.authority.orders();
    assert!((2..=12).contains(&orders), "{orders}");
    assert!(world.failures().iter().all(|failure| failure.contains("expired")));
    // The first certificate is still the one in use; one order may be tried again.
    world.set_clock(Duration::ZERO);
    let end = world.run_well(&mut issuer, 2 * DAY);
    assert!(
        matches!(end, End::Waits(until) if until < world.now.after(Duration::from_secs(60 * DAY)))
    );
    assert!(world.authority.orders() <= orders + 1);
    // A process that begins then, and one that begins when it is right.
    world.set_clock(years);
    let mut issuer = world.start();
    world.run_well(&mut issuer, 2 * DAY);
    world.set_clock(Duration::ZERO);
    let mut issuer = world.start();
    assert!(issuer.certificates().all(|(_, found)| found.is_some()));
    world.run_well(&mut issuer, 65 * DAY);
    world.check_issued();
    assert!(world.chain().not_after() > Time(START.0 + 140 * DAY));
}

#[test]
fn a_pause_is_not_longer_where_the_clock_is_set_back() {
    let mut world = World::new();
    world.set_clock(Duration::from_secs(3650 * DAY));
    let mut issuer = world.start();
    let limit = Response::new(429, [("retry-after", "4000")], b"{}".to_vec());
    let end = world.run(&mut issuer, 0, &mut |step| match step {
        Step::Send(request) if request.url.ends_with("/new-order") => Fault::Instead(limit.clone()),
        _ => Fault::Done,
    });
    assert_eq!(end, End::Waits(Time(world.now.0 + 4000)));
    world.set_clock(Duration::ZERO);
    assert_eq!(world.run_well(&mut issuer, 0), End::Waits(Time(world.now.0 + 4000)));
    world.run_well(&mut issuer, 4000);
    world.check_issued();
}
