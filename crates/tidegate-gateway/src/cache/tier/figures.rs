//! What is counted of a tier.

use crate::cache::counter::{Counter, Figure, figure};

/// The counters of a tier; [`TIER_FIGURES`] describes them.
#[derive(Debug, Default)]
pub(crate) struct TierFigures {
    pub(super) found: Counter,
    pub(super) absent: Counter,
    pub(super) remembered: Counter,
    pub(super) outdated: Counter,
    pub(super) overtaken: Counter,
    pub(super) skipped: Counter,
    pub(super) failures: Counter,
    pub(super) damaged: Counter,
    pub(super) uploaded: Counter,
    pub(super) upload_bytes: Counter,
    pub(super) present: Counter,
    pub(super) not_uploaded: Counter,
    pub(super) dropped: Counter,
    pub(super) lists: Counter,
}

/// All figures, as metrics behind `tidegate_cache_tier_`.
pub(crate) const TIER_FIGURES: [Figure<TierFigures>; 14] = [
    figure("found", "Misses that the tier has served.", |of| of.found.value()),
    figure("absent", "Misses of keys that the tier does not have.", |of| of.absent.value()),
    figure("remembered", "Misses of keys that it did not have a moment ago.", |of| {
        of.remembered.value()
    }),
    figure("outdated", "Objects that are stale, purged, or another variant.", |of| {
        of.outdated.value()
    }),
    figure("overtaken", "Misses that the origin has served before the tier.", |of| {
        of.overtaken.value()
    }),
    figure("skipped", "Misses while the tier was left alone.", |of| of.skipped.value()),
    figure("failures", "Failed requests to the tier.", |of| of.failures.value()),
    figure("damaged", "Objects that do not match their checksums.", |of| of.damaged.value()),
    figure("uploaded", "Objects written to the tier.", |of| of.uploaded.value()),
    figure("upload_bytes", "Bytes of these objects.", |of| of.upload_bytes.value()),
    figure("present", "Objects that were in the tier already.", |of| of.present.value()),
    figure("not_uploaded", "Objects whose upload failed.", |of| of.not_uploaded.value()),
    figure("lists", "Times that a list of purges was read.", |of| of.lists.value()),
    figure("dropped", "Objects not uploaded, as too many waited.", |of| of.dropped.value()),
];
