//! A thousand servers through purges, partitions and a restored engine: the table `docs/simulations/purges.tsv`.

use std::fmt::Write as _;

use tidegate_plan::testing::{Random, check_recorded};

use super::*;

const SERVERS: usize = 1000;
/// Time between two questions of a server.
const STEPS_PER_SECOND: u64 = 4;
const SECONDS: u64 = 40;
/// Who is cut off, as a part of all, and from which second to which.
const CUTS: [(usize, u64, u64); 2] = [(4, 5, 10), (2, 15, 22)];
/// The engine is restored at the second second, to its state of the first.
const RESTORED: (u64, u64) = (26, 30);

impl World {
    /// Returns whether a server has a fresh object from before a purge that was distributed.
    fn is_stale(&self, node: usize) -> bool {
        let objects = self.nodes[node].objects.iter().zip(&self.owed);
        objects.into_iter().any(|(object, owed)| {
            object.is_some_and(|object| object.fresh && object.version < *owed)
        })
    }
}

#[test]
fn a_thousand_servers_through_partitions_and_a_restored_engine() {
    let mut table = "\
# 1000 servers; a quarter is cut off in seconds 5 to 10, a half in 15 to 22; at 30 the engine loses four seconds
# seconds\t0\t40\t8
# servers\t0\t1000\t4
seconds\tcut off\twith a purged object\tof these, up to date
"
    .to_owned();
    let (mut world, mut random) = (World::of(SERVERS), Random(1));
    let mut below = |limit: usize| random.below(limit as u64) as usize;
    let run = |world: &mut World, op: Op| world.carry_out(&op).expect("nothing is stale");
    for step in 0..SECONDS * STEPS_PER_SECOND {
        let second = step / STEPS_PER_SECOND;
        if step % STEPS_PER_SECOND == 0 {
            for node in 0..SERVERS {
                let cut = CUTS.iter().any(|(part, from, until)| {
                    node % part == 0 && (*from..*until).contains(&second)
                });
                run(&mut world, Op::CutOff(node, cut));
            }
            match second {
                second if second == RESTORED.0 => run(&mut world, Op::Snapshot),
                second if second == RESTORED.1 => run(&mut world, Op::Restore),
                _ => {}
            }
        }
        // Each server requests one object; some purge one.
        for node in 0..SERVERS {
            run(&mut world, Op::Begin(node, below(KEYS)));
            run(&mut world, Op::End(node));
        }
        for _ in 0..2 {
            let purge = Op::Purge(below(SERVERS), below(KEYS), below(2) == 0);
            run(&mut world, purge);
        }
        // Those that are cut off tell of their purges when they are back, so each is looked at behind its own question.
        let (mut stale, mut served) = (0, 0);
        for node in 0..SERVERS {
            let is_current = world.ask(node, true);
            let is_stale = world.is_stale(node);
            stale += usize::from(is_stale);
            served += usize::from(is_stale && is_current);
        }
        let cut_off = world.nodes.iter().filter(|node| node.is_cut_off).count();
        assert_eq!(served, 0, "step {step}");
        let at = (step + 1) as f64 / STEPS_PER_SECOND as f64;
        // Writing to a String cannot fail.
        let _ = writeln!(table, "{at}\t{cut_off}\t{stale}\t{served}");
    }
    world.rejoin().expect("nothing is stale");
    check_recorded("purges.tsv", &table);
}
