//! Rules about language: words that a reader of nginx's manual or the RFCs does not know here have a standard one,
//! and subjects of commits fit into a list.

use super::Violation;

/// Words that are not used, and the ones that are; see `docs/GLOSSARY.md`. Compared without regard to case, with a
/// plural `s`, in names as well.
const REPLACED: &[(&str, &str)] = &[
    ("folder", "directory"),
    ("subfolder", "subdirectory"),
    ("duty", "background task"),
    ("crowd", "idle poller"),
    ("caretaker", "background worker"),
    ("heir", "successor"),
    ("giver", "assembler"),
];

/// Longest subject of a commit.
const SUBJECT_CHARACTERS_MAX: usize = 72;
/// Subjects of commits from here on are checked.
pub(super) const SUBJECTS_SINCE: &str = "2026-11-24T21:00:00Z";

/// Each private word of a text. Names of identifiers are taken apart at `_` and capitals.
pub(super) fn check(path: &str, text: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for word in words(line) {
            let singular = word.strip_suffix('s').unwrap_or(&word);
            let found =
                REPLACED.iter().find(|(replaced, _)| *replaced == word || *replaced == singular);
            if let Some((replaced, better)) = found {
                let reason = format!("\"{replaced}\" is \"{better}\" here");
                violations.push(Violation::new(path, index + 1, reason));
            }
        }
    }
    violations
}

/// The words of a line in small letters: `IdleCrowd` and `idle_crowd` have two.
fn words(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before = ' ';
    for character in line.chars() {
        if character.is_ascii_alphabetic() {
            let begins = !before.is_ascii_alphabetic()
                || character.is_ascii_uppercase() && before.is_ascii_lowercase();
            let small = character.to_ascii_lowercase();
            match words.last_mut() {
                Some(word) if !begins => word.push(small),
                _ => words.push(small.to_string()),
            }
        }
        before = character;
    }
    words
}

/// Subjects that are too long, of lines of hash and subject.
pub(super) fn check_subjects(log: &str) -> Vec<Violation> {
    let long = log.lines().filter_map(|line| line.split_once(' ')).filter(|(_, subject)| {
        subject.chars().count() > SUBJECT_CHARACTERS_MAX && !subject.starts_with("Merge ")
    });
    let refuse = |(hash, subject): (&str, &str)| {
        let count = subject.chars().count();
        let reason = format!(
            "its subject has {count} characters, at most {SUBJECT_CHARACTERS_MAX} are allowed"
        );
        Violation::new(&format!("commit {hash}"), 0, reason)
    };
    long.map(refuse).collect()
}
