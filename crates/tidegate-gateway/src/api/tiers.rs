//! Second tiers of caches, in full.

use std::sync::Arc;

use super::objects::{Object, Objects};
use super::source::Source;
use crate::cache::tier::{Tier, Tiers};

/// Shows each tier with its state and figures. A tier of another module than `proxy` has the module's prefix in front of its
/// name.
pub(super) fn all(source: &Source) -> Objects {
    let tiers = source.plan.extensions.of::<Tiers>().into_iter().flat_map(|tiers| &tiers.0);
    let object = |((prefix, name), tier): (&(&'static str, String), &Arc<Tier>)| {
        let tier = tier.clone();
        let name = match *prefix {
            "proxy_" => name.clone(),
            other => format!("{}:{name}", other.trim_end_matches('_')),
        };
        (name, Object::new(move || tier.show()))
    };
    tiers.map(object).collect()
}
