//! Messages: good ones, and each fault of a member.

use serde_json::json;

use super::{Account, Authorization, Directory, Order, OrderStatus, Orders, Renewal, Status};
use super::{ChallengeKind, new_account, new_order};
use crate::identifier::Identifier;
use crate::json::Malformed;
use crate::time::Time;

fn bytes(value: &serde_json::Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// Each change of a good message, and the error that it causes.
fn check<T: std::fmt::Debug>(
    good: &serde_json::Value,
    parse: fn(&[u8]) -> Result<T, Malformed>,
    changes: &[(&str, serde_json::Value, &str)],
) {
    parse(&bytes(good)).expect("the message without a change");
    for (pointer, value, expected) in changes {
        let mut changed = good.clone();
        *changed.pointer_mut(pointer).expect("a member") = value.clone();
        let error = parse(&bytes(&changed)).expect_err(pointer).to_string();
        assert!(error.ends_with(expected), "{pointer}: {error}");
    }
    for body in ["", "[]", "{", "null", "\u{0}", "{}x"] {
        parse(body.as_bytes()).expect_err("no object");
    }
    parse(&vec![b' '; crate::BODY_BYTES_MAX + 1]).expect_err("too long");
    parse("[".repeat(100_000).as_bytes()).expect_err("too deep");
}

#[test]
fn directories() {
    let good = json!({
        "newNonce": "https://ca.test/nonce", "newAccount": "https://ca.test/account",
        "newOrder": "https://ca.test/order", "renewalInfo": "https://ca.test/ari",
        "x": "unknown members are ignored",
        "meta": { "termsOfService": "data:text/plain,terms\n", "externalAccountRequired": true,
                  "profiles": { "classic": "text", "short": "text" } }
    });
    let directory = Directory::parse(&bytes(&good)).expect("a directory");
    assert_eq!(directory.new_order, "https://ca.test/order");
    assert_eq!(directory.terms.as_deref(), Some("data:text/plain,terms "));
    assert_eq!(directory.profiles, ["classic", "short"]);
    assert!(directory.external_account_required);
    check(
        &good,
        Directory::parse,
        &[
            ("/newNonce", json!(null), "\"newNonce\": it is missing"),
            ("/newOrder", json!(7), "\"newOrder\": it is not a text"),
            ("/newOrder", json!("/order"), "https:// or http:// and a host"),
            ("/newOrder", json!("https://a b"), "one that is not ASCII"),
            ("/newOrder", json!("https://"), "and a host"),
            ("/newOrder", json!(format!("https://{}", "a".repeat(2048))), "longer than 2048 bytes"),
            ("/meta", json!([]), "it is not a JSON object"),
            ("/meta/externalAccountRequired", json!("yes"), "it is neither true nor false"),
            ("/meta/profiles", json!(["a"]), "\"profiles\": it is not an object"),
        ],
    );
    let least =
        json!({ "newNonce": "https://a", "newAccount": "https://a", "newOrder": "https://a" });
    let least = Directory::parse(&bytes(&least)).expect("a directory without meta");
    assert!(!least.external_account_required && least.profiles.is_empty());
}

#[test]
fn orders() {
    let good = json!({
        "status": "pending", "expires": "2026-01-05T14:09:07.99Z", "profile": "short",
        "identifiers": [{ "type": "dns", "value": "A.test" }, { "type": "ip", "value": "192.0.2.1" }],
        "authorizations": ["https://ca.test/authz/1", "https://ca.test/authz/2"],
        "finalize": "https://ca.test/order/1/finalize", "certificate": null, "error": null
    });
    let order = Order::parse(&bytes(&good)).expect("an order");
    assert_eq!((order.status, order.expires), (OrderStatus::Pending, Some(Time(1_767_622_147))));
    let name = |text| Identifier::parse(text).expect("an identifier");
    assert!(order.is_for(&[name("192.0.2.1"), name("a.test")]));
    assert!(!order.is_for(&[name("a.test")]) && !order.is_for(&[name("a.test"), name("b.test")]));
    let many = vec![json!("https://ca.test/a"); 101];
    check(
        &good,
        Order::parse,
        &[
            ("/status", json!("unheard"), "\"status\": it is unknown"),
            ("/expires", json!("tomorrow"), "it is not a date of RFC 3339"),
            ("/identifiers/0/type", json!("ip"), "the type does not fit the value"),
            ("/identifiers/0/value", json!("a.*.test"), "no names with a wildcard"),
            ("/identifiers/0", json!("a.test"), "nor an IP address"),
            ("/authorizations", json!(many), "it has more than 100 elements"),
            ("/authorizations/0", json!({}), "an element is not a text"),
            ("/authorizations/0", json!("ftp://a"), "and a host"),
            ("/authorizations", json!("https://a"), "it is not an array"),
            ("/finalize", json!(null), "\"finalize\": it is missing"),
        ],
    );
    let list = json!({ "orders": ["https://ca.test/order/1"] });
    assert_eq!(Orders::parse(&bytes(&list)).map(|list| list.0.len()), Ok(1));
    let account = json!({ "status": "deactivated", "orders": "https://ca.test/orders" });
    let account = Account::parse(&bytes(&account)).expect("an account");
    assert!(!account.is_valid && account.orders.is_some());
}

#[test]
fn authorizations() {
    let good = json!({
        "status": "pending", "identifier": { "type": "dns", "value": "a.test" },
        "challenges": [
            { "type": "device-attest-01", "status": "odd" },
            { "type": "http-01", "status": "invalid", "url": "https://ca.test/c/1", "token": "abc-_1",
              "error": { "type": "urn:ietf:params:acme:error:dns", "detail": "no address" } },
            { "type": "http", "status": "odd" },
        ]
    });
    let found = Authorization::parse(&bytes(&good)).expect("an authorization");
    assert_eq!(found.error().map(ToString::to_string).as_deref(), Some("dns: no address"));
    assert_eq!(found.offer(ChallengeKind::Http01).map(|offer| offer.status), Some(Status::Invalid));
    assert_eq!(found.offer(ChallengeKind::TlsAlpn01), None);
    check(
        &good,
        Authorization::parse,
        &[
            ("/status", json!(true), "\"status\": it is not a text"),
            ("/identifier", json!(null), "\"identifier\": it is missing"),
            ("/challenges/1/token", json!("../../etc"), "base64 for URLs of 1 to 256 bytes"),
            ("/challenges/1/token", json!(""), "base64 for URLs of 1 to 256 bytes"),
            ("/challenges/1/token", json!("a".repeat(257)), "base64 for URLs of 1 to 256 bytes"),
            ("/challenges/1/url", json!(null), "\"url\": it is missing"),
            ("/challenges/1/type", json!(null), "\"type\": it is missing"),
            ("/challenges/1", json!("http-01"), "it is not a JSON object"),
        ],
    );
}

#[test]
fn renewal_information() {
    let good = json!({
        "suggestedWindow": { "start": "2025-01-02T04:00:00Z", "end": "2025-01-03T04:00:00Z" },
        "explanationURL": "https://ca.test/why"
    });
    let renewal = Renewal::parse(&bytes(&good)).expect("a window");
    assert_eq!(renewal.end.since(renewal.start).as_secs(), 86_400);
    check(
        &good,
        Renewal::parse,
        &[
            ("/suggestedWindow", json!(null), "\"suggestedWindow\": it is missing"),
            ("/suggestedWindow/start", json!("2025-01-03T04:00:00Z"), "not after its start"),
            ("/suggestedWindow/end", json!(null), "\"end\": it is missing"),
            ("/explanationURL", json!(7), "\"explanationURL\": it is not a text"),
        ],
    );
}

#[test]
fn payloads() {
    let names: Vec<_> =
        ["a.test", "2001:db8::1"].map(Identifier::parse).into_iter().flatten().collect();
    let order = new_order(&names, Some("short"), Some("a.b"));
    let identifiers =
        json!([{ "type": "dns", "value": "a.test" }, { "type": "ip", "value": "2001:db8::1" }]);
    let expected = json!({ "identifiers": identifiers, "profile": "short", "replaces": "a.b" });
    assert_eq!(order, expected);
    assert_eq!(new_order(&names, None, None), json!({ "identifiers": identifiers }));
    let contacts = ["mailto:a@b.test".to_owned()];
    let account = new_account(&contacts, true, None).expect("a payload");
    assert_eq!(account, json!({ "termsOfServiceAgreed": true, "contact": ["mailto:a@b.test"] }));
    assert_eq!(new_account(&[], false, None), Ok(json!({})));
}
