//! Expressions, what watchers get, and what they lose.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;

use super::filter::{Filter, fuzz_log_query};
use super::record::{NUMBERS, Record, TEXTS};
use super::watchers::{self, LINES_MAX, Next};

fn record(status: u64, seconds: f64, uri: &str) -> Record {
    let mut record = Record::default();
    record.numbers[0] = status;
    record.numbers[1] = (seconds * 1e6) as u64;
    record.numbers[2] = 2048;
    let place = TEXTS.iter().position(|field| field.name == "uri").unwrap();
    record.texts[place] = uri.as_bytes().to_vec();
    record
}

#[test]
fn expressions_hold_for_the_requests_that_they_describe() {
    let record = record(502, 1.5, "/a b?q=1");
    for (text, expected) in [
        ("", true),
        ("  ", true),
        ("status=502", true),
        ("status >= 500 and time > 1s", true),
        ("status>=500 and time>1500ms", false),
        ("time >= 1.5", true),
        ("time < 1.5 or sent = 2k", true),
        ("sent>2k or sent<2k", false),
        ("not status = 502", false),
        ("not (status = 1 or status = 2)", true),
        ("status = 1 or status = 2 and status = 502", false),
        ("(status = 1 or status = 502) and uri ~ 'a b'", true),
        ("uri = \"/a b?q=1\"", true),
        ("uri !~ /a", false),
        ("uri != /b", true),
        ("user = ''", true),
        ("status == 502", true),
        ("status <= 501", false),
    ] {
        let filter = Filter::compile(text).unwrap();
        assert_eq!(filter.holds(&record), expected, "{text}");
    }
}

#[test]
fn mistakes_are_named_with_their_place() {
    for (text, at, what) in [
        ("statuz = 1", 1, "unknown field \"statuz\""),
        ("status = x", 10, "invalid number"),
        ("time > 1parsec", 8, "invalid time"),
        ("sent > -1", 8, "invalid size"),
        ("status ~ 5", 8, "compares texts"),
        ("uri > 5", 5, "compares numbers"),
        ("status 500", 8, "expected `=`"),
        ("status =", 9, "expected a value"),
        ("status = 1 status = 2", 12, "expected `and`"),
        ("(status = 1", 12, "expected `)`"),
        ("status = 1 and", 15, "expected a field"),
        ("uri = 'x", 7, "unclosed quote"),
        ("!status", 1, "unexpected `!`"),
        ("= 1", 1, "expected a field"),
    ] {
        let error = Filter::compile(text).unwrap_err();
        assert!(error.what.contains(what), "{text}: {error}");
        assert_eq!(error.at, at, "{text}: {error}");
    }
    let deep = format!("{}status = 1{}", "(".repeat(40), ")".repeat(40));
    assert!(Filter::compile(&deep).unwrap_err().what.contains("too deep"));
    assert!(Filter::compile(&"not ".repeat(40)).unwrap_err().what.contains("too deep"));
    let wide = vec!["status=1"; 65].join(" or ");
    assert!(Filter::compile(&wide).unwrap_err().what.contains("more than 64 tests"));
    assert!(Filter::compile(&"x".repeat(1025)).unwrap_err().what.contains("more than 1024"));
}

fn taken(watcher: &watchers::Watcher) -> Option<Next> {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(watcher.next()).poll(&mut context) {
        Poll::Ready(next) => Some(next),
        Poll::Pending => None,
    }
}

/// One test, since the list is the process's: others would see its requests.
#[test]
fn watchers_get_their_requests_and_learn_what_they_lost() {
    let filter = |text: &str| Filter::compile(text).unwrap();
    let errors = watchers::add(filter("status >= 500 and uri ~ /t"), 1).unwrap();
    assert!(watchers::exist());
    assert_eq!(taken(&errors), None);
    watchers::offer(&record(200, 0.1, "/t"));
    assert_eq!(taken(&errors), None);
    watchers::offer(&record(500, 0.1, "/t"));
    let Some(Next::Lines(text)) = taken(&errors) else { panic!("no line") };
    let line: serde_json::Value = serde_json::from_slice(&text).unwrap();
    assert_eq!((line["status"].as_u64(), line["time"].as_f64()), (Some(500), Some(0.1)));
    // One that reads nothing.
    for _ in 0..LINES_MAX + 7 {
        watchers::offer(&record(500, 0.1, "/t"));
    }
    let (mut lines, mut last) = (0, String::new());
    while let Some(Next::Lines(text)) = taken(&errors) {
        let text = String::from_utf8(text).unwrap();
        lines += text.lines().count();
        last = text.lines().last().unwrap().to_owned();
    }
    assert_eq!((lines, last.as_str()), (LINES_MAX + 1, "{\"dropped\":7}"));
    // A reload ends it, and not those of the new generation.
    let newer = watchers::add(filter("uri = /none"), 2).unwrap();
    watchers::end_before(2);
    assert_eq!((taken(&errors), taken(&newer)), (Some(Next::End), None));
    drop(errors);
    let many: Vec<_> =
        (1..watchers::WATCHERS_MAX).map(|_| watchers::add(filter("uri = /none"), 3)).collect();
    assert!(many.iter().all(Result::is_ok));
    assert!(watchers::add(filter(""), 3).is_err());
    drop((many, newer));
    assert!(!watchers::exist());
}

proptest! {
    #[test]
    fn any_text_is_an_expression_or_an_error(text in "\\PC*") {
        fuzz_log_query(text.as_bytes());
    }

    #[test]
    fn words_of_expressions_in_any_order(
        words in prop::collection::vec(prop::sample::select(vec![
            "(", ")", "not", "and", "or", "status", "uri", "=", "~", "<=", "500", "1s", "'x'", "!", "é",
        ]), 0..20),
    ) {
        fuzz_log_query(words.join(" ").as_bytes());
    }

    #[test]
    fn each_record_is_one_line_of_json(
        texts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), TEXTS.len()),
        numbers in prop::collection::vec(any::<u64>(), NUMBERS.len()),
    ) {
        let mut record = Record::default();
        for (place, text) in texts.into_iter().enumerate() {
            record.texts[place] = text;
        }
        record.numbers.copy_from_slice(&numbers);
        let line = String::from_utf8(record.line()).unwrap();
        prop_assert_eq!(line.lines().count(), 1);
        prop_assert!(serde_json::from_str::<serde_json::Value>(&line).unwrap().is_object());
    }
}
