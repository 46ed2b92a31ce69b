//! Histogram, statistics and the report's text.

use std::time::Duration;

use proptest::prelude::*;

use crate::histogram::{Histogram, bucket, bucket_upper};
use crate::json::Json;
use crate::report::{Environment, align, json, table};
use crate::server::{Binary, Kind};
use crate::statistics::{Limit, Spread, TargetResult, average_byte_wait};
use crate::suites::beside::Beside;
use crate::suites::quick::{OTHERS, disturbance};
use crate::suites::steady::reload::growth_percent;
use crate::suites::streaming::summarise;
use crate::suites::{Better, CaseReport, Measure, Row, Sample};

#[test]
fn programs_beside_are_reported_by_processor_time() {
    let side = |costs: [f64; 2]| costs.to_vec();
    let row = |name: &'static str, tidegate: [f64; 2], nginx: [f64; 2]| Row {
        case: "some",
        measure: Measure::new(name, "µs", 2),
        tidegate: side(tidegate),
        nginx: side(nginx),
        errors: 0,
        tidegate_errors: 0,
    };
    let rows = vec![
        row("requests/s", [9.0, 9.0], [9.0, 9.0]),
        row("CPU per request", [4.0, 9.0], [10.0, 12.0]),
        row("CPU taken by others", [0.0, 0.0], [0.0, 0.0]),
    ];
    let report = CaseReport { rows, notes: Vec::new() };
    let binary = Binary { kind: Kind::Nginx, path: "some".into(), version: String::new() };
    let mut beside = Beside::floor(binary);
    assert_eq!(beside.note(&report), None);
    for cost in [5.0, 6.0] {
        let sample = Sample { values: vec![1.0, cost, 2.0], ..Sample::default() };
        assert_eq!(beside.round(|_| Ok(sample)), None);
    }
    let what = "a bare loop of such calls, the lower bound,";
    let reported =
        format!("some: {what} costs 5.50 µs, 0.50 of nginx (0.50 to 0.50); Tidegate 1.15 of that");
    assert_eq!(beside.note(&report), Some(reported.clone()));
    // It is not run again after a failure, and its runs count.
    let failed = beside.round(|_| Err("no".to_owned()));
    assert_eq!(failed, Some(format!("{what}: failed: no")));
    assert_eq!(beside.round(|_| panic!("run again")), None);
    assert_eq!(beside.note(&report), Some(reported));
}

#[test]
fn histogram_of_nothing_is_zero() {
    let histogram = Histogram::default();
    assert_eq!(histogram.quantile(0.5), Duration::ZERO);
    assert_eq!(histogram.maximum(), Duration::ZERO);
}

#[test]
fn histogram_quantiles_of_one_to_thousand() {
    let mut histogram = Histogram::default();
    for microseconds in 1..=1000 {
        histogram.record(Duration::from_micros(microseconds));
    }
    #[track_caller]
    fn check(histogram: &Histogram, fraction: f64, microseconds: f64) {
        let got = histogram.quantile(fraction).as_secs_f64() * 1e6;
        assert!(got >= microseconds && got <= microseconds * 1.017, "{fraction}: {got}");
    }
    check(&histogram, 0.0, 1.0);
    check(&histogram, 0.5, 500.0);
    check(&histogram, 0.99, 990.0);
    check(&histogram, 1.0, 1000.0);
    assert_eq!(histogram.maximum(), Duration::from_micros(1000));
}

#[test]
fn histogram_counts_values_beyond_its_range() {
    let mut histogram = Histogram::default();
    histogram.record(Duration::MAX);
    assert_eq!(histogram.maximum(), Duration::from_nanos(u64::MAX));
}

proptest! {
    #[test]
    fn bucket_holds_its_value(value in 0u64..1 << 40) {
        let index = bucket(value);
        let upper = bucket_upper(index);
        prop_assert!(value <= upper);
        prop_assert!(upper - value <= value / 64);
        prop_assert!(index == 0 || bucket_upper(index - 1) < value);
    }

    #[test]
    fn spread_is_in_order(values in prop::collection::vec(-1e9f64..1e9, 1..20)) {
        let spread = Spread::of(&values).expect("values are numbers");
        prop_assert!(spread.minimum <= spread.median && spread.median <= spread.maximum);
        let below = values.iter().filter(|value| **value < spread.median).count();
        prop_assert!(below <= values.len() / 2);
    }
}

#[test]
fn spreads() {
    #[track_caller]
    fn check(values: &[f64], expected: Option<(f64, f64, f64)>) {
        let got = Spread::of(values).map(|s| (s.minimum, s.median, s.maximum));
        assert_eq!(got, expected);
    }
    check(&[], None);
    check(&[f64::NAN], None);
    check(&[4.0], Some((4.0, 4.0, 4.0)));
    check(&[3.0, 1.0], Some((1.0, 2.0, 3.0)));
    check(&[5.0, 1.0, 2.0], Some((1.0, 2.0, 5.0)));
}

#[test]
fn ratios_pair_neighbouring_runs() {
    // A machine that gets twice as slow leaves the ratio alone.
    let ratio = Spread::of_ratios(&[1.0, 2.0, 4.0], &[2.0, 4.0, 8.0]).expect("three pairs");
    assert_eq!((ratio.minimum, ratio.median, ratio.maximum), (0.5, 0.5, 0.5));
    assert_eq!(Spread::of_ratios(&[1.0], &[0.0]), None);
    assert_eq!(Spread::of_ratios(&[1.0], &[]), None);
}

#[test]
fn best_runs_are_those_at_the_good_end() {
    #[track_caller]
    fn check(better: Better, expected: Option<f64>) {
        let measure = Measure::new("some", "", 0).better(better);
        let (tidegate, nginx) = (vec![3.0, 9.0], vec![4.0, 6.0]);
        let row = Row { case: "some", measure, tidegate, nginx, errors: 0, tidegate_errors: 0 };
        assert_eq!(row.best_ratio(), expected);
    }
    check(Better::Lower, Some(0.75));
    check(Better::Higher, Some(1.5));
    check(Better::Neither, None);
}

#[test]
fn busy_machines_are_reported() {
    #[track_caller]
    fn check(tidegate: &[f64], nginx: &[f64], reported: bool) {
        let measure = Measure::new(OTHERS, "%", 0);
        let (tidegate, nginx) = (tidegate.to_vec(), nginx.to_vec());
        let rows =
            vec![Row { case: "some", measure, tidegate, nginx, errors: 0, tidegate_errors: 0 }];
        let report = CaseReport { rows, notes: Vec::new() };
        assert_eq!(disturbance(&report).is_some(), reported);
    }
    check(&[0.0, 1.0], &[2.0, 90.0], false);
    check(&[10.0], &[20.0], true);
    check(&[10.0], &[], true);
    check(&[], &[], false);
}

#[test]
fn verdicts() {
    #[track_caller]
    fn check(ratio: Option<f64>, target: Option<f64>, errors: u64, word: &str) {
        let ratio = ratio.and_then(|ratio| Spread::of(&[ratio]));
        assert_eq!(TargetResult::of(ratio, target, errors).word(), word);
    }
    check(Some(0.9), Some(0.9), 0, "met");
    check(Some(0.91), Some(0.9), 0, "missed");
    check(Some(0.5), Some(0.9), 1, "errors");
    check(None, Some(0.9), 0, "-");
    check(Some(0.5), None, 0, "-");
}

#[test]
fn requirements_hold_for_every_run() {
    #[track_caller]
    fn check(limit: Limit, tidegate: &[f64], word: &str, unmet: Option<&str>) {
        let measure = Measure::new("losses", "", 0).required(limit);
        let tidegate = tidegate.to_vec();
        // nginx's figures and errors do not matter.
        let row = Row {
            case: "some",
            measure,
            tidegate,
            nginx: vec![9.0],
            errors: 3,
            tidegate_errors: 0,
        };
        assert_eq!(row.verdict().word(), word);
        assert_eq!(row.unmet(false).as_deref(), unmet);
        if !limit.is_goal() {
            assert_eq!(row.unmet(true).as_deref(), unmet);
        }
    }
    check(Limit::Exactly(0.0), &[0.0, 0.0], "met", None);
    check(Limit::Exactly(0.0), &[0.0, 1.0], "missed", Some("some: losses is 0 to 1, must be = 0"));
    check(Limit::Exactly(0.0), &[], "missed", Some("some: losses is unknown, must be = 0"));
    check(Limit::Below(10.0), &[9.9, -3.0, f64::NAN], "met", None);
    check(Limit::Below(10.0), &[10.0], "missed", Some("some: losses is 10, must be < 10"));
    check(Limit::Below(10.0), &[f64::NAN], "-", None);
    check(Limit::MedianAtMost(1.5), &[1.0, 1.5, 9.0], "met", None);
    check(Limit::MedianAtMost(1.5), &[], "missed", None);
}

#[test]
fn strict_targets() {
    #[track_caller]
    fn check(tidegate: &[f64], nginx: &[f64], errors: (u64, u64), unmet: Option<&str>) {
        let measure = Measure { target: Some(0.9), ..Measure::new("cost", "", 0) };
        let (tidegate, nginx) = (tidegate.to_vec(), nginx.to_vec());
        let (tidegate_errors, errors) = (errors.0, errors.0 + errors.1);
        let row = Row { case: "some", measure, tidegate, nginx, errors, tidegate_errors };
        assert_eq!(row.unmet(true).as_deref(), unmet);
        assert_eq!(row.unmet(false), None);
        // Without a target only Tidegate's own faults count.
        let row = Row { measure: Measure::new("cost", "", 0), ..row };
        assert_eq!(row.unmet(true).is_some(), row.tidegate.is_empty() || tidegate_errors > 0);
    }
    check(&[0.8], &[1.0], (0, 0), None);
    check(&[2.0], &[1.0], (0, 0), Some("some: cost: ratio 2.00, target 0.90"));
    check(&[0.8], &[1.0], (2, 0), Some("some: 2 wrong responses"));
    check(&[0.8], &[1.0], (0, 2), Some("some: cost: nginx gave nothing to compare with"));
    check(&[0.8], &[], (0, 0), Some("some: cost: nginx gave nothing to compare with"));
    check(&[], &[1.0], (0, 0), Some("some: cost: failed"));
}

#[test]
fn growth_of_memory() {
    #[track_caller]
    fn check(memory: impl IntoIterator<Item = u64>, expected: Option<f64>) {
        let memory: Vec<u64> = memory.into_iter().collect();
        let got = growth_percent(&memory);
        assert_eq!(got.map(f64::round), expected, "{memory:?}: {got:?}");
    }
    check([], None);
    check([100; 11], None);
    check([100; 12], Some(0.0));
    // The first ten reloads do not count.
    check((0..10).chain([100; 20]), Some(0.0));
    check([100; 30].into_iter().chain([120; 5]), Some(20.0));
    check([100; 30].into_iter().chain([90; 5]), Some(-10.0));
    // One size out of line is no growth, nor does one hide it.
    check([100; 30].into_iter().chain([500, 100, 100, 100, 100]), Some(0.0));
    check([100; 30].into_iter().chain([150, 150, 150, 1, 150]), Some(50.0));
    check([0; 40], None);
}

#[test]
fn facts_have_no_ratio() {
    let measure = Measure::new("pid", "", 0).better(Better::Fact);
    let (tidegate, nginx) = (vec![10.0], vec![20.0]);
    let row = Row { case: "some", measure, tidegate, nginx, errors: 0, tidegate_errors: 0 };
    assert_eq!((row.ratio(), row.best_ratio()), (None, None));
}

#[test]
fn byte_waits() {
    #[track_caller]
    fn check(sent: &[(f64, u64)], arrived: &[(f64, u64)], expected: f64) {
        let got = average_byte_wait(sent, arrived);
        assert!((got - expected).abs() < 1e-9, "{got} is not {expected}");
    }
    let sent = [(0.0, 10), (1.0, 20)];
    check(&sent, &[], 0.0);
    check(&[], &[(1.0, 10)], 0.0);
    check(&sent, &[(0.0, 10), (1.0, 20)], 0.0);
    // All at the end: ten bytes waited one second, ten none.
    check(&sent, &[(1.0, 20)], 0.5);
    // The cuts of reading are not those of sending.
    check(&sent, &[(0.0, 5), (2.0, 15), (2.0, 20)], (5.0 * 2.0 + 10.0 * 1.0) / 20.0);
    check(&sent, &[(3.0, 5)], 3.0);
}

#[test]
fn streaming_figures() {
    let sent = [(0.0, 10), (1.0, 20)];
    let live = vec![(0.0, 10), (1.0, 20)];
    let late = vec![(1.0, 20)];
    let got = summarise(1, &sent, &[live, late.clone(), late]);
    assert_eq!(got, [1.0, 1000.0, 1000.0, 0.0, 500.0, 500.0]);
    assert!(summarise(2, &sent, &[])[1].is_nan());
}

#[test]
fn json_escapes_and_has_no_infinity() {
    let value = Json::Object(vec![
        ("text", Json::text("a \"b\" \\ \n")),
        ("list", Json::numbers(&[1.0, 2.5, f64::INFINITY])),
        ("none", Json::Null),
    ]);
    let expected = r#"{"text":"a \"b\" \\ \u000a","list":[1,2.5,null],"none":null}"#;
    assert_eq!(value.to_string(), expected);
}

#[test]
fn columns_are_aligned_by_characters() {
    let lines = [["µs".to_owned(), "b".to_owned()], ["abc".to_owned(), "d".to_owned()]];
    assert_eq!(align(&lines), "µs   b\n---  -\nabc  d\n");
}

#[test]
fn report_without_nginx_says_so() {
    let environment = Environment {
        kernel: "6.1".to_owned(),
        processor: "some × 2".to_owned(),
        tidegate: "tidegate 0.1".to_owned(),
        nginx: "not installed".to_owned(),
        nginx_installed: false,
        runs: "1 round".to_owned(),
    };
    let measure = Measure { target: Some(0.92), ..Measure::new("CPU per request", "µs", 2) };
    let row = Row {
        case: "fixed",
        measure,
        tidegate: vec![3.5],
        nginx: Vec::new(),
        errors: 0,
        tidegate_errors: 0,
    };
    let reports = [CaseReport { rows: vec![row], notes: vec!["fixed: a remark".to_owned()] }];
    let text = table(&environment, &reports);
    let line = text.lines().find(|line| line.starts_with("fixed")).expect("the case's line");
    assert!(line.contains("3.50      not installed"), "{line}");
    assert!(line.ends_with("≤ 0.92  -"), "{line}");
    assert!(text.ends_with("note: fixed: a remark\n"), "{text}");
    let text = json(&environment, &reports).to_string();
    assert!(text.contains(r#""nginx":null,"ratio":null"#), "{text}");
    assert!(text.contains(r#""runs":[3.5]"#), "{text}");
    assert!(text.contains(r#""required":null"#), "{text}");
}
