//! Lists in OpenSSL's format.

use super::{name, names_suites, no_suite, tls12, tls13};
use crate::suites;
use tidegate_conf::{Span, Word};

/// Checks the suites without `ECDHE-`, as `openssl ciphers` lists those that exist here.
fn check_ciphers(list: &str, expected: &str) {
    let found: Vec<_> = suites::by_number(&tls12(list))
        .into_iter()
        .filter_map(|suite| name(u16::from(suite.suite())))
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
fn recognises_lists_with_suites() {
    // Lists that `openssl ciphers` accepts.
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

#[test]
fn suites_have_names_and_numbers() {
    for (number, expected) in [
        (0x1302, Some("TLS_AES_256_GCM_SHA384")),
        (0xc02f, Some("ECDHE-RSA-AES128-GCM-SHA256")),
        (0x00ff, Some("TLS_EMPTY_RENEGOTIATION_INFO_SCSV")),
        (0x0a0a, None),
        (0, None),
        (u16::MAX, None),
    ] {
        assert_eq!(name(number), expected, "{number:04x}");
    }
    for (suite, expected) in [
        ("TLS_AES_128_GCM_SHA256", Some(Some(0x1301))),
        ("TLS_CHACHA20_POLY1305_SHA256", Some(Some(0x1303))),
        // OpenSSL has it.
        ("TLS_AES_128_CCM_SHA256", Some(None)),
        ("ECDHE-RSA-AES128-GCM-SHA256", None),
        ("", None),
    ] {
        assert_eq!(tls13(suite), expected, "{suite}");
    }
}

#[test]
fn lists_without_a_suite_are_mistakes_or_warnings() {
    for (list, spoken, fatal) in [
        ("AES128-SHA", true, false),
        ("AES128-SHA", false, true),
        ("NOPE", true, true),
        ("", true, true),
    ] {
        let word = Word { bytes: list.as_bytes().to_vec(), span: Span::NONE, quoted: false };
        let found = no_suite(&word, spoken);
        assert_eq!(found.severity.is_fatal(), fatal, "{list} {}", found.message);
        assert!(found.message.contains(&format!("\"{list}\"")), "{}", found.message);
    }
}

proptest::proptest! {
    #[test]
    fn any_cipher_list_is_read(list in "[A-Za-z0-9+!:@=. -]{0,80}") {
        let suites = tls12(&list);
        proptest::prop_assert!(suites.len() <= 6);
    }
}
