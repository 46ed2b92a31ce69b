//! Second tiers of caches as metrics.

use std::sync::Arc;

use tidegate_core::Exchange;

use crate::cache::tier::{TIER_FIGURES, Tier, Tiers};
use crate::exposition::{Part, Type};

/// Collects the figures of all tiers.
pub fn tier_metrics(x: &Exchange) -> Part {
    let tiers = x.plan.extensions.of::<Tiers>().into_iter().flat_map(|tiers| tiers.0.values());
    let tiers: Vec<Arc<Tier>> = tiers.cloned().collect();
    Part::new(tiers.len(), move |out| {
        if tiers.is_empty() {
            return;
        }
        for figure in &TIER_FIGURES {
            let name = format!("tidegate_cache_tier_{}_total", figure.name);
            let mut family = out.family(&name, Type::Counter, figure.help);
            for tier in &tiers {
                family.line(&[("tier", &tier.name)], (figure.of)(&tier.kept.figures));
            }
        }
        let help = "Objects that wait to be uploaded.";
        let mut family = out.family("tidegate_cache_tier_queued", Type::Gauge, help);
        tiers.iter().for_each(|tier| family.line(&[("tier", &tier.name)], tier.queued()));
        let help = "Whether the tier is asked: not while it is left alone.";
        let mut family = out.family("tidegate_cache_tier_asked", Type::Gauge, help);
        tiers.iter().for_each(|tier| {
            family.line(&[("tier", &tier.name)], u64::from(tier.is_asked()));
        });
    })
}
