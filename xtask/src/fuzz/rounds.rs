//! The loop: for each target replay its seeds, then mutate them until its share of time or rounds
//! is used up.

use std::path::Path;
use std::time::{Duration, Instant};

use super::Options;
use super::corpus::{Seed, read_dictionary, read_seeds};
use super::guard::{Guard, fingerprint};
use super::mutate::{Random, mutate};

/// A function that must neither panic nor hang on any input.
pub(super) struct Target {
    pub name: &'static str,
    pub run: fn(&[u8]),
}

/// `Ok(false)` when an input broke a target; the others are run all the same.
pub(super) fn run(root: &Path, targets: &[Target], options: &Options) -> Result<bool, String> {
    let chosen: Vec<&Target> = targets
        .iter()
        .filter(|target| options.target.as_deref().is_none_or(|name| name == target.name))
        .collect();
    if chosen.is_empty() {
        let names: Vec<&str> = targets.iter().map(|target| target.name).collect();
        return Err(format!("fuzz: no such target; there are {}", names.join(", ")));
    }
    let guard = Guard::new(root.join("target/fuzz-failures"), options.careful);
    let mut remaining = options.time;
    let mut whole = true;
    for (index, target) in chosen.iter().enumerate() {
        let began = Instant::now();
        // The later targets share the remaining time of a quick one.
        let share = remaining / (chosen.len() - index) as u32;
        match run_target(root, target, options, share, &guard)? {
            Ok(count) => println!("fuzz: {}: {count} inputs, none broke it", target.name),
            Err(failure) => {
                whole = false;
                println!("fuzz: {}: {failure}", target.name);
            }
        }
        remaining = remaining.saturating_sub(began.elapsed());
    }
    Ok(whole)
}

/// The outer error is a usage error (no seeds); the inner one is an input that broke the target.
fn run_target(
    root: &Path,
    target: &Target,
    options: &Options,
    time: Duration,
    guard: &Guard,
) -> Result<Result<u64, String>, String> {
    let seeds = read_seeds(&root.join("fuzz/seeds").join(target.name))?;
    let dictionary =
        read_dictionary(&root.join("fuzz/dictionaries").join(format!("{}.dict", target.name)))?;
    for seed in &seeds {
        if let Err(kept) = guard.run(target.name, target.run, &seed.bytes) {
            return Ok(Err(format!("the seed {} breaks it ({kept})", seed.name)));
        }
    }
    let mut count = seeds.len() as u64;
    let began = Instant::now();
    let mut random = Random::new(options.seed ^ fingerprint(target.name.as_bytes()));
    for round in 0..options.iterations {
        if began.elapsed() >= time {
            break;
        }
        let input = next_input(&seeds, &dictionary, &mut random);
        if let Err(kept) = guard.run(target.name, target.run, &input) {
            return Ok(Err(format!(
                "round {round} of seed {} breaks it; kept as {kept}; \
                 mend it, then move the input to fuzz/seeds/{}/",
                options.seed, target.name
            )));
        }
        count += 1;
    }
    Ok(Ok(count))
}

pub(super) fn next_input(seeds: &[Seed], dictionary: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let pick = |random: &mut Random| {
        seeds.get(random.below(seeds.len())).map_or(&[][..], |seed| seed.bytes.as_slice())
    };
    let mut input = pick(random).to_vec();
    let other = pick(random);
    mutate(&mut input, other, dictionary, random);
    input
}
