//! `secure_link`: both kinds of links, expiry, inheritance, and the result that the request keeps.

use md5::{Digest, Md5};
use proptest::prelude::*;

use super::check::{LinkStatus, by_secret, decode_checksum, ends, link_status};
use crate::testing::Bench;

fn hex(text: &str) -> String {
    Md5::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn base64url(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let mut four = [0; 4];
        four[1..=group.len()].copy_from_slice(group);
        let bits = u32::from_be_bytes(four);
        for digit in 0..=group.len() {
            out.push(char::from(DIGITS[(bits >> (18 - 6 * digit)) as usize & 63]));
        }
    }
    out
}

fn signature(text: &str) -> String {
    base64url(&Md5::digest(text.as_bytes()))
}

#[test]
fn checksums_in_base64url() {
    let check = |text: &str, good| {
        assert_eq!(decode_checksum(text.as_bytes()).is_some(), good, "{text}");
    };
    check("q-5vpkjBkRXXtkUMXiJVHA==", true);
    check("q-5vpkjBkRXXtkUMXiJVHA", true);
    check("q_5vpkjBkRXXtkUMXiJVHA=", true);
    check("q+5vpkjBkRXXtkUMXiJVHA==", false);
    check("q/5vpkjBkRXXtkUMXiJVHA==", false);
    check("q-5vpkjBkRXXtkUMXiJVHAQQ", false);
    check("q-5vpkjBkRXXtkUMXiJVHA-TOOLONG", false);
    check("q-5vpkjBkRXXtkUMXiJVH", false);
    check("BADHASHLENGTH", false);
    check("", false);
}

proptest! {
    #[test]
    fn any_sum_is_read_back(sum: [u8; 16]) {
        prop_assert_eq!(decode_checksum(base64url(&sum).as_bytes()), Some(sum));
    }
}

#[test]
fn ends_of_time() {
    for (text, expected) in [
        ("1", Some(1)),
        ("2147483647", Some(2_147_483_647)),
        ("0", None),
        ("", None),
        ("-1", None),
        ("12x", None),
        ("1,2", None),
        ("99999999999999999999", None),
    ] {
        assert_eq!(ends(text.as_bytes()), expected, "{text}");
    }
    let sum: [u8; 16] = Md5::digest(b"text").into();
    assert_eq!(link_status(&sum, b"text", Some(100), 100), LinkStatus::Good);
    assert_eq!(link_status(&sum, b"text", Some(100), 101), LinkStatus::Expired);
    assert_eq!(link_status(&sum, b"other", Some(100), 101), LinkStatus::Wrong);
    assert_eq!(link_status(&sum, b"text", None, 101), LinkStatus::Good);
}

#[test]
fn paths_with_a_secret() {
    let check = |path: &str, link: Option<&str>| {
        assert_eq!(by_secret(path.as_bytes(), b"secret"), link.map(str::as_bytes), "{path}");
    };
    let hash = hex("a/b.htmlsecret");
    check(&format!("/p/{hash}/a/b.html"), Some("a/b.html"));
    check(&format!("/p/{}/a/b.html", hash.to_uppercase()), Some("a/b.html"));
    check(&format!("/any-prefix/{hash}/a/b.html"), Some("a/b.html"));
    check(&format!("/p/q/{hash}/a/b.html"), None);
    check(&format!("/p/{hash}/a/c.html"), None);
    check(&format!("/p/{hash}"), None);
    check(&format!("/p/{}/a/b.html", &hash[1..]), None);
    check(&format!("/p/+{}/a/b.html", &hash[1..]), None);
    check(&format!("/p/{}/", hex("secret")), Some(""));
    check("/p/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx/a", None);
    check("/p", None);
    check("/", None);
    check("", None);
}

#[test]
fn signed_links_with_and_without_an_end() {
    let bench = Bench::new(
        "server {
            location / { secure_link $arg_h; secure_link_md5 secret$uri; return 200 '[$secure_link]'; }
            location /e { secure_link $arg_h,$arg_e; secure_link_md5 \"$secure_link_expires$uri s\";
                return 200 '[$secure_link][$secure_link_expires]'; }
            location /none { return 200 '[$secure_link][$secure_link_expires]'; }
            location /half { secure_link $arg_h; return 200 '[$secure_link]'; }
            location /round { secure_link $arg_h; secure_link_md5 x$secure_link; return 200 '[$secure_link]'; }
        }",
    );
    let check = |target: &str, text: &str| assert_eq!(bench.text(target), text, "{target}");
    check(&format!("/a?h={}", signature("secret/a")), "[1]");
    check(&format!("/b?h={}", signature("secret/a")), "[]");
    check("/a", "[]");
    check(&format!("/e?h={}&e=1", signature("1/e s")), "[0][1]");
    check(&format!("/e?h={}&e=99999999999", signature("99999999999/e s")), "[1][99999999999]");
    check(&format!("/e?h={}&e=99999999998", signature("99999999999/e s")), "[][99999999998]");
    check(&format!("/e?h={}&e=0", signature("0/e s")), "[][]");
    check("/none", "[][]");
    check(&format!("/half?h={}", signature("")), "[]");
    check(&format!("/round?h={}", signature("x")), "[1]");
}

#[test]
fn the_result_survives_a_rewrite() {
    let bench = Bench::new(
        "server {
            location /p/ { secure_link_secret secret; if ($secure_link = '') { return 403; }
                rewrite ^ /secure/$secure_link; }
            location /secure/ { internal; return 200 '$uri [$secure_link]'; }
        }",
    );
    assert_eq!(bench.text(&format!("/p/{}/link", hex("linksecret"))), "/secure/link [link]");
    assert_eq!(bench.get(&format!("/p/{}/link", hex("othersecret"))).status, 403);
}

#[test]
fn an_inner_block_has_one_kind_of_links() {
    let bench = Bench::new(
        "server {
            secure_link $arg_h; secure_link_md5 outer;
            location /inherited { return 200 '[$secure_link]'; }
            location /part { secure_link_md5 inner; return 200 '[$secure_link]'; }
            location /p/ { secure_link_secret secret;
                location /p/old/ { }
                location /p/new { secure_link $arg_h; secure_link_md5 inner; return 200 '[$secure_link]'; }
                return 200 '[$secure_link]'; }
        }",
    );
    let check = |target: &str, text: &str| assert_eq!(bench.text(target), text, "{target}");
    check(&format!("/inherited?h={}", signature("outer")), "[1]");
    check(&format!("/part?h={}", signature("inner")), "[1]");
    check(&format!("/p/new?h={}", signature("inner")), "[1]");
    check(&format!("/p/{}/x?h={}", hex("xsecret"), signature("outer")), "[x]");
    let mixed = "server { location / { secure_link_secret x; secure_link_md5 y; } }";
    assert_eq!(
        Bench::errors(mixed),
        ["\"secure_link_secret\" cannot be mixed with \"secure_link\" and \"secure_link_md5\""]
    );
}
