//! The suite tuning: its configurations, the results of its figures, and one small run with genuine
//! nginx on both sides.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use crate::config::tuning::Knobs;
use crate::config::{Scenario, Setup, generate};
use crate::load::{Bound, Load, LossPolicy, Mode, Plan, TestRequest};
use crate::options::Suite;
use crate::origin::Origin;
use crate::procfs::{ESTABLISHED, parse_sockets, parse_watched};
use crate::statistics::{Limit, TargetResult};
use crate::suites::tuning::advice::advice;
use crate::suites::tuning::figures::{find, gain, gains};
use crate::suites::tuning::table::{json, targets, text};
use crate::suites::tuning::{
    CASES, COST, Case, GOALS, MEASURES, RATE, html, percent, shares, with_bases,
};
use crate::suites::{CaseReport, Row, cases, measure};

use super::{options, with_nginx_in_both_places};

fn named(names: &[&str]) -> Vec<Case> {
    CASES.into_iter().filter(|case| names.contains(&case.name)).collect()
}

#[test]
fn options_of_the_suite() {
    let got = options(&["tuning", "--rows", "^a", "--html", "p"]).expect("in order");
    assert_eq!(got.suite, Suite::Tuning);
    assert_eq!((got.connections, got.rounds, got.run_time), (100, 3, Duration::from_secs(2)));
    assert!(got.rows.is_some_and(|rows| rows.0.is_match(b"all").unwrap_or(false)));
    for (line, reason) in [
        (&["tuning", "--rows", "("][..], "(: PCRE2"),
        (&["quick", "--rows", "a"], "--rows is for tuning"),
        (&["tuning", "--seconds", "61"], "--seconds 61 is not between 0.1 and 60"),
        (&["tuning", "quick"], "unexpected argument"),
    ] {
        let got = options(line).map(|_| ()).expect_err("not in order");
        assert!(got.starts_with(reason), "{got}");
    }
}

#[test]
fn default_settings_are_not_written() {
    let text = |knobs: Knobs| {
        let second = "127.0.0.1:3".parse().ok();
        generate(&Setup {
            scenario: Scenario::Tuning(knobs, second),
            directory: Path::new("/prefix"),
            listen: "127.0.0.1:1".parse().expect("an address"),
            origin: "127.0.0.1:2".parse().expect("an address"),
            worker_connections: 0,
            privileged: false,
            tempfile_directive: false,
            watchdog: false,
            generation: 0,
        })
    };
    let none = text(Knobs::NONE);
    assert!(none.contains("        location / {\n            proxy_pass http://127.0.0.1:2;\n"));
    for word in ["worker_", "upstream", "keepalive", "deferred", "reuseport", "accept", "version"] {
        assert!(!none.contains(word), "{word}: {none}");
    }
    let all = text(Knobs {
        fixed: false,
        workers: Some("3"),
        affinity: true,
        connections: Some(99),
        accept_mutex: Some(false),
        multi_accept: true,
        deferred: true,
        reuseport: true,
        upstream: true,
        keepalive: true,
        second: true,
    });
    for line in [
        "worker_processes 3;",
        "worker_cpu_affinity auto;",
        "worker_connections 99;",
        "accept_mutex off;",
        "multi_accept on;",
        "listen 127.0.0.1:1 deferred reuseport;",
        "server 127.0.0.1:2;\n        server 127.0.0.1:3;\n        keepalive 32;",
        "keepalive_requests 2000;",
        "proxy_http_version 1.1;",
        "proxy_pass http://origin;",
    ] {
        assert!(all.contains(line), "{line}: {all}");
    }
    let fixed = text(Knobs { fixed: true, ..Knobs::NONE });
    assert!(fixed.contains("return 200") && !fixed.contains("proxy_pass"), "{fixed}");
}

#[test]
fn rows_include_the_rows_that_they_are_compared_with() {
    let check = |names: &[&str], expected: &[&str]| {
        let got: Vec<&str> = with_bases(&named(names)).iter().map(|case| case.name).collect();
        assert_eq!(got, expected);
    };
    check(&["default"], &["default"]);
    check(&["keepalive-second"], &["default", "upstream", "keepalive", "keepalive-second"]);
    check(&["return-all"], &["return", "return-workers", "return-events", "return-all"]);
    check(&["apart", "skew"], &["default", "apart", "skew"]);
    check(&[], &[]);
    // Every row that another names is there, and does not lead back to itself.
    for case in &CASES {
        assert!(with_bases(&[*case]).len() <= 5, "{}", case.name);
        assert_eq!(CASES.iter().filter(|other| other.name == case.name).count(), 1);
        for base in case.base.into_iter().chain(case.default_row()) {
            assert_eq!(named(&[base]).len(), 1, "{base}");
        }
    }
}

/// A report with the figures of one measure of one row.
fn report(case: &'static str, measure: &str, tidegate: &[f64], nginx: &[f64]) -> CaseReport {
    let measure = *MEASURES.iter().find(|known| known.name == measure).expect("a measure");
    let (tidegate, nginx) = (tidegate.to_vec(), nginx.to_vec());
    let row = Row { case, measure, tidegate, nginx, errors: 0, tidegate_errors: 0 };
    CaseReport { rows: vec![row], notes: Vec::new() }
}

#[test]
fn gains_are_in_percent_of_the_same_round() {
    assert_eq!(gains(&[150.0, 80.0, 1.0], &[100.0, 100.0]), [50.0, -20.0]);
    let reports = [
        report("default", RATE, &[100.0, 200.0], &[50.0]),
        report("keepalive", RATE, &[100.0, 300.0], &[100.0]),
    ];
    let row = gain(&named(&["keepalive"])[0], &reports).expect("both are there");
    assert_eq!((row.tidegate, row.nginx), (vec![0.0, 50.0], vec![100.0]));
    assert!(gain(&named(&["return-all"])[0], &reports).is_none());
    assert!(gain(&named(&["skew"])[0], &reports).is_none());
}

#[test]
fn targets_are_made_of_two_rows() {
    let reports = [
        report("own-tuned", COST, &[8.0, 9.0], &[10.0, 10.0]),
        report("keepalive", RATE, &[10.0], &[1.0]),
        report("2-keepalive", RATE, &[15.0], &[1.0]),
    ];
    let rows =
        |many| -> Vec<Row> { GOALS.iter().filter_map(|goal| goal.row(&reports, many)).collect() };
    let [cost, threads] = &rows(true)[..] else { panic!("two are measured") };
    assert_eq!((&cost.tidegate[..], cost.verdict()), (&[0.8, 0.9][..], TargetResult::Met));
    assert_eq!((&threads.tidegate[..], threads.verdict()), (&[1.5][..], TargetResult::Missed));
    assert!(threads.unmet(true).is_some() && threads.unmet(false).is_none());
    // With two processors two threads cannot be twice as fast.
    assert_eq!(rows(false)[1].verdict(), TargetResult::None);
    let report = CaseReport { rows: rows(true), notes: Vec::new() };
    let lines = targets(&[report]);
    assert_eq!(lines[1][1..], ["0.85", "≤ 0.86", "met"]);
    assert_eq!(lines[2][1..], ["1.50", "≥ 1.8", "missed"]);
    assert_eq!(Limit::MedianAtLeast(1.0).judge(&[0.5, 1.0, 2.0]), TargetResult::Met);
}

#[test]
fn advice_names_settings_with_an_effect() {
    let reports = [
        report("default", RATE, &[1000.0, 1010.0], &[100.0, 110.0]),
        report("upstream", RATE, &[1000.0, 1000.0], &[100.0, 100.0]),
        report("keepalive", RATE, &[1010.0, 1010.0], &[300.0, 300.0]),
        report("multi-accept", RATE, &[1500.0, 1500.0], &[50.0, 50.0]),
    ];
    let lines = advice(&reports);
    assert_eq!(
        lines[0],
        "Tidegate's default: 1005 requests/s; nginx's best row, keepalive: 300; that is 335 %"
    );
    let of = |knob: &str| lines.iter().find(|line| line.starts_with(knob)).expect("a line");
    assert!(of("keepalive 32").contains(": nginx +200 %, Tidegate nothing (+1 %) (512 idle"));
    assert!(
        of("multi_accept").ends_with("nginx -52 %: better without, Tidegate +49 %"),
        "{lines:?}"
    );
    assert!(of("for Tidegate").ends_with("on this machine: multi_accept on"));
    // The rounds of nginx's default are ten in a hundred and five apart.
    assert!(of("steps below").contains("10 %"), "{lines:?}");
    assert_eq!(advice(&[]), Vec::<String>::new());
    // Where the same row is twice as fast in another round, there is no result.
    let reports = [
        report("default", RATE, &[1000.0, 1000.0], &[100.0, 200.0]),
        report("upstream", RATE, &[1000.0, 1000.0], &[100.0, 100.0]),
    ];
    let lines = advice(&reports);
    assert!(
        lines.len() == 2 && lines[1].starts_with("rounds of the same row differ by 67 %"),
        "{lines:?}"
    );
}

#[test]
fn loops_are_found_by_the_descriptors_of_epoll_instances() {
    let epolls =
        BTreeMap::from([(3, vec![4, 10, 11]), (4, vec![12]), (5, vec![13, 20]), (6, vec![7])]);
    let clients = BTreeSet::from([10, 11, 12, 13]);
    assert_eq!(shares(&epolls, &clients), [3, 1]);
    let twice = BTreeMap::from([(3, vec![10, 11]), (4, vec![10, 11]), (5, vec![12])]);
    assert_eq!(shares(&twice, &clients), [2, 1]);
    // An instance that watches itself is handled.
    assert_eq!(shares(&BTreeMap::from([(3, vec![3])]), &clients), []);
    assert_eq!(percent(vec![40, 60], 2), 20.0);
    assert_eq!(percent(vec![100], 2), 100.0);
    let text = "pos:\t0\nflags:\t02\ntfd:       12 events: 80000019 data: 1  pos:0 ino:1 sdev:9\ntfd: x\ntfd:\n";
    assert_eq!(parse_watched(text), [12]);
    let text = "  sl  local_address rem_address st\n\
        0: 0100007F:1F90 0100007F:A000 01 00000000:00000000 00:00000000 00000000 0 0 77 1\n\
        1: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 78 1\n\
        2: 0100007F:A000 0100007F:1F90 01 00000000:00000000 00:00000000 00000000 0 0 79 1\n";
    assert_eq!(parse_sockets(text, 8080, ESTABLISHED), BTreeSet::from(["socket:[77]".to_owned()]));
}

#[test]
fn paced_requests_are_due_at_even_times() {
    let origin = Origin::start().expect("a loopback port");
    let plan = Plan {
        address: origin.address(),
        asks: vec![TestRequest::checked("/bytes?n=10", 10)],
        connections: 3,
        mode: Mode::KeepAlive,
        loss_policy: LossPolicy::Count,
    };
    let mut load = Load::new(plan).expect("epoll");
    // The last of them is due after 99 ms: no machine is so slow that the bound of time ends the run.
    let bound = Bound { duration: Duration::from_secs(60), requests_max: 100 };
    let outcome = load.run_paced(bound, 1000.0).expect("epoll");
    assert_eq!((outcome.requests, outcome.errors), (100, 0), "{:?}", outcome.first_error);
    assert!(outcome.elapsed >= Duration::from_millis(99));
    // A request that waits for one of three connections has waited since it was due.
    let slow = TestRequest::counted("/slow?ms=20&bytes=10&chunks=1", 10);
    let plan = Plan { asks: vec![slow], connections: 1, ..load_plan(&origin) };
    let mut load = Load::new(plan).expect("epoll");
    let bound = Bound { duration: Duration::from_secs(60), requests_max: 5 };
    let outcome = load.run_paced(bound, 1e6).expect("epoll");
    assert_eq!((outcome.requests, outcome.errors), (5, 0), "{:?}", outcome.first_error);
    assert!(outcome.latency.maximum() >= Duration::from_millis(99), "{outcome:?}");
}

fn load_plan(origin: &Origin) -> Plan {
    Plan {
        address: origin.address(),
        asks: Vec::new(),
        connections: 1,
        mode: Mode::KeepAlive,
        loss_policy: LossPolicy::Count,
    }
}

#[test]
fn small_run_with_nginx_in_both_places() {
    let line = ["tuning", "--seconds", "0.1", "--rounds", "1", "--connections", "2"];
    let Some((context, environment)) = with_nginx_in_both_places(&line) else { return };
    let wanted = ["direct", "default", "all", "return", "together", "own-tuned", "paced", "skew"];
    let chosen: Vec<_> =
        cases(Suite::Tuning).into_iter().filter(|case| wanted.contains(&case.name())).collect();
    let reports = measure(&context, &chosen, |_| ());
    let notes: Vec<&String> = reports.iter().flat_map(|report| &report.notes).collect();
    assert!(!notes.iter().any(|note| note.contains("failed")), "{notes:?}");
    for name in &wanted[..6] {
        let rate = find(&reports, name, RATE).expect("a row");
        assert_eq!((rate.tidegate.len(), rate.nginx.len(), rate.errors), (1, 1, 0), "{rate:?}");
        assert!(rate.tidegate[0] > 0.0);
    }
    let tail = find(&reports, "paced", "p99").expect("a row");
    assert!(tail.tidegate[0] > 0.0 && tail.nginx[0] > 0.0);
    let counted = find(&reports, "skew", "connections counted").expect("a row");
    assert_eq!((counted.tidegate[0], counted.nginx[0]), (1000.0, 1000.0));
    let report = text(&environment, &reports);
    for part in ["== return 200 alone", "p99 at 80 % of what nginx can do", "Tidegate's default:"] {
        assert!(report.contains(part), "{part}: {report}");
    }
    let json = json(&environment, &reports).to_string();
    assert!(json.contains(r#""case":"all","measure":"gain""#) && json.contains(r#""advice":["#));
    let page = html(&environment, &reports);
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</body></html>\n"));
    assert_eq!(page.matches("<svg").count(), 8);
    for outside in ["src=", "href=", "url(", "@import"] {
        assert!(!page.contains(outside), "{outside}");
    }
}
