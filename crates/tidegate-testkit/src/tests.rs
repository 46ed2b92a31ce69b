//! Tests of the language and of the frame; the actors are tested by the cases themselves.

use crate::case;
use crate::failing::{Failing, fail_here};
use crate::fixtures::Fixtures;
use crate::frame::framed;
use crate::ops;
use crate::places::Places;
use crate::words::{Matcher, Word, split};
use crate::{Outcome, Report, Summary, World};

#[test]
fn words_are_split() {
    let check = |line: &str, expected: &str| {
        let shown: Vec<String> = match split(line) {
            Ok(words) => words.iter().map(one).collect(),
            Err(failure) => vec![format!("error: {failure}")],
        };
        assert_eq!(shown.join(","), expected, "{line}");
    };
    check("GET /a Host: x", "GET,/a,Host:,x");
    check(r#"send "a\r\n\x41""#, "send,\"a\\r\\nA\"");
    check(r#""ab"*3 + "c""#, "\"abababc\"");
    check(r#"a | b -> 200"#, "a,|,b,->,200");
    check(r#"*"x" ~"^\d+\"$""#, "*x,~^\\d+\"$");
    check(r#"/a*b"#, "/a*b");
    check(r#""open"#, "error: a closing quote is missing");
    check(r#""a"b"#, "error: a space is missing before `b`");
    check(r#""\q""#, r#"error: unknown escape; known are \r \n \t \0 \\ \" \xHH"#);
    check(r#""xxxx"*99999999"#, "error: the repeated text is too long");
    check(
        r#"~"(""#,
        "error: bad pattern \"(\": PCRE2: error compiling pattern at offset 1: missing closing parenthesis",
    );
}

/// Runs on threads that end then: their failing calls cannot be restored.
#[test]
fn calls_fail_that_are_to_fail() {
    use std::io::ErrorKind;
    use std::os::unix::fs::FileExt;
    let directory = tempfile::tempdir().expect("directory");
    let path = directory.path().join("file");
    std::fs::write(&path, b"0123456789").expect("written");
    let check = |failing: &str, expected: [Option<ErrorKind>; 5]| {
        let failing = Failing::parse(failing).expect("understood");
        let found = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                fail_here(&[failing]).expect("a filter");
                let file = std::fs::OpenOptions::new().read(true).write(true).open(&path);
                let file = file.expect("opened");
                let kinds = [
                    file.read_at(&mut [0; 4], 4).map(drop),
                    file.read_at(&mut [0; 4], 5).map(drop),
                    file.write_at(b"45", 4).map(drop),
                    std::fs::File::create_new(directory.path().join("new")).map(drop),
                    std::fs::rename(&path, &path),
                ];
                kinds.map(|result| result.err().map(|error| error.kind()))
            });
            thread.join().expect("no panic")
        });
        let _ = std::fs::remove_file(directory.path().join("new"));
        assert_eq!(found, expected);
    };
    let full = Some(ErrorKind::StorageFull);
    check("read=ENOSPC@4", [full, full, None, None, None]);
    check("read=ENOSPC@4-5", [full, None, None, None, None]);
    check("read=ENOSPC", [None; 5]);
    check("read=ENOSPC@5", [None, full, None, None, None]);
    check("write=ENOSPC@4", [None, None, full, None, None]);
    check("write=ENOSPC@5", [None; 5]);
    let read_only = Some(ErrorKind::ReadOnlyFilesystem);
    check("create=EROFS", [None, None, None, read_only, None]);
    check("rename=EROFS", [None, None, None, None, read_only]);
    for wrong in ["", "read", "read=EIO@x", "burn=EIO", "read=EFUN"] {
        assert!(Failing::parse(wrong).is_err(), "{wrong}");
    }
}

fn one(word: &Word) -> String {
    match word {
        Word::Bare(text) => text.clone(),
        Word::Text(text) => format!("\"{}\"", text.escape_ascii()),
        Word::Match(Matcher::Contains(text)) => format!("*{}", text.escape_ascii()),
        Word::Match(Matcher::Pattern(pattern)) => format!("~{}", pattern.as_str()),
        Word::Match(Matcher::Exact(_)) => "exact".to_owned(),
        Word::Bar => "|".to_owned(),
        Word::Arrow => "->".to_owned(),
    }
}

/// Prose and a configuration: the lines 2 to 5 of a case.
const BLOCK: &str = "One.\n```nginx\nserver { }\n```\n";

#[test]
fn mistakes_have_lines() {
    let check = |script: &str, expected: &str| {
        let text = format!("# A\n{BLOCK}```script\n{script}\n```\n");
        let mistakes = case::parse("a.md", &text, Fixtures::default()).err().unwrap_or_default();
        let shown: Vec<_> = mistakes.iter().map(ToString::to_string).collect();
        assert_eq!(shown.join("; "), expected, "{script}");
    };
    check("GET / -> 200", "");
    check("GET / 200", "a.md:7: `->` is missing");
    check("GET / -> x", "a.md:7: a status is missing, found `x`");
    check("\nfly", "a.md:8: unknown statement `fly`");
    check("client x GET /", "a.md:7: a client's name is missing: c1, c2, …");
    check("client c1 jump", "a.md:7: a client cannot `jump`");
    check("client c1 quic jump", "a.md:7: QUIC cannot `jump`");
    check("client c1 wait quic rain", "a.md:7: QUIC has no event `rain`");
    check("client c1 connect h3 u1 fast", "a.md:7: a connection has no option `fast`");
    check("client c1 quic reset s H3_NONE", "a.md:7: `H3_NONE` is no number");
    check("relay r1 sing", "a.md:7: a relay has no rule `sing`");
    check("relay r1 drop every 0", "a.md:7: a number above 0 is missing");
    check("relay r1 up drop 1 2 delay 5ms", "");
    check("client c1 connect h3 r1 early | quic open s uni integer 0x21 \"x\" fin", "");
    check("origin o1 send \"x\"", "a.md:7: an origin's line begins with `expect`");
    check("origin o1 expect GET / | sing", "a.md:7: an origin cannot `sing`");
    check("check o1.requests = 1", "a.md:7: `=` is no comparison");
    check("check weather", "a.md:7: unknown condition `weather`");
    check("on nginx: start", "a.md:7: `on SERVER:` needs an `on SERVER: differs: reason`");
    check("on mars: x", "a.md:7: unknown world `mars`: tidegate, windows or nginx");
    check("on nginx:", "a.md:7: a statement, `skip:` or `differs:` is missing");
    check("on nginx: skip:", "a.md:7: a reason is missing");
    check("on nginx: on nginx: start", "a.md:7: unknown statement `on`");
    check("on nginx: start\non nginx: differs: x", "");
    check(
        "start\non nginx: differs: x",
        "a.md:7: `differs:` needs a line `on SERVER: …`; `skip:` leaves the whole case out",
    );
    for old in ["differs nginx: x", "worlds nginx: x"] {
        check(
            old,
            "a.md:7: write `on SERVER: skip: reason` for a case that does not run on a server, \
             `on SERVER: differs: reason` for one in which some lines are for one server",
        );
    }
    check("GET / -> 200\n| <<page", "a.md:7: no ```text page block");
    check("check log contains \"a\"\n  | + \"b\"", "");
    check("signal stop", "a.md:7: unknown signal `stop`");
    check("fly\nrun", "a.md:7: unknown statement `fly`; a.md:8: unknown statement `run`");
    check("# nothing", "a.md:1: the case has no script");
}

#[test]
fn blocks_are_checked() {
    let check = |text: &str, expected: &str| {
        let mistakes = case::parse("a.md", text, Fixtures::default()).err().unwrap_or_default();
        assert_eq!(mistakes.first().map(ToString::to_string).unwrap_or_default(), expected);
    };
    check("prose", "a.md:1: no case: `# Title` begins one");
    check("```nginx\n```\n# A\n", "a.md:1: a block before the first `# Title`");
    check("# A\n```nginx\n", "a.md:2: this block is not closed");
    check("# A\n```perl\n```\n", "a.md:2: unknown block `perl`");
    check("# A\n```file\n```\n", "a.md:2: the file's name is missing");
    check(
        "# A\ncovers: root\n```nginx\n```\nOne.\n```script\nstart\n```\n",
        "a.md:1: no sentence below the title says what the case shows and why it matters",
    );
    check("# A\n```fixture x\n```\n", "a.md:2: a fixture comes before the first `# Title`");
    check("```fixture\n```\n# A\n", "a.md:1: the fixture's name is missing");
    check(
        "# A\n```nginx\na;\nfixture x;\n```\n",
        "a.md:4: no ```fixture x block, here or in fixtures.md",
    );
    check(
        &format!("# A\n{BLOCK}```text x\n```\n```script\nstart\n```\n"),
        "a.md:1: the script does not use the text `x`",
    );
    check("# A\n```script\nstart\n```\n", "a.md:1: the case has no ```nginx block");
    check("# A\n```each\n```\n", "a.md:3: the table has no columns");
    check("# A\n```each\nn\n```\n", "a.md:3: the table has no rows");
    check("# A\n```each\nn | m\n1 | 2\n3\n```\n", "a.md:5: 1 values for 2 columns");
    check(
        &format!("# A {{n}}\n{BLOCK}```each\nn | m\n1 | 2\n```\n```script\nstart\n```\n"),
        "a.md:1: {m} of the table is nowhere in the case",
    );
    check(
        &format!("# A\n{BLOCK}```each\nn\n1\n2\n```\n```script\nopen {{n}}\n```\n"),
        "a.md:1: two rows of the table have the title `A`",
    );
}

#[test]
fn two_cases_in_a_file() {
    let one = "```file x\na\nb\n```\n```script\nGET /\n | -> 200\n```\n";
    let text = format!("# A\n{BLOCK}{one}\n# B\n{BLOCK}{one}");
    let cases = case::parse("a.md", &text, Fixtures::default()).unwrap_or_default();
    let names: Vec<_> = cases.iter().map(case::Case::name).collect();
    assert_eq!(names, ["a.md:1: A", "a.md:15: B"]);
    assert_eq!(cases[0].files, [("x".to_owned(), "a\nb".to_owned())]);
}

#[test]
fn a_table_makes_a_case_many() {
    let text = "# Part {n} of {of}\nOne.\n```each\nn | of\n1 | \"a|b\"\n\n2 | \"c\" X: *\"|\"\n```\n\
                ```nginx\nreturn {n};\n```\n```script\nGET /{n} -> 200 {of}\n```\n";
    let cases = case::parse("a.md", text, Fixtures::default()).unwrap_or_default();
    let shown: Vec<_> = cases
        .iter()
        .map(|case| {
            [&case.title, &case.configs[0].text, &case.script_text].map(|t| t.trim()).join("; ")
        })
        .collect();
    assert_eq!(
        shown,
        [
            "Part 1 of \"a|b\"; return 1;; GET /1 -> 200 \"a|b\"",
            "Part 2 of \"c\" X: *\"|\"; return 2;; GET /2 -> 200 \"c\" X: *\"|\""
        ]
    );
    // A mistake outside of the table's columns is reported once.
    let text = format!("# {{n}}\n{BLOCK}```each\nn\n1\n2\n```\n```script\nfly\n```\n");
    assert_eq!(
        case::parse("a.md", &text, Fixtures::default()).err().map(|mistakes| mistakes.len()),
        Some(1)
    );
}

#[test]
fn parts_of_a_response() {
    let check = |line: &str, expected: &str| {
        let words = split(line).unwrap_or_default();
        let shown = match ops::piped(&words, ops::origin_op).as_deref() {
            Ok([ops::OriginOp::Send(bytes)]) => bytes.escape_ascii().to_string(),
            Ok(_) => "something else".to_owned(),
            Err(failure) => failure.to_string(),
        };
        assert_eq!(shown, expected, "{line}");
    };
    check("first 3 send \"012345\"", "012");
    check("first 0 send \"012345\"", "");
    check("first 2/3 send \"012345\"", "0123");
    check("first 8 respond 200 \"x\"", "HTTP/1.1");
    check("first 6 send \"012345\"", "`6` leaves nothing of 6 bytes out");
    check("first 3/3 send \"012345\"", "`3/3` leaves nothing of 6 bytes out");
    check("first x send \"012345\"", "`x` is neither a number nor a fraction");
    check("first 1 hold \"g\"", "`first N` cannot `hold`");
}

#[test]
fn counts_by_file() {
    let report = |name: &str, outcome| Report {
        name: name.to_owned(),
        world: World::Tidegate,
        outcome,
        took: std::time::Duration::ZERO,
    };
    let summary = Summary {
        cases: 3,
        differences: Vec::new(),
        updated: Vec::new(),
        reports: vec![
            report("a/b.md:1: A", Outcome::Passed),
            report("a/b.md:9: B", Outcome::Failed("x".to_owned())),
            report("c.md:1: A", Outcome::Skipped("y".to_owned())),
        ],
    };
    let lines: Vec<String> = summary.groups().lines().map(words_only).collect();
    assert_eq!(
        lines,
        ["a/b tidegate 1 passed 1 failed 0 skipped", "c tidegate 0 passed 0 failed 1 skipped"]
    );
    assert!(
        summary.to_string().contains("failed:\n  tidegate a/b.md:9: B\n      x\n"),
        "{summary}"
    );
}

fn words_only(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_frame_sorts_statements() {
    let config = "worker_processes 2; # two\nserver { listen {front}; location ~ \"^/a{2}$\" { return 200 '}'; } }\n\
                  map $a $b { default \"{\"; }\nstream { server { listen 1; } }\naccess_log {dir}/${a}.log;\n";
    let text = framed(config, World::Nginx, "/m");
    let (main, http) = text.split_once("\nhttp {\n").unwrap_or_default();
    for line in
        ["load_module /m/ngx_stream_module.so;", "worker_processes 2;", "daemon off;", "stream {"]
    {
        assert!(main.contains(line), "{line} in {main}");
    }
    for line in ["server { listen {front};", "map $a", "access_log {dir}/${a}.log;", "root "] {
        assert!(http.contains(line), "{line} in {http}");
    }
    assert!(!http.contains("access.log;"));
    assert!(!main.contains("worker_processes 1;"));
}

#[test]
fn the_frame_loads_modules_of_others() {
    let config = "server { location / { set_md5 $a b; } }\nstream { geoip2 {dir}/x { $a b; } }\n";
    let text = framed(config, World::Nginx, "/m");
    let loaded: Vec<&str> = text.lines().filter(|line| line.starts_with("load_module")).collect();
    let names = [
        "ngx_stream_module",
        "ngx_http_geoip2_module",
        "ngx_stream_geoip2_module",
        "ndk_http_module",
        "ngx_http_set_misc_module",
    ];
    assert_eq!(loaded, names.map(|name| format!("load_module /m/{name}.so;")));
    assert!(!framed(config, World::Tidegate, "/m").contains("load_module"));
}

#[test]
fn values_become_placeholders_again() {
    let places = Places::new("/tmp/case", &["{front} {port:o1}"]).expect("free ports");
    let text = "a {front}, {port:front}. {dir}/x {pid} {port:o1}";
    assert_eq!(places.unfill(&places.fill(text)), text);
    let number = places.fill("1{port:front} {port:front}2");
    assert_eq!(places.unfill(&number), number);
}
