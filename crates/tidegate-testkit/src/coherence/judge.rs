//! The states of a subject, and whether a response matches one of them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::bell::locked;
use crate::torture::object;

/// The content under a subject's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// No servable file.
    Absent,
    Directory,
    /// The first `length` bytes of the version `base`.
    File {
        base: u64,
        length: u64,
    },
}

/// All states of a subject, in their order.
#[derive(Debug, Default)]
pub(super) struct History {
    states: Mutex<Vec<State>>,
    /// Index of the last state that may have been reached.
    begun: AtomicUsize,
    /// Index of the last state that has been reached.
    done: AtomicUsize,
}

/// A response.
#[derive(Debug, Clone)]
pub(super) struct Response {
    /// 0 when the connection ended without a response.
    pub status: u16,
    /// `Content-Length`
    pub length: u64,
    /// The received part of the body.
    pub body: Vec<u8>,
}

/// The result of a check of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Consistency {
    Complete,
    Absent,
    /// Ended before its length, as the file did.
    Truncated,
}

impl History {
    /// Begins with a state.
    pub(super) fn new(state: State) -> History {
        History { states: Mutex::new(vec![state]), ..History::default() }
    }

    pub(super) fn last(&self) -> State {
        locked(&self.states).last().copied().unwrap_or(State::Absent)
    }

    /// Makes one change, by one system call.
    pub(super) fn change<E>(
        &self,
        state: State,
        change: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let index = {
            let mut states = locked(&self.states);
            states.push(state);
            states.len() - 1
        };
        self.begun.store(index, Ordering::SeqCst);
        change()?;
        self.done.store(index, Ordering::SeqCst);
        Ok(())
    }

    /// Returns the oldest state that a response to a new request may have.
    pub(super) fn done(&self) -> usize {
        self.done.load(Ordering::SeqCst)
    }

    /// Checks a complete response whose request was sent when `oldest` was done.
    ///
    /// # Errors
    /// Describes the error.
    pub(super) fn judge(&self, oldest: usize, response: &Response) -> Result<Consistency, String> {
        let newest = self.begun.load(Ordering::SeqCst);
        let states = locked(&self.states);
        let allowed = states.get(oldest..=newest).unwrap_or_default();
        let consistency = allowed.iter().enumerate().find_map(|(index, state)| {
            let later = allowed.get(index..).unwrap_or_default();
            fits(*state, later, response)
        });
        consistency.ok_or_else(|| {
            let before = states.get(..oldest).unwrap_or_default();
            let stale = before.iter().rposition(|state| fits(*state, &[], response).is_some());
            let age = stale.map_or("no state at all".to_owned(), |index| {
                format!("the state {} before the oldest allowed", oldest - index)
            });
            let Response { status, length, body } = response;
            let allowed = &allowed[..allowed.len().min(8)];
            let got = body.len();
            format!("status {status}, {got} of {length} bytes: {age}; allowed {allowed:?}")
        })
    }
}

/// Whether these are the first bytes of a version: checked where each page begins and ends, since
/// only whole pages could be mixed.
fn is_of(base: u64, body: &[u8]) -> bool {
    let same = |at: usize, part: &[u8]| object::bytes(base, at as u64, part.len()) == part;
    let pages = body.chunks(PAGE_BYTES).enumerate();
    let mut ends = pages.flat_map(|(page, bytes)| {
        let at = page * PAGE_BYTES;
        let first = &bytes[..bytes.len().min(SAMPLE_BYTES)];
        let last = bytes.len().saturating_sub(SAMPLE_BYTES);
        [(at, first), (at + last, &bytes[last..])]
    });
    ends.all(|(at, part)| same(at, part))
}

const PAGE_BYTES: usize = 4096;
const SAMPLE_BYTES: usize = 64;

fn fits(state: State, later: &[State], response: &Response) -> Option<Consistency> {
    match (state, response.status) {
        // The connection ended without a response.
        (State::File { length, .. }, 0) => shrinks(length, later).then_some(Consistency::Truncated),
        (State::Absent, 404) => Some(Consistency::Absent),
        (State::Directory, 301) => Some(Consistency::Complete),
        (State::File { base, length }, 200) if length == response.length => {
            let got = response.body.len() as u64;
            if got > length || !is_of(base, &response.body) {
                return None;
            }
            match got == length {
                true => Some(Consistency::Complete),
                false => shrinks(length, later).then_some(Consistency::Truncated),
            }
        }
        _ => None,
    }
}

/// Whether a file of this length was shorter afterwards.
fn shrinks(length: u64, later: &[State]) -> bool {
    let is_shorter =
        |state: &State| matches!(state, State::File { length: later, .. } if *later < length);
    later.iter().any(is_shorter)
}
