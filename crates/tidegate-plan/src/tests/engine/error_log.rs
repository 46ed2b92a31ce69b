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

#[test]
fn invalid_error_logs_are_refused() {
    for (directive, expected) in [
        ("error_log {dir}/log nope;", "invalid log level \"nope\""),
        ("error_log {dir}/log warn nope;", "duplicate log level \"nope\""),
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
