//! The format of lines, their levels and their context.

use proptest::prelude::*;

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
        log.write(*level, 0, name);
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
fn value(fields: &LogFields) -> serde_json::Value {
    let line = json::line(Level::Warn, 7, fields);
    assert_eq!(line.iter().position(|byte| *byte == b'\n'), Some(line.len() - 1));
    serde_json::from_slice(&line).unwrap()
}

#[test]
fn lines_of_json_have_what_is_known_apart() {
    let mut fields =
        LogFields::new("open() \"/x\" failed (2: No such file or directory)".to_owned());
    fields.add("client", b"127.0.0.1");
    fields.add("request", b"GET /\xff\x1b HTTP/1.1");
    fields.add("upstream", b"");
    let line = value(&fields);
    let timestamp = line["timestamp"].as_str().unwrap();
    assert_eq!(timestamp.len(), "2026-01-31T23:59:59+00:00".len());
    for (name, expected) in [
        ("level", "\"warn\"".to_owned()),
        ("pid", std::process::id().to_string()),
        ("tid", thread_number().to_string()),
        ("cnum", "7".to_owned()),
        ("msg", "\"open() \\\"/x\\\" failed (2: No such file or directory)\"".to_owned()),
        ("errno", "2".to_owned()),
        ("client", "\"127.0.0.1\"".to_owned()),
        ("request", "\"GET /\u{fffd}\\u001b HTTP/1.1\"".to_owned()),
        ("upstream", "null".to_owned()),
        ("truncated", "null".to_owned()),
    ] {
        assert_eq!(line[name].to_string(), expected, "{name}");
    }
    let mut long = LogFields::new("é".repeat(4000));
    long.add("request", &b"x".repeat(1_000_000));
    let line = value(&long);
    assert_eq!(line["truncated"], 1);
    assert!(line["msg"].as_str().unwrap().chars().all(|letter| letter == 'é'));
    assert_eq!(line["request"].as_str().map(str::len), Some(512));
}

/// A destination of each form gets its own lines.
#[test]
fn each_destination_has_its_form() {
    let dir = tempfile::tempdir().unwrap();
    let to = |name: &str, form| {
        let path = dir.path().join(name);
        let file = open_append(&path).unwrap();
        let sink = LogSink::File(Arc::new(LogFile::new(path, file)));
        Destination { sink, level: Level::Info, form }
    };
    let log = ErrorLog::of(vec![to("text", LineForm::Text), to("json", LineForm::Json)]);
    log.say(Level::Info, format_args!("said \"{}\"", "x"));
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    assert!(read("text").ends_with(": said \"x\"\n"), "{}", read("text"));
    let line: serde_json::Value = serde_json::from_str(&read("json")).unwrap();
    assert_eq!(line["msg"], "said \"x\"");
}

proptest! {
    #[test]
    fn any_fields_are_one_line_of_json(
        message in any::<String>(),
        value in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        let mut fields = LogFields::new(message);
        fields.add("request", &value);
        let line = json::line(Level::Error, 1, &fields);
        prop_assert_eq!(line.iter().position(|byte| *byte == b'\n'), Some(line.len() - 1));
        prop_assert!(serde_json::from_slice::<serde_json::Value>(&line).is_ok());
    }
}
