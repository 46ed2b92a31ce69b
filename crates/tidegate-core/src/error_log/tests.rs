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
