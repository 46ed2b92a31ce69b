//! The figures of `status_zone=`: questions by kind, and how they were answered.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_core::figures::Tally;

use super::dns::RecordType;
use super::error::ResolveError;

/// A `status_zone=` of a `resolver`. Resolvers that name the same zone share it, over reloads as well.
#[derive(Clone)]
pub struct ResolverZone {
    /// Its name.
    pub name: String,
    /// Its counters: questions by [`QUESTIONS`], then answers by [`OUTCOMES`], then queries by [`SENT`].
    pub tally: Arc<Tally>,
}

/// Kinds of questions, as nginx Plus' API names them: names to addresses, services, addresses to names.
pub const QUESTIONS: [&str; 3] = ["name", "srv", "addr"];

/// Kinds of answers, in the order of the response codes of RFC 1035 section 4.1.1; then none in time, and other failures.
pub const OUTCOMES: [&str; 8] =
    ["noerror", "formerr", "servfail", "nxdomain", "notimp", "refused", "timedout", "unknown"];

/// Types of queries, of which a question may send several.
pub const SENT: [&str; 4] = ["a", "aaaa", "srv", "ptr"];

/// Places in [`QUESTIONS`].
pub(super) const NAME: usize = 0;
pub(super) const SERVICE: usize = 1;

const TIMED_OUT: usize = 6;
const UNKNOWN: usize = 7;

static ZONES: Mutex<BTreeMap<String, Arc<Tally>>> = Mutex::new(BTreeMap::new());

impl ResolverZone {
    pub(super) fn named(name: &str) -> ResolverZone {
        let mut zones = ZONES.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || Arc::new(Tally::new(QUESTIONS.len() + OUTCOMES.len() + SENT.len()));
        let tally = zones.entry(name.to_owned()).or_insert_with(make).clone();
        ResolverZone { name: name.to_owned(), tally }
    }

    /// Counts a question and its answer.
    pub(super) fn count<T>(&self, question: usize, answer: &Result<T, ResolveError>) {
        let answer = match answer {
            Ok(_) => 0,
            Err(error) if error.is_timeout() => TIMED_OUT,
            Err(error) => Some(error.code()).filter(|code| *code < TIMED_OUT).unwrap_or(UNKNOWN),
        };
        self.tally.count(question);
        self.tally.count(QUESTIONS.len() + answer);
    }

    /// Counts a query.
    pub(super) fn count_sent(&self, kind: RecordType) {
        let place = match kind {
            RecordType::A => 0,
            RecordType::Aaaa => 1,
            RecordType::Srv => 2,
        };
        self.tally.count(QUESTIONS.len() + OUTCOMES.len() + place);
    }
}

impl std::fmt::Debug for ResolverZone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}
