//! For each rule a sample that breaks it and one that does not; at the end the repository itself.

use super::ratchet::{Ratchet, Sizes, compare};
use super::source::{Function, Kind, Source, functions, mask};
use super::{Violation, calls, cases, edges, sizes, structure, texts, words};

/// The lines and the beginnings of the reasons that a rule should give.
fn expect(found: &[Violation], expected: &[(usize, &str)], sample: &str) {
    let matches = found.len() == expected.len()
        && found.iter().zip(expected).all(|(violation, (line, reason))| {
            violation.line == *line && violation.reason.contains(reason)
        });
    assert!(matches, "{sample}\nexpected {expected:?}\nfound {found:#?}");
}

fn check_calls(path: &str, text: &str, expected: &[(usize, &str)]) {
    expect(&calls::check(&Source::new(path, text)), expected, text);
}

const CORE: &str = "crates/tidegate-core/src/phases.rs";

#[test]
fn mask_blanks_comments_and_literals() {
    for (text, expected) in [
        ("a // b {\nc", format!("a{}\nc", " ".repeat(7))),
        ("a /* { /* } */ */ b", format!("a{}b", " ".repeat(17))),
        (r#"f("{\"}")"#, r#"f("    ")"#.to_owned()),
        (r##"r#"a"{"#;"##, r##"r#"   "#;"##.to_owned()),
        (r#"br"{" b"{""#, r#"br" " b" ""#.to_owned()),
        ("'{' '\\'' &'a str", "' ' '  ' &'a str".to_owned()),
        ("'é' x", "'  ' x".to_owned()),
        ("for \"x\"", "for \" \"".to_owned()),
        ("\"two\nlines\"", "\"   \n     \"".to_owned()),
    ] {
        assert_eq!(mask(text), expected, "{text}");
    }
}

#[test]
fn mask_survives_what_is_cut_short() {
    for text in ["\"", "'", "'\\", "/*", "r#\"", "//", "b'", "'é", "\"\\", "'\u{1f980}"] {
        assert_eq!(mask(text).len(), text.len(), "{text}");
    }
}

#[test]
fn functions_are_measured() {
    let text = "fn one() {}\ntrait T { fn none(&self) -> [u8; 2]; }\n\
                impl T for U {\n    fn two(\n        a: fn(u8) -> u8,\n    ) {\n        \"}\"\n    }\n}\n";
    let function = |name: &str, line, lines| Function { name: name.to_owned(), line, lines };
    assert_eq!(functions(&mask(text)), [function("one", 1, 1), function("two", 4, 5)]);
}

#[test]
fn test_code_is_distinguished_from_product() {
    for (path, expected) in [
        ("crates/a/src/lib.rs", Kind::Product),
        ("crates/a/src/tests.rs", Kind::Test),
        ("crates/a/src/uri_tests.rs", Kind::Test),
        ("crates/a/src/testing.rs", Kind::Test),
        ("crates/a/tests/golden.rs", Kind::Test),
        ("crates/a/src/contests.rs", Kind::Product),
    ] {
        assert_eq!(Source::new(path, "").kind, expected, "{path}");
    }
    let text =
        "fn a() {}\n#[cfg(test)]\nmod tests;\n#[cfg(test)]\nmod more {\n    x\n}\nfn b() {}\n";
    let source = Source::new(CORE, text);
    let marked: Vec<usize> = (1..=8).filter(|line| source.is_test_line(*line)).collect();
    assert_eq!(marked, [4, 5, 6, 7]);
}

fn long_function(lines: usize) -> String {
    format!("//! Sample.\nfn long() {{\n{}}}\n", "    step();\n".repeat(lines - 2))
}

fn check_sizes(text: &str, path: &str, ratchet: &str, expected: &[(usize, &str)]) {
    let listed = Ratchet::parse(ratchet).expect("the sample ratchet is well formed");
    expect(&sizes::check(&[Source::new(path, text)], &listed), expected, ratchet);
}

#[test]
fn long_functions_are_refused() {
    check_sizes(&long_function(70), CORE, "", &[]);
    check_sizes(&long_function(71), CORE, "", &[(2, "has 71 lines, at most 70")]);
    let key = format!("[functions]\n\"{CORE}::long\"");
    check_sizes(&long_function(75), CORE, &format!("{key} = 75\n"), &[]);
    check_sizes(&long_function(76), CORE, &format!("{key} = 75\n"), &[(2, "grew from 75 to 76")]);
    check_sizes(&long_function(74), CORE, &format!("{key} = 75\n"), &[(0, "shrank from 75 to 74")]);
    check_sizes(&long_function(70), CORE, &format!("{key} = 75\n"), &[(0, "no longer needed")]);
}

#[test]
fn long_files_are_refused() {
    let lines = |count: usize| "//\n".repeat(count);
    check_sizes(&lines(500), CORE, "", &[]);
    check_sizes(&lines(501), CORE, "", &[(0, "has 501 lines, at most 500")]);
    check_sizes(&lines(800), "crates/a/src/tests.rs", "", &[]);
    check_sizes(&lines(801), "crates/a/src/tests.rs", "", &[(0, "at most 800")]);
    check_sizes(&lines(9), CORE, "[files]\n\"gone.rs\" = 600\n", &[(0, "no longer needed")]);
}

fn sizes_of(entries: &[(&str, usize)]) -> Sizes {
    entries.iter().map(|(key, size)| ((*key).to_owned(), *size)).collect()
}

#[test]
fn the_ratchet_only_shrinks_unless_asked() {
    let listed =
        Ratchet { files: sizes_of(&[("a", 600), ("b", 600), ("c", 600)]), ..Ratchet::default() };
    let now =
        Ratchet { files: sizes_of(&[("a", 550), ("b", 700), ("d", 900)]), ..Ratchet::default() };
    assert_eq!(listed.updated(&now, false).files, sizes_of(&[("a", 550), ("b", 600)]));
    assert_eq!(listed.updated(&now, true).files, now.files);
    assert_eq!(compare("file", |_| 500, &listed.files, &now.files).len(), 4);
}

#[test]
fn the_ratchet_file_is_read_as_written() {
    let ratchet =
        Ratchet { files: sizes_of(&[("a/b.rs", 600)]), functions: sizes_of(&[("a.rs::f", 80)]) };
    assert_eq!(Ratchet::parse(&ratchet.render()), Ok(ratchet));
    for wrong in ["\"a\" = 1", "[files]\na = 1", "[files]\n\"a\" = x", "[other]"] {
        assert!(Ratchet::parse(wrong).is_err(), "{wrong}");
    }
}

/// The output of `cargo metadata`, reduced to the fields that the rule reads.
fn metadata(dependencies: &[(&str, &str, Option<&str>)]) -> String {
    let mut names: Vec<&str> = edges::TABLE.iter().map(|row| row.name).collect();
    names.extend(dependencies.iter().map(|(from, ..)| *from));
    names.sort_unstable();
    names.dedup();
    let packages: Vec<serde_json::Value> = names
        .iter()
        .map(|name| {
            let own: Vec<serde_json::Value> = dependencies
                .iter()
                .filter(|(from, ..)| from == name)
                .map(|(_, to, kind)| serde_json::json!({ "name": to, "kind": kind }))
                .collect();
            let manifest = format!("/checkout/crates/{name}/Cargo.toml");
            serde_json::json!({ "name": name, "manifest_path": manifest, "dependencies": own })
        })
        .collect();
    serde_json::json!({ "workspace_root": "/checkout", "packages": packages }).to_string()
}

#[test]
fn edges_follow_the_table() {
    for (from, to, kind, expected) in [
        ("tidegate-cache", "tidegate-rt", None, None),
        ("tidegate-rt", "tidegate-cache", None, Some("may not depend on `tidegate-cache`")),
        ("tidegate-codec", "tidegate-rt", None, Some("allowed: none")),
        ("tidegate-codec", "httparse", None, None),
        ("tidegate-codec", "tokio", None, Some("must not depend on `tokio`")),
        ("tidegate-conf", "tokio-util", Some("build"), Some("must not depend on `tokio-util`")),
        ("tidegate-front", "tokio-rustls", None, Some("must not depend on `tokio-rustls`")),
        ("tidegate-core", "rustls-pki-types", None, Some("must not depend on `rustls-pki-types`")),
        ("tidegate-codec", "aws-lc-rs", None, Some("must not depend on `aws-lc-rs`")),
        ("tidegate-front", "tokio-rustls", Some("dev"), None),
        ("tidegate-tls", "tokio-rustls", None, None),
        ("tidegate-codec", "tidegate-testkit", Some("dev"), None),
        ("tidegate-codec", "tidegate-testkit", None, Some("tidegate-testkit")),
        ("tidegate-front", "tidegate-modules", Some("dev"), Some("(dev)")),
        ("tidegate-new", "tidegate-conf", None, Some("has no row")),
    ] {
        let found = edges::check(&metadata(&[(from, to, kind)]), edges::TABLE);
        let found = found.expect("the sample is well formed");
        let expected: Vec<(usize, &str)> = expected.map(|reason| (0, reason)).into_iter().collect();
        expect(&found, &expected, &format!("{from} -> {to} {kind:?}"));
        assert!(found.iter().all(|v| v.path == format!("crates/{from}/Cargo.toml")));
    }
    assert!(edges::check("{", edges::TABLE).is_err());
    assert!(edges::check("{}", edges::TABLE).is_err());
}

#[test]
fn the_edge_table_points_downward() {
    for (rank, row) in edges::TABLE.iter().enumerate() {
        for to in row.may_depend_on {
            let below = edges::TABLE[rank + 1..].iter().any(|lower| lower.name == *to);
            assert!(below, "{} -> {to}", row.name);
        }
    }
}

#[test]
fn calls_that_belong_elsewhere_are_refused() {
    for call in [
        "std::thread::sleep(time)",
        "tokio::spawn(task)",
        "tokio::task::spawn_local(task)",
        "use tokio::net::TcpStream;",
        "tokio::time::timeout(limit, work)",
        "Instant::now()",
        "std::time::SystemTime::now()",
        "tidegate_os::time::clock_realtime_coarse()",
        "todo!()",
        "unimplemented!()",
        "dbg!(x)",
    ] {
        let text = format!("#![forbid(unsafe_code)]\n{call}\n");
        check_calls(CORE, &text, &[(2, "`")]);
        check_calls(CORE, &format!("// {call}\n"), &[]);
        check_calls(CORE, &format!("let text = \"{call}\";\n"), &[]);
        check_calls(CORE, &format!("#[cfg(test)]\nmod t {{\n    {call}\n}}\n"), &[]);
    }
}

#[test]
fn the_door_may_call_what_others_may_not() {
    let clock = "let now = Instant::now();\n";
    for path in [
        "crates/tidegate-rt/src/clock.rs",
        "crates/tidegate-os/src/linux/a.rs",
        "crates/tidegate-testkit/src/a.rs",
        "crates/tidegate-bench/src/a.rs",
        "crates/tidegate/src/master.rs",
        "crates/tidegate/src/master/signals.rs",
    ] {
        check_calls(path, clock, &[]);
    }
    check_calls("crates/tidegate/src/worker.rs", clock, &[(1, "clock of tidegate-rt")]);
    check_calls("crates/tidegate-rt/src/a.rs", "todo!()\n", &[(1, "unfinished")]);
    check_calls(CORE, "let x = MyInstant::nowhere();\n", &[]);
}

#[test]
fn parts_of_tokio_are_found_in_grouped_imports() {
    check_calls(CORE, "use tokio::{io, net};\n", &[(1, "`tokio::net`")]);
    check_calls(CORE, "\nuse tokio::{\n    time::{self, Sleep},\n};\n", &[(2, "`tokio::time`")]);
    check_calls(CORE, "use tokio::{io, sync};\n", &[]);
}

#[test]
fn unsafe_has_one_home() {
    check_calls(CORE, "unsafe { f() }\n", &[(1, "tidegate-os only")]);
    check_calls("crates/tidegate-core/src/tests.rs", "unsafe { f() }\n", &[(1, "tidegate-os")]);
    check_calls("crates/tidegate-os/src/linux/fd.rs", "unsafe { f() }\n", &[]);
    check_calls(CORE, "let unsafe_looking = 1;\n", &[]);
    check_calls("crates/tidegate-core/src/lib.rs", "//! x\n", &[(1, "lacks `#![forbid")]);
    check_calls("crates/tidegate-core/src/lib.rs", "//! x\n#![forbid(unsafe_code)]\n", &[]);
}

#[test]
fn unwrap_needs_a_reason() {
    check_calls(CORE, "a.unwrap();\n", &[(1, "cannot fail")]);
    check_calls(CORE, "a.unwrap(); // cannot fail: just checked\n", &[]);
    check_calls(CORE, "// cannot fail: just checked\na.unwrap();\n", &[]);
    check_calls(CORE, "// cannot fail: \na.unwrap();\n", &[(2, "cannot fail")]);
    check_calls(CORE, "a.unwrap_or(1);\n", &[]);
    check_calls("xtask/src/a.rs", "a.unwrap();\n", &[]);
}

#[test]
fn logic_files_know_no_runtime() {
    let path = "crates/tidegate-modules/src/http/gzip/logic.rs";
    check_calls(path, "use tokio::sync::Notify;\n", &[(1, "pure")]);
    check_calls(path, "// tokio is next door\n", &[]);
}

#[test]
fn tests_do_not_sleep_nor_use_fixed_ports_nor_hide() {
    let path = "crates/tidegate-core/src/tests.rs";
    for (text, expected) in [
        ("thread::sleep(second);", Some("does not sleep")),
        ("tokio::time::sleep(second).await;", Some("does not sleep")),
        ("TcpListener::bind(\"127.0.0.1:8080\")", Some("fixed port")),
        ("TcpStream::connect((\"127.0.0.1\", 8080))", Some("fixed port")),
        ("TcpListener::bind(\"127.0.0.1:0\")", None),
        ("TcpListener::bind((\"127.0.0.1\", 0))", None),
        ("check(\"listen 127.0.0.1:8080\", parse(\"127.0.0.1:8080\"))", None),
        ("#[ignore]", Some("forgotten")),
        ("#[ignore = \"slow\"]", Some("forgotten")),
        ("// #[ignore] is not for us", None),
    ] {
        let expected: Vec<(usize, &str)> = expected.map(|reason| (1, reason)).into_iter().collect();
        expect(&cases::check_rust(&Source::new(path, text)), &expected, text);
    }
    let product = Source::new(CORE, "socket.bind(\"0.0.0.0:80\")");
    expect(&cases::check_rust(&product), &[], "a product's default port");
}

#[test]
fn cases_listen_on_placeholders_and_do_not_sleep() {
    for (line, block, expected) in [
        ("listen 8080;", "nginx", Some("fixed port")),
        ("server { listen 127.0.0.1:8080; }", "nginx", Some("fixed port")),
        ("listen [::1]:8080 ssl;", "nginx", Some("fixed port")),
        ("listen {front};", "nginx", None),
        ("listen 127.0.0.1:0;", "nginx", None),
        ("listen unix:{dir}/socket;", "nginx", None),
        ("sleep 1s", "script", Some("does not sleep")),
        ("client c1 GET /asleep", "script", None),
    ] {
        let text = format!("# Title\n```{block}\n{line}\n```\nlisten 80; sleep\n");
        let expected: Vec<(usize, &str)> = expected.map(|reason| (3, reason)).into_iter().collect();
        expect(&cases::check_markdown("tests/cases/a.md", &text), &expected, &text);
    }
}

#[test]
fn lines_of_cases_fit_a_screen() {
    for (block, is_long) in [
        ("script", true),
        ("nginx", true),
        ("each", false),
        ("file a", false),
        ("text a crlf", false),
    ] {
        let text = format!("# Title\n```{block}\n{}\n```\n", "ä".repeat(161));
        let expected: &[(usize, &str)] = if is_long { &[(3, "160 characters")] } else { &[] };
        expect(&cases::check_markdown("tests/cases/a.md", &text), expected, &text);
    }
}

#[test]
fn files_say_what_they_are_for() {
    for (text, whole) in [
        ("//! Phases.\nuse a;\n", true),
        ("\n//! Phases.\n", true),
        ("use a;\n//! Phases.\n", false),
        ("//!\n", false),
        ("", false),
    ] {
        assert_eq!(texts::check_header(&Source::new(CORE, text)).is_none(), whole, "{text}");
    }
}

#[test]
fn module_files_are_beside_their_directories() {
    for (path, expected) in [
        ("crates/a/src/two/mod.rs", true),
        ("crates/a/src/two.rs", false),
        ("crates/a/tests/support/mod.rs", false),
    ] {
        let found = texts::check_module_file(&Source::new(path, "//! Text.\n"));
        assert_eq!(found.is_some(), expected, "{path}");
    }
}

#[test]
fn machine_paths_are_found() {
    let home = ["/ho", "me/ann/project"].concat();
    let user = ["/Use", "rs/ann"].concat();
    let cargo = ["/ro", "ot/.cargo/bin"].concat();
    for (line, expected) in [
        (format!("see {home}"), true),
        (format!("path = \"{user}\""), true),
        (cargo, true),
        ("run in /builds/tidegate/crates".to_owned(), true),
        ("run in /builds/tidegate".to_owned(), true),
        ("run in /builds/tidegate-2".to_owned(), false),
        ("GET /a/home/index.html".to_owned(), false),
        (["/ho", "me/$user/www"].concat(), false),
        (["https://example.org/ho", "me/ann"].concat(), false),
        ("root /var/www;".to_owned(), false),
    ] {
        let found = texts::check_machine_paths("README.md", &line, "/builds/tidegate");
        assert_eq!(!found.is_empty(), expected, "{line}");
    }
    assert!(texts::check_machine_paths("README.md", "in /src/a", "/src").is_empty());
}

#[test]
fn the_changelog_keeps_its_form() {
    const TOP: &str = "# Changelog\n\nWords.\n\n## Unreleased\n\n";
    let whole = format!(
        "{TOP}### Added\n\n- One\n  thing.\n\n#### Cache\n\n- Two.\n\n#### TLS\n\n- Three.\n\n### Fixed\n\n#### \
         Cache\n\n- Four.\n\n## 0.2.0 - 2026-02-01\n\n### Fixed\n\n- It.\n\
         \n## 0.1.0 - 2026-01-01\n"
    );
    expect(&texts::check_changelog("C", &whole), &[], &whole);
    for (text, line, reason) in [
        ("# Changes\n\n## Unreleased\n".to_owned(), 1, "first line"),
        ("# Changelog\n\n## 0.1.0 - 2026-01-01\n".to_owned(), 3, "first section"),
        ("# Changelog\n".to_owned(), 1, "no `## Unreleased`"),
        (format!("{TOP}### New\n"), 7, "kind of change"),
        (format!("{TOP}#### Cache\n"), 7, "below a kind"),
        (format!("{TOP}### Added\n#### Caches\n"), 8, "no area"),
        (format!("{TOP}### Added\n#### TLS\n#### Cache\n"), 9, "order"),
        (format!("{TOP}### Added\n#### TLS\n#### TLS\n"), 9, "each once"),
        (format!("{TOP}- One\n"), 7, "ends with a period"),
        (format!("{TOP}- One\n  thing\n"), 8, "ends with a period"),
        (format!("{TOP}Words.\n"), 7, "only entries"),
        (format!("{TOP}## 0.1 - 2026-01-01\n"), 7, "a release is"),
        (format!("{TOP}## 0.1.0 - January\n"), 7, "a release is"),
        (format!("{TOP}## 0.1.0 - 2026-01-01\n## 0.2.0 - 2026-02-01\n"), 8, "newest first"),
    ] {
        expect(&texts::check_changelog("C", &text), &[(line, reason)], &text);
    }
}

#[test]
fn the_shape_of_crates_is_measured() {
    let sources = [
        ("crates/a/src/lib.rs", "pub mod one;\npub mod two;\nmod three;\n"),
        (
            "crates/a/src/one.rs",
            "use crate::two::{self, Deep as D, inner::{Other}};\npub fn f() {}\n",
        ),
        ("crates/a/src/two.rs", "mod inner;\nuse inner::Other;\npub(crate) fn g() {}\n"),
        ("crates/a/src/two/inner.rs", "fn h() { super::super::three::x(); }\n"),
        (
            "crates/a/src/three.rs",
            "fn x() { crate::one::f(); }\n#[cfg(test)]\nmod tests { use crate::two; }\n",
        ),
        ("crates/a/src/alone.rs", "use self::x;\n#[cfg(test)]\nmod tests { use crate::one; }\n"),
        ("crates/a/src/tests.rs", "use crate::alone;\n"),
        ("crates/tidegate-bench/src/lib.rs", "pub fn f() {}\n"),
    ];
    let sources = sources.map(|(path, text)| Source::new(path, text));
    let crates = structure::measure(&sources);
    let found = &crates["a"];
    assert_eq!(found.circle, ["one", "three", "two", "two/inner"]);
    assert_eq!((found.public, found.inner, crates.len()), (3, 1, 1));
    assert_eq!((found.lines, found.test_lines), (11, 5));
    assert!(structure::table(&crates, 7).ends_with("an exchange has 7 booleans"));
}

#[test]
fn the_shape_of_crates_is_kept() {
    let of = |lines: usize, files: usize| structure::Crate {
        lines,
        circle: vec!["x".to_owned(); files],
        ..Default::default()
    };
    let check = |small: structure::Crate, booleans: usize, expected: &[(usize, &str)]| {
        let others = ["b", "c", "d"].map(|name| (name.to_owned(), of(100, 0)));
        let crates = others.into_iter().chain([("a".to_owned(), small)]).collect();
        expect(&structure::check(&crates, booleans), expected, "a crate among four");
    };
    check(of(100, 8), 6, &[]);
    check(of(100, 9), 6, &[(0, "9 files import each other")]);
    check(of(50, 0), 6, &[(0, "lines"), (0, "lines"), (0, "lines")]);
    check(of(100, 0), 7, &[(0, "7 booleans")]);
}

#[test]
fn private_words_have_standard_ones() {
    let check = |line: &str, expected: &[(usize, &str)]| {
        expect(&words::check("a.rs", line), expected, line);
    };
    check("a directory, a pollster of crowded places", &[]);
    check(
        "Folders\nTempFolder temp_folder",
        &[(1, "directory"), (2, "directory"), (2, "directory")],
    );
    check("the crowd's IdleCrowd", &[(1, "idle poller"), (1, "idle poller")]);
    check("user nobody nobody; `nobody` \"nobody\" $nobody", &[]);
    check("Nobody waits, and good news", &[(1, "no client"), (1, "event")]);
    let dns = "crates/tidegate-upstream/src/resolve/dns.rs";
    expect(&words::check(dns, "the answers, answered, told"), &[(1, "reported")], dns);
}

#[test]
fn documents_name_existing_paths() {
    let exists = |place: &str| place == "crates/a/src/b.rs" || place == "docs";
    let check = |line: &str, expected: &[(usize, &str)]| {
        expect(&words::check_paths("docs/GLOSSARY.md", line, exists), expected, line);
    };
    check("`crates/a/src/b.rs`, `docs/` and `crates/*/src`; crates/c, `Type`, `a/b`", &[]);
    check("`crates/a/src/c.rs`, `docs/d.md`", &[(1, "c.rs"), (1, "d.md")]);
}

#[test]
fn subjects_of_commits_are_short() {
    let long = format!("abc a: {}", "x".repeat(70));
    let log = format!("abc a: short\n{long}\nabc Merge {}", "x".repeat(80));
    expect(&words::check_subjects(&log), &[(0, "73 characters")], "a log");
}

#[test]
fn the_repository_is_tidy() {
    let (_, violations) =
        super::check(&crate::repository_root()).expect("the repository can be read");
    let listed: Vec<String> = violations.iter().map(Violation::to_string).collect();
    assert!(listed.is_empty(), "broken rules:\n{}", listed.join("\n"));
}
