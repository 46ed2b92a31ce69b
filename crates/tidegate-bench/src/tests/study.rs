//! The suite streaming: its figures, its drawings, and one small run with genuine nginx.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use crate::chart::bars;
use crate::config::Scenario;
use crate::origin::{Origin, Trace, parts_due};
use crate::procfs::CpuTime;
use crate::server::{Kind, write_other_config};
use crate::study::Study;
use crate::study::chart::{Extent, RunChart, path};
use crate::study::figures::{Figures, OWN_COLUMNS, PUBLISHED_COLUMNS, Run, mean_wait, quantiles};
use crate::study::published::ROWS;
use crate::walk::{Visit, walk};

use super::{options, with_nginx_in_both_places};

#[test]
fn options_of_the_suite() {
    #[track_caller]
    fn check(line: &[&str], expected: &str) {
        let line: Vec<&str> = ["streaming"].iter().chain(line).copied().collect();
        let got = options(&line).map_or_else(
            |reason| reason,
            |o| format!("{} {:?} {} {:?}", o.clients, o.files, o.object_bytes, o.origin_seconds),
        );
        assert_eq!(got, expected);
    }
    check(&[], "100 None 3145728 [0.0, 1.0, 3.0]");
    check(
        &["--clients", "7", "--files", "2", "--object-mib", "0.5", "--origin-seconds", "0.1, 2"],
        "7 Some(2) 524288 [0.1, 2.0]",
    );
    check(&["--origin-seconds", "1,x"], "1,x is not a list of seconds from 0 to 60");
    check(&["--origin-seconds", "61"], "61 is not a list of seconds from 0 to 60");
    check(&["--clients", "0"], "0 is not between 1 and 2000");
    check(&["--seconds", "3"], "streaming takes as long as its files: --files, --origin-seconds");
}

/// Two clients and two files of 10 bytes; the origin gets one request for each and sends five bytes
/// at once and five a second later.
fn run() -> Run {
    let started = Instant::now();
    let at = |seconds: f64| started + Duration::from_secs_f64(seconds);
    let visit = |file, asked, arrived: &[(f64, u64)]| Visit {
        file,
        requested_at: at(asked),
        arrived: arrived.iter().map(|(when, bytes)| (at(*when), *bytes)).collect(),
        fault: None,
    };
    let trace = |target: &str, begun: f64| Trace {
        target: target.into(),
        begun: at(begun),
        sent: vec![(at(begun), 5), (at(begun + 1.0), 10)],
    };
    Run {
        visits: vec![
            vec![visit(0, 0.0, &[(0.1, 5), (1.1, 10)]), visit(1, 1.1, &[(1.2, 5), (2.2, 10)])],
            vec![visit(0, 0.5, &[(0.5, 5), (1.5, 10)]), visit(1, 1.5, &[(2.0, 10)])],
        ],
        traces: vec![trace("/0", 0.0), trace("/1", 1.1)],
        started,
        elapsed: Duration::from_secs(2),
        cpu: CpuTime { user: 1e6, system: 1e6 },
        others: 5e5,
        memory: 3 << 20,
    }
}

#[test]
fn figures_of_a_run() {
    let figures = Figures::of(&run());
    let published = PUBLISHED_COLUMNS.iter().map(|column| (column.of)(&figures));
    let published: Vec<f64> = published.map(|value| (value * 1e6).round() / 1e6).collect();
    // Waits of the bytes: 0.1 1.1, 0.1 1.1, 0 1, and 0.5 for all ten; of the first: 0.1 0.1 0 0.5.
    assert_eq!(published, [2.0, 20.0, 0.00008, 4.0, 40.0, 0.00016, 0.55, 0.175, 50.0]);
    let own = OWN_COLUMNS.iter().map(|column| (column.of)(&figures));
    let own: Vec<f64> = own.map(|value| (value * 1e3).round() / 1e3).collect();
    // The followers are both requests of the second client.
    assert_eq!(own[..8], [0.5, 100.0, 500.0, 500.0, 0.0, 500.0, 500.0, 2.0]);
    assert_eq!(own[8], 5e7);
    assert!(own[9].is_nan());
    assert_eq!(own[10..], [3.0, 25.0, 0.0]);
}

#[test]
fn wrong_responses_are_counted_and_reported() {
    let mut run = run();
    run.visits[1][1].fault = Some("status 500".to_owned());
    assert_eq!(Figures::of(&run).wrong, 1.0);
    assert_eq!(run.first_fault(), Some("status 500"));
}

#[test]
fn every_client_asks_when_nothing_is_shared() {
    let mut run = run();
    let again = run.traces.clone();
    run.traces.extend(again);
    let figures = Figures::of(&run);
    assert_eq!((figures.origin_requests, figures.hit_percent), (4.0, 0.0));
    // A file's first response alone is its schedule.
    assert_eq!(run.fills().len(), 2);
    assert_eq!(figures.origin_byte_wait_seconds, 0.5);
}

proptest! {
    #[test]
    fn mean_waits_lie_between_the_extremes(
        steps in prop::collection::vec((0.0f64..2.0, 1u64..1000), 1..20)
    ) {
        let begin = Instant::now();
        let (mut when, mut bytes, mut arrived) = (begin, 0, Vec::new());
        for (pause, more) in steps {
            when += Duration::from_secs_f64(pause);
            bytes += more;
            arrived.push((when, bytes));
        }
        let wait = mean_wait([(begin, &arrived[..])].into_iter());
        let seconds = |index: usize| (arrived[index].0 - begin).as_secs_f64();
        prop_assert!(wait >= seconds(0) - 1e-9 && wait <= seconds(arrived.len() - 1) + 1e-9);
    }

    #[test]
    fn quantiles_are_in_order(values in prop::collection::vec(0.0f64..1e6, 1..300)) {
        let [middle, high, most] = quantiles(values.clone());
        prop_assert!(middle <= high && high <= most);
        prop_assert!(values.contains(&middle) && values.contains(&high));
        prop_assert_eq!(most, values.iter().copied().fold(0.0, f64::max));
    }
}

#[test]
fn quantiles_of_little() {
    assert!(quantiles(Vec::new())[0].is_nan());
    assert_eq!(quantiles(vec![3.0]), [3.0; 3]);
    assert_eq!(quantiles((1..=100).map(f64::from).collect()), [50.0, 99.0, 100.0]);
}

#[test]
fn published_rows_agree_with_themselves() {
    for row in ROWS {
        let [asked, bytes, _, requests, received, _, wait, first, hits] = row.figures;
        assert_eq!(bytes, asked * 31_457_280.0, "{row:?}");
        assert!((received / requests / 31_457_280.0 - 1.0).abs() < 0.001, "{row:?}");
        assert!(((requests - asked) / requests * 100.0 - hits).abs() < 0.01, "{row:?}");
        assert!(first <= wait, "{row:?}");
    }
}

#[test]
fn lines_are_drawn_as_steps() {
    let extent = Extent { seconds: 48.0, bytes: 22.0 };
    let check = |line: &[(f64, f64)], expected: &str| {
        assert_eq!(path(&line.to_vec(), extent), expected);
    };
    check(&[], "");
    check(&[(0.0, 0.0)], "M56 242");
    check(&[(0.0, 0.0), (10.0, 0.0), (10.0, 11.0), (48.0, 22.0)], "M56 242H156V132H536V22");
    // Invisible steps are joined, but the last one stays.
    check(&[(0.0, 0.0), (0.1, 0.1), (0.2, 0.2), (48.0, 0.2), (48.1, 0.2)], "M56 242H536V240H537");
}

#[test]
fn charts_join_invisible_steps() {
    let run = run();
    let mut picture = RunChart::of(&run);
    let extent = RunChart::extent([&picture].into_iter());
    assert_eq!((extent.seconds, extent.bytes), (2.2, 20.0));
    picture.clients.push(picture.clients[0].clone());
    let svg = picture.svg(extent, "a \"title\" <&>");
    assert!(svg.contains("aria-label=\"a &quot;title&quot; &lt;&amp;&gt;\""), "{svg}");
    let clients = svg.split("<g class=\"clients\">").nth(1).expect("the clients' lines");
    assert_eq!(clients.split("</g>").next().map(|lines| lines.matches("<path").count()), Some(2));
    assert!(clients.contains("class=\"origin\""));
}

#[test]
fn bars_have_one_scale() {
    let values = [("a", 1.0, "x"), ("b", 2.0, "y"), ("none", f64::NAN, "z")];
    let values = values.map(|(label, value, class)| (label.to_owned(), value, class));
    let svg = bars("some", "s", &values, Some(0.5));
    assert!(svg.contains("width=\"165.0\"") && svg.contains("width=\"330.0\""), "{svg}");
    assert!(svg.contains("M232.5 0V56") && !svg.contains("none"), "{svg}");
}

#[test]
fn clients_walk_the_files_in_order() {
    let origin = Origin::start().expect("a loopback port");
    let ask = |number: u32| {
        let target = format!("/slow?ms=20&bytes=3000&chunks=2&eager=1&file={number}");
        crate::load::TestRequest::checked(target, 3000)
    };
    let mut files = vec![ask(0), ask(1), ask(2)];
    let visits = walk(origin.address(), &files, 4).expect("a walk");
    assert_eq!(visits.len(), 4);
    for visits in visits {
        assert_eq!(visits.iter().map(|visit| visit.file).collect::<Vec<_>>(), [0, 1, 2]);
        for visit in visits {
            assert_eq!(visit.fault, None);
            assert!(visit.arrived.is_sorted() && visit.arrived[0].0 >= visit.requested_at);
            assert_eq!(visit.arrived.last().map(|(_, bytes)| *bytes), Some(3000));
        }
    }
    assert_eq!(origin.take_traces().len(), 12);
    // A wrong byte ends a client's walk.
    let mut body = files[1].body.as_deref().expect("checked").to_vec();
    body[2999] ^= 1;
    files[1].body = Some(body.into());
    for visits in walk(origin.address(), &files, 2).expect("a walk") {
        let faults: Vec<_> = visits.iter().map(|visit| visit.fault.as_deref()).collect();
        let expected = "status 200, 3000 body bytes, not the expected ones";
        assert_eq!(faults, [None, Some(expected)]);
    }
}

#[test]
fn an_eager_origin_sends_its_first_part_at_once() {
    let origin = Origin::start().expect("a loopback port");
    let target = "/slow?ms=100&bytes=1000&chunks=10&eager=1";
    walk(origin.address(), &[crate::load::TestRequest::checked(target, 1000)], 1).expect("a walk");
    let traces = origin.take_traces();
    let [trace] = &traces[..] else { panic!("one request: {traces:?}") };
    let second = trace.sent.iter().find(|(_, bytes)| *bytes > 100).expect("a second part");
    // One part more than the schedule's, which may have continued if the origin was delayed.
    let (at, bytes) = trace.sent[0];
    let due = parts_due(at - trace.begun, Duration::from_millis(100), 10);
    assert_eq!(bytes, 100 * (due + 1).min(10));
    assert!(second.0 - trace.begun >= Duration::from_millis(9));
    // The last part is not that of the schedule's end.
    assert!(trace.sent.last().expect("parts").0 - trace.begun >= Duration::from_millis(89));
}

#[test]
fn other_caches_get_their_own_configuration() {
    #[track_caller]
    fn check(kind: Kind, file: &str, expected: &[&str]) {
        let directory = tempfile::tempdir().expect("a directory");
        let [listen, origin] = ["127.0.0.1:8080", "127.0.0.1:9090"].map(|it| it.parse());
        let (listen, origin) = (listen.expect("an address"), origin.expect("an address"));
        let scenario = Scenario::ProxyDefault;
        write_other_config(kind, directory.path(), listen, origin, scenario).expect("written");
        let text = std::fs::read_to_string(directory.path().join(file)).expect("the file");
        for line in expected {
            let line = line.replace("ROOT", &directory.path().display().to_string());
            assert!(text.lines().any(|it| it == line), "{line} in {text}");
        }
    }
    let backend = r#"backend origin { .host = "127.0.0.1"; .port = "9090"; }"#;
    check(Kind::Varnish, "default.vcl", &["vcl 4.1;", backend]);
    let kind = Kind::TrafficServer;
    check(kind, "runroot.yaml", &["prefix: ROOT", "sysconfdir: ROOT/conf"]);
    check(kind, "conf/remap.config", &["map / http://127.0.0.1:9090/"]);
    let port = "CONFIG proxy.config.http.server_ports STRING 8080:ip-in=127.0.0.1";
    let streams = "CONFIG proxy.config.cache.enable_read_while_writer INT 1";
    check(kind, "conf/records.config", &[port, streams]);
    let proxy = ["    bind 127.0.0.1:8080", "    server origin 127.0.0.1:9090"];
    check(Kind::HaProxy, "haproxy.cfg", &proxy);
}

#[test]
fn small_study_with_nginx_in_both_places() {
    let line = "streaming --clients 5 --files 2 --object-mib 0.1 --origin-seconds 0,0.2";
    let line: Vec<&str> = line.split(' ').collect();
    let Some((context, environment)) = with_nginx_in_both_places(&line) else { return };
    let study = Study::measure(&context, environment);
    // nginx has no proxy_cache_tempfile, which must be detected; all else is in order.
    let mut unmet = study.unmet();
    unmet.retain(|reason| !reason.ends_with("tidegate-tempfile: failed"));
    assert_eq!(unmet, [""; 0]);
    let rows: Vec<usize> = study.sections.iter().map(|section| section.rows.len()).collect();
    assert_eq!(rows, [2, 5, 5]);
    for row in study.sections.iter().flat_map(|section| &section.rows) {
        for figures in &row.runs {
            assert_eq!((figures.client_requests, figures.wrong), (10.0, 0.0), "{row:?}");
            assert!(figures.memory_mebibytes > 0.0);
        }
    }
    let text = study.text();
    assert!(text.contains("origin sends each file over 0.2 s") && text.contains("tempfile patch"));
    let json = study.json().to_string();
    assert!(json.contains(r#""name":"nginx-hits""#) && json.contains(r#""published":[{"#));
    let page = study.html();
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</body></html>\n"));
    // Two drawings of hits, four of each other section (the failed row has none), and the bars.
    assert_eq!(page.matches("<svg").count(), 2 + 4 + 4 + 2 + 4 + 4);
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    for outside in ["src=", "href=", "url(", "@import"] {
        assert!(!page.contains(outside), "{outside}");
    }
}
