//! The sources of a variable's value: modules, prefixes, `set`, captures, other variables.

use std::sync::Arc;

use tidegate_conf::Span;
use tidegate_core::variables::{Changeable, Value, Variable, VariableTable};

use crate::tests::Bench;

/// Checks the text that a location responds with, after these handlers.
fn check(http: &str, handlers: &str, text: &str, expected: &str) {
    let bench = Bench::new(&format!(
        "{http} server {{ location / {{ {handlers} do content respond \"{text}\"; }} }}"
    ));
    assert_eq!(bench.get("/a?x=1").text(), expected, "{http} {handlers} {text}");
}

#[test]
fn a_value_comes_from_the_nearest_source() {
    for (http, handlers, text, expected) in [
        ("", "", "[$nothing]", "[]"),
        ("", "", "$soft", "default"),
        ("", "", "$SOFT", "default"),
        ("", "", "$shout_abc $Shout_ABC", "ABC ABC"),
        ("", "do rewrite set $v 1;", "$v", "1"),
        ("", "do rewrite set $v 1; do rewrite set $V 2;", "$v", "2"),
        ("", "do rewrite once set $v $uri; do rewrite once path /b;", "$v $uri", "/a /b"),
        // A name of another kind keeps its value until `set` runs.
        ("", "do rewrite set $soft 1;", "$soft", "1"),
        ("", "do content set $soft 1;", "$soft", "1"),
        ("", "do content next; do content set $shout_x 1;", "$shout_x", "1"),
        ("", "slot soft; slot shout_x;", "$soft $shout_x", "default X"),
        ("slot unset;", "", "[$unset]", "[]"),
        ("computed $c \"<$uri>\";", "", "$c", "</a>"),
        ("computed $c \"<$arg_x>\";", "do rewrite set $c 2;", "$c", "2"),
        ("computed $c \"<$arg_x>\";", "slot c;", "$c", "<1>"),
        ("computed $c \"$d$d\"; computed $d \"($uri)\";", "", "$c", "(/a)(/a)"),
        // The last definition is used, also for uses before it.
        ("computed $c 1; computed $c 2;", "", "$c", "2"),
        ("", "do rewrite args y=2;", "$args $arg_y [$arg_x] $query_string", "y=2 2 [] y=2"),
        ("", "match ^/(?<v>.);", "$v", "a"),
        ("", "match ^/(?<v>.)(?<w>z)?; ", "$v[$w]", "a[]"),
        // An expression that does not match keeps the captures.
        ("", "match ^/(?<v>.); match ^/(?<v>z);", "$v$1", "aa"),
    ] {
        check(http, handlers, text, expected);
    }
}

/// A cached value is computed once per request, another one at each use.
#[test]
fn cached_values_are_computed_once_per_request() {
    let bench = Bench::new(
        "computed $once $counted kept; computed $each $counted; computed $none $nothing kept;
         server { location / { do own respond \"$once $once $each $each $none\"; } }",
    );
    let numbers = || -> Vec<u64> {
        bench.get("/").text().split_whitespace().map(|number| number.parse().unwrap()).collect()
    };
    let (first, second) = (numbers(), numbers());
    assert!(first[0] == first[1] && first[2] != first[3], "{first:?}");
    assert!(second[0] == second[1] && first[0] != second[0], "{first:?} {second:?}");
}

#[test]
fn undefined_names_are_errors_with_a_suggestion() {
    for (text, expected) in [
        ("$absent", "unknown \"absent\" variable"),
        ("$Absent", "unknown \"absent\" variable"),
        ("${uri}x$uro", "unknown \"uro\" variable"),
    ] {
        let errors =
            Bench::errors(&format!("server {{ location / {{ do own respond {text}; }} }}"));
        assert_eq!(errors, [expected], "{text}");
    }
    // Each name is reported once, all names together.
    let all = "server { location / { do own respond \"$one$two\"; do content respond $one; } }";
    assert_eq!(Bench::errors(all), ["unknown \"one\" variable", "unknown \"two\" variable"]);
    // A definition in another server is enough.
    Bench::new("server { location / { do own respond $v; } } server { slot v; }");
}

#[test]
fn a_similar_name_is_suggested() {
    static DECLARED: [Variable; 2] = [
        Variable::fixed("uri", "For tests.", |_, _| false),
        Variable::prefixed("http_", "For tests.", |_, _, _| false),
    ];
    let mut table = VariableTable::new(DECLARED.iter());
    table.resolve("uro", Span::NONE);
    table.resolve("http_x", Span::NONE);
    table.resolve("quite_other", Span::NONE);
    let found = table.unresolved();
    let helps: Vec<_> =
        found.iter().map(|found| (&found.message[..], found.help.join(" "))).collect();
    let expected = [
        ("unknown \"uro\" variable", "did you mean `$uri`?".to_owned()),
        ("unknown \"quite_other\" variable", String::new()),
    ];
    assert_eq!(helps, expected);
}

/// Whether the configuration may change a name, and the slots of names.
#[test]
fn a_table_of_names() {
    static DECLARED: [Variable; 5] = [
        Variable::fixed("never", "For tests.", |_, _| false),
        Variable::replaceable("free", "For tests.", |_, _| false),
        Variable {
            name: "by",
            doc: "For tests.",
            value: Value::Fixed(|_, _| false),
            change: Changeable::By(|_, _| {}),
        },
        Variable::prefixed("p_", "For tests.", |_, _, _| false),
        Variable::prefixed("p_long_", "For tests.", |_, _, _| false),
    ];
    let mut table = VariableTable::new(DECLARED.iter());
    let kind = |table: &VariableTable, name: &str| match table.changeable(name) {
        Changeable::Free => "free",
        Changeable::By(_) => "by",
        Changeable::Stored(_) => "stored",
        Changeable::Never => "never",
    };
    table.keep("Mine");
    for (name, expected) in [
        ("never", "never"),
        ("NEVER", "never"),
        ("free", "free"),
        ("by", "by"),
        ("other", "free"),
        ("p_x", "free"),
        ("mine", "never"),
        ("MINE", "never"),
    ] {
        assert_eq!(kind(&table, name), expected, "{name}");
    }
    table.define_stored("Kept_Outside", Arc::new(|_, _| false), Arc::new(|_, _| ()));
    assert_eq!(kind(&table, "kept_OUTSIDE"), "stored");
    table.define_computed("kept_outside", Arc::new(|_, _| false), false);
    assert_eq!(kind(&table, "kept_outside"), "free", "defined anew");
    // A name has one number and one slot, in any case of letters and order of definitions.
    let id = table.resolve("late", Span::NONE);
    let slot = table.define_slot("Late");
    assert_eq!((table.resolve("LATE", Span::NONE), table.define_slot("late")), (id, slot));
    assert_eq!(table.find("late"), Some(id));
    assert_ne!(table.define_slot("early"), slot);
    table.define_computed("kept", Arc::new(|_, _| false), true);
    let before = table.slot_count();
    table.define_slot("kept");
    assert_eq!((before, table.slot_count()), (3, 3));
    table.define_slot("free");
    table.define_slot("p_x");
    assert_eq!(table.slot_count(), 5);
    assert_eq!((table.find("absent"), table.unresolved().len()), (None, 0));
}

/// The longest matching prefix is used.
#[test]
fn names_are_found_by_their_longest_prefix() {
    check("", "", "$http_host $sent_http_content_type $arg_x $cookie_a", "localhost  1 ");
    let bench = Bench::new(
        "server { location / { do own respond \"$http_x_a|$cookie_c|$http_cookie|$http_user_agent\"; } }",
    );
    let reply = bench.get_with(
        "/",
        &["X-A: 1", "X_A: 3", "x-a: 2", "Cookie: c=d; e", "Cookie: f", "User-Agent: u"],
    );
    assert_eq!(reply.text(), "1, 2|d|c=d; e; f|u");
}

/// Names in a response (SSI) are found whether the configuration uses them or not.
#[test]
fn values_of_names_that_are_known_at_request_time() {
    let bench = Bench::new(
        "computed $used $uri; server { location / { do rewrite set $v 1; do own respond \"$used$v\"; } }",
    );
    let mut reply = bench.get("/a?x=1");
    for (name, expected) in [
        ("uri", Some("/a")),
        ("used", Some("/a")),
        ("v", Some("1")),
        ("arg_x", Some("1")),
        ("arg_y", None),
        ("shout_abc", Some("ABC")),
        ("soft", Some("default")),
        ("absent", None),
        ("", None),
    ] {
        let mut out = b"> ".to_vec();
        let found = reply.x.variable_named(name.as_bytes(), &mut out);
        assert_eq!(found, expected.is_some(), "{name}");
        assert_eq!(
            String::from_utf8_lossy(&out),
            format!("> {}", expected.unwrap_or("")),
            "{name}"
        );
    }
    assert!(!reply.x.variable_named(b"\xff", &mut Vec::new()));
}

#[test]
fn the_use_of_an_uninitialized_variable_is_logged() {
    let bench = Bench::new(
        "error_log {dir}/log warn;
         server { slot v; location / { do own respond \"[$v]\"; }
                  location /set { do rewrite set $v 1; do own respond \"[$v]\"; } }",
    );
    assert_eq!((bench.get("/set").text(), bench.read("log").lines().count()), ("[1]", 0));
    assert_eq!(bench.get("/").text(), "[]");
    let log = bench.read("log");
    assert!(
        log.contains("[warn]") && log.contains("using uninitialized \"v\" variable, client"),
        "{log}"
    );
}
