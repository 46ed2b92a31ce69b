//! The command line, the configuration, and the table.

use std::ffi::OsString;
use std::time::Duration;

use super::*;

fn parsed(words: &[&str]) -> Result<Arguments, String> {
    let words = words.iter().map(OsString::from);
    parse(lexopt::Parser::from_args(words)).map_err(|error| error.to_string())
}

#[test]
fn arguments() {
    let parsed_all = parsed(&["--servers", "1", "--servers=20", "--rounds", "3"]).unwrap();
    assert_eq!((parsed_all.servers, parsed_all.rounds), (vec![1, 20], 3));
    assert_eq!(parsed(&[]).unwrap().servers, [1000]);
    for wrong in [&["--servers", "0"][..], &["--rounds", "0"], &["--servers", "x"], &["--else"]] {
        assert!(parsed(wrong).is_err(), "{wrong:?}");
    }
    assert!(run(["quick".into()]).is_none());
}

#[test]
fn each_server_has_names_and_locations_of_its_own() {
    let address = "127.0.0.1:80".parse().unwrap();
    let text = config::write(3, address, Path::new("/tmp/x"), "one");
    assert_eq!(text.matches("listen 127.0.0.1:80;").count(), 3);
    assert_eq!(text.matches("location ").count(), 9);
    assert!(text.contains("server_name site2.example.com www.site2.example.com;"));
    assert_eq!(text.matches('{').count(), text.matches('}').count());
}

#[test]
fn a_row_has_least_and_median() {
    let round = |start| Round {
        start: Duration::from_millis(start),
        cpu: Duration::from_millis(40),
        reload: Duration::from_millis(2 * start),
        longest: Duration::from_micros(500 * start),
        memory: 12_300_000,
        settled: 4_500_000 + start,
    };
    let row = row(10, "tidegate", &[round(9), round(5), round(7)]);
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(
        words,
        [
            "10", "tidegate", "5", "/", "7", "40", "10", "/", "14", "2.5", "/", "3.5", "12.3", "/",
            "4.5"
        ]
    );
}
