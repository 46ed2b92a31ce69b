//! Host names, compared with a model that tries one pattern after the other.

use proptest::prelude::*;

use super::*;

/// Returns the pattern that is found for `host` in a table of `patterns`.
fn find<'p>(patterns: &[&'p str], host: &str) -> &'p str {
    let mut names = HostNames::default();
    for pattern in patterns {
        names.add(pattern.as_bytes(), *pattern).unwrap();
    }
    names.find(host.as_bytes()).copied().unwrap_or("none")
}

#[test]
fn exact_names_come_first_then_the_longest_leading_then_the_longest_trailing_wildcard() {
    let all = ["a.b.c", "*.b.c", "*.c", "a.*", "a.b.*", ".d.e"];
    for (host, expected) in [
        ("a.b.c", "a.b.c"),
        ("x.b.c", "*.b.c"),
        ("y.x.b.c", "*.b.c"),
        ("b.c", "*.c"),
        ("x.c", "*.c"),
        ("c", "none"),
        ("a.b.x", "a.b.*"),
        ("a.x", "a.*"),
        ("a.x.y", "a.*"),
        ("a", "none"),
        // A leading wildcard comes before a trailing one, however long.
        ("a.b.x.c", "*.c"),
        ("d.e", ".d.e"),
        ("x.d.e", ".d.e"),
        ("xd.e", "none"),
        ("", "none"),
        (".", "none"),
        ("x", "none"),
    ] {
        assert_eq!(find(&all, host), expected, "{host}");
    }
}

#[test]
fn wildcards_are_whole_labels_at_one_end() {
    for name in ["*", "*.", "a*.b", "a.*.b", "*.a.*", "*a.b", "a.b*", "**.a", ".*", "*.*"] {
        let mut names = HostNames::default();
        assert_eq!(names.add(name.as_bytes(), 1), Err(AddNameError::Invalid), "{name}");
    }
    for name in ["a", "", "*.a", "a.*", ".a", ".", "a..b", ".a.*"] {
        let mut names = HostNames::default();
        assert_eq!(names.add(name.as_bytes(), 1), Ok(()), "{name}");
    }
}

#[test]
fn an_earlier_name_stays() {
    for (first, second) in [
        ("a.b", "a.b"),
        ("*.b", "*.b"),
        ("a.*", "a.*"),
        (".b", "*.b"),
        (".b", "b"),
        ("*.b", ".b"),
        ("b", ".b"),
    ] {
        let mut names = HostNames::default();
        names.add(first.as_bytes(), 1).unwrap();
        assert_eq!(
            names.add(second.as_bytes(), 2),
            Err(AddNameError::Known(&1)),
            "{first} {second}"
        );
    }
    // `add_exact` interprets no patterns.
    let mut names = HostNames::default();
    names.add_exact(b"*.a", 1).unwrap();
    assert_eq!((names.find(b"*.a"), names.find(b"x.a")), (Some(&1), None));
    assert_eq!(names.add_exact(b"*.a", 2), Err(AddNameError::Known(&1)));
}

/// The rank of a pattern for a host: its kind, then its length.
fn rank(pattern: &str, host: &str) -> Option<(u8, usize)> {
    let below = |name: &str| host.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'));
    let (kind, matches) = match (pattern.strip_prefix('*'), pattern.strip_suffix(".*")) {
        (Some(suffix), _) => (1, below(&suffix[1..])),
        (None, Some(prefix)) => {
            (0, host.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('.')))
        }
        (None, None) => match pattern.strip_prefix('.') {
            Some(name) if host == name => (2, true),
            Some(name) => (1, below(name)),
            None => (2, host == pattern),
        },
    };
    // The length of the name that is found, without dots at the wildcard.
    let length = pattern.trim_matches(|c| c == '*' || c == '.').len();
    matches.then_some((kind, length))
}

fn label() -> impl Strategy<Value = String> {
    "[ab]|ab"
}

fn pattern() -> impl Strategy<Value = String> {
    let name = || prop::collection::vec(label(), 1..4).prop_map(|labels| labels.join("."));
    prop_oneof![
        name(),
        name().prop_map(|name| format!("*.{name}")),
        name().prop_map(|name| format!(".{name}")),
        name().prop_map(|name| format!("{name}.*")),
    ]
}

proptest! {
    #[test]
    fn a_host_leads_where_the_best_pattern_does(
        patterns in prop::collection::vec(pattern(), 0..12),
        host in prop::collection::vec(label(), 1..5).prop_map(|labels| labels.join(".")),
    ) {
        let mut names = HostNames::default();
        // Conflicting patterns are not part of this test.
        let taken: Vec<&String> = patterns
            .iter()
            .filter(|pattern| {
                let mut with = names.clone();
                let is_new = with.add(pattern.as_bytes(), (*pattern).clone()).is_ok();
                if is_new { names = with }
                is_new
            })
            .collect();
        let best = taken
            .iter()
            .filter_map(|pattern| Some((rank(pattern, &host)?, *pattern)))
            .max_by_key(|(rank, _)| *rank);
        prop_assert_eq!(names.find(host.as_bytes()), best.map(|(_, pattern)| pattern));
    }
}
