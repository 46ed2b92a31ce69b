//! Rings of caches as metrics.

use tidegate_core::Exchange;

use crate::cache::ring::{RING_FIGURES, Rings};
use crate::exposition::{Part, Type};

/// Collects the figures of all rings.
pub fn ring_metrics(x: &Exchange) -> Part {
    let rings = x.plan.extensions.of::<Rings>().cloned().unwrap_or_default();
    Part::new(rings.0.len(), move |out| {
        if rings.0.is_empty() {
            return;
        }
        for figure in &RING_FIGURES {
            let name = format!("tidegate_cache_peers_{}_total", figure.name);
            let mut family = out.family(&name, Type::Counter, figure.help);
            for (group, ring) in &rings.0 {
                family.line(&[("upstream", group)], (figure.of)(&ring.figures));
            }
        }
    })
}
