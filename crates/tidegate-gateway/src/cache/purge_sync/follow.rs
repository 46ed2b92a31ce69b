//! How a server follows the stream of purges: what it asks, and what it does with the reply. Pure.
//!
//! ```text
//!            Join: the newest entry                  Read: new entries, in their chain
//!   Unknown ─────────────────────────→ Following(at) ──────────────────────────→ Following(later)
//!    ↑  ↑    everything becomes stale       │   ↑
//!    │  │                     a connection  │   │ Verify: the entry `at` is there, and those behind it are its chain
//!    │  │                    or chain broken↓   │
//!    │  └─ the stream is another one, ──── Known(at)
//!    │     or was trimmed past `at`         │ Verify: the engine is older than `at`
//!    └───────────── Announce ─────────── Older
//! ```
//!
//! Invariant: all purges up to `at` have taken effect here, or everything that was stored before `at` was appended has become
//! stale. Each way to lose a purge ends in `Unknown`, from which only `Join` leads, and with it everything becomes
//! stale, *behind* the moment at which the newest entry was read. So an object that is served as fresh was requested
//! from the origin behind each purge that has been appended before this server was last up to date.
//!
//! An engine that was restored from an older state has lost purges that others may have missed as well, who do not know:
//! their entries are in the older state. So the server that finds it announces that everything is stale: one that has read
//! such an entry, or that has sent it (`unseen`). Of several one does, by the numbers of entries: the engine gives a higher
//! one to what comes later. So is a stream that was deleted while servers wait for its next entry.

use tidegate_store::Value;

use super::entry::{Entry, EntryId, Position, PurgeRule, entries, read_reply};

/// How far this server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Copy {
    Unknown,
    /// The engine has lost an entry of this number, or of a lower one.
    Older(EntryId),
    Known(Position),
    Following(Position),
}

/// What is asked next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Question {
    Join,
    /// That everything is stale, unless the newest entry says so already and is newer than this one: an older one was read
    /// before the loss.
    Announce(EntryId),
    Verify(Position),
    /// Waits for entries behind this one.
    Read(Position),
}

/// What follows from a reply: to be done in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// Purges of other servers, oldest first.
    pub(super) rules: Vec<PurgeRule>,
    /// Everything that is stored becomes stale.
    pub(super) revalidate: bool,
    /// Where this server is then.
    pub(super) next: Copy,
    /// Whether it is up to date then: all that the engine had was read.
    pub(super) current: bool,
    /// The entries that were read, those of this server included.
    pub(super) entries: usize,
}

/// A reply that is not of our commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Foreign;

/// Entries that are read at once.
pub(super) const ENTRIES_AT_ONCE: usize = 256;

impl Copy {
    pub(super) fn question(&self) -> Question {
        match self {
            Copy::Unknown => Question::Join,
            Copy::Older(lost) => Question::Announce(*lost),
            Copy::Known(at) => Question::Verify(at.clone()),
            Copy::Following(at) => Question::Read(at.clone()),
        }
    }

    /// Returns what it is without a connection: what was read stays, but has to be verified.
    pub(super) fn disconnected(self) -> Copy {
        match self {
            Copy::Following(at) => Copy::Known(at),
            other => other,
        }
    }
}

/// The server that asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own<'a> {
    /// Its name: what it has sent itself has taken effect already.
    pub(super) node: &'a [u8],
    /// The entries that the engine has accepted from it, and that were not read before the question.
    pub(super) unseen: &'a [EntryId],
}

impl Own<'_> {
    /// Returns the state of a server that misses an entry: one that it had read, or one of those that it has sent.
    fn lost(self, read: Option<EntryId>) -> Copy {
        let newest = self.unseen.iter().copied().chain(read).max();
        Copy::Older(newest.unwrap_or(EntryId { millis: 0, number: 0 }))
    }
}

/// Returns what follows from the reply to a question.
///
/// # Errors
/// The reply is of something else: the question stays.
pub(super) fn step(question: Question, reply: &Value, own: Own<'_>) -> Result<Step, Foreign> {
    match question {
        Question::Join => {
            let at = Position::of(reply).ok_or(Foreign)?;
            // What this server has sent before it has joined may be lost; no list shows it.
            let is_lost = own.unseen.iter().any(|id| *id != at.id);
            let next = if is_lost { own.lost(None) } else { Copy::Following(at) };
            Ok(Step { rules: Vec::new(), revalidate: true, next, current: !is_lost, entries: 0 })
        }
        Question::Announce(_) => Ok(Step::to(Copy::Unknown)),
        Question::Verify(at) => {
            let [first, list] = reply.as_list().ok_or(Foreign)? else { return Err(Foreign) };
            let list = entries(list).ok_or(Foreign)?;
            let first = EntryId::read(first.as_text().ok_or(Foreign)?);
            match (&list[..], first) {
                ([Some(found), behind @ ..], _) if found.at == at => {
                    let mut step = follow(at, behind, own);
                    // The entry itself is one of the list.
                    step.current &= list.len() < ENTRIES_AT_ONCE;
                    if let Copy::Known(_) = step.next {
                        step.next = Copy::Unknown;
                    }
                    Ok(step.or_lost(own))
                }
                (_, Some(first)) if first <= at.id => Ok(Step::to(own.lost(Some(at.id)))),
                _ => Ok(Step::to(Copy::Unknown)),
            }
        }
        Question::Read(at) => {
            let list = read_reply(reply).ok_or(Foreign)?;
            let mut step = follow(at, &list, own).or_lost(own);
            // Nothing is new, or the stream is gone: the next question shows which.
            if list.is_empty() {
                step.next = step.next.disconnected();
            }
            Ok(step)
        }
    }
}

impl Step {
    fn to(next: Copy) -> Step {
        Step { rules: Vec::new(), revalidate: false, next, current: false, entries: 0 }
    }

    /// All that the engine has was read: an entry of this server that it had accepted before, and that was not among them,
    /// is lost.
    fn or_lost(self, own: Own<'_>) -> Step {
        match &self.next {
            Copy::Following(at) if self.current && own.unseen.iter().any(|id| *id > at.id) => {
                Step { current: false, next: own.lost(None), ..self }
            }
            _ => self,
        }
    }
}

/// Follows entries as far as they are a chain.
fn follow(mut at: Position, list: &[Option<Entry>], own: Own<'_>) -> Step {
    let mut rules = Vec::new();
    for (count, entry) in list.iter().enumerate() {
        match entry {
            Some(entry) if entry.before == at.token => {
                if entry.node.is_empty() || entry.node != own.node {
                    rules.extend_from_slice(&entry.rules);
                }
                at = entry.at.clone();
            }
            _ => {
                let next = Copy::Known(at);
                return Step { rules, revalidate: false, next, current: false, entries: count };
            }
        }
    }
    let is_there = |id: &EntryId| list.iter().flatten().any(|entry| entry.at.id == *id);
    if own.unseen.iter().any(|id| *id <= at.id && !is_there(id)) {
        return Step { rules, ..Step::to(own.lost(None)) };
    }
    let current = list.len() < ENTRIES_AT_ONCE;
    let (next, entries) = (Copy::Following(at), list.len());
    Step { rules, revalidate: false, next, current, entries }
}
