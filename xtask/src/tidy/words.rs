//! Rules about language: private words are replaced by those of nginx's manual and the RFCs, and subjects of commits
//! are short.

use super::Violation;

/// Refused words and their replacements; see `docs/GLOSSARY.md`. Compared without regard to case, with a
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

/// Finds each refused word of a text. Identifiers are split at `_` and capitals.
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

/// Returns the words of a line in lower case: `IdleCrowd` and `idle_crowd` have two.
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

/// Finds subjects that are too long, in lines of hash and subject.
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
