//! The server's own names: zones of `status_zone`, groups with a `zone`, caches, limits and handshakes.
//!
//! A family has one kind of labels: `zone`, `cache`, or `upstream` and `server`. Families without lines are left out.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tidegate_cache::{Stats, Store};
use tidegate_core::figures::{
    HANDSHAKES, LIMIT_CONN, LIMIT_REQ, TimeCounts, Totals, Zone, handshakes,
};
use tidegate_upstream::peers::{Health, ResponseTimes, SlotView};
use tidegate_upstream::{Group, idle_of};

use super::{CLASSES, Collected, Limits, STARTED, STATUSES};
use crate::api::history::cpu_millis;
use crate::cache::config::zones::Zone as CacheZone;
use crate::cache::figures::CacheFigures;
use crate::exposition::{Exposition, Family, Type, label, labels_text, seconds};

pub(super) fn write(collected: &Collected, out: &mut Exposition) {
    write_process(collected, out);
    // Labels are written once, here and for servers: there may be very many.
    let zones = |shown: &super::Shown| -> Vec<(String, &'static Zone, Totals)> {
        shown.iter().map(|(name, zone)| (label("zone", name), *zone, zone.totals())).collect()
    };
    write_zones("server", &REQUESTS, &zones(&collected.servers), out);
    write_zones("location", &REQUESTS, &zones(&collected.locations), out);
    write_zones("stream_server", &SESSIONS, &zones(&collected.session_servers), out);
    write_groups("upstream", &REQUESTS, &collected.groups, collected.now, out);
    write_groups("stream_upstream", &SESSIONS, &collected.session_groups, collected.now, out);
    write_caches(&collected.caches, out);
    write_limits("limit_req", &LIMIT_REQ, &collected.limit_reqs, out);
    write_limits("limit_conn", &LIMIT_CONN, &collected.limit_conns, out);
}

/// What is counted: requests or sessions, and responses or ends of sessions by their status.
struct Words {
    counted: &'static str,
    ended: &'static str,
    time: &'static str,
}

const REQUESTS: Words = Words { counted: "requests", ended: "responses", time: "request" };
const SESSIONS: Words = Words { counted: "connections", ended: "sessions", time: "session" };

fn write_process(collected: &Collected, out: &mut Exposition) {
    let version = env!("CARGO_PKG_VERSION");
    out.family("tidegate_build_info", Type::Gauge, "The program.").line(&[("version", version)], 1);
    out.family("tidegate_generation", Type::Gauge, "Number of the configuration in use.")
        .line(&[], collected.generation);
    out.family("tidegate_start_time_seconds", Type::Gauge, "When the process began to serve.")
        .line(&[], seconds(*STARTED * 1000));
    if let Some(millis) = cpu_millis() {
        let name = "tidegate_process_cpu_seconds_total";
        out.family(name, Type::Counter, "Processor time.").line(&[], seconds(millis * 1000));
    }
    let help = "When the validity of a certificate of servers ends.";
    let name = "tidegate_certificate_not_after_seconds";
    let mut family = out.family(name, Type::Gauge, help);
    for (file, not_after) in &collected.certificates {
        family.line(&[("file", file)], not_after);
    }
    let name = "tidegate_tls_handshakes_total";
    let mut family = out.family(name, Type::Counter, "TLS handshakes with clients, by result.");
    for (name, total) in HANDSHAKES.iter().zip(handshakes().totals()) {
        let result = match *name {
            "handshakes" => "done",
            "handshakes_failed" => "failed",
            name => name,
        };
        family.line(&[("result", result)], total);
    }
}

fn write_zones(
    of: &str,
    words: &Words,
    zones: &[(String, &'static Zone, Totals)],
    out: &mut Exposition,
) {
    let Words { counted, ended, time } = words;
    let mut each = |end: &str, kind, help: &str, write: &EachZone<'_>| {
        if zones.is_empty() {
            return;
        }
        let name = format!("tidegate_{of}_{end}");
        let mut family = out.family(&name, kind, help);
        for (labels, zone, totals) in zones {
            write(&mut family, labels, zone, totals);
        }
    };
    if of != "location" {
        let help = format!("Present {counted}.");
        each(&format!("{counted}_active"), Type::Gauge, &help, &|family, labels, _, totals| {
            family.line_of(labels, totals.processing);
        });
    }
    let help = format!("Ended {counted}, by the class of their status.");
    each(&format!("{ended}_total"), Type::Counter, &help, &|family, labels, _, totals| {
        for (class, count) in CLASSES.iter().zip(totals.classes()) {
            family.line_and(labels, ("code", class), count);
        }
    });
    let help = format!("Ended {counted} without a status.");
    each("discarded_total", Type::Counter, &help, &|family, labels, _, totals| {
        family.line_of(labels, totals.discarded());
    });
    let help = "Bytes received from clients.";
    each("received_bytes_total", Type::Counter, help, &|family, labels, _, totals| {
        family.line_of(labels, totals.received);
    });
    let help = "Bytes sent to clients.";
    each("sent_bytes_total", Type::Counter, help, &|family, labels, _, totals| {
        family.line_of(labels, totals.sent);
    });
    let (name, help) = (format!("{time}_duration_seconds"), format!("Times of {counted}."));
    each(&name, Type::Histogram, &help, &|family, labels, zone, totals| {
        let exemplars = zone.exemplars();
        family.times_of(labels, &totals.times, totals.micros, exemplars.as_ref());
    });
}

/// Writes the lines of a zone.
type EachZone<'a> = dyn Fn(&mut Family<'_>, &str, &Zone, &Totals) + 'a;

/// A figure of servers of groups: name, type, description, and how to read it.
type PeerRow = (&'static str, Type, &'static str, fn(&SlotView) -> u64);

const PEER_ROWS: [PeerRow; 5] = [
    ("up", Type::Gauge, "Whether a server gets what is new.", |slot| u64::from(is_up(slot))),
    ("failures_total", Type::Counter, "Attempts that failed.", |slot| {
        slot.peer.statistics.fails.load(Relaxed)
    }),
    ("unavailable_total", Type::Counter, "How often failures made a server unavailable.", |slot| {
        slot.peer.statistics.unavailable.load(Relaxed)
    }),
    ("received_bytes_total", Type::Counter, "Bytes received from a server.", |slot| {
        slot.peer.statistics.received.load(Relaxed)
    }),
    ("sent_bytes_total", Type::Counter, "Bytes sent to a server.", |slot| {
        slot.peer.statistics.sent.load(Relaxed)
    }),
];

/// A histogram of servers of groups: name, description, and the times.
type TimesRow = (&'static str, &'static str, fn(&ResponseTimes) -> &TimeCounts);

const TIMES_ROWS: [TimesRow; 2] = [
    ("first_byte_seconds", "Times to the head of a response or the first byte.", |of| &of.header),
    ("last_byte_seconds", "Times to the end of a response.", |of| &of.response),
];

fn write_groups(
    of: &str,
    words: &Words,
    groups: &[(String, Arc<Group>)],
    now: std::time::Instant,
    out: &mut Exposition,
) {
    let peers = super::peers(groups, now);
    if peers.is_empty() {
        return;
    }
    let labels = |(group, slot): (&String, SlotView)| {
        (labels_text(&[("upstream", group.as_str()), ("server", &*slot.peer.text)]), slot)
    };
    let peers: Vec<(String, SlotView)> = peers.into_iter().map(labels).collect();
    let Words { counted, ended, .. } = words;
    let mut each = |end: &str, kind, help: &str, write: &EachPeer<'_>| {
        let name = format!("tidegate_{of}_{end}");
        let mut family = out.family(&name, kind, help);
        peers.iter().for_each(|(labels, slot)| write(&mut family, labels, slot));
    };
    for (name, kind, help, value) in PEER_ROWS {
        each(name, kind, help, &|family, labels, slot| family.line_of(labels, value(slot)));
    }
    let (name, help) = (format!("{counted}_active"), format!("Present {counted}."));
    each(&name, Type::Gauge, &help, &|family, labels, slot| {
        family.line_of(labels, slot.peer.active());
    });
    let (name, help) = (format!("{counted}_total"), format!("All {counted} of a server."));
    each(&name, Type::Counter, &help, &|family, labels, slot| {
        family.line_of(labels, slot.peer.statistics.requests.load(Relaxed));
    });
    each("checks_total", Type::Counter, "Checks, by result.", &|family, labels, slot| {
        let failed = slot.peer.statistics.checks_failed.load(Relaxed);
        let passed = slot.peer.statistics.checks.load(Relaxed).saturating_sub(failed);
        family.line_and(labels, ("result", "passed"), passed);
        family.line_and(labels, ("result", "failed"), failed);
    });
    for (name, help, of_times) in TIMES_ROWS {
        each(name, Type::Histogram, help, &|family, labels, slot| {
            // Servers without a response so far have no lines: there may be thousands.
            if let Some(times) = slot.peer.statistics.times.get() {
                let (counts, micros) = of_times(times).totals();
                family.times_of(labels, &counts, micros, None);
            }
        });
    }
    if *ended != REQUESTS.ended {
        return;
    }
    let help = "Responses of a server, by the class of their status.";
    each("responses_total", Type::Counter, help, &|family, labels, slot| {
        for (class, count) in CLASSES.iter().zip(&slot.peer.statistics.responses) {
            family.line_and(labels, ("code", class), count.load(Relaxed));
        }
    });
    let name = format!("tidegate_{of}_idle_connections");
    let mut family = out.family(&name, Type::Gauge, "Idle connections to servers of a group.");
    for (name, group) in groups {
        family.line(&[("upstream", name)], idle_of(group));
    }
}

/// Writes the lines of a server of a group.
type EachPeer<'a> = dyn Fn(&mut Family<'_>, &str, &SlotView) + 'a;

fn is_up(slot: &SlotView) -> bool {
    !slot.options.down && !slot.options.drain && !slot.resting && slot.health == Health::Fine
}

/// A figure of the stores of caches: name, type, description, and how to read it.
type StoreRow = (&'static str, Type, &'static str, fn(&Stats) -> u64);

const STORE_ROWS: [StoreRow; 10] = [
    ("disk_bytes", Type::Gauge, "Room taken by files.", |stats| stats.disk_bytes),
    ("memory_bytes", Type::Gauge, "Memory of open objects.", |stats| stats.memory_bytes as u64),
    ("keys", Type::Gauge, "Keys that are known.", |stats| stats.keys as u64),
    ("keys_max", Type::Gauge, "Keys that there is room for.", |stats| stats.keys_max as u64),
    ("objects", Type::Gauge, "Stored objects.", |stats| stats.entries as u64),
    ("loaded", Type::Gauge, "Whether all files are known.", |stats| u64::from(stats.loaded)),
    ("evicted_total", Type::Counter, "Objects removed for want of room or use.", |stats| {
        stats.evicted
    }),
    ("refused_total", Type::Counter, "Fills not stored for want of room.", |stats| stats.refused),
    ("damaged_total", Type::Counter, "Files found damaged, and removed.", |stats| stats.torn),
    ("disk_errors_total", Type::Counter, "Failed disk calls.", |stats| stats.disk_errors),
];

/// A figure of caches by $upstream_cache_status, by its place among the counters of a status.
const STATUS_ROWS: [(&str, &str); 4] = [
    ("responses_total", "Responses of locations with a cache, by $upstream_cache_status."),
    ("sent_bytes_total", "Bytes of these responses."),
    ("written_total", "Responses written to the cache, by $upstream_cache_status."),
    ("written_bytes_total", "Bytes of these responses."),
];

/// A figure of fetches for caches: name, description, and how to read it.
type FillRow = (&'static str, &'static str, fn(&CacheFigures) -> u64);

const FILL_ROWS: [FillRow; 2] = [
    ("fills_total", "Fetches for the cache.", CacheFigures::fills),
    (
        "followers_total",
        "Requests that read a response while another one's fetch of it went on.",
        CacheFigures::followers,
    ),
];

fn write_caches(caches: &[(String, Arc<CacheZone>)], out: &mut Exposition) {
    if caches.is_empty() {
        return;
    }
    for (place, (name, help)) in STATUS_ROWS.into_iter().enumerate() {
        let name = format!("tidegate_cache_{name}");
        let mut family = out.family(&name, Type::Counter, help);
        for (cache, zone) in caches {
            let of = zone.figures.totals();
            for (status, name) in STATUSES {
                family.line(&[("cache", cache), ("status", name)], of(status)[place]);
            }
        }
    }
    for (name, help, of) in FILL_ROWS {
        let name = format!("tidegate_cache_{name}");
        let mut family = out.family(&name, Type::Counter, help);
        for (cache, zone) in caches {
            family.line(&[("cache", cache)], of(&zone.figures));
        }
    }
    let stores = caches.iter().filter_map(|(name, zone)| Some((name.as_str(), zone.store()?)));
    write_stores(&stores.collect::<Vec<_>>(), out);
}

fn write_stores(stores: &[(&str, &Store)], out: &mut Exposition) {
    let running = stores.iter().map(|(name, store)| {
        let fills = store.fills();
        (*name, fills.len(), fills.iter().map(|fill| fill.readers()).sum::<usize>())
    });
    let running: Vec<_> = running.collect();
    let mut family =
        out.family("tidegate_cache_fills_running", Type::Gauge, "Fetches for the cache now.");
    running.iter().for_each(|(name, fills, _)| family.line(&[("cache", name)], fills));
    let help = "Requests that read these fetches now.";
    let mut family = out.family("tidegate_cache_fill_readers", Type::Gauge, help);
    running.iter().for_each(|(name, _, readers)| family.line(&[("cache", name)], readers));
    let stats: Vec<_> = stores.iter().map(|(name, store)| (*name, store.stats())).collect();
    for (name, kind, help, value) in STORE_ROWS {
        let name = format!("tidegate_cache_{name}");
        let mut family = out.family(&name, kind, help);
        stats.iter().for_each(|(cache, stats)| family.line(&[("cache", cache)], value(stats)));
    }
    let name = "tidegate_cache_disk_max_bytes";
    let mut family = out.family(name, Type::Gauge, "Room that files may take.");
    let limits = stores.iter().filter_map(|(name, store)| Some((*name, store.options().size_max?)));
    limits.for_each(|(cache, most)| family.line(&[("cache", cache)], most));
}

fn write_limits(of: &str, names: &[&str], limits: &Limits, out: &mut Exposition) {
    if limits.is_empty() {
        return;
    }
    let name = format!("tidegate_{of}_requests_total");
    let mut family = out.family(&name, Type::Counter, "Requests of a limit, by result.");
    for (zone, tally) in limits {
        for (result, total) in names.iter().zip(tally.totals()) {
            family.line(&[("zone", zone), ("result", result)], total);
        }
    }
}
