//! Zones that count requests, limits, questions to name servers, and zones of memory, as JSON.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tidegate_core::figures::{
    BOUNDS_MILLIS, Catalog, Kind, LIMIT_CONN, LIMIT_REQ, Slab, Tally, Totals, Zone,
};
use tidegate_upstream::resolve::{OUTCOMES, QUESTIONS};

use super::objects::{Object, Objects};
use super::process::handshakes_of;
use super::source::Source;

pub(super) fn servers(source: &Source) -> Objects {
    zones(Some(&source.plan.figures), Kind::Server, server)
}

pub(super) fn locations(source: &Source) -> Objects {
    zones(Some(&source.plan.figures), Kind::Location, |zone| {
        let totals = zone.totals();
        json!({
            "requests": totals.requests(),
            "responses": responses(&totals),
            "discarded": totals.discarded(),
            "received": totals.received,
            "sent": totals.sent,
        })
    })
}

/// Returns the times of the requests of servers.
pub(super) fn server_times(source: &Source) -> Objects {
    zones(Some(&source.plan.figures), Kind::Server, times)
}

/// Returns the times of the requests of locations.
pub(super) fn location_times(source: &Source) -> Objects {
    zones(Some(&source.plan.figures), Kind::Location, times)
}

/// Shows how many requests took a time up to each bound and above the one before, and their sum in milliseconds.
fn times(zone: &Zone) -> Value {
    let totals = zone.totals();
    json!({ "counts": totals.times, "bounds_ms": BOUNDS_MILLIS, "sum_ms": totals.micros / 1000 })
}

pub(super) fn session_servers(source: &Source) -> Objects {
    zones(of_sessions(source), Kind::SessionServer, session_server)
}

fn server(zone: &Zone) -> Value {
    let totals = zone.totals();
    let value = json!({
        "processing": totals.processing,
        "requests": totals.requests(),
        "responses": responses(&totals),
        "discarded": totals.discarded(),
        "received": totals.received,
        "sent": totals.sent,
    });
    with_handshakes(value, zone)
}

fn session_server(zone: &Zone) -> Value {
    let totals = zone.totals();
    let [_, done, _, of_clients, of_servers] = totals.classes();
    let value = json!({
        "processing": totals.processing,
        "connections": totals.requests(),
        "sessions": {
            "2xx": done,
            "4xx": of_clients,
            "5xx": of_servers,
            "total": totals.responses(),
        },
        "discarded": totals.discarded(),
        "received": totals.received,
        "sent": totals.sent,
    });
    with_handshakes(value, zone)
}

fn with_handshakes(mut value: Value, zone: &Zone) -> Value {
    if let Some(handshakes) = zone.shown_handshakes() {
        value["ssl"] = handshakes_of(handshakes);
    }
    value
}

fn responses(totals: &Totals) -> Value {
    let classes = totals.classes();
    responses_of(classes, totals.codes(), totals.responses())
}

/// Shows responses by class and status.
pub(super) fn responses_of(
    [informational, done, redirects, of_clients, of_servers]: [u64; 5],
    codes: impl Iterator<Item = (u16, u64)>,
    total: u64,
) -> Value {
    let codes: Map<String, Value> =
        codes.map(|(code, count)| (code.to_string(), count.into())).collect();
    json!({
        "1xx": informational,
        "2xx": done,
        "3xx": redirects,
        "4xx": of_clients,
        "5xx": of_servers,
        "codes": codes,
        "total": total,
    })
}

pub(super) fn limit_reqs(source: &Source) -> Objects {
    tallies(Some(&source.plan.figures), Kind::LimitReq, |totals| limited(&LIMIT_REQ, totals))
}

pub(super) fn limit_conns(source: &Source) -> Objects {
    tallies(Some(&source.plan.figures), Kind::LimitConn, |totals| limited(&LIMIT_CONN, totals))
}

pub(super) fn session_limit_conns(source: &Source) -> Objects {
    let show = |totals: &[u64]| limited(&LIMIT_CONN, totals);
    tallies(of_sessions(source), Kind::SessionLimitConn, show)
}

/// Shows what limits decided. What the zone had no room for is rejected; what has no key is not shown.
fn limited(names: &[&str], totals: &[u64]) -> Value {
    let mut value = Map::new();
    for (name, total) in names.iter().zip(totals) {
        match *name {
            "skipped" => {}
            "exhausted" => {
                value["rejected"] = (value["rejected"].as_u64().unwrap_or(0) + total).into()
            }
            name => {
                value.insert(name.to_owned(), (*total).into());
            }
        }
    }
    Value::Object(value)
}

pub(super) fn resolvers(source: &Source) -> Objects {
    resolver_zones(source, |totals| {
        let (questions, outcomes) = totals.split_at(QUESTIONS.len().min(totals.len()));
        json!({ "requests": named(&QUESTIONS, questions), "responses": named(&OUTCOMES, outcomes) })
    })
}

/// Returns the zones of resolvers of `http` and `stream`.
pub(super) fn resolver_zones(source: &Source, show: fn(&[u64]) -> Value) -> Objects {
    let mut zones = tallies(Some(&source.plan.figures), Kind::Resolver, show);
    zones.extend(tallies(of_sessions(source), Kind::Resolver, show));
    zones.sort_by(|(one, _), (other, _)| one.cmp(other));
    zones.dedup_by(|(one, _), (other, _)| one == other);
    zones
}

/// Returns the zones of memory of `http` and `stream`.
pub(super) fn slabs(source: &Source) -> Objects {
    let catalogs = [Some(&source.plan.figures), of_sessions(source)];
    let slabs = catalogs.into_iter().flatten().flat_map(Catalog::slabs);
    let object = |(name, slab): (&String, &Slab)| {
        let slab = slab.clone();
        (name.clone(), Object::new(move || slab_value(&slab)).resettable(|| {}))
    };
    let mut objects: Objects = slabs.map(object).collect();
    objects.sort_by(|(one, _), (other, _)| one.cmp(other));
    objects.dedup_by(|(one, _), (other, _)| one == other);
    objects
}

/// Bytes of nginx's pages, by which the size of a zone is shown.
const PAGE_BYTES: u64 = 4096;
/// Bytes of an entry, by which the entries of a zone are shown.
const SLOT_BYTES: u64 = 128;

/// Shows a zone as nginx would hold it: the written size in pages, its entries in slots of one size. The memory of a zone
/// is not shared here, and grows with its entries.
fn slab_value(slab: &Slab) -> Value {
    let used = (slab.used)();
    let all = slab.bytes / PAGE_BYTES;
    let pages = used.bytes.div_ceil(PAGE_BYTES).clamp(1, all.max(1));
    let slots = pages * (PAGE_BYTES / SLOT_BYTES);
    json!({
        "pages": { "used": pages, "free": all.saturating_sub(pages) },
        "slots": {
            (SLOT_BYTES.to_string()): {
                "used": used.entries,
                "free": slots.saturating_sub(used.entries),
                "reqs": used.entries,
                "fails": 0,
            },
        },
    })
}

pub(super) fn of_sessions(source: &Source) -> Option<&Catalog> {
    source.plan.sessions.as_ref().map(|plan| &plan.figures)
}

pub(super) fn zones(catalog: Option<&Catalog>, kind: Kind, show: fn(&Zone) -> Value) -> Objects {
    let zones = catalog.into_iter().flat_map(|catalog| catalog.zones(kind));
    let object = |(name, zone): (String, &'static Zone)| {
        (name, Object::new(move || show(zone)).resettable(|| zone.reset()))
    };
    zones.map(object).collect()
}

pub(super) fn tallies(catalog: Option<&Catalog>, kind: Kind, show: fn(&[u64]) -> Value) -> Objects {
    let tallies = catalog.into_iter().flat_map(|catalog| catalog.tallies(kind));
    let object = |(name, tally): (String, Arc<Tally>)| {
        let shown = tally.clone();
        (name, Object::new(move || show(&shown.totals())).resettable(move || tally.reset()))
    };
    tallies.map(object).collect()
}

fn named(names: &[&str], totals: &[u64]) -> Value {
    let fields = names.iter().zip(totals).map(|(name, total)| ((*name).into(), (*total).into()));
    Value::Object(fields.collect())
}
