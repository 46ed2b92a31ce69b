//! Agents against rules, compared with a running nginx.

use proptest::prelude::*;

use super::logic::{BrowserAge, BrowserKind, BrowserRules, parse_version};
use crate::testing::Bench;

const LIST: &str = "modern_browser msie 5.5; modern_browser gecko 1.0.0; modern_browser opera 9.0;
    modern_browser safari 413; modern_browser konqueror 3.0; ancient_browser Links netscape4;";

/// Checks agents against their class (`m` or `a`), and whether they are Internet Explorers.
fn check(rules: &str, table: &[(&str, &str, bool)]) {
    let bench = Bench::new(&format!(
        "modern_browser_value m; ancient_browser_value a; server {{ location / {{ {rules}
         return 200 \"$modern_browser$ancient_browser$msie\"; }} }}"
    ));
    for (agent, age, msie) in table {
        let reply = bench.get_with("/", &[&format!("User-Agent: {agent}")]);
        assert_eq!(reply.text(), format!("{age}{}", if *msie { "1" } else { "" }), "{agent}");
    }
}

#[test]
fn versions_decide_over_listed_browsers() {
    check(
        LIST,
        &[
            ("Mozilla/4.0 (compatible; MSIE 5.5; Windows)", "m", true),
            ("Mozilla/4.0 (compatible; MSIE 5.0; Windows)", "a", true),
            ("Mozilla/4.0 (compatible; MSIE 5; x)", "a", true),
            ("Mozilla/5.0 (X11; rv:1.9) Gecko/20100101 Firefox/3.0", "m", false),
            ("Mozilla/5.0 (X11; rv:0.9.8) Gecko/2008", "a", false),
            ("Opera/9.0 (X11)", "m", false),
            ("Mozilla/4.0 (compatible; MSIE 6.0) Opera 8.5", "a", false),
            ("Mozilla/4.0 (MSIE 6.0) Opera 9.5", "m", false),
            ("Mozilla/5.0 (Mac) AppleWebKit/412 (KHTML) Safari/412", "a", false),
            ("Mozilla/5.0 (Mac) AppleWebKit/522 (KHTML) Version/3 Safari/522", "m", false),
            ("Mozilla/5.0 (compatible; Konqueror/3.5; Linux)", "m", false),
            ("Mozilla/5.0 (compatible; Konqueror/2.2)", "a", false),
            ("Links (2.1)", "a", false),
            ("curl/7", "a", false),
            ("", "a", false),
            ("MSIE", "a", false),
            ("MSIE x", "a", false),
        ],
    );
    check(
        "modern_browser gecko 1.9.0.1;",
        &[
            ("Mozilla/5.0 (X11; rv:1.9) Gecko/2008", "a", false),
            ("Mozilla/5.0 (X11; rv:1.9.0.2) Gecko/2008", "m", false),
        ],
    );
}

#[test]
fn browsers_that_are_not_listed() {
    check(
        "modern_browser unlisted; modern_browser msie 7; ancient_browser Foo netscape4;",
        &[
            ("Mozilla/4.0 (compatible; MSIE 7.0)", "m", true),
            ("Mozilla/4.0 (compatible; MSIE 5.5)", "a", true),
            ("Mozilla/5.0 (compatible; Konqueror/2.2)", "m", false),
            ("Mozilla/4.7 [en]", "a", false),
            ("Foo", "a", false),
            ("curl/7", "m", false),
            ("", "m", false),
            ("Opera/9.0 (X11)", "a", false),
            ("Mozilla/4.0 (MSIE 8.0) Opera 9.5", "a", false),
        ],
    );
    check("modern_browser unlisted;", &[("Opera/9.0 (X11)", "m", false)]);
}

#[test]
fn blocks_inherit_and_variables_can_be_set() {
    let bench = Bench::new(&format!(
        "{LIST} server {{ location / {{ return 200 \"$modern_browser,$ancient_browser\"; }}
         location /own {{ modern_browser unlisted; return 200 \"$modern_browser,$ancient_browser\"; }}
         location /set {{ set $msie x; return 200 $msie; }} }}"
    ));
    let get = |path: &str, agent: &str| {
        bench.get_with(path, &[&format!("User-Agent: {agent}")]).text().to_owned()
    };
    assert_eq!(get("/", "Mozilla/5.0 (compatible; Konqueror/2.2)"), ",1");
    assert_eq!(get("/own", "Mozilla/5.0 (compatible; Konqueror/2.2)"), "1,");
    assert_eq!(get("/own", "Links"), ",1");
    assert_eq!(get("/set", "Links"), "x");
    let none =
        Bench::new("server { location / { return 200 \"$modern_browser,$ancient_browser\"; } }");
    assert_eq!(none.text("/"), ",1");
}

#[test]
fn versions_are_read() {
    for (text, expected) in [
        ("5.5", Some(5_050_000)),
        ("413", Some(413_000_000)),
        ("1.9.0.1", Some(1_090_001)),
        ("4000.99.99.99", Some(4_000_999_999)),
        ("1.2.3.4.5", Some(1_020_304)),
        (".2", Some(20_000)),
        ("99999999999999999999999", Some(u64::MAX)),
        ("x", None),
        ("1x", None),
    ] {
        assert_eq!(parse_version(text.as_bytes()), expected, "{text}");
    }
}

#[test]
fn errors() {
    for (config, expected) in [
        ("modern_browser foo 1;", "unknown browser name \"foo\""),
        ("modern_browser unlisted 1;", "unknown browser name \"unlisted\""),
        ("modern_browser msie x;", "invalid browser version \"x\""),
    ] {
        assert_eq!(Bench::errors(config)[0], expected, "{config}");
    }
}

proptest! {
    /// A version from a field is compared as it is written.
    #[test]
    fn any_agent_has_an_age(front: Vec<u8>, version in "[0-9.]{0,40}", back: Vec<u8>) {
        let rules = BrowserRules {
            modern: vec![(BrowserKind::Msie, 1_000_000), (BrowserKind::Gecko, 1), (BrowserKind::Konqueror, 1)],
            ..BrowserRules::default()
        };
        for mark in [&b"MSIE "[..], b"rv:", b"Opera/", b"Safari/", b"Konqueror/", b"Opera"] {
            rules.age(&[&front[..], mark, version.as_bytes(), &back[..]].concat());
        }
        let agent = format!("MSIE {version}");
        let modern = parse_version(version.as_bytes()).is_some_and(|version| version >= 1_000_000);
        prop_assert_eq!(rules.age(agent.as_bytes()), if modern { BrowserAge::Modern } else { BrowserAge::Ancient });
    }
}
