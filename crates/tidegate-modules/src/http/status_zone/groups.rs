//! The groups of zones by values of variables: directives that name the same one share it, whatever their texts are.

use std::collections::BTreeMap;

use tidegate_core::figures::Kind;
use tidegate_plan::{Outline, PlanBuilder};

use super::StatusZone;
use super::conf::ZoneText;

/// What the directives of a group say.
#[derive(Default)]
struct Declared {
    /// Their texts.
    keys: Vec<Vec<u8>>,
    /// The largest COUNT.
    most: usize,
}

/// Opens all groups of the block, before anything that uses them is prepared.
pub(super) fn open(plan: &mut PlanBuilder<'_>) {
    let Some(block) = plan.http_block() else { return };
    let mut declared = BTreeMap::new();
    collect(block, plan.in_stream(), &mut declared);
    let figures = plan.all_figures();
    for ((kind, name), Declared { mut keys, most }) in declared {
        keys.sort();
        keys.dedup();
        let group = figures.group(kind, name, &keys.join(&b'\0'), most);
        plan.figures.add_group(kind, name, group);
    }
}

fn collect<'o>(
    block: &'o Outline,
    stream: bool,
    declared: &mut BTreeMap<(Kind, &'o str), Declared>,
) {
    let of_server = if stream { Kind::SessionServer } else { Kind::Server };
    if let Some(conf) = block.conf::<StatusZone>() {
        for (kind, text) in [(of_server, &conf.server), (Kind::Location, &conf.location)] {
            if let Some(ZoneText::Keyed { key, name, most }) = text {
                let known = declared.entry((kind, name.as_str())).or_default();
                known.keys.push(key.bytes.clone());
                known.most = known.most.max(*most);
            }
        }
    }
    block.children.iter().for_each(|child| collect(child, stream, declared));
}
