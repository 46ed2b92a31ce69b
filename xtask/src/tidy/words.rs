//! Rules about language: private words are replaced by those of nginx's manual and the RFCs, and subjects of commits
//! are short.

use super::Violation;

/// Refused words and their replacements; see `docs/GLOSSARY.md`. Compared without regard to case, with a
/// plural `s`, in names as well.
const REPLACED: &[(&str, &str)] = &[
    ("answer", "response"),
    ("answered", "responded"),
    ("answering", "responding"),
    ("anybody", "any client, or the party's name"),
    ("blemish", "defect"),
    ("caretaker", "background worker"),
    ("chore", "task"),
    ("crowd", "idle poller"),
    ("dialect", "syntax"),
    ("duty", "background task"),
    ("fate", "action, or outcome"),
    ("folder", "directory"),
    ("giver", "assembler"),
    ("gladly", "nothing"),
    ("glance", "stamp, or probe"),
    ("habit", "pattern"),
    ("heir", "successor"),
    ("hither", "here"),
    ("joiner", "follower"),
    ("learnt", "learned"),
    ("lesson", "estimate"),
    ("lest", "so that not"),
    ("meddler", "modifier"),
    ("rescue", "fallback"),
    ("seam", "boundary"),
    ("sight", "lookup"),
    ("somebody", "another process, or the party's name"),
    ("standing", "state"),
    ("subfolder", "subdirectory"),
    ("thereof", "of it"),
    ("told", "logged, reported, or returned"),
    ("vanish", "is removed"),
    ("visitor", "client"),
    ("whoever", "the party's name"),
    ("whom", "the party's name"),
    ("whomever", "the party's name"),
];

/// Where a word is the field's own: the beginning of a path, the word, and why.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("crates/tidegate-upstream/src/resolve", "answer", "the answer section, RFC 1035 4.1.2"),
    ("crates/tidegate-upstream/src/resolve", "answered", "name servers answer, RFC 1035"),
    ("crates/tidegate-upstream/src/care/names.rs", "answer", "answers of name servers"),
    ("crates/tidegate-testkit/src/names.rs", "answer", "the harness's name server"),
    ("crates/tidegate-rt/src/net/stream.rs", "answer", "a title in epoll(7)"),
    ("tests/cases/proxy/resolver.md", "answer", "answers of name servers"),
    ("crates/tidegate-gateway/src/cache/", "told", "told apart: variants"),
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
            let found = found.filter(|(replaced, _)| !is_excepted(path, replaced));
            if let Some((replaced, better)) = found {
                let reason = format!("\"{replaced}\" is \"{better}\" here");
                violations.push(Violation::new(path, index + 1, reason));
            }
        }
    }
    violations
}

/// Returns whether this file may have the word.
fn is_excepted(path: &str, word: &str) -> bool {
    EXCEPTIONS.iter().any(|(begin, excepted, _)| path.starts_with(begin) && *excepted == word)
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
