//! Whether a recent query of the system is still valid for a request.
//!
//! A response must reflect the state at the time when its request was received, or a later one. So one query is enough
//! for all requests of a batch of events that were received before it; see [`crate::clock::batch`].

use std::cell::Cell;

use crate::clock;

thread_local! {
    /// Receipts so far; the beginning of a batch counts as one.
    static RECEIPTS: Cell<u64> = const { Cell::new(0) };
}

/// Marks the receipt of a client's bytes, or the start of a request that must see what another request has done before
/// it: earlier queries are no longer valid for it.
#[inline]
pub fn advance() {
    RECEIPTS.set(RECEIPTS.get().wrapping_add(1));
}

/// Returns the number of the last receipt, within a batch: a query made under the same number need not be repeated.
/// `None` outside of batches, where the age of a receipt is not bounded.
#[inline]
pub fn current() -> Option<u64> {
    clock::is_in_batch().then(|| RECEIPTS.get())
}
