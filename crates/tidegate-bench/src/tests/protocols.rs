//! The suite protocols: its options, configurations and rows, and a small run.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use super::{options, with_nginx_in_both_places};
use crate::config::fairness::Port;
use crate::config::protocols::{Form, Part, Places, Quic};
use crate::config::{Scenario, Setup, generate};
use crate::options::Suite;
use crate::report::table;
use crate::statistics::{Limit, TargetResult};
use crate::suites::{Measure, NOT_SERVED, Row, cases, is_not_served, measure};

#[test]
fn options_of_the_suite() {
    let defaults = options(&["protocols"]).expect("the suite");
    assert_eq!((defaults.suite, defaults.rounds), (Suite::Protocols, 3));
    assert_eq!((defaults.run_time, defaults.idle_connections), (Duration::from_secs(1), 3_000));
    assert_eq!(defaults.reload_time, Duration::from_secs(6));
    let line = ["protocols", "--reload-seconds", "60", "--idle-connections", "9"];
    let given = options(&line).expect("in order");
    assert_eq!((given.reload_time, given.idle_connections), (Duration::from_secs(60), 9));
    assert!(options(&["protocols", "--reload-seconds", "0"]).is_err());
    assert_eq!(options(&["quick"]).expect("a suite").idle_connections, 10_000);
}

#[test]
fn every_form_and_part_is_a_configuration() {
    let address: SocketAddr = "127.0.0.1:8000".parse().expect("an address");
    for (part, form, has, has_not) in [
        (Part::Front, Form::Directive, vec!["http2 on;", "listen 127.0.0.1:2 ssl;"], "upstream"),
        (Part::Front, Form::Listen, vec!["listen 127.0.0.1:1 http2;", "ssl http2;"], "http2 on"),
        (Part::Front, Form::Absent, vec!["listen 127.0.0.1:1;"], "http2"),
        (Part::Impatient, Form::Directive, vec!["send_timeout 2s;"], "upstream"),
        (
            Part::Proxy,
            Form::Directive,
            vec!["proxy_http_version 2;", "server 127.0.0.1:4;"],
            "grpc",
        ),
        (Part::Grpc, Form::Directive, vec!["grpc_pass grpc://origin;"], "proxy_pass"),
    ] {
        let [plain, ecdsa, rsa, origin] = [1, 2, 3, 4].map(Port);
        let text = generate(&Setup {
            scenario: Scenario::Protocols(Places {
                plain,
                ecdsa,
                rsa,
                origin,
                part,
                form,
                quic: None,
            }),
            directory: Path::new("/d"),
            listen: address,
            origin: address,
            worker_connections: 100,
            privileged: false,
            tempfile_directive: false,
            watchdog: false,
            generation: 7,
        });
        for part in has {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains(has_not), "{has_not}: {text}");
        assert_eq!(text.matches('{').count(), text.matches('}').count(), "{text}");
        assert_eq!(text.matches("return 200 \"7\";").count(), 4, "{text}");
    }
}

#[test]
fn http3_is_a_server_of_its_own() {
    for (gso, several, generation, has) in [
        (false, false, 9, vec!["worker_processes 1;", "listen 127.0.0.1:5 quic;"]),
        (true, false, 0, vec!["quic_gso on;", "ssl_ecdh_curve X25519;"]),
        (false, true, 8, vec!["worker_processes 2;", "listen 127.0.0.1:5 quic reuseport;"]),
        (false, true, 9, vec!["worker_processes 4;"]),
        (false, true, 16, vec!["worker_processes 4;"]),
        (false, true, 17, vec!["worker_processes 2;"]),
    ] {
        let [plain, ecdsa, rsa, origin, port] = [1, 2, 3, 4, 5].map(Port);
        let quic = Some(Quic { port, gso, several });
        let (part, form) = (Part::Front, Form::Directive);
        let text = generate(&Setup {
            scenario: Scenario::Protocols(Places { plain, ecdsa, rsa, origin, part, form, quic }),
            directory: Path::new("/d"),
            listen: "127.0.0.1:8000".parse().expect("an address"),
            origin: "127.0.0.1:8000".parse().expect("an address"),
            worker_connections: 100,
            privileged: false,
            tempfile_directive: false,
            watchdog: false,
            generation,
        });
        for part in has {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(text.contains("quic_gso"), gso, "{text}");
        assert_eq!(text.matches('{').count(), text.matches('}').count(), "{text}");
    }
}

#[test]
fn what_is_not_served_is_neither_met_nor_missed() {
    let row = |measure: Measure, tidegate: Vec<f64>| Row {
        case: "some",
        measure,
        tidegate,
        nginx: vec![2.0, 2.0],
        errors: 0,
        tidegate_errors: 0,
    };
    let target = Measure { target: Some(0.5), ..Measure::new("cost", "", 0) };
    let required = Measure::new("cost", "", 0).required(Limit::Exactly(0.0));
    for measure in [target, required] {
        let row = row(measure, vec![NOT_SERVED, NOT_SERVED]);
        assert!(is_not_served(&row.tidegate));
        assert_eq!((row.ratio(), row.verdict()), (None, TargetResult::None));
        assert_eq!(row.unmet(false), None);
        assert_eq!(row.unmet(true).as_deref(), Some("some: cost: not served"));
    }
    assert_eq!(row(Measure::new("cost", "", 0), vec![NOT_SERVED]).unmet(true), None);
    for served in [vec![], vec![1.0], vec![NOT_SERVED, 1.0], vec![f64::NAN]] {
        assert!(!is_not_served(&served), "{served:?}");
    }
}

/// An nginx of any age: without `http2 on` HTTP/2 is a parameter of `listen`, and without HTTP/2 to origins the proxy
/// is not served, nor are the rows of HTTP/3 without it.
#[test]
fn small_run_with_nginx_in_both_places() {
    let line = ["protocols", "--seconds", "0.1", "--rounds", "1", "--idle-connections", "20"];
    let Some((context, environment)) = with_nginx_in_both_places(&line) else { return };
    let served = ["h2-tiny", "h2c-16k", "https-tiny", "handshake-rsa", "handshake-resumed"];
    let others =
        ["idle-h2", "idle-https", "grpc", "proxy-h2", "h3-tiny", "handshake-h3", "idle-h3"];
    let is_wanted = |name: &str| served.contains(&name) || others.contains(&name);
    let chosen: Vec<_> =
        cases(Suite::Protocols).into_iter().filter(|case| is_wanted(case.name())).collect();
    assert_eq!(chosen.len(), served.len() + others.len());
    let reports = measure(&context, &chosen, |_| ());
    let notes: Vec<&String> = reports.iter().flat_map(|report| &report.notes).collect();
    assert!(!notes.iter().any(|note| note.contains("failed")), "{notes:?}");
    for row in reports.iter().flat_map(|report| &report.rows) {
        assert_eq!((row.tidegate.len(), row.nginx.len(), row.errors), (1, 1, 0), "{row:?}");
        // An nginx may be built without HTTP/3.
        let is_served = row.case != "proxy-h2" && !row.case.contains("h3");
        if is_served {
            assert!(row.tidegate[0].is_finite() && row.nginx[0].is_finite(), "{row:?}");
        }
    }
    let text = table(&environment, &reports);
    let is_old = environment.nginx.contains("nginx/1.2");
    assert_eq!(text.contains("not served"), is_old, "{text}");
    assert_eq!(notes.iter().any(|note| note.contains("invalid value \"2\"")), is_old, "{notes:?}");
}
