//! What tests of the engine need.

/// Waits for a future on a loop of its own.
pub(crate) fn wait<F: Future>(future: F) -> F::Output {
    tidegate_rt::block_on(future).unwrap()
}
