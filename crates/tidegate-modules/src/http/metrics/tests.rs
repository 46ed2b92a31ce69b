//! The text of the metrics.

use std::time::Duration;

use tidegate_core::counters;
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
        ..Default::default()
    };
    iterations.buckets[1] = 4;
    iterations.buckets[9] = 1;
    iterations.length_max = Duration::from_secs(2);
    let text = text::write(&connections, &[("a\\b".to_owned(), pool)], &[iterations]);
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
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
}

#[test]
fn only_get_is_served() {
    let bench = Bench::new("server { location / { metrics; } }");
    assert!(bench.get("/").text().contains("\ntidegate_connections_active "));
    assert_eq!(bench.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").status, 405);
}
