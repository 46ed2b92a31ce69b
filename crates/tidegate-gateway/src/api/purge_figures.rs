//! Shared purges as metrics.

use tidegate_core::Exchange;

use crate::cache::config::zones::ShownCaches;
use crate::cache::purge_sync::PurgeTotals;
use crate::exposition::{Part, Type};

/// Name behind `tidegate_cache_purge`, type, help text, and how to read it.
type Row = (&'static str, Type, &'static str, fn(&PurgeTotals) -> f64);

const ROWS: [Row; 7] = [
    ("s_sent_total", Type::Counter, "Purges that were sent to other servers.", |of| of.sent as f64),
    ("s_not_distributed_total", Type::Counter, "Purges that could not be sent at once.", |of| {
        of.not_sent as f64
    }),
    ("s_waiting", Type::Gauge, "Purges that wait for the store.", |of| of.waiting as f64),
    ("s_applied_total", Type::Counter, "Purges of other servers.", |of| of.applied as f64),
    ("_replays_total", Type::Counter, "Times that missed purges were made up for.", |of| {
        of.replays as f64
    }),
    ("_revalidations_total", Type::Counter, "Times that all objects became stale.", |of| {
        of.revalidations as f64
    }),
    (
        "_lag_seconds",
        Type::Gauge,
        "Time that the last purge took, by the clocks of both ends.",
        |of| of.lag_millis as f64 / 1000.0,
    ),
];

/// Collects the figures of the caches that share their purges.
pub fn purge_metrics(x: &Exchange) -> Part {
    let shown = x.plan.extensions.of::<ShownCaches>();
    let caches = shown.iter().flat_map(|shown| shown.0.iter());
    let caches: Vec<_> = caches
        .filter_map(|(name, zone)| Some((name.to_string(), zone.sync.as_ref()?.totals())))
        .collect();
    Part::new(caches.len(), move |out| {
        for (name, kind, help, value) in ROWS.iter().filter(|_| !caches.is_empty()) {
            let name = format!("tidegate_cache_purge{name}");
            let mut family = out.family(&name, *kind, help);
            for (cache, totals) in &caches {
                family.line(&[("cache", cache)], value(totals));
            }
        }
    })
}
