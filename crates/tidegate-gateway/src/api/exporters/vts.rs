//! The names of nginx-module-vts. Its servers are the zones of servers here, its filters the zones of locations
//! (`filter="location"`), its upstreams the groups with a `zone`. The server `*` is the sum of all.

use std::sync::atomic::Ordering::Relaxed;

use tidegate_core::figures::TimeCounts;
use tidegate_upstream::peers::Statistics;

use super::{CLASSES, Collected, STARTED, STATUSES, Sums, sums_of};
use crate::exposition::{Exposition, Family, Type, average, seconds};

/// Labels of an object and its sums.
type Objects = Vec<(Vec<(&'static str, String)>, Sums)>;

pub(super) fn write(collected: &Collected, out: &mut Exposition) {
    write_process(collected, out);
    let mut servers: Objects = Vec::new();
    let mut all = Sums::default();
    for zone in collected.servers.values() {
        all.add(&zone.totals());
    }
    for (name, sums) in sums_of(&collected.servers).into_iter().chain([("*".to_owned(), all)]) {
        servers.push((vec![("host", name)], sums));
    }
    write_requests("server", &servers, out);
    let filters: Objects = sums_of(&collected.locations)
        .into_iter()
        .map(|(name, sums)| (vec![("filter", "location".to_owned()), ("filter_name", name)], sums))
        .collect();
    write_requests("filter", &filters, out);
    write_groups(collected, out);
    write_caches(collected, out);
}

fn write_process(collected: &Collected, out: &mut Exposition) {
    let version = env!("CARGO_PKG_VERSION");
    let mut info = out.family("nginx_vts_info", Type::Gauge, "The server.");
    info.line(&[("hostname", ""), ("module_version", "tidegate"), ("version", version)], 1);
    let name = "nginx_vts_start_time_seconds";
    let mut start = out.family(name, Type::Gauge, "When the process began to serve.");
    start.line(&[], seconds(*STARTED * 1000));
    let of = &collected.connections;
    let states = [
        ("accepted", of.accepted),
        ("active", of.active),
        ("handled", of.handled),
        ("reading", of.reading),
        ("requests", of.requests),
        ("waiting", of.waiting),
        ("writing", of.writing),
    ];
    let name = "nginx_vts_main_connections";
    let mut connections = out.family(name, Type::Gauge, "Connections and requests.");
    states.iter().for_each(|(state, count)| connections.line(&[("status", state)], count));
    let name = "nginx_vts_main_shm_usage_bytes";
    let mut memory = out.family(name, Type::Gauge, "The zones of memory.");
    for (part, value) in ["max_size", "used_size", "used_node"].iter().zip(collected.memory) {
        memory.line(&[("shared", part)], value);
    }
}

fn write_requests(of: &str, objects: &Objects, out: &mut Exposition) {
    let each = |out: &mut Exposition, end: &str, kind, help: &str, write: &Each<'_>| {
        if objects.is_empty() {
            return;
        }
        let name = format!("nginx_vts_{of}_{end}");
        let mut family = out.family(&name, kind, help);
        for (labels, sums) in objects {
            let labels: Vec<(&str, &str)> =
                labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
            write(&mut family, &labels, sums);
        }
    };
    each(
        out,
        "bytes_total",
        Type::NamedCounter,
        "Bytes of requests and responses.",
        &|family, labels, sums| {
            family.line(&with(labels, "direction", "in"), sums.received);
            family.line(&with(labels, "direction", "out"), sums.sent);
        },
    );
    each(
        out,
        "requests_total",
        Type::NamedCounter,
        "Requests by status.",
        &|family, labels, sums| {
            for (class, count) in CLASSES.iter().zip(sums.classes) {
                family.line(&with(labels, "code", class), count);
            }
            family.line(&with(labels, "code", "total"), sums.requests());
        },
    );
    each(
        out,
        "request_seconds_total",
        Type::NamedCounter,
        "Time of requests.",
        &|family, labels, sums| {
            family.line(labels, seconds(sums.micros));
        },
    );
    each(
        out,
        "request_seconds",
        Type::Gauge,
        "Average time of requests.",
        &|family, labels, sums| {
            family.line(labels, average(sums.micros, sums.requests()));
        },
    );
    each(
        out,
        "request_duration_seconds",
        Type::Histogram,
        "Times of requests.",
        &|family, labels, sums| {
            family.times(labels, &sums.times, sums.micros, None);
        },
    );
}

/// Writes the lines of an object.
type Each<'a> = dyn Fn(&mut Family<'_>, &[(&str, &str)], &Sums) + 'a;

fn with<'l>(
    labels: &[(&'l str, &'l str)],
    name: &'l str,
    value: &'l str,
) -> Vec<(&'l str, &'l str)> {
    labels.iter().copied().chain([(name, value)]).collect()
}

fn write_groups(collected: &Collected, out: &mut Exposition) {
    let peers = super::peers(&collected.groups, collected.now);
    if peers.is_empty() {
        return;
    }
    let each = |out: &mut Exposition, end: &str, kind, help: &str, write: &EachPeer<'_>| {
        let name = format!("nginx_vts_upstream_{end}");
        let mut family = out.family(&name, kind, help);
        for (group, slot) in &peers {
            let labels = [("upstream", group.as_str()), ("backend", &*slot.peer.text)];
            write(&mut family, &labels, &slot.peer.statistics);
        }
    };
    each(
        out,
        "bytes_total",
        Type::NamedCounter,
        "Bytes from and to servers.",
        &|family, labels, of| {
            family.line(&with(labels, "direction", "in"), of.received.load(Relaxed));
            family.line(&with(labels, "direction", "out"), of.sent.load(Relaxed));
        },
    );
    each(
        out,
        "requests_total",
        Type::NamedCounter,
        "Requests by status.",
        &|family, labels, of| {
            for (class, count) in CLASSES.iter().zip(&of.responses) {
                family.line(&with(labels, "code", class), count.load(Relaxed));
            }
            family.line(&with(labels, "code", "total"), of.requests.load(Relaxed));
        },
    );
    for (word, what) in [("request", "Time of requests"), ("response", "Time of responses")] {
        let totals = |of: &Statistics| -> ([u64; tidegate_core::figures::BUCKETS], u64) {
            let times = of.times.get();
            times.map(|times| TimeCounts::totals(&times.response)).unwrap_or_default()
        };
        let name = format!("{word}_seconds_total");
        each(
            out,
            &name,
            Type::NamedCounter,
            &format!("{what} of servers."),
            &|family, labels, of| {
                family.line(labels, seconds(totals(of).1));
            },
        );
        let help = format!("{what} of servers, the average.");
        each(out, &format!("{word}_seconds"), Type::Gauge, &help, &|family, labels, of| {
            let (counts, micros) = totals(of);
            family.line(labels, average(micros, counts.iter().sum()));
        });
        let help = format!("{what} of servers, the histogram.");
        let name = format!("{word}_duration_seconds");
        each(out, &name, Type::Histogram, &help, &|family, labels, of| {
            let (counts, micros) = totals(of);
            family.times(labels, &counts, micros, None);
        });
    }
}

/// Writes the lines of a server of a group.
type EachPeer<'a> = dyn Fn(&mut Family<'_>, &[(&str, &str)], &Statistics) + 'a;

fn write_caches(collected: &Collected, out: &mut Exposition) {
    if collected.caches.is_empty() {
        return;
    }
    let name = "nginx_vts_cache_usage_bytes";
    let mut usage = out.family(name, Type::Gauge, "Bytes of a cache.");
    for (zone, cache) in &collected.caches {
        let store = cache.store();
        let most = store.and_then(|store| store.options().size_max).unwrap_or(0);
        let used = store.map_or(0, |store| store.stats().disk_bytes);
        usage.line(&[("cache_zone", zone), ("cache_size", "max")], most);
        usage.line(&[("cache_zone", zone), ("cache_size", "used")], used);
    }
    let name = "nginx_vts_cache_bytes_total";
    let mut bytes = out.family(name, Type::NamedCounter, "Bytes that a cache stored and sent.");
    for (zone, cache) in &collected.caches {
        let of = cache.figures.totals();
        let (sent, written) = STATUSES.iter().fold((0, 0), |(sent, written), (status, _)| {
            let [_, bytes, _, bytes_written] = of(*status);
            (sent + bytes, written + bytes_written)
        });
        bytes.line(&[("cache_zone", zone), ("direction", "in")], written);
        bytes.line(&[("cache_zone", zone), ("direction", "out")], sent);
    }
    let name = "nginx_vts_cache_requests_total";
    let mut requests = out.family(name, Type::NamedCounter, "Requests by cache status.");
    for (zone, cache) in &collected.caches {
        let of = cache.figures.totals();
        for (status, name) in STATUSES {
            requests.line(&[("cache_zone", zone), ("status", name)], of(status)[0]);
        }
    }
}
