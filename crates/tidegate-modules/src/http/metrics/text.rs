//! Metrics as text: the exposition format of Prometheus, version 0.0.4.

use std::time::Duration;

use tidegate_core::counters;
use tidegate_gateway::exposition::{head, line};
use tidegate_rt::blocking;
use tidegate_rt::iteration;

/// A metric of thread pools: name, type, help text, and how to read it.
type PoolRow = (&'static str, &'static str, &'static str, fn(&blocking::PoolFigures) -> f64);

const POOL_ROWS: [PoolRow; 10] = [
    ("threads", "gauge", "Threads.", |f| f.threads as f64),
    ("queued", "gauge", "Jobs that wait for a thread.", |f| f.queued as f64),
    ("running", "gauge", "Jobs that run.", |f| f.running as f64),
    ("finished_total", "counter", "Jobs that have ended.", |f| f.finished as f64),
    ("refused_total", "counter", "Jobs that found the queue full.", |f| f.refused as f64),
    ("cancelled_total", "counter", "Jobs that were cancelled before they ran.", |f| {
        f.cancelled as f64
    }),
    ("wait_seconds_total", "counter", "Time in the queue.", |f| f.waited.as_secs_f64()),
    ("wait_seconds_max", "gauge", "Longest time in the queue.", |f| f.waited_max.as_secs_f64()),
    ("run_seconds_total", "counter", "Time of running.", |f| f.ran.as_secs_f64()),
    ("run_seconds_max", "gauge", "Longest time of running.", |f| f.ran_max.as_secs_f64()),
];

/// Writes the whole text.
pub(super) fn write(
    connections: &counters::ConnectionFigures,
    pools: &[(String, blocking::PoolFigures)],
    loops: &[iteration::IterationFigures],
) -> String {
    let mut out = String::new();
    write_connections(connections, &mut out);
    for (name, kind, help, value) in POOL_ROWS {
        let name = format!("tidegate_thread_pool_{name}");
        head(&name, kind, help, &mut out);
        for (pool, figures) in pools {
            line(&name, &[("pool", pool)], value(figures), &mut out);
        }
    }
    write_loops(loops, &mut out);
    out
}

/// Writes how many requests had each verdict.
pub(super) fn write_verdicts(
    verdicts: impl Iterator<Item = (&'static str, u64)>,
    out: &mut String,
) {
    let name = "tidegate_verdict_total";
    head(name, "counter", "Requests by the cause that took most of their time.", out);
    for (verdict, count) in verdicts {
        line(name, &[("verdict", verdict)], count as f64, out);
    }
}

fn write_connections(figures: &counters::ConnectionFigures, out: &mut String) {
    let rows = [
        ("connections_accepted_total", "counter", "Connections accepted.", figures.accepted),
        ("connections_handled_total", "counter", "Connections served.", figures.handled),
        ("requests_total", "counter", "Requests.", figures.requests),
        ("connections_active", "gauge", "Open connections.", figures.active),
        (
            "connections_reading",
            "gauge",
            "Connections from which a request is being received.",
            figures.reading,
        ),
        (
            "connections_writing",
            "gauge",
            "Connections to which a response is being sent.",
            figures.writing,
        ),
        ("connections_waiting", "gauge", "Idle connections.", figures.waiting),
    ];
    for (name, kind, help, value) in rows {
        let name = format!("tidegate_{name}");
        head(&name, kind, help, out);
        line(&name, &[], value as f64, out);
    }
}

/// Writes what `stub_status` shows, under the names of nginx' exporter.
pub(super) fn write_nginx(figures: &counters::ConnectionFigures, out: &mut String) {
    let rows = [
        ("up", "gauge", "Always 1.", 1),
        ("connections_accepted", "counter", "Connections accepted.", figures.accepted),
        ("connections_active", "gauge", "Open connections.", figures.active),
        ("connections_handled", "counter", "Connections served.", figures.handled),
        ("connections_reading", "gauge", "Connections with a request being read.", figures.reading),
        ("connections_waiting", "gauge", "Idle connections.", figures.waiting),
        ("connections_writing", "gauge", "Connections with a response.", figures.writing),
        ("http_requests_total", "counter", "Requests.", figures.requests),
    ];
    for (name, kind, help, value) in rows {
        let name = format!("nginx_{name}");
        head(&name, kind, help, out);
        line(&name, &[], value as f64, out);
    }
}

fn write_loops(loops: &[iteration::IterationFigures], out: &mut String) {
    let name = "tidegate_loop_turn_seconds";
    head(
        name,
        "histogram",
        "Iterations of a thread's event loop: how long an event may wait.",
        out,
    );
    for figures in loops {
        let thread = &figures.thread;
        let mut count = 0;
        for (place, iterations) in figures.buckets.iter().enumerate() {
            count += iterations;
            let bound = match iteration::BUCKETS_MICROS.get(place) {
                Some(micros) => Duration::from_micros(*micros).as_secs_f64().to_string(),
                None => "+Inf".to_owned(),
            };
            let labels = [("thread", &**thread), ("le", &*bound)];
            line(&format!("{name}_bucket"), &labels, count as f64, out);
        }
        line(&format!("{name}_sum"), &[("thread", thread)], figures.length.as_secs_f64(), out);
        line(&format!("{name}_count"), &[("thread", thread)], count as f64, out);
    }
    let name = "tidegate_loop_turn_seconds_max";
    head(name, "gauge", "Longest iteration of a thread's event loop.", out);
    for figures in loops {
        line(name, &[("thread", &figures.thread)], figures.length_max.as_secs_f64(), out);
    }
    let name = "tidegate_loop_long_turns_total";
    head(name, "counter", "Event-loop iterations longer than loop_watchdog.", out);
    for figures in loops {
        line(name, &[("thread", &figures.thread)], figures.long as f64, out);
    }
}
