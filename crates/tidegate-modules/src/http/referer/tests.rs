//! Fields against rules, compared with a running nginx.

use proptest::prelude::*;

use super::logic::RefererRules;
use crate::testing::Bench;

fn check(rules: &str, table: &[(&str, bool)]) {
    let bench = Bench::new(&format!(
        "server {{ server_name me *.wild.test ~^re\\d$ .dot.test; location / {{ valid_referers {rules};
         return 200 \"[$invalid_referer]\"; }} }}"
    ));
    for (referer, valid) in table {
        let reply = match *referer {
            "-" => bench.get("/"),
            referer => bench.get_with("/", &[&format!("Referer: {referer}")]),
        };
        assert_eq!(reply.text(), if *valid { "[]" } else { "[1]" }, "{rules} {referer}");
    }
}

#[test]
fn hosts_and_paths() {
    check(
        "a.com/x *.b.com c.*/y .d.com",
        &[
            ("-", false),
            ("http://a.com", false),
            ("http://a.com/x", true),
            ("http://a.com/y", false),
            ("http://a.com/X", false),
            ("HTTP://A.com:80/xx", true),
            ("http://a.com./x", false),
            ("http://q.b.com", true),
            ("http://b.com/", false),
            ("http://c.org/y", true),
            ("http://c.org/z", false),
            ("https://d.com", true),
            ("http://q.d.com:/", true),
            ("http://d.com?x", false),
            ("http://user@d.com/", false),
            ("ftp://d.com/aa", false),
        ],
    );
}

#[test]
fn words_and_expressions() {
    check("none other.test", &[("-", true), ("", false), ("http://example.com", false)]);
    check("blocked other.test", &[("-", false), ("", true), ("XXXX", true), ("http://su", true)]);
    check("blocked other.test", &[("http://example.com", false)]);
    check(
        "server_names ~(r.)x/page ~(?-i)Case",
        &[
            ("http://me/", false),
            ("http://me/index", true),
            ("http://a.wild.test", true),
            ("http://RE7/path", true),
            ("http://re77/path", false),
            ("http://dot.test/", true),
            ("http://a.dot.test/", true),
            ("http://RAX/page", true),
            ("http://rax/pag", false),
            ("http://other/Case", true),
            ("http://other/case", false),
        ],
    );
    let long = |count: usize| format!("http://{}", "a".repeat(count));
    check("~.", &[(&long(256), true), (&long(257), false)]);
}

#[test]
fn rules_are_inherited_and_the_variable_can_be_set() {
    let bench = Bench::new(
        "server { valid_referers example.com; location / { return 200 \"[$invalid_referer]\"; }
         location /own { valid_referers none example.org; return 200 \"[$invalid_referer]\"; }
         location /set { set $invalid_referer 2; return 200 \"[$invalid_referer]\"; }
         location /if { if ($invalid_referer) { return 403; } } }
         server { server_name none; location / { return 200 \"[$invalid_referer]\"; } }",
    );
    assert_eq!(bench.text("/"), "[1]");
    assert_eq!(bench.text("/own"), "[]");
    assert_eq!(bench.text("/set"), "[2]");
    assert_eq!(bench.get("/if").status, 403);
    assert_eq!(bench.get_with("/if", &["Referer: http://example.com"]).status, 404);
    let none = bench.send("GET / HTTP/1.1\r\nHost: none\r\n\r\n");
    assert_eq!(none.text(), "[]");
}

#[test]
fn errors() {
    for (rules, expected) in [
        (
            "none ~a",
            "the \"none\" or \"blocked\" referers are specified in the \"valid_referers\" directive without \
             any valid referer",
        ),
        ("foo foo", "conflicting parameter \"foo\""),
        ("foo/a foo/b", "conflicting parameter \"foo\""),
        ("*.foo *.foo", "conflicting parameter \"*.foo\""),
        ("a*b", "invalid hostname or wildcard \"a*b\""),
        ("*", "invalid hostname or wildcard \"*\""),
        ("\"\"", "invalid referer \"\""),
        ("~(", "pcre2_compile() failed: missing closing parenthesis in \"(\""),
    ] {
        let errors = Bench::errors(&format!("server {{ valid_referers {rules}; }}"));
        assert_eq!(errors[0], expected, "{rules}");
    }
    for (name, rules) in [("max_size", "none a.b"), ("bucket_size", "server_names")] {
        let config = format!("server {{ referer_hash_{name} 0; valid_referers {rules}; }}");
        let expected =
            format!("could not build referer_hash, you should increase referer_hash_{name}: 0");
        assert_eq!(Bench::errors(&config), [expected]);
    }
    Bench::new("server { referer_hash_max_size 0; valid_referers ~a; }");
    Bench::new(
        "server { referer_hash_max_size 1; referer_hash_bucket_size 1; valid_referers http://foo none none; }",
    );
}

proptest! {
    /// Whatever the field says, a host that is not listed is not valid.
    #[test]
    fn any_field_is_judged(before: Vec<u8>, after: Vec<u8>) {
        let mut rules = RefererRules::default();
        prop_assert!(rules.add_host(b"*.example.com", Some(b"/x")).is_ok());
        let field = [&before[..], b"example.com/x", &after[..]].concat();
        let valid = rules.allow(Some(&field));
        let address = field.strip_prefix(b"http://").or_else(|| field.strip_prefix(b"https://"));
        prop_assert!(!valid || address.is_some() || field.to_ascii_lowercase().starts_with(b"http"));
        let other = [b"http://other.test/", &before[..]].concat();
        prop_assert!(!rules.allow(Some(&other)));
    }
}
