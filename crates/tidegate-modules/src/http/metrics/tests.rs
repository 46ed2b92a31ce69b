//! The text of the metrics.

use std::time::Duration;

use tidegate_core::counters;
use tidegate_gateway::exposition::{Exposition, Format};
use tidegate_rt::{blocking, iteration};

use super::text;
use crate::testing::Bench;

#[test]
fn every_figure_has_its_line() {
    let connections =
        counters::ConnectionFigures { accepted: 5, requests: 7, ..Default::default() };
    let pool = blocking::PoolFigures {
        queued: 2,
        finished: 9,
        waited: Duration::from_millis(1500),
        ..Default::default()
    };
    let mut iterations = iteration::IterationFigures {
        thread: "worker \"1\"".to_owned(),
        long: 3,
        long_cpu: 2,
        ..Default::default()
    };
    iterations.buckets[1] = 4;
    iterations.buckets[9] = 1;
    iterations.length_max = Duration::from_secs(2);
    let mut out = Exposition::new(Format::Prometheus);
    text::write(&connections, &[("a\\b".to_owned(), pool)], &[iterations], &mut out);
    let text = String::from_utf8(out.finish()).unwrap();
    for line in [
        "# TYPE tidegate_connections_accepted_total counter",
        "tidegate_connections_accepted_total 5",
        "tidegate_requests_total 7",
        "tidegate_thread_pool_queued{pool=\"a\\\\b\"} 2",
        "tidegate_thread_pool_finished_total{pool=\"a\\\\b\"} 9",
        "tidegate_thread_pool_wait_seconds_total{pool=\"a\\\\b\"} 1.5",
        "# TYPE tidegate_loop_turn_seconds histogram",
        "tidegate_loop_turn_seconds_bucket{thread=\"worker \\\"1\\\"\",le=\"0.00005\"} 0",
        "tidegate_loop_turn_seconds_bucket{thread=\"worker \\\"1\\\"\",le=\"0.0001\"} 4",
        "tidegate_loop_turn_seconds_bucket{thread=\"worker \\\"1\\\"\",le=\"+Inf\"} 5",
        "tidegate_loop_turn_seconds_count{thread=\"worker \\\"1\\\"\"} 5",
        "tidegate_loop_turn_seconds_max{thread=\"worker \\\"1\\\"\"} 2",
        "tidegate_loop_long_turns_total{thread=\"worker \\\"1\\\"\"} 3",
        "tidegate_loop_long_cpu_turns_total{thread=\"worker \\\"1\\\"\"} 2",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
}

#[test]
fn clients_choose_the_format() {
    for (accept, is_open) in [
        ("", false),
        ("*/*", false),
        ("text/plain", false),
        ("application/openmetrics-text", true),
        ("Application/OpenMetrics-Text;version=1.0.0", true),
        ("application/openmetrics-text; version=\"1.0.0\"; q=0.1", true),
        ("application/openmetrics-text;version=2.0.0", false),
        ("application/openmetrics-text;q=0", false),
        ("application/openmetrics-text;q=0.5, text/plain", false),
        (
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
             application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;q=0.4,\
             text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
            true,
        ),
    ] {
        let format = super::accept::format([accept.as_bytes()].into_iter());
        assert_eq!(format == Format::OpenMetrics, is_open, "{accept}");
    }
    let bench = Bench::new("server { location / { metrics; } }");
    let accept = "Accept: application/openmetrics-text\r\n";
    let reply = bench.send(&format!("GET / HTTP/1.1\r\nHost: a\r\n{accept}\r\n"));
    let text = reply.text();
    assert!(
        text.ends_with("# EOF\n") && text.contains("# TYPE tidegate_requests counter\n"),
        "{text}"
    );
    assert!(text.contains("# UNIT tidegate_process_cpu_seconds seconds\n"), "{text}");
    assert!(text.contains("# TYPE nginx_http_requests_total unknown\n"), "{text}");
}

/// Each family occurs once, in both formats, and a counter's lines have the name that OpenMetrics prescribes.
#[test]
fn families_are_unique() {
    let bench = Bench::new(
        "upstream u { zone u 64k; server 127.0.0.1:1; }
        limit_req_zone $scheme zone=r:1m rate=1r/s; limit_conn_zone $scheme zone=c:1m;
        server { status_zone s; location / { status_zone l; metrics tidegate nginx nginxplus vts ingress; } }",
    );
    for accept in ["text/plain", "application/openmetrics-text"] {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\nAccept: {accept}\r\n\r\n");
        let text = bench.send(&request).text().to_owned();
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let mut families = std::collections::BTreeMap::new();
        for family in types {
            let (name, kind) = family.split_once(' ').unwrap_or_default();
            assert_eq!(families.insert(name, kind), None, "{name} twice");
        }
        let open = accept.starts_with("application");
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        for name in samples.map(|line| line.split(['{', ' ']).next().unwrap_or_default()) {
            let kind = |end: &str| name.strip_suffix(end).and_then(|name| families.get(name));
            let mut parts = ["_bucket", "_sum", "_count"].into_iter();
            let is_part = parts.any(|end| kind(end) == Some(&"histogram"));
            let known = families.get(name).is_some_and(|kind| !open || *kind != "counter");
            let is_known = known || is_part || kind("_total") == Some(&"counter");
            assert!(is_known, "{name} is of no family in\n{text}");
        }
    }
}

#[test]
fn only_get_is_served() {
    let bench = Bench::new("server { location / { metrics; } }");
    assert!(bench.get("/").text().contains("\ntidegate_connections_active "));
    assert_eq!(bench.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").status, 405);
}

#[test]
fn words_choose_sets_of_names() {
    let bench = Bench::new(
        "upstream u { zone u 64k; server 127.0.0.1:1; server 127.0.0.1:1; }
        limit_req_zone $scheme zone=r:1m rate=1r/s;
        server { status_zone \"a\\\"b\"; location = /both { metrics; } location / { status_zone l; return 200; }
            location = /nginx { metrics nginx; } location = /plus { metrics nginxplus; } }",
    );
    bench.get("/");
    let both = bench.text("/both");
    assert!(both.contains("\ntidegate_requests_total ") && both.contains("\nnginx_up 1\n"));
    assert!(!both.contains("nginxplus"));
    assert!(bench.text("/nginx").starts_with("# HELP nginx_up "));
    let plus = bench.text("/plus");
    for line in [
        "# TYPE nginxplus_server_zone_requests counter",
        "nginxplus_server_zone_requests{server_zone=\"a\\\"b\"} 4",
        "nginxplus_location_zone_responses{code=\"2xx\",location_zone=\"l\"} 1",
        "nginxplus_location_zone_responses_codes{code=\"200\",location_zone=\"l\"} 1",
        "nginxplus_upstream_server_state{server=\"127.0.0.1:1\",upstream=\"u\"} 1",
        "nginxplus_upstream_server_limit{server=\"127.0.0.1:1\",upstream=\"u\"} 0",
        "nginxplus_upstream_keepalive{upstream=\"u\"} 0",
        "nginxplus_limit_request_passed{zone=\"r\"} 0",
        "nginxplus_ssl_handshakes 0",
    ] {
        let count = plus.lines().filter(|found| *found == line).count();
        assert_eq!(count, 1, "{line} in\n{plus}");
    }
    for wrong in ["prometheus", "nginx nginx"] {
        let errors = Bench::errors(&format!("server {{ location / {{ metrics {wrong}; }} }}"));
        assert!(errors[0].contains("invalid"), "{errors:?}");
    }
}

#[test]
fn names_of_others_show_the_same_figures() {
    let bench = Bench::new(
        "upstream u { zone u 64k; server 127.0.0.1:1; }
        server { status_zone s; location = /vts { status_zone off; metrics vts; }
            location = /ingress { status_zone off; metrics ingress; } location / { status_zone l; return 404; } }",
    );
    bench.get("/");
    let check = |text: &str, lines: &[&str]| {
        for line in lines {
            let count = text.lines().filter(|found| found == line).count();
            assert_eq!(count, 1, "{line} in\n{text}");
        }
    };
    check(
        &bench.text("/vts"),
        &[
            "# TYPE nginx_vts_server_requests_total counter",
            "nginx_vts_server_requests_total{host=\"s\",code=\"4xx\"} 1",
            "nginx_vts_server_requests_total{host=\"*\",code=\"total\"} 1",
            "nginx_vts_filter_requests_total{filter=\"location\",filter_name=\"l\",code=\"4xx\"} 1",
            "nginx_vts_server_request_duration_seconds_bucket{host=\"s\",le=\"+Inf\"} 1",
            "nginx_vts_server_request_duration_seconds_count{host=\"s\"} 1",
            "nginx_vts_upstream_requests_total{upstream=\"u\",backend=\"127.0.0.1:1\",code=\"total\"} 0",
            "nginx_vts_upstream_response_duration_seconds_sum{upstream=\"u\",backend=\"127.0.0.1:1\"} 0",
            "nginx_vts_main_shm_usage_bytes{shared=\"max_size\"} 65536",
        ],
    );
    let text = bench.text("/ingress");
    check(
        &text,
        &[
            "# TYPE nginx_ingress_controller_request_duration_seconds histogram",
            "nginx_ingress_controller_nginx_process_num_procs{controller_class=\"nginx\",controller_namespace=\"\",\
             controller_pod=\"tidegate\"} 1",
        ],
    );
    let is_line = |line: &&str| line.contains("_requests{") && line.ends_with("status=\"404\"} 1");
    let lines: Vec<&str> = text.lines().filter(is_line).collect();
    assert!(
        lines[0].contains("host=\"s\",ingress=\"s\"") && lines[1].contains("path=\"l\""),
        "{lines:?}"
    );
}

/// Texts count as long as a response has them, and before as what they are expected to be.
#[test]
fn held_texts_have_a_limit() {
    use super::held::{HELD_BYTES_MAX, Held};
    let held = Held::default();
    let part = HELD_BYTES_MAX / 4;
    let has_room = || held.reserve(0).is_some();
    let mut shares: Vec<_> = (0..4).map(|_| held.reserve(part).unwrap()).collect();
    assert!(held.reserve(1).is_none(), "those that are being made count");
    drop(shares.pop());
    assert!(has_room());
    let text = shares.pop().unwrap().hold(vec![b'x'; 2 * part]);
    assert!(!has_room(), "it is longer than expected");
    drop(shares);
    assert!(has_room());
    let slice = text.slice(..1);
    drop(text);
    let whole = held.reserve(0).unwrap().hold(vec![0; 2 * part]);
    assert!(!has_room(), "a part of a text keeps it");
    drop(slice);
    assert!(has_room());
    drop(whole);
    let huge = held.reserve(usize::MAX).unwrap();
    assert!(!has_room());
    drop(huge);
    assert!(has_room());
}
