//! What a line is about, apart: for lines of JSON and for filters.

use std::rc::Rc;

use super::LINE_BYTES_MAX;
use super::tags::LogTags;

/// What a line belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A request of the `http` block.
    Request,
    /// A session of the `stream` block.
    Session,
}

/// The names of fields that a line may have, as lines of JSON write them.
pub const FIELD_NAMES: &[&str] = &[
    "action",
    "client",
    "server",
    "protocol",
    "request",
    "subrequest",
    "upstream",
    "host",
    "referrer",
];

/// What a line is about, besides its message.
#[derive(Debug, Default)]
pub struct LogFields {
    pub(super) message: String,
    pub(super) kind: Option<Kind>,
    /// Names are of [`FIELD_NAMES`].
    pub(super) members: Vec<(&'static str, Vec<u8>)>,
    pub(super) counts: Vec<(&'static str, u64)>,
    pub(super) tags: Option<Rc<LogTags>>,
}

impl LogFields {
    /// Makes the fields of a line that has a message alone.
    pub fn new(message: String) -> LogFields {
        LogFields { message, ..LogFields::default() }
    }

    /// Makes the fields of a line about a request or a session. `tags` are those of its location.
    pub fn about(kind: Kind, message: String, tags: Option<Rc<LogTags>>) -> LogFields {
        LogFields { message, kind: Some(kind), tags, ..LogFields::default() }
    }

    /// Adds a value; an empty one is left out. What no line has room for is cut.
    pub fn add(&mut self, name: &'static str, value: &[u8]) {
        if !value.is_empty() {
            self.members.push((name, value[..value.len().min(LINE_BYTES_MAX + 1)].to_vec()));
        }
    }

    /// Adds a number of bytes.
    pub fn count(&mut self, name: &'static str, bytes: u64) {
        self.counts.push((name, bytes));
    }

    /// Returns the value of a field; empty for one that the line has not.
    pub(super) fn value(&self, name: &str) -> &[u8] {
        let found = self.members.iter().find(|(known, _)| *known == name);
        found.map_or(&[], |(_, value)| value)
    }

    /// Returns the words that say what the line is about, then those of `error_log_user_tag`.
    pub(super) fn words(&self) -> impl Iterator<Item = &[u8]> {
        let kind: &[&str] = match (self.kind, self.value("upstream").is_empty()) {
            (None, _) => &[],
            (Some(Kind::Request), true) => &["http"],
            (Some(Kind::Request), false) => &["http", "upstream", "peer"],
            (Some(Kind::Session), true) => &["stream"],
            (Some(Kind::Session), false) => &["stream", "upstream", "peer"],
        };
        let own = self.tags.iter().flat_map(|tags| tags.words.iter().map(Vec::as_slice));
        kind.iter().map(|word| word.as_bytes()).chain(own)
    }
}
