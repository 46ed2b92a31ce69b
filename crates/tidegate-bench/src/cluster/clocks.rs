//! Clocks of the engine and of a server that are set an hour ahead and behind, and back, while requests come: the rate that is
//! allowed meanwhile, and purges of what was stored under another time of day.

use super::faults::{fault, row, settle};
use super::purges::{rejoin, stale_on, times};
use super::{Bed, limits};

/// The server whose clock is set.
const NODE: &str = "node2";
/// Seconds by which a clock is apart from the machine's.
const STEPS: [(&str, &str); 2] = [("ahead", "3600"), ("behind", "-3600")];
const NONE: (&str, &str) = ("right", "0");
/// Objects that are purged one by one, and as many by the beginning of their keys.
const OBJECTS: usize = 10;

pub(super) fn rows(bed: &mut Bed, seconds: u64) -> Result<(), String> {
    bed.fault(&["clocks"])?;
    settle(bed)?;
    for (place, whose) in [("engine", "engine's"), (NODE, "a server's")] {
        for (name, step) in STEPS {
            let (mut admitted, target) = ((0, 0), format!("/limited?k={place}{name}"));
            row(bed, &format!("{whose} clock {name}"), 3, |bed| {
                let set = || fault(bed, &["clock", place, step], &["clock", place, NONE.1]);
                let (back, found) = limits::during(bed, &target, seconds, set)?;
                admitted = found;
                Ok(back)
            })?;
            limits::row(bed, "  admitted in 10 s", admitted);
        }
    }
    for (name, step) in STEPS {
        set(bed, step)?;
        times(bed, &format!("purge, clocks {name}"))?;
    }
    set(bed, NONE.1)?;
    purged(bed)
}

/// Sets the clocks of the engine and of a server.
fn set(bed: &Bed, step: &str) -> Result<(), String> {
    bed.fault(&["clock", "engine", step])?;
    bed.fault(&["clock", NODE, step])
}

/// Purges what was stored before clocks were set, and counts stale responses: also behind a restart of the server.
fn purged(bed: &mut Bed) -> Result<(), String> {
    let times = [NONE, STEPS[0], STEPS[1]];
    for restarts in [false, true] {
        let (mut stale, mut checked) = (0, 0);
        for (stored, (_, before)) in times.iter().enumerate() {
            for (purged, (_, then)) in times.iter().enumerate() {
                set(bed, before)?;
                rejoin(bed)?;
                let objects = format!("/clock/{restarts}/{stored}/{purged}");
                let targets = |kind| (0..OBJECTS).map(move |number| (kind, number));
                let targets = targets("key").chain(targets("all"));
                let targets = targets.map(|(kind, number)| format!("{objects}/{kind}/{number}"));
                let targets: Vec<String> = targets.collect();
                for target in &targets {
                    stale += stale_on(bed, target)?;
                }
                set(bed, then)?;
                if restarts {
                    bed.fault(&["kill-node", NODE])?;
                    bed.fault(&["start-node", NODE])?;
                    rejoin(bed)?;
                }
                for target in &targets {
                    bed.origin.change(target);
                }
                for (by, target) in targets[..OBJECTS].iter().enumerate() {
                    purge(bed, by, target)?;
                }
                purge(bed, stored + purged, &format!("{objects}/all/*"))?;
                rejoin(bed)?;
                for target in &targets {
                    stale += stale_on(bed, target)?;
                    checked += bed.nodes.len();
                }
            }
        }
        let name = if restarts { "  and a restart" } else { "purges, clocks set in between" };
        bed.row(name, &format!("{stale} stale of {checked}"), "0 stale", stale == 0);
    }
    set(bed, NONE.1)?;
    settle(bed)
}

/// Purges by one server after the other.
fn purge(bed: &mut Bed, by: usize, target: &str) -> Result<(), String> {
    let by = by % bed.nodes.len();
    match bed.nodes[by].ask("PURGE", target)?.status {
        204 => Ok(()),
        status => Err(format!("PURGE {target}: {status}")),
    }
}
