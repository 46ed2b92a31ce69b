//! The text of the field, and what purges keep out.

use tidegate_cache::{Key, KeyHash, Scope, Times};
use tidegate_core::client::Address;

use super::field::{PeerClaim, PeerTerms};
use super::purged::PurgedLately;
use super::remarks::PeerRemarks;
use crate::cache::status::CacheStatus;
use crate::cache::tier::{CacheTier, TierPurge};

fn terms() -> PeerTerms {
    PeerTerms {
        age: 1500,
        stored: 1400,
        fresh: 8600,
        updating: 0,
        error: 12,
        must_revalidate: true,
        vary: vec![b"accept-encoding".to_vec(), b"x-a".to_vec()],
    }
}

#[test]
fn claims_survive_the_way() {
    let client = |text: &str| Some(Address::Inet(text.parse().unwrap()));
    for (https, bypass, client) in [
        (false, false, None),
        (true, false, client("192.0.2.1:50000")),
        (false, true, client("192.0.2.1:0")),
        (true, true, client("[2001:db8::1]:50000")),
        (true, true, client("[2001:db8::1]:0")),
        (true, true, Some(Address::Unix(String::new()))),
    ] {
        let claim = PeerClaim { key: KeyHash([0xab; 16]), https, bypass, client };
        assert_eq!(PeerClaim::parse(claim.text("10.0.0.1:80").as_bytes()), Some(claim));
    }
    let unknown = format!("a:1; key={}; new=1; more", "0".repeat(32));
    assert!(PeerClaim::parse(unknown.as_bytes()).is_some(), "a later version adds parameters");
    let scoped = format!("a; key={}; for=[fe80::1%7]:80", "0".repeat(32));
    let scoped = PeerClaim::parse(scoped.as_bytes()).and_then(|claim| claim.client);
    assert_eq!(scoped, client("[fe80::1]:80"), "the scope is that of another server");
    for wrong in ["1.2.3", "::1", "[1.2.3.4]", "1.2.3.4:", "1.2.3.4:65536", "unix:/a", "a", ""] {
        let wrong = format!("a; key={}; for={wrong}", "0".repeat(32));
        assert_eq!(PeerClaim::parse(wrong.as_bytes()), None, "{wrong}");
    }
    for wrong in ["", "a", "a; key=1", "; key=00000000000000000000000000000000", "a; key"] {
        assert_eq!(PeerClaim::parse(wrong.as_bytes()), None, "{wrong}");
    }
}

#[test]
fn terms_survive_the_way() {
    let text = PeerTerms::text(Some(&terms()), "10.0.0.1:80");
    assert_eq!(PeerTerms::parse(&text), Some(Some(terms())));
    assert_eq!(PeerTerms::parse(&PeerTerms::text(None, "a")), Some(None));
    let unknown = PeerTerms::text(None, "a").into_iter().chain(*b"; age=1; stored=0; x=y; z");
    assert!(matches!(PeerTerms::parse(&unknown.collect::<Vec<u8>>()), Some(Some(_))));
}

#[test]
fn remarks_stand_beside_terms() {
    let mut text = PeerTerms::text(Some(&terms()), "a");
    let age = Some(terms().age);
    assert_eq!(PeerRemarks::read(&text), PeerRemarks { age, ..PeerRemarks::default() });
    let stale = Some(CacheStatus::Updating);
    let remarks = PeerRemarks { failed: true, unstorable: true, age: None, stale };
    remarks.append(&mut text);
    let remarks = PeerRemarks { age, ..remarks };
    assert_eq!(PeerRemarks::read(&text), remarks);
    assert_eq!(PeerTerms::parse(&text), Some(Some(terms())));
    assert_eq!(PeerRemarks::read(b"a; failed=1; age=x; status=HIT; more"), PeerRemarks::default());
    let mut text = PeerTerms::text(None, "a");
    PeerRemarks { age: Some(7), ..PeerRemarks::default() }.append(&mut text);
    assert_eq!((PeerTerms::parse(&text), PeerRemarks::read(&text).age), (Some(None), Some(7)));
}

#[test]
fn what_is_no_field_is_none() {
    let base = "a; age=1; stored=1";
    let wrong = [
        "",
        "; age=1; stored=1",
        "a; age=-1; stored=1",
        "a; age=+1; stored=1",
        "a; age=99999999999999999999; stored=1",
        "a; age=9999999999999; stored=1",
    ];
    for text in wrong {
        assert_eq!(PeerTerms::parse(text.as_bytes()), None, "{text}");
    }
    for vary in ["*", "", "A", "a,,b", "a b", "a\u{e4}"] {
        let text = format!("{base}; vary={vary}");
        assert_eq!(PeerTerms::parse(text.as_bytes()), None, "{vary}");
    }
    let long = format!("{base}; vary={}", vec!["a"; 5000].join(","));
    assert_eq!(PeerTerms::parse(long.as_bytes()), None);
    // A list without room is not written: the response is not stored elsewhere.
    let vary = (0..65).map(|at| format!("n{at}").into_bytes()).collect();
    let many = PeerTerms { vary, ..terms() };
    assert_eq!(PeerTerms::text(Some(&many), "a"), b"a");
}

/// Any bytes are either refused or written again as they were read.
#[test]
fn any_bytes_are_read_or_refused() {
    let text = PeerTerms::text(Some(&terms()), "10.0.0.1:80");
    for at in 0..text.len() {
        for byte in [0, b' ', b';', b'=', b',', b'0', b'9', b'z', 0xff] {
            let mut changed = text.clone();
            changed[at] = byte;
            if let Some(Some(read)) = PeerTerms::parse(&changed) {
                assert_eq!(PeerTerms::parse(&PeerTerms::text(Some(&read), "a")), Some(Some(read)));
            }
        }
    }
}

#[test]
fn times_are_those_of_the_clock_that_reads_them() {
    let times = Times { created: 1000, valid_until: 5000, updating_until: 6000, error_until: 3000 };
    let terms = PeerTerms::of(times, 4000).with_age(Some(10));
    assert_eq!((terms.stored, terms.fresh, terms.updating, terms.error), (3000, 1000, 2000, 0));
    let there = terms.times(1_000_000);
    assert_eq!((there.created, there.valid_until), (997_000, 1_001_000));
    // What is stale there is stale here.
    let stale = PeerTerms::of(times, 9000);
    assert_eq!((stale.fresh, stale.times(50).valid_until), (0, 50));
}

#[test]
fn what_began_before_a_purge_is_kept_out() {
    let (key, other) = (Key::of(b"http://a/x"), Key::of(b"http://a/y"));
    let purged = PurgedLately::default();
    purged.add([CacheTier::purge_of(&key)], 5000);
    assert!(purged.allow(&key, b"", 1), "nobody asked for it yet");
    purged.want();
    purged.add([CacheTier::purge_of(&key)], 5000);
    assert!(!purged.allow(&key, b"", 4999) && !purged.allow(&key, b"", 5000));
    assert!(purged.allow(&key, b"", 5001) && purged.allow(&other, b"", 1));
    purged.add([TierPurge::Scope(Scope::Tag(b"t1"[..].into()))], 6000);
    assert!(!purged.allow(&other, b"t0 t1", 6000) && purged.allow(&other, b"t0 t11", 6000));
    purged.add([TierPurge::Scope(Scope::Prefix(b"http://a/"[..].into()))], 7000);
    assert!(!purged.allow(&other, b"", 7000) && purged.allow(&other, b"", 7001));
    purged.add([TierPurge::Scope(Scope::Prefix(Box::default()))], 8000);
    assert!(!purged.allow(&Key::of(b"anything"), b"", 8000));
}
