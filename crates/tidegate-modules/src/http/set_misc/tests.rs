//! The conversions, and the statements in a program.

use proptest::prelude::*;

use super::convert::{self, BASE32_HEX, Base32};
use crate::testing::Bench;

const BASE32: Base32 = Base32 { alphabet: *BASE32_HEX, pads: true };

/// Compares a conversion with texts; `None` for an invalid one.
fn check(convert: impl Fn(&[u8]) -> Option<Vec<u8>>, rows: &[(&[u8], Option<&str>)]) {
    for (text, expected) in rows {
        let found = convert(text).map(|out| String::from_utf8_lossy(&out).into_owned());
        assert_eq!(found.as_deref(), *expected, "{}", String::from_utf8_lossy(text));
    }
}

#[test]
fn quoting() {
    let text = b"a'b\"c\\d\r\n\t\x08\x0c\0\x01%\x7f\x1a$\xc3\xa9/";
    check(
        |text| Some(convert::quote_sql(text)),
        &[(text, Some("'a\\'b\\\"c\\\\d\\r\\n\\t\\b\x0c\\0\x01%\x7f\\Z\\$é/'")), (b"", Some("''"))],
    );
    check(|text| Some(convert::quote_pgsql(text)), &[(b"a'", Some("E'a\\''")), (b"", Some("''"))]);
    check(
        |text| Some(convert::quote_json(text)),
        &[
            (text, Some("\"a'b\\\"c\\\\d\\r\\n\\t\\b\\f\\u0000\\u0001%\x7f\\u001a$é/\"")),
            (b"", Some("null")),
        ],
    );
}

#[test]
fn components_of_uris() {
    check(
        |text| Some(convert::escape_uri(text)),
        &[
            (b"AZaz09-_.!~*'()@,`|", Some("AZaz09-_.!~*'()@,`|")),
            (
                b"/?#[]:&=+; %\"<>\\^{}$\xe9\n",
                Some("%2F%3F%23%5B%5D%3A%26%3D%2B%3B%20%25%22%3C%3E%5C%5E%7B%7D%24%E9%0A"),
            ),
        ],
    );
    check(
        |text| Some(convert::unescape_uri(text)),
        &[
            (b"a+b%20c%2f", Some("a b c/")),
            (b"c%zz%4%", Some("czz")),
            (b"%", Some("")),
            (b"a%4", Some("a")),
        ],
    );
}

#[test]
fn encodings() {
    let base64 = |text: &[u8]| Some(tidegate_core::credentials::padded_base64(text));
    check(base64, &[(b"~~~???%", Some("fn5+Pz8/JQ=="))]);
    check(|text| Some(convert::encode_base64url(text)), &[(b"~~~???%", Some("fn5-Pz8_JQ"))]);
    check(
        |text| Some(BASE32.encode(text)),
        &[
            (b"", Some("")),
            (b"a", Some("c4======")),
            (b"ab", Some("c5h0====")),
            (b"abc", Some("c5h66===")),
            (b"abcd", Some("c5h66p0=")),
            (b"abcde", Some("c5h66p35")),
        ],
    );
    check(
        |text| BASE32.decode(text),
        &[
            (b"c5h66p35", Some("abcde")),
            (b"c4======", Some("a")),
            (b"c4", Some("a")),
            (b"6162", Some("0L")),
            (b"c", Some("")),
            (b"C5H66P35", None),
            (b"c5!", None),
        ],
    );
    check(
        convert::decode_base64,
        &[
            (b"YWJj", Some("abc")),
            (b"YWI=", Some("ab")),
            (b"YWI", Some("ab")),
            (b"YWJj=x", Some("abc")),
            (b"Y", None),
            (b"YW-_", None),
        ],
    );
    check(
        convert::decode_base64url,
        &[(b"YW-_", Some("ao\u{fffd}")), (b"YW+/", None), (b"YQ==", Some("a"))],
    );
    check(
        convert::decode_hex,
        &[(b"6A6b", Some("jk")), (b"", Some("")), (b"616", None), (b"zz", None), (b"+1", None)],
    );
}

#[test]
fn sums() {
    check(
        |text| Some(convert::md5_sum(text)),
        &[(b"hello", Some("5d41402abc4b2a76b9719d911017c592"))],
    );
    check(
        |text| Some(convert::sha1_sum(text)),
        &[(b"hello", Some("aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d"))],
    );
    // From the manual of the module.
    let (key, text) = (b"thisisverysecretstuff", b"some string we want to sign");
    let base64 = |bytes: Option<Vec<u8>>| {
        String::from_utf8(tidegate_core::credentials::padded_base64(&bytes.unwrap())).unwrap()
    };
    assert_eq!(base64(convert::hmac_sha1(key, text)), "R/pvxzHC4NLtj7S+kXFg/NePTmk=");
    let sha256 = "4pU3GRQrKKIoeLb9CqYsavHE2l6Hx+KMmRmesU+Cfrs=";
    assert_eq!(base64(convert::hmac_sha256(key, text)), sha256);
}

#[test]
fn places_of_hashes_are_those_of_the_module() {
    for (text, place) in [
        ("a", 6),
        ("b", 7),
        ("ab", 11),
        ("foo", 5),
        ("bar", 7),
        ("hello", 12),
        ("universe", 12),
        ("Zq9", 6),
        ("", 0),
    ] {
        assert_eq!(convert::hashed(text.as_bytes(), 13), Some(place), "{text}");
    }
    assert_eq!(convert::hashed(b"a", 0), None);
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(bytes: Vec<u8>) {
        let bare = Base32 { alphabet: *BASE32_HEX, pads: false };
        prop_assert_eq!(BASE32.decode(&BASE32.encode(&bytes)), Some(bytes.clone()));
        prop_assert_eq!(bare.decode(&bare.encode(&bytes)), Some(bytes.clone()));
        prop_assert_eq!(convert::decode_base64url(&convert::encode_base64url(&bytes)), Some(bytes.clone()));
        prop_assert_eq!(convert::decode_hex(&convert::encode_hex(&bytes)), Some(bytes.clone()));
        prop_assert_eq!(convert::unescape_uri(&convert::escape_uri(&bytes)), bytes);
    }

    #[test]
    fn any_text_may_be_decoded(bytes: Vec<u8>) {
        let _ = (BASE32.decode(&bytes), convert::decode_base64(&bytes), convert::decode_hex(&bytes));
        let _ = (convert::unescape_uri(&bytes), convert::decode_base64url(&bytes));
    }
}

#[test]
fn statements() {
    let bench = Bench::new(
        r#"upstream_list all moon sun earth;
        set_base32_alphabet ABCDEFGHIJKLMNOPQRSTUVWXYZ234567;
        server {
            set_md5 $server a;
            location /empty { set $a $arg_a; set_if_empty $a "none $arg_b"; return 200 "$a|$server"; }
            location /fresh { set_if_empty $fresh x; return 200 $fresh; }
            location /place { set $p hello; set_md5 $p; set_encode_base64 $p; return 200 $p; }
            location /hash { set_hashed_upstream $u all $arg_a; return 200 $u; }
            location /list { set_hashed_upstream $u $arg_l $arg_a; return 200 $u; }
            location /base32 { set_base32_padding off; set_encode_base32 $b $arg_a; set_decode_base32 $c $b; return 200 "$b|$c"; }
            location /random { set_random $r $arg_a $arg_b; return 200 $r; }
            location /letters { set_secure_random_lcalpha $r $arg_a; return 200 $r; }
            location /rotate { set $c $arg_c; set_rotate $c $arg_a 3; return 200 $c; }
            location /kept { set_rotate $kept 3 1; return 200 $kept; }
            location /time { set_formatted_gmt_time $t "%Y%%$arg_a"; return 200 $t; }
            location /if { if ($arg_a) { set_escape_uri $e "$arg_a b"; return 200 $e; } return 200 no; }
            location /args { set_escape_uri $args "a b"; return 200 $args; }
            location /decode { set_decode_hex $d $arg_a; return 200 $d; }
        }"#,
    );
    for (target, expected) in [
        ("/empty", "none |0cc175b9c0f1b6a831c399e269772661"),
        ("/empty?a=1", "1|0cc175b9c0f1b6a831c399e269772661"),
        ("/empty?a=&b=2", "none 2|0cc175b9c0f1b6a831c399e269772661"),
        ("/fresh", "x"),
        ("/place", "NWQ0MTQwMmFiYzRiMmE3NmI5NzE5ZDkxMTAxN2M1OTI="),
        ("/hash?a=a", "sun"),
        ("/hash?a=b", "earth"),
        ("/hash?a=", "moon"),
        ("/list?l=all&a=a", "sun"),
        ("/base32?a=abcd", "MFRGGZA|abcd"),
        ("/random?a=3&b=3", "3"),
        ("/rotate?a=1&c=1", "2"),
        ("/rotate?a=1&c=3", "1"),
        ("/rotate?a=1&c=9", "1"),
        ("/rotate?a=1&c=x", "2"),
        ("/kept", "1"),
        ("/kept", "2"),
        ("/kept", "3"),
        ("/kept", "1"),
        ("/if?a=x", "x%20b"),
        ("/if", "no"),
        ("/args", "a%20b"),
        ("/decode?a=6a", "j"),
    ] {
        assert_eq!(bench.text(target), expected, "{target}");
    }
    for target in [
        "/list?l=none&a=a",
        "/random?a=a&b=3",
        "/random?a=-1&b=3",
        "/letters?a=0",
        "/letters?a=65",
        "/rotate?a=x",
        "/decode?a=6",
    ] {
        assert_eq!(bench.get(target).status, 500, "{target}");
    }
    let number: u64 = bench.text("/random?a=9&b=7").parse().unwrap();
    assert!((7..=9).contains(&number));
    let letters = bench.text("/letters?a=64");
    assert!(letters.len() == 64 && letters.bytes().all(|letter| letter.is_ascii_lowercase()));
    let year: i32 = bench.text("/time?a=x").trim_end_matches("%x").parse().unwrap();
    assert!(year > 2000);
}

#[test]
fn errors() {
    let alphabet = "\"set_base32_alphabet\" directive takes an alphabet of 3 bytes but 32 expected";
    for (config, expected) in [
        ("set_md5 a;", "invalid variable name \"a\""),
        ("set_md5;", "invalid number of arguments in \"set_md5\" directive"),
        ("set_md5 $host;", "the duplicate \"host\" variable"),
        ("set_md5 $_a $_b;", "unknown \"_b\" variable"),
        ("set_base32_alphabet abc;", alphabet),
        ("set_base32_alphabet aacdefghijklmnopqrstuvwxyz012345;", "\"a\" is twice in the alphabet"),
        ("set_hashed_upstream $a nope $uri;", "upstream list \"nope\" not defined"),
        ("set_secure_random_alphanum $a 99;", "invalid value \"99\""),
    ] {
        assert_eq!(Bench::errors(&format!("server {{ {config} }}")), [expected], "{config}");
    }
}
