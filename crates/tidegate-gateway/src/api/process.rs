//! The process, its connections, threads, and TLS handshakes, as JSON.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde_json::{Map, Value, json};
use tidegate_core::counters::{self, ConnectionFigures};
use tidegate_core::figures::{HANDSHAKES, Tally, VERIFY_FAILURES, handshakes};

use super::objects::{Object, Objects};
use super::query::Query;
use super::source::Source;
use super::view::time;

/// The build, as nginx Plus' release that has these paths: clients choose by it what they ask for.
const BUILD: &str = "tidegate-r32";

/// Accepted connections and requests at the last reset.
static ACCEPTED_BEFORE: AtomicU64 = AtomicU64::new(0);
static REQUESTS_BEFORE: AtomicU64 = AtomicU64::new(0);

pub(super) fn nginx(query: &Query<'_>) -> Object {
    let value = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "build": BUILD,
        "address": address(query),
        "generation": query.x.plan.generation,
        "load_timestamp": time(query.settings.loaded),
        "timestamp": time(query.source.now.unix_millis),
        "pid": std::process::id(),
        "ppid": tidegate_os::process::parent_id(),
    });
    Object::new(move || value)
}

/// Returns the address of the server that the client reached, without its port.
pub(super) fn address(query: &Query<'_>) -> String {
    let text = query.x.connection.local.text();
    match text.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host.to_owned(),
        _ => text,
    }
}

/// Workers that ended unexpectedly and were replaced. The master replaces the whole process, which counts anew.
pub(super) fn processes(_: &Query<'_>) -> Object {
    Object::new(|| json!({ "respawned": 0 })).resettable(|| {})
}

pub(super) fn connections() -> Object {
    let show = || {
        let mut figures = counters::figures();
        let before = ACCEPTED_BEFORE.load(Relaxed);
        figures.accepted = figures.accepted.saturating_sub(before);
        figures.handled = figures.handled.saturating_sub(before);
        connections_of(&figures)
    };
    Object::new(show).resettable(|| ACCEPTED_BEFORE.store(counters::figures().accepted, Relaxed))
}

pub(super) fn requests() -> Object {
    let show = || {
        let figures = counters::figures();
        let total = figures.requests.saturating_sub(REQUESTS_BEFORE.load(Relaxed));
        json!({ "total": total, "current": figures.writing })
    };
    Object::new(show).resettable(|| REQUESTS_BEFORE.store(counters::figures().requests, Relaxed))
}

/// Returns the event loops, which are nginx's workers here: threads of one process.
pub(super) fn workers(_: &Source) -> Objects {
    let threads = counters::threads().into_iter().enumerate();
    let worker = |(id, figures): (usize, ConnectionFigures)| {
        let show = move || {
            json!({
                "id": id,
                "pid": std::process::id(),
                "connections": connections_of(&figures),
                "http": {
                    "requests": { "total": figures.requests, "current": figures.writing },
                },
            })
        };
        (id.to_string(), Object::new(show))
    };
    threads.map(worker).collect()
}

fn connections_of(figures: &ConnectionFigures) -> Value {
    json!({
        "accepted": figures.accepted,
        "dropped": figures.accepted.saturating_sub(figures.handled),
        "active": figures.active.saturating_sub(figures.waiting),
        "idle": figures.waiting,
    })
}

pub(super) fn ssl() -> Object {
    Object::new(|| handshakes_of(handshakes())).resettable(|| handshakes().reset())
}

/// Shows counters of handshakes.
pub(super) fn handshakes_of(tally: &Tally) -> Value {
    let totals = tally.totals();
    let (of_all, of_certificates) = totals.split_at(HANDSHAKES.len().min(totals.len()));
    let fields = |names: &[&str], totals: &[u64]| -> Map<String, Value> {
        names.iter().zip(totals).map(|(name, total)| ((*name).into(), (*total).into())).collect()
    };
    let mut value = fields(&HANDSHAKES, of_all);
    value.insert("verify_failures".into(), fields(&VERIFY_FAILURES, of_certificates).into());
    value.into()
}
