//! Lists in OpenSSL's format, tickets and sessions, without sockets.

use std::sync::Arc;
use std::time::Duration;

use crate::cipher_suites::names_suites;
use crate::sessions::SessionCache;
use crate::tickets::{RandomKeys, TicketKey, TicketKeys, Tickets};
use crate::x509 as der;
use crate::{cipher_suites, groups as curves, suites};

const TIMEOUT: Duration = Duration::from_secs(300);

/// The expected suites without `ECDHE-`, as `openssl ciphers` lists those that exist here.
fn check_ciphers(list: &str, expected: &str) {
    let found: Vec<_> = suites::by_number(&cipher_suites::tls12(list))
        .into_iter()
        .filter_map(|suite| cipher_suites::name(u16::from(suite.suite())))
        .map(|name| name.strip_prefix("ECDHE-").unwrap_or(name))
        .collect();
    assert_eq!(found.join(" "), expected, "{list}");
}

#[test]
fn reads_cipher_lists() {
    let all = "ECDSA-AES256-GCM-SHA384 RSA-AES256-GCM-SHA384 ECDSA-CHACHA20-POLY1305 \
               RSA-CHACHA20-POLY1305 ECDSA-AES128-GCM-SHA256 RSA-AES128-GCM-SHA256";
    check_ciphers("HIGH:!aNULL:!MD5", all);
    check_ciphers("ALL", all);
    check_ciphers("DEFAULT", all);
    check_ciphers("", "");
    check_ciphers("NOPE", "");
    check_ciphers("AES128-SHA:RC4-SHA", "");
    check_ciphers("ECDHE-RSA-AES128-GCM-SHA256", "RSA-AES128-GCM-SHA256");
    check_ciphers("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "RSA-AES128-GCM-SHA256");
    check_ciphers(
        "ECDHE-RSA-AES128-GCM-SHA256:NOPE:ECDHE-RSA-AES256-GCM-SHA384",
        "RSA-AES128-GCM-SHA256 RSA-AES256-GCM-SHA384",
    );
    check_ciphers("aRSA+AES128", "RSA-AES128-GCM-SHA256");
    check_ciphers("ECDHE+CHACHA20", "ECDSA-CHACHA20-POLY1305 RSA-CHACHA20-POLY1305");
    check_ciphers("kEDH+AESGCM", "");
    // Key exchange by RSA, which does not exist here.
    check_ciphers("RSA", "");
    check_ciphers("HIGH:!AES", "ECDSA-CHACHA20-POLY1305 RSA-CHACHA20-POLY1305");
    check_ciphers("HIGH:!AES:AES128", "ECDSA-CHACHA20-POLY1305 RSA-CHACHA20-POLY1305");
    check_ciphers("aRSA:-AES:AES128+aRSA", "RSA-CHACHA20-POLY1305 RSA-AES128-GCM-SHA256");
    check_ciphers(
        "aRSA:+AES256",
        "RSA-CHACHA20-POLY1305 RSA-AES128-GCM-SHA256 RSA-AES256-GCM-SHA384",
    );
    check_ciphers(
        "AES128 CHACHA20,aRSA;@STRENGTH",
        "ECDSA-CHACHA20-POLY1305 RSA-CHACHA20-POLY1305 RSA-AES256-GCM-SHA384 \
         ECDSA-AES128-GCM-SHA256 RSA-AES128-GCM-SHA256",
    );
    check_ciphers(
        "ECDH+AESGCM:ECDH+AES256:!aDSS",
        "ECDSA-AES256-GCM-SHA384 RSA-AES256-GCM-SHA384 \
         ECDSA-AES128-GCM-SHA256 RSA-AES128-GCM-SHA256",
    );
    check_ciphers("SUITEB128", "ECDSA-AES128-GCM-SHA256 ECDSA-AES256-GCM-SHA384");
    check_ciphers("SUITEB192", "ECDSA-AES256-GCM-SHA384");
    check_ciphers("AES+aRSA:@SECLEVEL=4", "RSA-AES256-GCM-SHA384");
    check_ciphers("@SECLEVEL=5:AES+aRSA", "RSA-AES256-GCM-SHA384");
    check_ciphers("AES+aRSA:@SECLEVEL=2", "RSA-AES256-GCM-SHA384 RSA-AES128-GCM-SHA256");
    check_ciphers("HIGH:@SECLEVEL=1:!TLSv1.2", "");
    check_ciphers(":::!:+:-:@", "");
}

#[test]
fn knows_lists_that_name_suites() {
    // Those that `openssl ciphers` takes.
    for list in [
        "ALL",
        "AES128-SHA",
        "kRSA",
        "DHE+AES",
        "NOPE:RSA",
        "SHA384",
        "SUITEB128",
        "AES256-SHA:!aNULL",
    ] {
        assert!(names_suites(list), "{list}");
    }
    for list in ["", ":", "NOPE", "all", "@STRENGTH", "!ALL", "TLS_AES_128_GCM_SHA256", "NOPE+AES"]
    {
        assert!(!names_suites(list), "{list}");
    }
}

proptest::proptest! {
    #[test]
    fn any_cipher_list_is_read(list in "[A-Za-z0-9+!:@=. -]{0,80}") {
        let suites = cipher_suites::tls12(&list);
        proptest::prop_assert!(suites.len() <= 6);
    }

    #[test]
    fn any_certificate_is_read(der in proptest::collection::vec(0u8..=255, 0..300)) {
        let _ = der::public_key(&der);
        let nested: Vec<u8> = der.iter().map(|byte| if byte % 3 == 0 { 0x30 } else { *byte }).collect();
        let _ = der::public_key(&nested);
    }

    #[test]
    fn any_ticket_is_read(ticket in proptest::collection::vec(0u8..=255, 0..200)) {
        let tickets = tickets(vec![file_key(1)]);
        proptest::prop_assert_eq!(tickets.decrypt_at(&ticket, 5), None);
    }
}

#[test]
fn reads_groups() {
    let names = |list: &str| match curves::parse(list) {
        Ok(found) => {
            let groups = found.groups.iter().map(|group| u16::from(group.name()));
            let groups: Vec<_> = groups.filter_map(curves::name).collect();
            format!("{} | {}", groups.join(":"), found.unavailable.join(":"))
        }
        Err(name) => format!("unknown {name}"),
    };
    for (list, expected) in [
        ("auto", "X25519MLKEM768:X25519:prime256v1:secp384r1 | "),
        ("prime256v1:P-256:X25519", "prime256v1:X25519 | "),
        ("X25519:secp521r1:P-384", "X25519:secp384r1 | secp521r1"),
        ("secp521r1", " | secp521r1"),
        ("X25519:foo", "unknown foo"),
        ("", "unknown "),
    ] {
        assert_eq!(names(list), expected, "{list}");
    }
}

fn file_key(seed: u8) -> TicketKey {
    TicketKey::from_file(&[seed; 80]).expect("80 bytes")
}

fn tickets(keys: Vec<TicketKey>) -> Tickets {
    Tickets { keys: TicketKeys::Files(keys), timeout: TIMEOUT, context: [7; 16] }
}

#[test]
fn finds_public_keys() {
    let key = rcgen::KeyPair::generate().expect("a key");
    let params = rcgen::CertificateParams::new(vec!["a".to_owned()]).expect("a name");
    let certificate = params.self_signed(&key).expect("signed");
    let found = der::public_key(certificate.der());
    // The bits begin with the number of unused ones.
    assert_eq!(found, Some(&[&[0], key.public_key_raw()].concat()[..]));
    for cut in 0..certificate.der().len() {
        assert_eq!(der::public_key(&certificate.der()[..cut]), None);
    }
}

#[test]
fn tickets_by_key_files() {
    assert!(TicketKey::from_file(&[0; 48]).is_some());
    assert!(TicketKey::from_file(&[0; 64]).is_none());
    let old = tickets(vec![file_key(1)]);
    let rotated = tickets(vec![file_key(2), file_key(1)]);
    let new = tickets(vec![file_key(2)]);
    let ticket = old.encrypt_at(b"session", 1000).expect("encrypted");
    assert_ne!(old.encrypt_at(b"session", 1000).as_ref(), Some(&ticket), "a salt of its own");
    assert_eq!(old.decrypt_at(&ticket, 1300).as_deref(), Some(&b"session"[..]));
    assert_eq!(rotated.decrypt_at(&ticket, 1000).as_deref(), Some(&b"session"[..]));
    assert_eq!(new.decrypt_at(&ticket, 1000), None, "another key");
    assert_eq!(old.decrypt_at(&ticket, 1301), None, "too old");
    let stranger = Tickets { context: [8; 16], ..tickets(vec![file_key(1)]) };
    assert_eq!(stranger.decrypt_at(&ticket, 1000), None, "another server");
    for place in 0..ticket.len() {
        let mut broken = ticket.clone();
        broken[place] ^= 1;
        assert_eq!(old.decrypt_at(&broken, 1000), None, "changed byte {place}");
        assert_eq!(old.decrypt_at(&ticket[..place], 1000), None, "cut at {place}");
    }
}

#[test]
fn random_ticket_keys_are_replaced_in_time() {
    let keys = Arc::new(RandomKeys::new(TIMEOUT));
    let tickets = Tickets { keys: TicketKeys::Random(keys), timeout: TIMEOUT, context: [0; 16] };
    let name = |now| tickets.encrypt_at(b"s", now).expect("encrypted")[..16].to_vec();
    let first = name(1000);
    assert_eq!(name(1299), first);
    let ticket = tickets.encrypt_at(b"s", 1299).expect("encrypted");
    assert_ne!(name(1300), first, "replaced");
    assert!(tickets.decrypt_at(&ticket, 1599).is_some(), "the last key still decrypts");
    assert!(tickets.decrypt_at(&ticket, 1600).is_none(), "too old");
}

#[test]
fn sessions_end_in_time_and_by_number() {
    let cache = SessionCache::with_entries(16);
    cache.put(b"a\x01".to_vec(), b"1".to_vec(), 1000);
    let find = |key: &[u8], remove, now| cache.find(key, remove, TIMEOUT, now);
    assert_eq!(find(b"a\x01", false, 301_000).as_deref(), Some(&b"1"[..]));
    assert_eq!(find(b"b\x01", false, 1000), None);
    assert_eq!(find(b"a\x01", false, 301_001), None, "too old");
    assert_eq!(find(b"a\x01", false, 1000), None, "and gone");
    cache.put(b"a\x01".to_vec(), b"2".to_vec(), 1000);
    assert!(find(b"a\x01", true, 1000).is_some());
    assert!(find(b"a\x01", false, 1000).is_none(), "taken");
    cache.put(b"a\x01".to_vec(), b"3".to_vec(), 1000);
    for round in 0..1000u32 {
        let key = [&round.to_be_bytes()[..], b"\x01"].concat();
        cache.put(key.clone(), b"x".to_vec(), 1000);
        assert!(find(&key, false, 1000).is_some());
    }
    assert!(find(b"a\x01", false, 1000).is_none(), "made room");
}
