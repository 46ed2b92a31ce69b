//! What is counted of a ring.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of a ring; [`RING_FIGURES`] describes them.
#[derive(Debug, Default)]
pub(crate) struct RingFigures {
    pub(super) asked: Counter,
    pub(super) served: Counter,
    pub(super) failures: Counter,
    pub(super) refused: Counter,
    pub(super) outdated: Counter,
    pub(super) copies: Counter,
    pub(super) requests: Counter,
    pub(super) mismatches: Counter,
}

/// A figure: its name in the API and (behind `tidegate_cache_peers_`, before `_total`) as a metric, its description, and how to
/// read it.
pub(crate) struct RingFigure {
    pub name: &'static str,
    pub help: &'static str,
    pub of: fn(&RingFigures) -> u64,
}

const fn figure(name: &'static str, help: &'static str, of: fn(&RingFigures) -> u64) -> RingFigure {
    RingFigure { name, help, of }
}

/// All figures.
pub(crate) const RING_FIGURES: [RingFigure; 8] = [
    figure("asked", "Requests to peers.", |of| of.asked.value()),
    figure("served", "Responses of peers that were used.", |of| of.served.value()),
    figure("failures", "Requests to peers without a response.", |of| of.failures.value()),
    figure("refused", "Responses of peers that are none of their cache.", |of| of.refused.value()),
    figure("outdated", "Responses of peers that were purged here.", |of| of.outdated.value()),
    figure("copies", "Responses of peers that were stored, as they are used often.", |of| {
        of.copies.value()
    }),
    figure("requests", "Requests of peers.", |of| of.requests.value()),
    figure("mismatches", "Requests of peers that have another key here.", |of| {
        of.mismatches.value()
    }),
];
