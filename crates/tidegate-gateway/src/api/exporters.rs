//! Figures as metrics: under the server's own names (`tidegate`), and under those of others, so that their dashboards work:
//! of the module nginx-module-vts (`vts`), and of ingress-nginx (`ingress`).

mod ingress;
mod own;
mod vts;

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use tidegate_core::Exchange;
use tidegate_core::counters::{self, ConnectionFigures};
use tidegate_core::figures::{BUCKETS, Catalog, Kind, Shown, Tally, Totals};
use tidegate_rt::clock;
use tidegate_upstream::Group;
use tidegate_upstream::peers::SlotView;

use super::source::{Source, of_block};
use crate::cache::config::zones::{ShownCaches, Zone as CacheZone};
use crate::cache::status::CacheStatus;
use crate::exposition::Part;

/// Whose names are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// The server's own.
    Own,
    /// nginx-module-vts.
    Vts,
    /// ingress-nginx.
    Ingress,
}

/// What is shown.
struct Collected {
    generation: u64,
    connections: ConnectionFigures,
    servers: Shown,
    locations: Shown,
    session_servers: Shown,
    groups: Vec<(String, Arc<Group>)>,
    session_groups: Vec<(String, Arc<Group>)>,
    caches: Vec<(String, Arc<CacheZone>)>,
    limit_reqs: Limits,
    limit_conns: Limits,
    /// Files of certificates and the ends of their validity, in seconds since 1970.
    certificates: BTreeMap<String, i64>,
    /// Sizes of the zones of memory as written, what is used of them, and entries.
    memory: [u64; 3],
    now: Instant,
}

/// Counters of limits by zone.
type Limits = Vec<(String, Arc<Tally>)>;

/// When the process began to serve, in Unix milliseconds.
static STARTED: LazyLock<u64> = LazyLock::new(clock::unix_millis);

/// Notes when the process began to serve; called while a configuration is loaded.
pub fn note_start() {
    LazyLock::force(&STARTED);
}

/// Collects what is shown, when it is written.
pub fn exporter_metrics(x: &Exchange, names: Names) -> Part {
    let source = Source::of(x);
    Part::new(source.weight, move |out| {
        let collected = Collected::of(&source);
        match names {
            Names::Own => own::write(&collected, out),
            Names::Vts => vts::write(&collected, out),
            Names::Ingress => ingress::write(&collected, out),
        }
    })
}

impl Collected {
    fn of(source: &Source) -> Collected {
        let plan = &source.plan;
        let groups = |sessions| {
            let groups =
                of_block(plan, sessions).map(|groups| groups.changing()).unwrap_or_default();
            groups.into_iter().map(|(name, (group, _))| (name, group)).collect()
        };
        let caches = plan.extensions.of::<ShownCaches>().map(|caches| caches.0.clone());
        let mut memory = [0; 3];
        for slab in plan.figures.slabs().values() {
            let used = (slab.used)();
            memory[0] += slab.bytes;
            memory[1] += used.bytes;
            memory[2] += used.entries;
        }
        let sessions = plan.sessions.as_ref().map(|plan| &plan.figures);
        let catalogs = [Some(&plan.figures), sessions].into_iter().flatten();
        let certificates = catalogs.flat_map(Catalog::certificates);
        Collected {
            generation: plan.generation,
            connections: counters::figures(),
            servers: plan.figures.zones(Kind::Server),
            locations: plan.figures.zones(Kind::Location),
            session_servers: sessions
                .map_or_else(Shown::default, |of| of.zones(Kind::SessionServer)),
            groups: groups(false),
            session_groups: groups(true),
            caches: caches.unwrap_or_default().into_iter().collect(),
            limit_reqs: plan.figures.tallies(Kind::LimitReq).into_iter().collect(),
            limit_conns: plan.figures.tallies(Kind::LimitConn).into_iter().collect(),
            certificates: certificates.map(|(file, of)| (file.clone(), of.validity.1)).collect(),
            memory,
            now: source.now.monotonic,
        }
    }
}

/// Classes of statuses.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// Cache statuses and their names.
const STATUSES: [(CacheStatus, &str); 7] = [
    (CacheStatus::Miss, "miss"),
    (CacheStatus::Bypass, "bypass"),
    (CacheStatus::Expired, "expired"),
    (CacheStatus::Stale, "stale"),
    (CacheStatus::Updating, "updating"),
    (CacheStatus::Revalidated, "revalidated"),
    (CacheStatus::Hit, "hit"),
];

/// Returns the servers of groups with the groups' names. A server that is in a group twice is there once: the same labels
/// twice would be an error.
fn peers(groups: &[(String, Arc<Group>)], now: Instant) -> Vec<(&String, SlotView)> {
    let mut known = HashSet::new();
    let mut peers = Vec::new();
    for (name, group) in groups {
        let slots = group.view(now).into_iter();
        let new = slots.filter(|slot| known.insert((name, slot.peer.text.clone())));
        peers.extend(new.map(|slot| (name, slot)));
    }
    peers
}

/// The sums of one or more zones.
#[derive(Clone, Debug, Default)]
struct Sums {
    received: u64,
    sent: u64,
    classes: [u64; 5],
    micros: u64,
    times: [u64; BUCKETS],
}

impl Sums {
    fn add(&mut self, totals: &Totals) {
        self.received += totals.received;
        self.sent += totals.sent;
        self.micros += totals.micros;
        self.classes.iter_mut().zip(totals.classes()).for_each(|(sum, count)| *sum += count);
        self.times.iter_mut().zip(totals.times).for_each(|(sum, count)| *sum += count);
    }

    /// Returns the finished requests, those without a response included.
    fn requests(&self) -> u64 {
        self.times.iter().sum()
    }
}

/// Returns the sums of each zone.
fn sums_of(zones: &Shown) -> Vec<(String, Sums)> {
    let sums = |totals: Totals| {
        let mut sums = Sums::default();
        sums.add(&totals);
        sums
    };
    zones.iter().map(|(name, zone)| (name.clone(), sums(zone.totals()))).collect()
}
