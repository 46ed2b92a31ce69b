//! Figures in the text format of Prometheus under the names of others, so that their dashboards work: of the module
//! nginx-module-vts (`vts`), and of ingress-nginx (`ingress`).

mod ingress;
mod text;
mod vts;

use std::sync::{Arc, LazyLock};
use std::time::Instant;

use tidegate_core::Exchange;
use tidegate_core::counters::{self, ConnectionFigures};
use tidegate_core::figures::{BUCKETS, Kind, Shown, Totals};
use tidegate_rt::clock;
use tidegate_upstream::Group;

use super::groups::of_block;
use crate::cache::config::zones::{ShownCaches, Zone as CacheZone};

/// Whose names are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// nginx-module-vts.
    Vts,
    /// ingress-nginx.
    Ingress,
}

/// What is shown, collected on the connection's thread.
struct Collected {
    connections: ConnectionFigures,
    servers: Shown,
    locations: Shown,
    groups: Vec<(String, Arc<Group>)>,
    caches: Vec<(String, Arc<CacheZone>)>,
    /// Sizes of the zones of memory as written, what is used of them, and entries.
    memory: [u64; 3],
    now: Instant,
}

/// When the process began to serve, in Unix milliseconds.
static STARTED: LazyLock<u64> = LazyLock::new(clock::unix_millis);

/// Notes when the process began to serve; called while a configuration is loaded.
pub fn note_start() {
    LazyLock::force(&STARTED);
}

/// Collects what is shown; the returned function writes the text, which takes time where there are many servers.
pub fn exporter_metrics(x: &Exchange, names: Names) -> impl FnOnce() -> String + Send + 'static {
    let plan = &x.plan;
    let groups = of_block(x, false).map(|groups| groups.changing()).unwrap_or_default();
    let caches = plan.extensions.of::<ShownCaches>().map(|caches| caches.0.clone());
    let mut memory = [0; 3];
    for slab in plan.figures.slabs().values() {
        let used = (slab.used)();
        memory[0] += slab.bytes;
        memory[1] += used.bytes;
        memory[2] += used.entries;
    }
    let collected = Collected {
        connections: counters::figures(),
        servers: plan.figures.zones(Kind::Server),
        locations: plan.figures.zones(Kind::Location),
        groups: groups.into_iter().map(|(name, (group, _))| (name, group)).collect(),
        caches: caches.unwrap_or_default().into_iter().collect(),
        memory,
        now: clock::now(),
    };
    move || match names {
        Names::Vts => vts::write(&collected),
        Names::Ingress => ingress::write(&collected),
    }
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
