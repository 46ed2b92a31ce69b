//! The choice of a location, compared with a model that tries one location after the other, and the checks there.

use proptest::prelude::*;

use crate::tests::Bench;

/// Checks the location that serves a path, by its name; `404` for none.
fn check(locations: &str, targets: &[(&str, &str)]) {
    let mut text = String::new();
    for line in locations.lines().filter(|line| !line.trim().is_empty()) {
        let (head, rest) = line.split_once('{').unwrap();
        text.push_str(&format!("location {head} {{ do own respond \"$where\"; {rest}\n"));
    }
    let bench = Bench::new(&format!("server {{ {text} }}"));
    for (target, expected) in targets {
        let reply = bench.get(target);
        let status = reply.status.to_string();
        let shown = if reply.status == 200 { reply.text() } else { &status };
        assert_eq!(shown, *expected, "{target} in {locations}");
    }
}

#[test]
fn exact_then_no_regex_prefix_then_regex_then_prefix() {
    check(
        "= /a { }
         /a { }
         /aa { }
         ^~ /s/ { }
         ~ \\.x$ { }
         ~* \\.Y$ { }
         ~ ^/a/.*x { }",
        &[
            ("/a", "/a"),
            ("/ab", "/a"),
            ("/aa/b", "/aa"),
            ("/a/b.x", "\\.x$"),
            ("/a/b.X", "/a"),
            ("/a/b.y", "\\.Y$"),
            ("/a/x/", "^/a/.*x"),
            ("/s/b.x", "/s/"),
            ("/s", "404"),
            ("/b.x", "\\.x$"),
            ("/b", "404"),
            ("/", "403"),
        ],
    );
    // A modifier may be written without a space.
    check(
        "=/a { }
         ^~/s { }
         ~x$ { }
         ~*y$ { }
         / { }",
        &[("/a", "/a"), ("/sx", "/s"), ("/ax", "x$"), ("/AY", "y$"), ("/b", "/")],
    );
}

#[test]
fn the_order_of_prefixes_does_not_matter_and_that_of_regular_expressions_does() {
    let prefixes = ["/ { }", "/ab { }", "/abc/ { }", "/ac { }", "/b { }"];
    let targets = [
        ("/a", "/"),
        ("/abc", "/ab"),
        ("/abc/d", "/abc/"),
        ("/ad", "/"),
        ("/acx", "/ac"),
        ("/bz", "/b"),
    ];
    for rotation in 0..prefixes.len() {
        let mut turned = prefixes;
        turned.rotate_left(rotation);
        check(&turned.join("\n"), &targets);
    }
    check("~ a { }\n~ b { }", &[("/ab", "a"), ("/b", "b")]);
    check("~ b { }\n~ a { }", &[("/ab", "b"), ("/a", "a")]);
}

/// Regular expressions are tried from the inside out; `^~` excludes those of its own level alone, as in nginx.
#[test]
fn nested_locations() {
    let inner =
        |name: &str, rest: &str| format!("location {name} {{ do own respond \"$where\"; {rest} }}");
    let c = inner("/a/b/c", &inner("~ in", ""));
    let b = inner("^~ /a/b", &format!("{c} {}", inner("~ mid", "")));
    let x = inner("~ x", &inner("~ y", ""));
    let exact = inner("= /a/exact", "");
    check(
        &format!(
            "/a {{ {b} {exact} {} }}\n^~ /s {{ {} {} }}\n/re {{ {x} }}\n~ top {{ }}\n~ ^/re {{ }}",
            inner("~ lev1", ""),
            inner("/s/t", ""),
            inner("~ ins", "")
        ),
        &[
            ("/a", "/a"),
            ("/a/b", "/a/b"),
            ("/a/b/c", "/a/b/c"),
            ("/a/b/c/in", "in"),
            ("/a/b/c/mid", "mid"),
            ("/a/b/c/lev1", "/a/b/c"),
            ("/a/b/c/top", "top"),
            ("/a/b/lev1", "/a/b"),
            ("/a/b/top", "top"),
            ("/a/lev1", "lev1"),
            ("/a/top", "top"),
            ("/a/exact", "/a/exact"),
            ("/a/exact/top", "top"),
            ("/s/t/top", "/s/t"),
            ("/s/t/ins", "ins"),
            ("/s/x/top", "/s"),
            ("/re/x", "x"),
            ("/re/xy", "y"),
            ("/re/q", "^/re"),
        ],
    );
}

#[test]
fn captures_of_the_chosen_expression_are_kept() {
    let bench = Bench::new(
        "server { location ~ ^/(?<first>[a-z]+)/([a-z]+)(x)? { do own respond \"$1 $2 [$3] $first\"; }
                  location ~* ^/(\\d+) { location ~ /(\\D+)$ { do own respond \"$1\"; } do own respond \"outer $1\"; }
                  location / { do own respond \"[$1$first]\"; } }",
    );
    for (target, expected) in [
        ("/ab/cd", "ab cd [] ab"),
        ("/ab/cdx", "ab cdx [] ab"),
        ("/12", "outer 12"),
        ("/12/ab", "ab"),
        ("/.", "[]"),
    ] {
        assert_eq!(bench.get(target).text(), expected, "{target}");
    }
}

#[test]
fn an_expression_beyond_the_backtracking_limit_is_an_error() {
    let bench = Bench::new(
        "server { location ~ ^/(a+)+$ { do own respond a; } location / { do own respond b; } }",
    );
    assert_eq!((bench.get("/aaa").text(), bench.get("/ab").text()), ("a", "b"));
    assert_eq!(bench.get(&format!("/{}b", "a".repeat(60))).status, 500);
    let log = bench.read("logs/error.log");
    assert!(
        log.contains("[alert]") && log.contains("matching \"^/(a+)+$\" hit the backtracking limit"),
        "{log}"
    );
}

/// nginx documents for `proxy_pass` and other gateways that `/name` is redirected to `/name/`.
#[test]
fn a_gateway_sends_clients_to_its_name_with_the_slash() {
    let gateway = "do gateway respond \"$where\";";
    for (locations, target, expected) in [
        ("location /d/ { GATEWAY }", "/d", "301 http://localhost:8080/d/"),
        ("location /d/ { GATEWAY }", "/d?q=1", "301 http://localhost:8080/d/?q=1"),
        ("location '/a b/' { GATEWAY }", "/a%20b", "301 http://localhost:8080/a%20b/"),
        ("location /d/ { GATEWAY }", "/d/", "200 -"),
        ("location /d/ { GATEWAY }", "/dd", "404 -"),
        ("location ^~ /d/ { GATEWAY }", "/d", "301 http://localhost:8080/d/"),
        (
            "location /d { location /d/ { GATEWAY } do own respond d; }",
            "/d",
            "301 http://localhost:8080/d/",
        ),
        // The redirect precedes regular expressions, and follows locations of that name.
        (
            "location /d/ { GATEWAY } location ~ d { do own respond re; }",
            "/d",
            "301 http://localhost:8080/d/",
        ),
        ("location /d/ { GATEWAY } location = /d { do own respond d; }", "/d", "200 -"),
        ("location /d/ { GATEWAY } location /d { do own respond d; }", "/d", "200 -"),
        // Other locations do not redirect.
        ("location /d/ { do own respond own; }", "/d", "404 -"),
        ("location = /d/ { GATEWAY }", "/d", "301 http://localhost:8080/d/"),
        ("location = /d/ { GATEWAY } location /d { do own respond d; }", "/d", "200 -"),
        ("location ~ ^/d/ { GATEWAY }", "/d", "404 -"),
        ("location /d/ { internal; GATEWAY }", "/d", "404 -"),
        ("location /d/ { GATEWAY absolute_redirect off; }", "/d", "301 /d/"),
    ] {
        let bench = Bench::new(&format!("server {{ {} }}", locations.replace("GATEWAY", gateway)));
        let reply = bench.get(target);
        assert_eq!(
            format!("{} {}", reply.status, reply.field("Location")),
            expected,
            "{locations} {target}"
        );
    }
}

/// A location of the model, numbered by its position in the text.
#[derive(Clone, Debug)]
struct Modelled {
    modifier: &'static str,
    name: String,
    number: usize,
    inner: Vec<Modelled>,
}

/// A function that returns whether a regular expression of the model matches a path.
type Matches = fn(&str) -> bool;

/// The regular expressions of the model, with their functions.
const EXPRESSIONS: [(&str, Matches); 5] = [
    ("~ a$", |path| path.ends_with('a')),
    ("~ ^/b", |path| path.starts_with("/b")),
    ("~ b/a", |path| path.contains("b/a")),
    ("~* aB", |path| path.to_ascii_lowercase().contains("ab")),
    ("~ /$", |path| path.ends_with('/')),
];

impl Modelled {
    fn text(&self) -> String {
        let inner: String = self.inner.iter().map(Modelled::text).collect();
        let Modelled { modifier, name, number, .. } = self;
        format!("location {modifier} {name} {{ do own respond {number}; {inner} }}\n")
    }

    fn is_expression(&self) -> bool {
        self.modifier.starts_with('~')
    }

    fn matches(&self, path: &str) -> bool {
        let text = format!("{} {}", self.modifier, self.name);
        EXPRESSIONS.iter().any(|(known, matches)| *known == text && matches(path))
    }
}

/// Returns the location that serves a path: down along the longest names, then back up through the regular
/// expressions of each level.
fn serves(level: &[Modelled], path: &str) -> Option<usize> {
    let mut chain: Vec<(&[Modelled], Option<&Modelled>)> = Vec::new();
    let mut level = level;
    loop {
        if let Some(exact) = level.iter().find(|one| one.modifier == "=" && one.name == path) {
            return Some(exact.number);
        }
        let fits =
            |one: &&Modelled| ["", "^~"].contains(&one.modifier) && path.starts_with(&one.name);
        let longest = level.iter().filter(fits).max_by_key(|one| one.name.len());
        chain.push((level, longest));
        match longest {
            Some(longest) => level = &longest.inner,
            None => break,
        }
    }
    for (level, static_one) in chain.iter().rev() {
        if static_one.is_some_and(|one| one.modifier == "^~") {
            continue;
        }
        let first = level.iter().find(|one| one.is_expression() && one.matches(path));
        if let Some(first) = first {
            return Some(serves(&first.inner, path).unwrap_or(first.number));
        }
    }
    chain.iter().rev().find_map(|(_, one)| Some((*one)?.number))
}

/// A modifier or regular expression, a name below the outer one, and inner locations.
#[derive(Clone, Debug)]
struct Drawn(usize, &'static str, Vec<Drawn>);

fn drawn() -> impl Strategy<Value = Vec<Drawn>> {
    // Mostly prefixes, half of them `^~`, and regular expressions that match often.
    let kind = || prop::sample::select(vec![0, 0, 0, 1, 1, 1, 2, 3, 4, 5, 6, 7]);
    let name = || prop::sample::select(vec!["/", "a", "b", "/a", "/b", "a/", "b/", "/a/b"]);
    let leaf = (kind(), name()).prop_map(|(kind, name)| Drawn(kind, name, vec![]));
    let tree = leaf.prop_recursive(3, 32, 5, move |inner| {
        (kind(), name(), prop::collection::vec(inner, 0..5))
            .prop_map(|(kind, name, inner)| Drawn(kind, name, inner))
    });
    prop::collection::vec(tree, 0..6)
}

/// Leaves out what a configuration cannot have: duplicate names, and locations that nginx refuses inside the outer.
fn modelled(drawn: &[Drawn], outer: Option<&Modelled>, next: &mut usize) -> Vec<Modelled> {
    let mut level: Vec<Modelled> = Vec::new();
    for Drawn(kind, name, inner) in drawn {
        let under = outer.map_or("", |outer| &outer.name);
        let (modifier, name) = match kind {
            0..3 => (["", "^~", "="][*kind], format!("{under}{name}")),
            _ => EXPRESSIONS[kind - 3].0.split_once(' ').map(|(a, b)| (a, b.to_owned())).unwrap(),
        };
        let is_expression = modifier.starts_with('~');
        let in_expression = outer.is_some_and(Modelled::is_expression);
        let same = |one: &Modelled| {
            one.name == name && (one.modifier == "=") == (modifier == "=") && !one.is_expression()
        };
        let bad =
            !is_expression && (in_expression || !name.starts_with('/') || level.iter().any(same));
        if bad {
            continue;
        }
        *next += 1;
        let mut one = Modelled { modifier, name, number: *next, inner: vec![] };
        if modifier != "=" {
            one.inner = modelled(inner, Some(&one), next);
        }
        level.push(one);
    }
    level
}

proptest! {
    #[test]
    fn the_search_finds_what_the_model_finds(
        drawn in drawn(),
        paths in prop::collection::vec("/([ab]{1,2}/){0,3}[abB]{0,2}", 1..20),
    ) {
        let level = modelled(&drawn, None, &mut 0);
        let text: String = level.iter().map(Modelled::text).collect();
        let bench = Bench::new(&format!("server {{ {text} }}"));
        for path in paths {
            let reply = bench.get(&path);
            let found = reply.text().parse::<usize>().ok().filter(|_| reply.status == 200);
            prop_assert_eq!(found, serves(&level, &path), "{} in {}", path, text);
        }
    }
}
