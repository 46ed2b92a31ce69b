//! Whether what the system was asked a moment ago may answer a request.
//!
//! A request is answered by what holds when it was received or later. So one question will do for all requests
//! of a batch of events that were received before it was asked; see [`crate::clock::batch`].

use std::cell::Cell;

use crate::clock;

thread_local! {
    /// Receipts so far; the beginning of a batch counts as one.
    static RECEIPTS: Cell<u64> = const { Cell::new(0) };
}

/// A client's bytes were received, or a request is begun with what another has done before it: what was asked
/// until now is too old for it.
#[inline]
pub fn received() {
    RECEIPTS.set(RECEIPTS.get().wrapping_add(1));
}

/// Names the time since bytes were received last, within a batch: what was asked under the same name need not be
/// asked again. `None` outside of batches, where nothing bounds how long ago that is.
#[inline]
pub fn moment() -> Option<u64> {
    clock::is_in_batch().then(|| RECEIPTS.get())
}
