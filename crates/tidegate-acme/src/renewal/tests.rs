//! The moment of a renewal, by life and by window.

use std::sync::Arc;

use rcgen::{CertificateParams, Issuer, KeyPair, date_time_ymd};

use super::Held;
use crate::chain::Chain;
use crate::key::{Key, KeyKind};
use crate::message::Renewal;
use crate::time::Time;

const DAY: u64 = 86_400;

/// A certificate that is valid for some days from 2026-01-01 on.
fn held(days: u64, random: u64) -> (Held, u64) {
    let key = Key::generate(KeyKind::Ecdsa256).expect("a key");
    let issuer = Issuer::new(CertificateParams::default(), KeyPair::generate().expect("a key"));
    let mut parameters = CertificateParams::new(vec!["a.test".to_owned()]).expect("a name");
    parameters.not_before = date_time_ymd(2026, 1, 1);
    parameters.not_after = parameters.not_before + std::time::Duration::from_secs(days * DAY);
    parameters.use_authority_key_identifier_extension = true;
    let certificate = parameters.signed_by(key.pair(), &issuer).expect("a certificate");
    let chain = Chain::parse(certificate.pem().as_bytes()).expect("a chain");
    let start = chain.facts().not_before.0;
    (Held::new(Arc::new(key), chain, Time(start), random), start)
}

#[test]
fn by_life() {
    for (days, random, earliest) in
        [(90, 0, 60 * DAY), (90, 1 << 63, 60 * DAY - 90 * DAY / 40), (6, 0, 3 * DAY)]
    {
        let (held, start) = held(days, random);
        assert_eq!(held.renew_at(), Time(start + earliest), "{days}");
    }
    let (held, start) = held(90, u64::MAX);
    assert!(held.renew_at() > Time(start + 55 * DAY));
}

#[test]
fn by_the_servers_window() {
    let (mut held, start) = held(90, 1 << 62);
    let now = Time(start + DAY);
    assert_eq!(held.ask_at(), Time(start));
    let window = |from: u64, to: u64| Renewal {
        start: Time(start + from * DAY),
        end: Time(start + to * DAY),
        explanation: Some("https://ca.test/why".to_owned()),
    };
    assert!(held.set_window(window(70, 74), None, now).is_some());
    assert_eq!(held.renew_at(), Time(start + 71 * DAY));
    assert_eq!(held.ask_at(), Time(now.0 + 6 * 3600));
    assert_eq!(held.set_window(window(70, 74), Some(Time(now.0 + 5)), now), None);
    assert_eq!(held.ask_at(), Time(now.0 + 60));
    // A window after the end, and one that has passed: revocation.
    assert!(held.set_window(window(200, 300), Some(Time(u64::MAX)), now).is_some());
    assert_eq!(held.ask_at(), Time(now.0 + DAY));
    assert_eq!(held.renew_at(), Time(start + 90 * DAY / 20 * 19));
    held.set_window(window(0, 1), None, now);
    assert_eq!(held.renew_at(), Time(start + DAY / 4));
    held.ask_again(Some(now), now);
    assert!(held.renew_at() < now && held.ask_at() == Time(now.0 + 60));
}
