//! What remains of a group's discovery when the configuration is read again: its last servers, its state, its figures.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_upstream::Member;

/// The state of a group's discovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum DiscoveryState {
    /// There was no response yet.
    #[default]
    Waiting,
    /// The last response is what the group has.
    Current,
    /// The last response has no servers, which is not believed yet.
    Empty,
    /// The last request has failed, or its response is invalid: why.
    Failing(Arc<str>),
}

/// The figures of a group's discovery, counted from the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Servers of the last response that was taken over.
    pub(crate) servers: u64,
    /// Valid responses.
    pub(crate) responses: u64,
    /// Responses that have changed the group.
    pub(crate) changes: u64,
    /// Responses that were refused.
    pub(crate) refused: u64,
    /// Requests without a response.
    pub(crate) failures: u64,
}

/// The kept part of a group's discovery.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// The servers of the last response that was taken over.
    last: Mutex<Option<Arc<Vec<Member>>>>,
    state: Mutex<DiscoveryState>,
    responses: AtomicU64,
    changes: AtomicU64,
    refused: AtomicU64,
    failures: AtomicU64,
}

/// Why a response was not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// There is none.
    NoResponse(String),
    /// It is invalid.
    Refused(String),
    /// The engine does not know who asks.
    Unauthorized,
}

impl Failure {
    pub(super) fn reason(&self) -> &str {
        match self {
            Failure::Unauthorized => "HTTP status 401",
            Failure::NoResponse(reason) | Failure::Refused(reason) => reason,
        }
    }
}

impl Kept {
    pub(super) fn last(&self) -> Option<Arc<Vec<Member>>> {
        lock(&self.last).clone()
    }

    /// Notes a valid response, and whether it has changed the group.
    pub(super) fn note(&self, members: Arc<Vec<Member>>, is_changed: bool) {
        self.responses.fetch_add(1, Ordering::Relaxed);
        self.changes.fetch_add(u64::from(is_changed), Ordering::Relaxed);
        *lock(&self.state) = DiscoveryState::Current;
        *lock(&self.last) = Some(members);
    }

    /// Notes a valid response without servers that is not taken over.
    pub(super) fn note_empty(&self) {
        self.responses.fetch_add(1, Ordering::Relaxed);
        *lock(&self.state) = DiscoveryState::Empty;
    }

    pub(super) fn note_failure(&self, failure: &Failure) {
        let counter = match failure {
            Failure::NoResponse(_) => &self.failures,
            Failure::Refused(_) | Failure::Unauthorized => &self.refused,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        *lock(&self.state) = DiscoveryState::Failing(failure.reason().into());
    }

    pub(crate) fn state(&self) -> DiscoveryState {
        lock(&self.state).clone()
    }

    pub(crate) fn figures(&self) -> Figures {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Figures {
            servers: lock(&self.last).as_ref().map_or(0, |last| last.len() as u64),
            responses: read(&self.responses),
            changes: read(&self.changes),
            refused: read(&self.refused),
            failures: read(&self.failures),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The discoveries of a block by the name of the group, for those who show them.
#[derive(Default)]
pub(crate) struct Shown(pub(crate) BTreeMap<String, ShownDiscovery>);

/// A discovery with its source in words.
pub(crate) struct ShownDiscovery {
    pub(crate) kind: &'static str,
    pub(crate) source: String,
    pub(crate) kept: Arc<Kept>,
}
