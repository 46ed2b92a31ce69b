//! Tests of the fuzz task itself: repeatability, detection of failures, and agreement of all lists.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Options;
use super::corpus::{Seed, parse_dictionary};
use super::guard::{Guard, fingerprint};
use super::mutate::{INPUT_BYTES_MAX, Random};
use super::rounds::{self, Target, next_input};

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn options_are_read() {
    let options = Options::parse(&words("--seconds 3 --iterations 7 --seed 9 --target uri"));
    let expected = Options {
        iterations: 7,
        time: Duration::from_secs(3),
        seed: 9,
        target: Some("uri".to_owned()),
        careful: false,
    };
    assert_eq!(options, Ok(expected));
    for wrong in ["--seconds", "--seconds x", "--speed 3", "--iterations -1"] {
        assert!(Options::parse(&words(wrong)).is_err(), "{wrong}");
    }
}

#[test]
fn dictionary_escapes_are_read() {
    let text = "# words\n\n\"GET\"\n\"\\x0d\\x0A\"\n\"a\\\\b\\\"\"\n";
    let expected = vec![b"GET".to_vec(), b"\r\n".to_vec(), b"a\\b\"".to_vec()];
    assert_eq!(parse_dictionary(text), Ok(expected));
    for (wrong, line) in [("GET", 1), ("\"a\"\n\"\\x0\"", 2), ("\"\\q\"", 1), ("\"", 1)] {
        assert_eq!(parse_dictionary(wrong), Err(line), "{wrong}");
    }
}

fn sequence(seed: u64) -> Vec<Vec<u8>> {
    let seed_of = |text: &str| Seed { name: text.to_owned(), bytes: text.as_bytes().to_vec() };
    let seeds = [seed_of("GET / HTTP/1.1"), seed_of("bytes=0-99"), seed_of("")];
    let dictionary = [b"Host".to_vec()];
    let mut random = Random::new(seed);
    (0..2000).map(|_| next_input(&seeds, &dictionary, &mut random)).collect()
}

#[test]
fn mutations_repeat_differ_and_stay_small() {
    assert_eq!(sequence(1), sequence(1));
    assert_ne!(sequence(1), sequence(2));
    let distinct: BTreeSet<Vec<u8>> = sequence(1).into_iter().collect();
    assert!(distinct.len() > 1000, "only {} distinct inputs", distinct.len());
    assert!(distinct.iter().all(|input| input.len() <= INPUT_BYTES_MAX));
}

/// A repository with one target's seeds, below the build directory.
fn sample_repository(name: &str) -> PathBuf {
    let unique = format!("xtask-fuzz-{name}-{}", std::process::id());
    let root = std::env::temp_dir().join(unique);
    let seeds = root.join("fuzz/seeds/sample");
    std::fs::create_dir_all(&seeds).expect("a temporary directory can be made");
    std::fs::write(seeds.join("one"), b"bytes=0-99").expect("a seed can be written");
    root
}

/// Panics on an input that only a mutation produces: a larger number than in the seed.
fn breaks_on_large_number(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    assert!(!text.contains("18446744073709551616"), "as the test wants it");
}

#[test]
fn a_broken_target_is_found_and_its_input_kept() {
    let root = sample_repository("broken");
    let sample = Target { name: "sample", run: breaks_on_large_number };
    let options = Options { iterations: 50_000, ..Options::default() };
    assert_eq!(rounds::run(&root, &[sample], &options), Ok(false));
    let kept = std::fs::read_dir(root.join("target/fuzz-failures"))
        .expect("the directory of failures was made")
        .count();
    assert_eq!(kept, 1);
    std::fs::remove_dir_all(root).expect("the temporary directory can be removed");
}

#[test]
fn a_complete_target_passes_and_a_missing_one_is_reported() {
    let root = sample_repository("whole");
    let targets = [Target { name: "sample", run: |_| {} }];
    let options = Options { iterations: 10, ..Options::default() };
    assert_eq!(rounds::run(&root, &targets, &options), Ok(true));
    let options = Options { target: Some("other".to_owned()), ..Options::default() };
    assert!(rounds::run(&root, &targets, &options).is_err());
    let unseeded = [Target { name: "unseeded", run: |_| {} }];
    assert!(rounds::run(&root, &unseeded, &Options::default()).is_err());
    std::fs::remove_dir_all(root).expect("the temporary directory can be removed");
}

#[test]
fn careful_mode_keeps_the_last_input() {
    let root = sample_repository("careful");
    let guard = Guard::new(root.join("failures"), true);
    assert_eq!(guard.run("sample", |_| {}, b"before the abort"), Ok(()));
    let kept = std::fs::read(root.join("failures/sample-last"));
    assert_eq!(kept.expect("the input was written first"), b"before the abort");
    std::fs::remove_dir_all(root).expect("the temporary directory can be removed");
}

#[test]
fn fingerprints_distinguish_inputs() {
    assert_eq!(fingerprint(b""), 0xcbf2_9ce4_8422_2325);
    assert_ne!(fingerprint(b"a"), fingerprint(b"b"));
}

/// Returns the names in `targets.rs`, read as text so that this test needs no product crate.
fn names_in(text: &str, before: &str) -> BTreeSet<String> {
    text.split(before)
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .map(str::to_owned)
        .collect()
}

fn names_of_files(directory: &Path) -> BTreeSet<String> {
    std::fs::read_dir(directory)
        .expect("the directory is there")
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            Some(path.file_stem()?.to_string_lossy().into_owned())
        })
        .collect()
}

#[test]
fn every_target_has_seeds_a_program_and_an_entry() {
    let root = crate::repository_root();
    let listed = names_in(include_str!("targets.rs"), "name: \"");
    assert!(listed.len() >= 10, "{listed:?}");
    let manifest = std::fs::read_to_string(root.join("fuzz/Cargo.toml")).expect("it is there");
    assert_eq!(names_in(&manifest, "path = \"fuzz_targets/").len(), listed.len());
    let programs: BTreeSet<String> = listed.iter().map(|name| format!("{name}.rs")).collect();
    assert_eq!(names_in(&manifest, "path = \"fuzz_targets/"), programs);
    assert_eq!(names_of_files(&root.join("fuzz/fuzz_targets")), listed);
    assert_eq!(names_of_files(&root.join("fuzz/seeds")), listed);
}
