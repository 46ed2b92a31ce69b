//! What is counted of a ring.

use crate::cache::counter::{Counter, Figure, figure};

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

/// All figures, as metrics behind `tidegate_cache_peers_`.
pub(crate) const RING_FIGURES: [Figure<RingFigures>; 8] = [
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
