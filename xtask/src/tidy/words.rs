//! Rules about language: private words are replaced by those of nginx's manual and the RFCs, and subjects of commits
//! are short.

use super::Violation;

/// Refused words and their replacements; see `docs/GLOSSARY.md`. Compared without regard to case, with a
/// plural `s`, in names as well.
const REPLACED: &[(&str, &str)] = &[
    ("answer", "response"),
    ("answered", "responded"),
    ("anybody", "any client"),
    ("blemish", "defect"),
    ("caretaker", "background worker"),
    ("chore", "task"),
    ("crowd", "idle poller"),
    ("dialect", "syntax"),
    ("duty", "background task"),
    ("fate", "outcome"),
    ("folder", "directory"),
    ("giver", "assembler"),
    ("glance", "probe"),
    ("habit", "pattern"),
    ("heir", "successor"),
    ("hither", "here"),
    ("joiner", "follower"),
    ("learnt", "learned"),
    ("lesson", "estimate"),
    ("lest", "so that"),
    ("meddler", "modifier"),
    ("news", "event"),
    ("nobody", "no client"),
    ("rescue", "fallback"),
    ("seam", "boundary"),
    ("sight", "lookup"),
    ("somebody", "a client"),
    ("standing", "state"),
    ("stranger", "unknown peer"),
    ("subfolder", "subdirectory"),
    ("thereof", "of it"),
    ("told", "reported"),
    ("vanish", "be removed"),
    ("visitor", "client"),
    ("whoever", "the client"),
    ("whom", "the client"),
    ("whomever", "the client"),
];

/// Words that are allowed in the files whose paths begin so, with the reason.
const ALLOWED: &[(&str, &str, &str)] = &[
    ("answer", "crates/tidegate-upstream/src/resolve", "DNS: the answer section, RFC 1035 4.1"),
    ("answer", "crates/tidegate-upstream/src/care/names.rs", "DNS: answers of name servers"),
    ("answer", "crates/tidegate-testkit/src/names.rs", "DNS: the name server of the cases"),
    ("answer", "crates/tidegate-rt/src/net/stream.rs", "a section's title in epoll(7)"),
    ("answer", "tests/cases/", "bodies and placeholders, whose lengths count"),
    ("nobody", "crates/tidegate-os/tests/process.rs", "the credentials of the user of this name"),
    ("nobody", "CODE_OF_CONDUCT.md", "about people"),
    ("visitor", "crates/tidegate-modules/src/http/geoip2/database.rs", "a trait of serde"),
    ("visitor", "crates/tidegate-gateway/src/keyval/pairs.rs", "a trait of serde"),
    ("visitor", "crates/tidegate-gateway/src/discovery/etcd.rs", "a trait of serde"),
    ("visitor", "crates/tidegate-gateway/src/discovery/pairs.rs", "a trait of serde"),
    ("visitor", "crates/tidegate-jose/src/json.rs", "a trait of serde"),
];

/// Refused words that are also names: of nginx's user, of a facility of syslog. As such they follow one of
/// [`BEFORE_NAMES`], the word `user`, or themselves.
const NAMES: &[&str] = &["nobody", "news"];
const BEFORE_NAMES: &[char] = &['"', '`', '$', '/'];

/// Documents whose paths are checked, and how such a path begins.
pub(super) const WITH_PATHS: &[&str] = &["docs/GLOSSARY.md", "docs/ARCHITECTURE.md"];
const PLACES: &[&str] =
    &["crates/", "docs/", "fuzz/", "packaging/", "scripts/", "tests/", "xtask/"];

/// Longest subject of a commit.
const SUBJECT_CHARACTERS_MAX: usize = 72;
/// Subjects of commits from here on are checked.
pub(super) const SUBJECTS_SINCE: &str = "2026-11-24T21:00:00Z";

/// Finds each refused word of a text. Identifiers are split at `_` and capitals.
pub(super) fn check(path: &str, text: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let words = words(line);
        for (number, word) in words.iter().enumerate() {
            let Some((replaced, better)) = replacement(&word.text) else { continue };
            let last = number.checked_sub(1).map(|last| words[last].text.as_str());
            if is_allowed(path, replaced) || is_name(word, last) {
                continue;
            }
            let reason = format!("\"{replaced}\" is \"{better}\" here");
            violations.push(Violation::new(path, index + 1, reason));
        }
    }
    violations
}

fn replacement(word: &str) -> Option<(&'static str, &'static str)> {
    let singular = word.strip_suffix('s').unwrap_or(word);
    REPLACED.iter().find(|(replaced, _)| *replaced == word || *replaced == singular).copied()
}

fn is_allowed(path: &str, word: &str) -> bool {
    let stem = word.strip_suffix("ed").unwrap_or(word);
    ALLOWED.iter().any(|(allowed, place, _)| *allowed == stem && path.starts_with(place))
}

/// Whether a word is a name here, by what is before it; see [`NAMES`].
fn is_name(word: &Word, last: Option<&str>) -> bool {
    NAMES.contains(&word.text.as_str())
        && (BEFORE_NAMES.contains(&word.before)
            || last.is_some_and(|last| last == "user" || last == word.text))
}

/// A word in lower case, and the character before it.
struct Word {
    text: String,
    before: char,
}

/// Returns the words of a line: `IdlePoller` and `idle_poller` have two.
fn words(line: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let mut before = ' ';
    for character in line.chars() {
        if character.is_ascii_alphabetic() {
            let begins = !before.is_ascii_alphabetic()
                || character.is_ascii_uppercase() && before.is_ascii_lowercase();
            let small = character.to_ascii_lowercase();
            match words.last_mut() {
                Some(word) if !begins => word.text.push(small),
                _ => words.push(Word { text: small.to_string(), before }),
            }
        }
        before = character;
    }
    words
}

/// Finds the paths in code spans of the documents that name places of the tree, and that do not exist. `exists` is for
/// files and directories.
pub(super) fn check_paths(path: &str, text: &str, exists: impl Fn(&str) -> bool) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (index, line) in text.lines().enumerate() {
        // Odd parts are between backticks.
        let spans = line.split('`').skip(1).step_by(2);
        for place in spans.filter(|span| PLACES.iter().any(|place| span.starts_with(place))) {
            let is_path = !place.contains(['*', '{', ' ', '…', '<']);
            if is_path && !exists(place.trim_end_matches('/')) {
                let reason = format!("`{place}` does not exist");
                violations.push(Violation::new(path, index + 1, reason));
            }
        }
    }
    violations
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
