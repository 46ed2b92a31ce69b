//! The path of an order, step by step, and its variants.

use super::world::{End, World, wanted};
use crate::config::Profile;
use crate::files::ACCOUNT;
use crate::jws::ExternalAccount;
use crate::key::KeyKind;
use crate::step::Event;

#[test]
fn the_steps_of_the_first_order() {
    let mut world = World::new();
    let mut issuer = world.start();
    let end = world.run_well(&mut issuer, 3600);
    let expected = "GET /dir|make ecdsa:256|store account.key|HEAD /nonce|POST /new-account|store account.json|\
        make ecdsa:256|store order|POST /new-order|store order|POST /order/0|POST /authorization/0/1|\
        POST /authorization/0/0|present 2|POST /challenge/0/1|POST /challenge/0/0|POST /authorization/0/0|\
        POST /authorization/0/1|POST /order/0|withdraw 2|POST /order/0/finalize|POST /certificate/0/0|store pem|\
        remove order";
    assert_eq!(world.log, expected.split('|').collect::<Vec<_>>());
    world.check_issued();
    // The authority has no renewal information: by life, but it is asked for every 6 hours.
    assert!(matches!(end, End::Waits(until) if until > world.now));
    assert_eq!(issuer.certificates().filter(|(_, installed)| installed.is_some()).count(), 1);
    let events: Vec<String> = world.reports.iter().map(|report| report.event.to_string()).collect();
    assert_eq!(
        events[..2],
        ["the account is https://ca.test/account/0", "the order is https://ca.test/order/0"]
    );
    assert!(
        events[2].starts_with("a certificate was issued, valid until 2027-04-15"),
        "{events:?}"
    );
    assert!(!world.reports.iter().any(|report| report.event.is_error()));
}

#[test]
fn a_slow_server_is_looked_at_with_pauses() {
    let mut world = World::new();
    world.authority.slow = 6;
    let mut issuer = world.start();
    world.run_well(&mut issuer, 3600);
    world.check_issued();
    let looks = world.log.iter().filter(|line| *line == "POST /authorization/0/0").count();
    assert_eq!(looks, 2 + 6);
    // 1 s, 2 s, 4 s, … for the authorizations, then again for the order.
    assert!(world.now.since(super::world::START).as_secs() >= 2 * (1 + 2 + 4 + 8 + 16 + 30));
}

#[test]
fn several_certificates_go_one_after_the_other() {
    let mut world = World::new();
    world.wanted = vec![
        wanted(&["a.test"], KeyKind::Ecdsa256),
        wanted(&["b.test", "a.test"], KeyKind::Ecdsa256),
        wanted(&["c.test"], KeyKind::Ecdsa256),
    ];
    let mut issuer = world.start();
    world.run_well(&mut issuer, 3600);
    world.check_issued();
    assert_eq!((world.authority.orders(), world.authority.accounts.len()), (3, 1));
}

#[test]
fn nothing_is_sent_without_a_wish_and_for_a_certificate_in_use() {
    let mut world = World::new();
    let mut issuer = world.start();
    world.run_well(&mut issuer, 3600);
    // By life alone there is nothing to ask: the directory is read for renewal information, no more.
    world.log.clear();
    let mut issuer = world.start();
    world.run_well(&mut issuer, 3600);
    assert_eq!(world.log, ["GET /dir"]);
    world.wanted.clear();
    let mut issuer = world.start();
    assert_eq!(world.run_well(&mut issuer, 3600), End::Waits(crate::time::Time(u64::MAX)));
}

#[test]
fn the_preferred_chain() {
    for (name, downloads, issuer_name) in
        [("Root A", 1, "Root A"), ("Root B", 2, "Root B"), ("Root C", 2, "Root A")]
    {
        let mut world = World::new();
        world.config.preferred_chain = Some(name.to_owned());
        let mut issuer = world.start();
        world.run_well(&mut issuer, 3600);
        world.check_issued();
        assert!(world.chain().is_issued_by(issuer_name), "{name}");
        let requests = world.requests();
        let found = requests.iter().filter(|line| line.starts_with("POST /certificate/"));
        assert_eq!(found.count(), downloads, "{name}");
    }
}

#[test]
fn profiles() {
    let order = |name: &str, required: bool| {
        let mut world = World::new();
        world.config.profile = Some(Profile { name: name.to_owned(), required });
        let mut issuer = world.start();
        world.run_well(&mut issuer, 30);
        world
    };
    let world = order("short", true);
    world.check_issued();
    assert_eq!(world.authority.new_orders[0]["profile"], "short");
    let world = order("long", false);
    world.check_issued();
    assert_eq!(world.authority.new_orders[0].get("profile"), None);
    let event = Event::DefaultProfile("long".to_owned());
    assert_eq!(world.reports.iter().filter(|report| report.event == event).count(), 1);
    let world = order("long", true);
    assert_eq!(world.authority.orders(), 0);
    assert_eq!(world.failures(), ["the server does not offer the profile \"long\""]);
}

#[test]
fn accounts() {
    // Terms that were not accepted: the failure names them.
    let mut world = World::new();
    world.authority.terms_required = true;
    world.config.terms_agreed = false;
    let mut issuer = world.start();
    world.run_well(&mut issuer, 30);
    assert_eq!(world.failures().len(), 1);
    assert!(
        world.failures()[0].ends_with("are at https://ca.test/terms"),
        "{:?}",
        world.failures()
    );
    // An external account.
    world.config.terms_agreed = true;
    world.authority.external_account_required = true;
    let mut issuer = world.start();
    world.run_well(&mut issuer, 30);
    assert!(world.failures()[1].ends_with("bound to an external one"), "{:?}", world.failures());
    assert_eq!(world.authority.accounts.len(), 0);
    world.config.external_account = ExternalAccount::new("kid-1", "AAAA").ok();
    let mut issuer = world.start();
    world.run_well(&mut issuer, 3600);
    world.check_issued();
    let account = world.authority.accounts.values().next().expect("an account").clone();
    assert!(account["binding"]["signature"].is_string(), "{account}");
    // Other contacts: the account is changed with the next order, and stored.
    world.config.contacts = vec!["mailto:other@a.test".to_owned()];
    world.wanted.push(wanted(&["b.test"], KeyKind::Ecdsa256));
    let mut issuer = world.start();
    world.run_well(&mut issuer, 3600);
    world.check_issued();
    let account = world.authority.accounts.values().next().expect("an account");
    assert_eq!(account["contact"][0], "mailto:other@a.test");
    let file = String::from_utf8_lossy(&world.disk[ACCOUNT]).into_owned();
    assert!(file.contains("other@a.test"), "{file}");
    // Another directory has another account, with the same key.
    world.config.directory += "?2";
    world.wanted.push(wanted(&["c.test"], KeyKind::Ecdsa256));
    world.log.clear();
    let mut issuer = world.start();
    world.run_well(&mut issuer, 0);
    assert_eq!(world.log, ["GET /dir?2"]);
}

#[test]
fn damaged_files_are_reported() {
    let mut world = World::new();
    let mut issuer = world.start();
    world.run_well(&mut issuer, 3600);
    for (file, contents) in &mut world.disk {
        if !file.ends_with(".key") {
            contents.truncate(contents.len() / 2);
        }
    }
    let mut issuer = world.start();
    world.run_well(&mut issuer, 3600);
    world.check_issued();
    let damaged = world.reports.iter().filter(|report| matches!(report.event, Event::Damaged(_)));
    assert_eq!((damaged.count(), world.authority.accounts.len()), (2, 1));
    world.disk.insert("account.key".to_owned(), b"x".to_vec());
    let disk = world.disk.clone();
    let mut read = |file: &str| disk.get(file).cloned();
    let issuer = crate::Issuer::new(world.config, world.wanted, &mut read, world.now, 0);
    assert!(issuer.is_err());
}

#[test]
fn orders_in_flight_are_bounded() {
    let mut world = World::new();
    world.authority.slow = 3;
    let names: Vec<String> = (0..40).map(|number| format!("n{number}.test")).collect();
    world.wanted = names.iter().map(|name| wanted(&[name], KeyKind::Ecdsa256)).collect();
    let mut issuer = world.start();
    world.run_well(&mut issuer, 3600);
    world.check_issued();
    let (mut now, mut most) = (0_usize, 0);
    for line in &world.log {
        now += usize::from(line == "POST /new-order");
        now -= usize::from(line == "remove order");
        most = most.max(now);
    }
    assert_eq!((now, most), (0, crate::limits::ORDERS_IN_FLIGHT_MAX));
}
