//! Building plans from texts: refused configurations with their messages, inheritance, objects kept across reloads.

use std::sync::Arc;

use tidegate_core::plan::Location;

use crate::ReloadState;
use crate::tests::Bench;

/// Checks that an `http` block is refused with these messages.
fn check(http: &str, expected: &[&str]) {
    assert_eq!(Bench::errors(http), expected, "{http}");
}

#[test]
fn invalid_locations_are_refused() {
    for (locations, expected) in [
        ("location /a { } location /a { }", "duplicate location \"/a\""),
        ("location /a { } location ^~ /a { }", "duplicate location \"/a\""),
        ("location = /a { } location =/a { }", "duplicate location \"/a\""),
        ("location /a { location /a/b { } location /a/b { } }", "duplicate location \"/a/b\""),
        ("location == /a { }", "invalid location modifier \"==\""),
        ("location a /b { }", "invalid location modifier \"a\""),
        ("location /a { location /b { } }", "location \"/b\" is outside location \"/a\""),
        ("location /a { location = /b { } }", "location \"/b\" is outside location \"/a\""),
        ("location ~ ^/a { location /a { } }", "location \"/a\" is outside location \"^/a\""),
        (
            "location = /a { location /a/b { } }",
            "location \"/a/b\" cannot be inside the exact location \"/a\"",
        ),
        (
            "location = /a { location ~ \\.php$ { } }",
            "location \"\\.php$\" cannot be inside the exact location \"/a\"",
        ),
        (
            "location @a { location ~*x { } }",
            "location \"x\" cannot be inside the named location \"@a\"",
        ),
        (
            "location @a { location /b { } }",
            "location \"/b\" cannot be inside the named location \"@a\"",
        ),
        (
            "location /a { location @b { } }",
            "named location \"@b\" can be on the server level only",
        ),
        ("location ~ ( { }", "pcre2_compile() failed: missing closing parenthesis in \"(\""),
        ("location ~ (?<uri>.) { }", "the duplicate \"uri\" variable"),
        ("location / { limit_except ODD { } }", "invalid method \"ODD\""),
        (
            "location / { limit_except GET { } limit_except PUT { } }",
            "\"limit_except\" directive is duplicate",
        ),
    ] {
        check(&format!("server {{ {locations} }}"), &[expected]);
    }
    // Names may be equal where the kinds or the levels differ.
    Bench::new(
        "server { location /a { } location = /a { } location ~ /a { } location ~ /a { } location @a { } location @a { }
                  location /b { location /b { } location = /b { } } location = /c { } }
         server { location /a { } location @a { } }",
    );
}

#[test]
fn all_errors_are_reported_at_once() {
    check(
        "sendfile maybe;
         server { listen 0; location / { root /a; root /b; } location /a { } location /a { } }
         server { listen 81; listen 81; server_name a*; }",
        &[
            "invalid value \"maybe\" in \"sendfile\" directive, it must be \"on\" or \"off\"",
            "invalid port in \"0\" of the \"listen\" directive",
            "\"root\" directive is duplicate",
            "duplicate location \"/a\"",
            "a duplicate listen 0.0.0.0:81",
            "invalid server name or wildcard \"a*\"",
        ],
    );
    // A block in a wrong context is read as well.
    check(
        "location / { root; }",
        &[
            "invalid number of arguments in \"root\" directive",
            "\"location\" directive is not allowed here",
        ],
    );
    check("server { } upstreams { absent; }", &["unknown directive \"upstreams\""]);
}

#[test]
fn the_main_context() {
    for (file, expected) in [
        ("http { } http { }", &["\"http\" directive is duplicate"][..]),
        ("events { } events { }", &["\"events\" directive is duplicate"]),
        ("stream { } stream { }", &["\"stream\" directive is duplicate"]),
        ("server { }", &["\"server\" directive is not allowed here"]),
        // A missing part of a block may be the consequence of another error.
        (
            "stream { server { listen 0:1:2; absent; } }",
            &[
                "invalid port in \"0:1:2\" of the \"listen\" directive",
                "unknown directive \"absent\"",
            ],
        ),
        (
            "stream { server { listen 1.1.1.1; } }",
            &["no port in \"1.1.1.1\" of the \"listen\" directive"],
        ),
    ] {
        assert_eq!(Bench::errors_of_file(file), expected, "{file}");
    }
    let lacking = Bench::errors_of_file("stream { server { } }");
    assert!(lacking.contains(&"no \"listen\" is defined for server".to_owned()), "{lacking:?}");
    assert!(Bench::try_of_file("stream { server { listen 1.1.1.1:5; } }").is_ok());
    // No block, no servers.
    let empty = Bench::of_file("");
    assert_eq!((empty.plan.servers().len(), empty.plan.listeners.len()), (0, 0));
    assert!(empty.plan.sessions.is_none() && Bench::of_file("stream { }").plan.sessions.is_some());
}

#[test]
fn a_plan_has_numbers_for_servers_and_locations() {
    let bench = Bench::new(
        "server { location /a { location /a/b { } if { } limit_except GET { } } location @n { } }
         server { server_name second; location ^~ /a { } location = /b { } location ~ c { } }",
    );
    let plan = &bench.plan;
    assert_eq!(plan.servers().len(), 2);
    assert_eq!(
        (plan.servers()[0].named(b"@n").is_some(), plan.servers()[1].named(b"@n")),
        (true, None)
    );
    let kinds: Vec<String> = plan
        .locations
        .iter()
        .map(|location| {
            let Location { name, exact, no_regex, is_regex, is_named, limit_except, .. } = location;
            let flags = [(exact, '='), (no_regex, '^'), (is_regex, '~'), (is_named, '@')];
            let flags: String = flags.iter().filter(|(is, _)| **is).map(|(_, mark)| mark).collect();
            let limited = if limit_except.is_some() { "!" } else { "" };
            format!("{flags}{}{limited}", String::from_utf8_lossy(name))
        })
        .collect();
    assert_eq!(kinds, ["", "/a!", "", "GET", "/a/b", "@@n", "", "^/a", "=/b", "~c"]);
    assert_eq!(plan.all_listeners().count(), 1);
}

/// What is inherited unchanged is made once, so that memory grows with what is written.
#[test]
fn blocks_without_directives_share_their_settings() {
    let bench = Bench::new(
        "send_timeout 5; root /http;
         server { location /a { } location /b { } location /c { location /c/c { } } }
         server { server_name second; location /d { } }
         server { server_name third; send_timeout 7; location /e { } location /f { root /f; } }",
    );
    let named = |name: &str| {
        let mut locations = bench.plan.locations.iter();
        locations.find(|location| location.name == name.as_bytes()).unwrap()
    };
    let [a, b, inner, d, e, f] = ["/a", "/b", "/c/c", "/d", "/e", "/f"].map(named);
    let seconds = |location: &Location| location.settings.send_timeout.as_secs();
    assert_eq!([a, b, inner, d, e, f].map(seconds), [5, 5, 5, 5, 7, 7]);
    let roots = [a, inner, e, f].map(|one| one.settings.root.literal().unwrap());
    assert_eq!(roots, [&b"/http"[..], b"/http", b"/http", b"/f"]);
    let shares = |one: &Location, other: &Location| Arc::ptr_eq(&one.settings, &other.settings);
    assert!(shares(a, b));
    assert!(!shares(a, e) && !shares(e, f));
}

#[test]
fn objects_are_kept_across_reloads_by_type_and_name() {
    let reload_state = ReloadState::default();
    let get =
        |name: &str, value: u32| reload_state.get_or_make::<u32, ()>(name, || Ok(value)).unwrap();
    assert_eq!([*get("a", 1), *get("a", 2), *get("b", 3)], [1, 1, 3]);
    let other = reload_state.get_or_make::<String, ()>("a", || Ok("text".to_owned())).unwrap();
    assert_eq!((other.as_str(), Arc::ptr_eq(&get("a", 4), &get("a", 5))), ("text", true));
    // An object that could not be made is made at the next call.
    assert_eq!(reload_state.get_or_make::<u8, _>("c", || Err("no room")).unwrap_err(), "no room");
    assert_eq!(*reload_state.get_or_make::<u8, ()>("c", || Ok(7)).unwrap(), 7);
}
