//! Helpers of the engine's tests.

/// Runs a future to its end on an event loop of its own.
pub(crate) fn wait<F: Future>(future: F) -> F::Output {
    tidegate_rt::block_on(future).unwrap()
}
