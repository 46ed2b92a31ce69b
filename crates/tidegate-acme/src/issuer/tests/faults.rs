//! Faults of the server: refused nonces, errors, strange responses, refused names.

use std::cell::Cell;

use proptest::prelude::*;

use super::authority::problem;
use super::world::{End, Fault, START, World};
use crate::step::Step;
use crate::time::Time;
use crate::wire::Response;

fn response(status: u16, fields: &[(&str, &str)], body: &str) -> Response {
    Response::new(status, fields.iter().copied(), body.as_bytes().to_vec())
}

fn error(status: u16, kind: &str, retry_after: &str) -> Response {
    let (status, _, body) = problem(status, kind);
    response(status, &[("retry-after", retry_after)], &body)
}

fn is_request(step: &Step, end: &str) -> bool {
    matches!(step, Step::Send(request) if request.url.ends_with(end))
}

#[test]
fn refused_nonces() {
    for bad_nonces in [1, 3, 8] {
        let mut world = World::new();
        world.authority.bad_nonces = bad_nonces;
        let mut issuer = world.start();
        world.run_well(&mut issuer, 3600);
        world.check_issued();
        assert_eq!(world.failures(), Vec::<String>::new());
    }
    // All of them: 9 requests, then a pause.
    let mut world = World::new();
    world.authority.bad_nonces = u32::MAX;
    let mut issuer = world.start();
    world.run_well(&mut issuer, 0);
    let sent = world.log.iter().filter(|line| line.starts_with("POST")).count();
    assert_eq!((sent, world.failures().len()), (9, 1));
    assert!(world.failures()[0].contains("badNonce"), "{:?}", world.failures());
}

/// One response of each request is replaced by each of these: the certificate is issued in the end, by one order.
#[test]
fn one_strange_response_anywhere() {
    let huge = "x".repeat(crate::BODY_BYTES_MAX + 1);
    let strange = [
        response(500, &[], "<html>"),
        response(502, &[("retry-after", "1")], ""),
        response(429, &[("retry-after", "Thu, 01 Jan 1970 00:00:00 GMT")], "{}"),
        response(200, &[], ""),
        response(200, &[], "[]"),
        response(200, &[], "{}"),
        response(200, &[("replay-nonce", "\"")], &huge),
        response(200, &[("location", "x")], "{\"status\":\"ready\"}"),
        response(301, &[("location", "https://other.test/")], ""),
        error(400, "rateLimited", "10"),
        error(500, "serverInternal", ""),
    ];
    for (number, strange) in strange.iter().enumerate() {
        for at in 0..24 {
            let mut world = World::new();
            let mut issuer = world.start();
            let mut count = 0;
            let sent = Cell::new(false);
            world.run(&mut issuer, 7200, &mut |step| {
                count += 1;
                let now = count == at + 1 && matches!(step, Step::Send(_));
                sent.set(sent.get() || now);
                if now { Fault::Instead(strange.clone()) } else { Fault::Done }
            });
            world.check_issued();
            // A chain that cannot be used is the end of its order.
            let orders = world.authority.orders();
            assert!(orders <= 2, "{number} {at}: {:#?}", world.log);
            let chain =
                world.failures().iter().any(|failure| failure.contains("certificate cannot"));
            assert_eq!(orders == 2, chain, "{number} {at}: {:?}", world.failures());
            assert!(world.failures().len() <= 1, "{number} {at}: {:?}", world.failures());
        }
    }
}

#[test]
fn a_server_that_is_away() {
    let mut world = World::new();
    let mut issuer = world.start();
    let mut requests = 0;
    world.run(&mut issuer, 24 * 3600, &mut |step| {
        requests += u32::from(matches!(step, Step::Send(_)));
        if requests > 9 { Fault::Lost } else { Fault::Done }
    });
    assert!((25..50).contains(&requests), "about one per hour in the end: {requests}");
    world.run_well(&mut issuer, 2 * 3600);
    world.check_issued();
    assert_eq!(world.authority.orders(), 1);
}

#[test]
fn a_full_disk() {
    let mut world = World::new();
    let mut issuer = world.start();
    let full = Cell::new(true);
    let mut fault_of_the_disk = |step: &Step| match step {
        Step::Store(_) if full.get() => Fault::Lost,
        _ => Fault::Done,
    };
    // The simulated disk stores; only the result is a failure. Nothing is sent before it is a success.
    world.run(&mut issuer, 600, &mut fault_of_the_disk);
    assert_eq!((world.authority.accounts.len(), world.authority.orders()), (0, 0));
    full.set(false);
    world.run_well(&mut issuer, 3600);
    world.check_issued();
    assert_eq!((world.authority.accounts.len(), world.authority.orders()), (1, 1));
}

#[test]
fn refused_names() {
    let mut world = World::new();
    world.authority.refuses_names = true;
    let mut issuer = world.start();
    let end = world.run_well(&mut issuer, 0);
    assert_eq!(world.failures().len(), 1);
    let expected = "192.0.2.1 was not validated: connection: refused";
    assert!(world.failures()[0] == expected || world.failures()[0].starts_with("a.test"));
    assert!(
        matches!(end, End::Waits(until) if (45..=76).contains(&(until.0 - START.0))),
        "{end:?}"
    );
    assert!(world.presented.is_empty(), "the challenges are withdrawn");
    // The pause outlives a restart; within an hour there are at most five orders, within ten days at most 20.
    let mut issuer = world.start();
    assert_eq!(world.run_well(&mut issuer, 0), end);
    world.run_well(&mut issuer, 3600 - 600);
    assert!((4..=5).contains(&world.authority.orders()), "{}", world.authority.orders());
    world.run_well(&mut issuer, 10 * 86_400);
    assert!((14..=20).contains(&world.authority.orders()), "{}", world.authority.orders());
    world.authority.refuses_names = false;
    world.run_well(&mut issuer, 2 * 86_400);
    world.check_issued();
}

#[test]
fn a_rate_limit_is_waited_for_with_the_same_intention() {
    let mut world = World::new();
    let mut issuer = world.start();
    let limited = Cell::new(true);
    let limit = error(429, "rateLimited", "40000");
    let mut fault = |step: &Step| match is_request(step, "/new-order") && limited.get() {
        true => Fault::Instead(limit.clone()),
        false => Fault::Done,
    };
    assert_eq!(world.run(&mut issuer, 0, &mut fault), End::Waits(Time(START.0 + 40_000)));
    limited.set(false);
    world.run(&mut issuer, 40_000, &mut fault);
    world.check_issued();
    let keys = world.log.iter().filter(|line| line.starts_with("make")).count();
    assert_eq!((keys, world.authority.orders()), (2, 1));
}

#[test]
fn orders_and_accounts_that_the_server_has_lost() {
    // An order that became invalid while the process was away.
    let mut world = World::new();
    let mut issuer = world.start();
    world.run(&mut issuer, 0, &mut |step| {
        if is_request(step, "/order/0") { Fault::KilledBefore } else { Fault::Done }
    });
    world.authority.invalidate();
    let mut issuer = world.start();
    world.run_well(&mut issuer, 3600);
    world.check_issued();
    assert_eq!(world.failures(), ["the server has made the order invalid: no reason given"]);
    // An account: it is registered again, with its key.
    let key = world.disk["account.key"].clone();
    world.authority.accounts.clear();
    world.now = Time(START.0 + 400 * 86_400);
    let mut issuer = world.start();
    world.run_well(&mut issuer, 3600);
    world.check_issued();
    assert_eq!(world.authority.accounts.len(), 1);
    assert_eq!(world.disk["account.key"], key);
}

#[test]
fn a_directory_that_changes() {
    let mut world = World::new();
    let mut issuer = world.start();
    let read = Cell::new(0);
    // What the first one names is gone.
    world.run(&mut issuer, 3600, &mut |step| {
        read.set(read.get() + u32::from(is_request(step, "/dir")));
        match read.get() == 1 && is_request(step, "/new-order") {
            true => Fault::Instead(response(404, &[], "")),
            false => Fault::Done,
        }
    });
    world.check_issued();
    assert_eq!((read.get(), world.authority.orders()), (2, 1), "{:#?}", world.log);
    assert_eq!(world.failures().len(), 1, "{:?}", world.failures());
}

#[test]
fn a_replaced_certificate_and_an_unknown_profile_at_new_order() {
    a_renewal_without_its_hint(&error(409, "alreadyReplaced", ""));
}

/// It is of another account, or of another server: so the certificate is ordered without naming it.
#[test]
fn a_certificate_that_the_server_does_not_know_at_new_order() {
    for (status, kind) in [(403, "unauthorized"), (400, "malformed"), (404, "malformed")] {
        a_renewal_without_its_hint(&error(status, kind, ""));
    }
}

fn a_renewal_without_its_hint(replaced: &Response) {
    let mut world = World::new();
    world.authority.window = Some((Time(START.0 + 50 * 86_400), Time(START.0 + 51 * 86_400)));
    let mut issuer = world.start();
    world.run_well(&mut issuer, 3600);
    let refused = Cell::new(false);
    world.run(&mut issuer, 51 * 86_400, &mut |step| {
        let first = is_request(step, "/new-order")
            && !refused.replace(refused.get() || is_request(step, "/new-order"));
        if first { Fault::Instead(replaced.clone()) } else { Fault::Done }
    });
    world.check_issued();
    assert!(refused.get() && world.authority.orders() >= 2);
    assert_eq!(world.authority.new_orders[1].get("replaces"), None);
    assert_eq!(world.failures(), Vec::<String>::new());
}

fn any_response() -> impl Strategy<Value = Response> {
    let body = prop_oneof![
        "[\\x00-\\x7f]{0,40}",
        Just("{\"status\":\"valid\",\"identifiers\":[],\"finalize\":\"https://a\"}".to_owned()),
        Just("{\"status\":\"pending\",\"identifiers\":[{\"type\":\"dns\",\"value\":\"a.test\"},{\"type\":\"ip\",\
              \"value\":\"192.0.2.1\"}],\"authorizations\":[],\"finalize\":\"https://a\"}"
            .to_owned()),
        Just("{\"newNonce\":\"https://a\",\"newAccount\":\"https://b\",\"newOrder\":\"https://c\"}".to_owned()),
        Just("{\"type\":\"urn:ietf:params:acme:error:badNonce\"}".to_owned()),
        Just("{\"orders\":[\"https://a\",\"https://b\"]}".to_owned()),
    ];
    let status = prop::sample::select(vec![200_u16, 201, 204, 301, 400, 403, 404, 429, 500]);
    (status, body, prop::option::of("[0-9]{1,20}"), any::<bool>()).prop_map(
        |(status, body, retry_after, nonce)| {
            let mut fields =
                vec![("location", "https://ca.test/x"), ("link", "<https://ca.test/x>;rel=next")];
            fields.extend(retry_after.as_deref().map(|value| ("retry-after", value)));
            fields.extend(nonce.then_some(("replay-nonce", "n")));
            Response::new(status, fields, body.into_bytes())
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// A server that responds with anything: the machine waits in between, and gets its certificate when the server is
    /// well again. `STEPS_MAX` limits its requests.
    #[test]
    fn any_responses(responses in prop::collection::vec(any_response(), 1..60), from in 0_usize..25) {
        let mut world = World::new();
        let mut issuer = world.start();
        let mut count = 0;
        let mut rest = responses.into_iter();
        world.run(&mut issuer, 86_400, &mut |step| {
            count += 1;
            match matches!(step, Step::Send(_)) && count > from {
                true => rest.next().map_or(Fault::Done, Fault::Instead),
                false => Fault::Done,
            }
        });
        world.run_well(&mut issuer, 30 * 86_400);
        world.check_issued();
    }
}
