//! Tests of the variables and of the messages; passed sockets are tested with the program (`tests/server/activation.rs`).

use super::*;

#[test]
fn sockets_are_for_one_process() {
    let check = |process: Option<&str>, number: Option<&str>, expected: Result<u16, &str>| {
        let found = count(process.map(OsString::from), number.map(OsString::from), 7);
        let found = found.map_err(|error| error.to_string());
        let expected = expected.map_err(|text| format!("invalid environment variable {text}"));
        assert_eq!(found, expected, "{process:?} {number:?}");
    };
    check(None, None, Ok(0));
    check(Some("7"), None, Ok(0));
    check(None, Some("1"), Ok(0));
    check(Some("8"), Some("nonsense"), Ok(0));
    check(Some("7"), Some("0"), Ok(0));
    check(Some("7"), Some("2"), Ok(2));
    check(Some("7"), Some("1024"), Ok(1024));
    check(Some("7"), Some("1025"), Err("LISTEN_FDS=1025"));
    check(Some("7"), Some("4294967296"), Err("LISTEN_FDS=4294967296"));
    check(Some("7"), Some("-1"), Err("LISTEN_FDS=-1"));
    check(Some("7"), Some(""), Err("LISTEN_FDS="));
    check(Some("seven"), Some("1"), Err("LISTEN_PID=seven"));
}

#[test]
fn messages_say_what_to_do() {
    let passed = |name: &str| Passed { number: 3, name: name.to_owned() };
    let check = |error: ActivationError, expected: &str| assert_eq!(error.to_string(), expected);
    check(ActivationError::NoSocket(passed("")), "socket 3 of LISTEN_FDS is not an open socket");
    check(
        ActivationError::NotListening(passed("web\n")),
        r#"socket 3 of LISTEN_FDS ("web\n") does not listen: its unit must have "Accept=no""#,
    );
    check(
        ActivationError::Surplus(passed("web"), "[::]:80".to_owned()),
        "socket 3 of LISTEN_FDS (\"web\") is bound to [::]:80, which no \"listen\" of the configuration has; \
         for \"listen 80;\" the unit needs \"ListenStream=0.0.0.0:80\"",
    );
}
