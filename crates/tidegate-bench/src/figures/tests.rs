//! The command line, the configurations, and what is read of metrics.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use super::config::{self, Addresses, PEERS};
use super::target::sum_of;
use super::{Arguments, Row, SCALE, Scale, parse, run, shown};

fn parsed(words: &[&str]) -> Result<Arguments, String> {
    let words = words.iter().map(OsString::from);
    parse(lexopt::Parser::from_args(words)).map_err(|error| error.to_string())
}

#[test]
fn arguments() {
    assert_eq!(parsed(&[]).unwrap().scale, SCALE);
    let some = parsed(&["--only", "sums", "--requests=7", "--reloads", "0", "--seconds", "0.5"]);
    let some = some.unwrap();
    assert_eq!(some.only, ["sums"]);
    let time = Duration::from_millis(500);
    assert_eq!(some.scale, Scale { requests: 7, reloads: 0, time, ..SCALE });
    for wrong in
        [&["--only", "x"][..], &["--rounds", "0"], &["--seconds", "NaN"], &["--requests", "0"]]
    {
        assert!(parsed(wrong).is_err(), "{wrong:?}");
    }
    assert!(run(["start".into()]).is_none());
}

#[test]
fn configurations_are_complete() {
    let (front, figures) = ("127.0.0.1:1".parse().unwrap(), "127.0.0.1:2".parse().unwrap());
    let (addresses, directory) = (Addresses { front, figures }, Path::new("/tmp/x"));
    let traced = |collector| config::traced(addresses, directory, collector);
    for text in [
        config::counted(addresses, directory),
        config::keyed(addresses, directory),
        config::large(addresses, directory),
        config::usual(addresses, directory),
        traced(None),
        traced(Some(front)),
    ] {
        assert_eq!(text.matches('{').count(), text.matches('}').count(), "{text}");
        assert!(text.contains("listen 127.0.0.1:1;") && text.contains("listen 127.0.0.1:2;"));
    }
    let large = config::large(addresses, directory);
    let servers: std::collections::BTreeSet<&str> =
        large.lines().filter(|line| line.ends_with(":9;")).collect();
    assert_eq!(large.matches(":9;").count(), PEERS);
    assert_eq!(servers.len(), PEERS, "no server is there twice");
}

#[test]
fn lines_of_a_metric_are_summed() {
    let text = "# HELP a_total A.\na_total{zone=\"x\",code=\"2xx\"} 3\na_total{zone=\"y\"} 4\na_total_more 5\nb 6\n";
    assert_eq!(sum_of(text, "a_total", ""), 7);
    assert_eq!(sum_of(text, "a_total", "zone=\"x\""), 3);
    assert_eq!((sum_of(text, "b", ""), sum_of(text, "c", "")), (6, 0));
}

#[test]
fn a_row_says_whether_its_goal_was_met() {
    let row = |met| Row { name: "n", goal: "g".to_owned(), figure: "f".to_owned(), met };
    assert!(shown(&row(true)).ends_with(" met") && shown(&row(false)).ends_with(" MISSED"));
}
