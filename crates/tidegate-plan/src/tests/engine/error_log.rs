//! The error logs of a location.

use crate::tests::Bench;

/// The logs of a location replace those of the outer blocks.
#[test]
fn logs_are_inherited_as_a_whole() {
    let bench = Bench::of_file(
        "error_log {dir}/main alert;
         http { log text; server { log text;
           location / { log main; } location /own { error_log {dir}/own; error_log {dir}/own2 emerg; log own; } } }",
    );
    for target in ["/", "/own", "/"] {
        bench.get(target);
    }
    let lines = |name: &str| bench.read(name).lines().count();
    assert_eq!([lines("main"), lines("own"), lines("own2")], [2, 1, 0]);
}

/// Tags are those of the location, with the values of its choice; a redirect to a location without tags takes them away.
#[test]
fn lines_have_the_tags_of_their_location() {
    let bench = Bench::new(
        "error_log_tag id $arg_id; error_log_user_tag http; error_log {dir}/json info json;
         error_log {dir}/tagged info filter=tag:=b;
         server {
             location / { log main; }
             location /own { error_log_tag own $uri; error_log_user_tag a; error_log_user_tag $arg_tag; log own; }
         }",
    );
    for target in ["/?id=7", "/own/x?id=8&tag=b", "/own/y", "/"] {
        bench.get(target);
    }
    let json = bench.read("json");
    let first = |line: &str| {
        ["id", "own", "tags"].iter().find_map(|name| line.find(&format!(",\"{name}\"")))
    };
    let mut tags: Vec<&str> = json.lines().map(|line| &line[first(line).unwrap()..]).collect();
    // A request that finds no file has two lines.
    tags.dedup();
    assert_eq!(
        tags,
        [
            ",\"id\":\"7\",\"tags\":[\"http\"]}",
            ",\"own\":\"/own/x\",\"tags\":[\"a\",\"b\"]}",
            ",\"own\":\"/own/y\",\"tags\":[\"a\"]}",
            ",\"tags\":[\"http\"]}",
        ]
    );
    let tagged = bench.read("tagged");
    assert!(tagged.lines().count() == 1 && tagged.ends_with(", own: \"/own/x\"\n"), "{tagged}");
}

#[test]
fn invalid_error_logs_are_refused() {
    for (directive, expected) in [
        ("error_log {dir}/log nope;", "invalid log level \"nope\""),
        ("error_log {dir}/log warn nope;", "duplicate log level \"nope\""),
        ("error_log {dir}/log json format=json;", "duplicate form of lines in \"error_log\""),
        ("error_log {dir}/log format=xml;", "invalid format \"xml\" of \"error_log\""),
        ("error_log {dir}/log rate=10;", "\"rate\" of \"error_log\" is not supported yet"),
        ("error_log {dir}/log filter=client;", "invalid filter"),
        ("error_log {dir}/log filter=clint:x;", "unknown field \"clint\" in filter"),
        ("error_log_tag msg x;", "error log lines have a value \"msg\" already"),
        ("error_log_tag a\"b x;", "invalid name \"a\"b\" of \"error_log_tag\""),
        ("error_log_tag a x; error_log_tag a y;", "duplicate \"error_log_tag\" \"a\""),
        ("error_log syslog:;", "unknown syslog parameter \"\""),
    ] {
        let errors = Bench::errors(&format!("{directive} server {{ }}"));
        assert_eq!(errors, [expected], "{directive}");
    }
    let missing = Bench::errors("error_log {dir}/absent/log; server { }");
    assert!(
        missing[0].ends_with("/absent/log\" failed (2: No such file or directory)"),
        "{missing:?}"
    );
}
