//! Rings of caches, in full.

use super::objects::{Object, Objects};
use super::source::Source;
use crate::cache::ring::Rings;

/// Shows the figures of each ring, by the name of its group.
pub(super) fn all(source: &Source) -> Objects {
    let rings = source.plan.extensions.of::<Rings>().into_iter().flat_map(|rings| &rings.0);
    let rings = rings.map(|(name, ring)| {
        let ring = ring.clone();
        (name.clone(), Object::new(move || ring.show()))
    });
    rings.collect()
}
