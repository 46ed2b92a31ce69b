//! The format of lines, their levels and their context.

use proptest::prelude::*;

use std::rc::Rc;

use super::*;
use crate::log_file::open_append;

/// Returns a line without its time: `[level] process#thread: *connection message`, numbers as `N`.
fn shape(level: Level, connection: u64, message: &str) -> String {
    let bytes = line(level, connection, message);
    let text = String::from_utf8(bytes).unwrap();
    // `2026/01/31 23:59:59 `
    let (time, rest) = text.split_at(20);
    let digits: Vec<&str> = time.trim_end().split(['/', ' ', ':']).collect();
    assert_eq!(
        digits.iter().map(|part| part.len()).collect::<Vec<_>>(),
        [4, 2, 2, 2, 2, 2],
        "{time}"
    );
    let own = format!("{}#{}", std::process::id(), thread_number());
    rest.replacen(&own, "N#N", 1)
}

#[test]
fn lines_have_nginxs_format() {
    for (level, connection, message, expected) in [
        (Level::Error, 7, "text", "[error] N#N: *7 text\n"),
        (Level::Emerg, 0, "text", "[emerg] N#N: text\n"),
        (Level::Debug, 1, "", "[debug] N#N: *1 \n"),
        // A client's line ends do not end the line.
        (Level::Warn, 0, "a\nb\r\tc\0d\x1b[0m", "[warn] N#N: a b  c d [0m\n"),
        (Level::Info, 0, "é\u{7f}", "[info] N#N: é\u{7f}\n"),
    ] {
        assert_eq!(shape(level, connection, message), expected);
    }
    let long = shape(Level::Error, 0, &"é".repeat(2000));
    assert!(long.ends_with("é\n") && long.len() < 2048, "{}", long.len());
}

#[test]
fn levels_have_their_names_in_order() {
    for (place, (name, level)) in LEVELS.iter().enumerate() {
        assert_eq!((level.name(), *level as usize), (*name, place));
    }
    assert!(LEVELS.windows(2).all(|pair| pair[0].1 < pair[1].1));
}

/// Each of two files gets the lines of its level and more severe ones.
#[test]
fn each_sink_has_its_level() {
    let dir = tempfile::tempdir().unwrap();
    let sink = |name: &str| {
        let path = dir.path().join(name);
        let file = open_append(&path).unwrap();
        LogSink::File(Arc::new(LogFile::new(path, file)))
    };
    let log = ErrorLog::new(vec![(sink("crit"), Level::Crit), (sink("warn"), Level::Warn)]);
    for (name, level) in LEVELS {
        log.write(*level, 0_u64, *name);
        log.say(*level, format_args!("said {name}"));
        assert_eq!(log.enabled(*level), *level <= Level::Warn, "{name}");
    }
    let count =
        |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap().lines().count();
    assert_eq!([count("crit"), count("warn")], [6, 10]);
    let none = ErrorLog::default();
    assert!(!none.enabled(Level::Emerg) && ErrorLog::stderr(Level::Info).enabled(Level::Info));
}

#[test]
fn a_long_message_keeps_its_reason() {
    let reason = " (2: No such file or directory)";
    for (message, cut) in [
        (format!("short{reason}"), false),
        ("x".repeat(MESSAGE_BYTES_MAX), false),
        ("x".repeat(MESSAGE_BYTES_MAX + 1), true),
        (format!("{}{reason}", "é".repeat(2000)), true),
    ] {
        let shown = shortened(message.clone());
        assert_eq!(shown != message, cut);
        assert!(shown.len() <= MESSAGE_BYTES_MAX + 3 && shown.contains("...") == cut);
        assert_eq!(shown.ends_with(reason), message.ends_with(reason));
    }
}

proptest! {
    /// Any message becomes one line of limited length.
    #[test]
    fn any_message_is_one_line(message in any::<String>(), times in 0..200_usize, connection: u64) {
        let bytes = line(Level::Error, connection, &message.repeat(times));
        prop_assert!(bytes.len() <= LINE_BYTES_MAX + 1);
        prop_assert_eq!(bytes.iter().position(|byte| *byte == b'\n'), Some(bytes.len() - 1));
        prop_assert!(bytes[..bytes.len() - 1].iter().all(|byte| *byte >= b' '));
        prop_assert!(shortened(message.repeat(times)).len() <= MESSAGE_BYTES_MAX + 3);
    }
}

/// Returns the value of a line of JSON.
fn value(fields: &LogFields, is_nested: bool) -> serde_json::Value {
    let line = json::line(Level::Warn, 7, fields, is_nested);
    assert!(line.len() <= LINE_BYTES_MAX, "{}", line.len());
    assert_eq!(line.iter().position(|byte| *byte == b'\n'), Some(line.len() - 1));
    serde_json::from_slice(&line).unwrap()
}

/// Returns the fields of a line about a request.
fn request_fields(message: &str) -> LogFields {
    let tags = LogTags {
        words: vec![b"a".to_vec(), b"}\"".to_vec()],
        pairs: vec![("request_id".into(), b"77".to_vec())],
    };
    let mut fields = LogFields::about(Kind::Request, message.to_owned(), Some(Rc::new(tags)));
    fields.add("action", b"connecting to upstream");
    fields.add("client", b"127.0.0.1");
    fields.add("request", b"GET /\xff\x1b HTTP/1.1");
    fields.add("upstream", b"http://o/");
    fields.add("referrer", b"");
    fields
}

const FAILED: &str = "open() \"/x\" failed (2: No such file or directory)";

#[test]
fn lines_of_json_have_what_is_known_apart() {
    let line = value(&request_fields(FAILED), false);
    let timestamp = line["timestamp"].as_str().unwrap();
    assert_eq!(timestamp.len(), "2026-01-31T23:59:59.123+00:00".len());
    for (name, expected) in [
        ("level", "\"warn\"".to_owned()),
        ("pid", std::process::id().to_string()),
        ("tid", thread_number().to_string()),
        ("cnum", "7".to_owned()),
        ("msg", "\"open() \\\"/x\\\" failed\"".to_owned()),
        ("errno", "2".to_owned()),
        ("errtext", "\"No such file or directory\"".to_owned()),
        ("action", "\"connecting to upstream\"".to_owned()),
        ("client", "\"127.0.0.1\"".to_owned()),
        ("request", "\"GET /\u{fffd}\\u001b HTTP/1.1\"".to_owned()),
        ("request_id", "\"77\"".to_owned()),
        ("tags", "[\"a\",\"}\\\"\"]".to_owned()),
        ("referrer", "null".to_owned()),
        ("truncated", "null".to_owned()),
    ] {
        assert_eq!(line[name].to_string(), expected, "{name}");
    }
}

#[test]
fn nested_lines_have_objects() {
    let mut line = value(&request_fields(FAILED), true);
    let time = line["time"].as_str().unwrap();
    assert!(time.len() == "2026-01-31T23:59:59.123Z".len() && time.ends_with('Z'), "{time}");
    for own in ["time", "pid", "tid"] {
        line.as_object_mut().unwrap().remove(own);
    }
    let expected = serde_json::json!({
        "level": "warn", "connection": 7, "message": "open() \"/x\" failed",
        "error": { "code": 2, "message": "No such file or directory" },
        "http": {
            "action": "connecting to upstream", "client": "127.0.0.1",
            "request": { "request_line": "GET /\u{fffd}\u{1b} HTTP/1.1", "upstream": "http://o/" },
        },
        "request_id": "77",
        "tags": ["http", "upstream", "peer", "a", "}\""],
    });
    assert_eq!(line, expected);
    let mut session = LogFields::about(Kind::Session, "text".to_owned(), None);
    session.add("protocol", b"udp");
    session.add("upstream", b"1.2.3.4:5");
    session.count("bytes_to_client", 3);
    let line = value(&session, true);
    let expected = serde_json::json!({
        "protocol": "udp", "session": { "upstream": "1.2.3.4:5", "bytes_to_client": 3 }
    });
    assert_eq!(line["stream"], expected);
    let plain = value(&LogFields::new("text".to_owned()), true);
    assert!(
        plain.get("tags").is_none() && plain.get("http").is_none() && plain.get("error").is_none()
    );
}

/// The longest value is cut and the others are whole; a line that fits is not cut.
#[test]
fn long_lines_of_json_are_cut_where_they_are_long() {
    for is_nested in [false, true] {
        let whole = |fields: &LogFields| value(fields, is_nested).get("truncated").is_none();
        let of_message = |letters: usize| request_fields(&"é".repeat(letters));
        let most = (1..2000).rfind(|letters| whole(&of_message(*letters))).unwrap();
        let line = json::line(Level::Warn, 7, &of_message(most), is_nested);
        assert!((LINE_BYTES_MAX - 25..=LINE_BYTES_MAX).contains(&line.len()), "{}", line.len());
        let line = value(&of_message(100_000), is_nested);
        let message = &line[if is_nested { "message" } else { "msg" }];
        assert!(message.as_str().unwrap().chars().all(|letter| letter == 'é'));
        assert!(!message.as_str().unwrap().is_empty());
        assert_eq!(line["request_id"], "77");
        assert_eq!(line["truncated"], if is_nested { true.into() } else { serde_json::json!(1) });
    }
}

/// A destination of each form gets its own lines.
#[test]
fn each_destination_has_its_form() {
    let logs = Logs::new();
    let log = ErrorLog::of(vec![
        logs.to("text", LineForm::Text, &[]),
        logs.to("json", LineForm::Json, &[]),
        logs.to("nested", LineForm::NestedJson, &[]),
    ]);
    log.say(Level::Info, format_args!("said \"{}\"", "x"));
    assert!(logs.read("text").ends_with(": said \"x\"\n"), "{}", logs.read("text"));
    for (name, member) in [("json", "msg"), ("nested", "message")] {
        let line: serde_json::Value = serde_json::from_str(&logs.read(name)).unwrap();
        assert_eq!(line[member], "said \"x\"", "{name}");
    }
}

/// A directory with logs.
struct Logs(tempfile::TempDir);

impl Logs {
    fn new() -> Logs {
        Logs(tempfile::tempdir().unwrap())
    }

    fn to(&self, name: &str, form: LineForm, filters: &[&str]) -> Destination {
        let path = self.0.path().join(name);
        let file = open_append(&path).unwrap();
        let filters = filters.iter().map(|text| LogFilter::parse(text).unwrap()).collect();
        let sink = LogSink::File(Arc::new(LogFile::new(path, file)));
        Destination { sink, level: Level::Info, form, filters }
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.path().join(name)).unwrap()
    }
}

/// An entry about a request, with its line of text.
struct RequestLine;

impl Entry for RequestLine {
    fn text(&self) -> String {
        "failed, client: 127.0.0.1".to_owned()
    }

    fn fields(&self) -> LogFields {
        request_fields("failed")
    }
}

#[test]
fn destinations_get_the_lines_for_which_all_filters_hold() {
    for (filters, expected) in [
        (&[] as &[&str], true),
        (&["logline:client: 127"], true),
        (&["logline:=failed, client: 127.0.0.1"], true),
        (&["logline:=failed"], false),
        (&["logline:~^failed.*1$"], true),
        (&["logline:~^client"], false),
        (&["message:=failed"], true),
        (&["tag:=http"], true),
        (&["tag:=htt"], false),
        (&["tag:peer", "tag:upstr", "tag:~^a$"], true),
        (&["tag:peer", "tag:stream"], true),
        (&["tag:peer", "tag:=stream"], false),
        (&["client:=127.0.0.1"], true),
        (&["client:127.0.0.10"], false),
        (&["request_line:GET /"], true),
        (&["request:~HTTP/1.1$"], true),
        (&["action:connecting"], true),
        // A line without the field: not even an expression that matches the empty text holds.
        (&["referrer:~^"], false),
    ] {
        let logs = Logs::new();
        ErrorLog::of(vec![logs.to("log", LineForm::Text, filters)]).write(
            Level::Error,
            1_u64,
            &RequestLine,
        );
        assert_eq!(!logs.read("log").is_empty(), expected, "{filters:?}");
    }
}

#[test]
fn invalid_filters_are_refused() {
    for (text, expected) in [
        ("", FilterError::Form),
        ("client", FilterError::Form),
        ("client:", FilterError::Form),
        ("client:=", FilterError::Form),
        ("client:~", FilterError::Form),
        ("clint:x", FilterError::Field("clint".to_owned(), Some("client"))),
        ("zzzzzzz:x", FilterError::Field("zzzzzzz".to_owned(), None)),
        ("sourcefile:x", FilterError::SourceFile),
    ] {
        assert_eq!(LogFilter::parse(text).unwrap_err(), expected, "{text}");
    }
    assert!(matches!(LogFilter::parse("client:~("), Err(FilterError::Regex(_))));
}

/// An expression that backtracks too much does not hold, and ends.
#[test]
fn expensive_filters_do_not_hold() {
    let filter = LogFilter::parse("message:~^(a+)+$").unwrap();
    let fields = LogFields::new(format!("{}!", "a".repeat(2000)));
    assert!(!filter.holds_for(&fields));
    assert!(filter.holds_for(&LogFields::new("aaa".to_owned())));
}

proptest! {
    /// Any bytes make one valid line of limited length.
    #[test]
    fn any_fields_are_one_line_of_json(
        message in ".{0,3000}",
        values in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..3000), 0..9),
        is_nested: bool,
    ) {
        let tags = LogTags { words: values.clone(), pairs: vec![("p".into(), message.clone().into())] };
        let mut fields = LogFields::about(Kind::Request, message, Some(Rc::new(tags)));
        for (name, value) in FIELD_NAMES.iter().zip(&values) {
            fields.add(name, value);
        }
        let line = value(&fields, is_nested);
        prop_assert!(line.is_object());
    }
}
