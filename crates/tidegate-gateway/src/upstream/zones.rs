//! Checks whether the sizes of `zone`s agree: groups that share a zone may leave the size out.

use std::collections::BTreeMap;

use tidegate_conf::Diagnostic;
use tidegate_plan::{Outline, PlanBuilder};

use super::{Upstream, ZoneSize};

/// Reports zones of a block (`http`, `stream`) without a size, or with two.
pub(super) fn check(block: &Outline, plan: &mut PlanBuilder<'_>) {
    let mut zones: BTreeMap<&str, ZoneSize> = BTreeMap::new();
    for conf in block.blocks("upstream").filter_map(Outline::conf::<Upstream>) {
        let (Some(name), Some(size)) = (&conf.zone, conf.zone_size) else { continue };
        let known = zones.entry(name).or_insert(size);
        match (known.bytes, size.bytes) {
            (None, Some(_)) => *known = size,
            (Some(before), Some(now)) if before != now => {
                let message = format!(
                    "the size {now} of shared memory zone \"{name}\" conflicts with already declared size {before}"
                );
                plan.diagnostics.push(Diagnostic::emerg(message).at(size.span));
            }
            _ => {}
        }
    }
    let unsized_zones = zones.iter().filter(|(_, size)| size.bytes.is_none());
    plan.diagnostics.extend(unsized_zones.map(|(name, size)| {
        Diagnostic::emerg(format!("zero size shared memory zone \"{name}\""))
            .at(size.span)
            .help("write the size behind the name, as in `64k`")
    }));
}
