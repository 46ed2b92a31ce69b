//! The metrics of the process: connections, thread pools, event loops, verdicts.

use tidegate_core::counters;
use tidegate_gateway::exposition::{Exposition, Type};
use tidegate_rt::blocking;
use tidegate_rt::iteration;

/// A metric of thread pools: name, type, help text, and how to read it.
type PoolRow = (&'static str, Type, &'static str, fn(&blocking::PoolFigures) -> f64);

const POOL_ROWS: [PoolRow; 10] = [
    ("threads", Type::Gauge, "Threads.", |f| f.threads as f64),
    ("queued", Type::Gauge, "Jobs that wait for a thread.", |f| f.queued as f64),
    ("running", Type::Gauge, "Jobs that run.", |f| f.running as f64),
    ("finished_total", Type::Counter, "Jobs that have ended.", |f| f.finished as f64),
    ("refused_total", Type::Counter, "Jobs that found the queue full.", |f| f.refused as f64),
    ("cancelled_total", Type::Counter, "Jobs that were cancelled before they ran.", |f| {
        f.cancelled as f64
    }),
    ("wait_seconds_total", Type::Counter, "Time in the queue.", |f| f.waited.as_secs_f64()),
    ("wait_seconds_max", Type::Gauge, "Longest time in the queue.", |f| f.waited_max.as_secs_f64()),
    ("run_seconds_total", Type::Counter, "Time of running.", |f| f.ran.as_secs_f64()),
    ("run_seconds_max", Type::Gauge, "Longest time of running.", |f| f.ran_max.as_secs_f64()),
];

/// Writes all but verdicts.
pub(super) fn write(
    connections: &counters::ConnectionFigures,
    pools: &[(String, blocking::PoolFigures)],
    loops: &[iteration::IterationFigures],
    out: &mut Exposition,
) {
    write_connections(connections, out);
    for (name, kind, help, value) in POOL_ROWS {
        let name = format!("tidegate_thread_pool_{name}");
        let mut family = out.family(&name, kind, help);
        for (pool, figures) in pools {
            family.line(&[("pool", pool)], value(figures));
        }
    }
    write_loops(loops, out);
}

/// Writes how many requests had each verdict.
pub(super) fn write_verdicts(verdicts: &[(&'static str, u64)], out: &mut Exposition) {
    let help = "Requests by the cause that took most of their time.";
    let mut family = out.family("tidegate_verdict_total", Type::Counter, help);
    for (verdict, count) in verdicts {
        family.line(&[("verdict", verdict)], count);
    }
}

fn write_connections(figures: &counters::ConnectionFigures, out: &mut Exposition) {
    let rows = [
        ("connections_accepted_total", Type::Counter, "Connections accepted.", figures.accepted),
        ("connections_handled_total", Type::Counter, "Connections served.", figures.handled),
        ("requests_total", Type::Counter, "Requests.", figures.requests),
        ("connections_active", Type::Gauge, "Open connections.", figures.active),
        (
            "connections_reading",
            Type::Gauge,
            "Connections from which a request is being received.",
            figures.reading,
        ),
        (
            "connections_writing",
            Type::Gauge,
            "Connections to which a response is being sent.",
            figures.writing,
        ),
        ("connections_waiting", Type::Gauge, "Idle connections.", figures.waiting),
    ];
    write_rows("tidegate", rows, out);
}

/// Writes what `stub_status` shows, under the names of nginx' exporter.
pub(super) fn write_nginx(figures: &counters::ConnectionFigures, out: &mut Exposition) {
    let rows = [
        ("up", Type::Gauge, "Always 1.", 1),
        ("connections_accepted", Type::NamedCounter, "Connections accepted.", figures.accepted),
        ("connections_active", Type::Gauge, "Open connections.", figures.active),
        ("connections_handled", Type::NamedCounter, "Connections served.", figures.handled),
        (
            "connections_reading",
            Type::Gauge,
            "Connections with a request being read.",
            figures.reading,
        ),
        ("connections_waiting", Type::Gauge, "Idle connections.", figures.waiting),
        ("connections_writing", Type::Gauge, "Connections with a response.", figures.writing),
        ("http_requests_total", Type::NamedCounter, "Requests.", figures.requests),
    ];
    write_rows("nginx", rows, out);
}

/// Writes families of one line without labels: name behind `prefix` and `_`, type, help text, value.
fn write_rows<const N: usize>(
    prefix: &str,
    rows: [(&str, Type, &str, u64); N],
    out: &mut Exposition,
) {
    for (name, kind, help, value) in rows {
        out.family(&format!("{prefix}_{name}"), kind, help).line(&[], value);
    }
}

fn write_loops(loops: &[iteration::IterationFigures], out: &mut Exposition) {
    let help = "Iterations of a thread's event loop: how long an event may wait.";
    let mut family = out.family("tidegate_loop_turn_seconds", Type::Histogram, help);
    for figures in loops {
        let micros = u64::try_from(figures.length.as_micros()).unwrap_or(u64::MAX);
        let labels = [("thread", figures.thread.as_str())];
        family.buckets(&labels, &iteration::BUCKETS_MICROS, &figures.buckets, micros);
    }
    let help = "Longest iteration of a thread's event loop.";
    let mut family = out.family("tidegate_loop_turn_seconds_max", Type::Gauge, help);
    for figures in loops {
        family.line(&[("thread", &figures.thread)], figures.length_max.as_secs_f64());
    }
    let help = "Event-loop iterations longer than loop_watchdog.";
    let mut family = out.family("tidegate_loop_long_turns_total", Type::Counter, help);
    for figures in loops {
        family.line(&[("thread", &figures.thread)], figures.long);
    }
    let help = "Event-loop iterations with more processor time than loop_watchdog.";
    let mut family = out.family("tidegate_loop_long_cpu_turns_total", Type::Counter, help);
    for figures in loops {
        family.line(&[("thread", &figures.thread)], figures.long_cpu);
    }
}
