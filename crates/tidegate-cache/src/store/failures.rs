//! Errors of the disk: counted, and kept until the caller takes them for the log.

use std::io;

use crate::sync::Mutex;

/// Failures of the disk since they were last taken.
#[derive(Debug)]
pub struct DiskFailures {
    /// The number of failed calls.
    pub count: u64,
    /// The work of the store at the last failure, as in "writing a file".
    pub doing: &'static str,
    /// The last error.
    pub error: io::Error,
}

/// The failures since they were last taken.
#[derive(Default)]
pub(super) struct Failures(Mutex<Option<DiskFailures>>);

impl Failures {
    /// Counts a failure; the last one is kept.
    pub(super) fn note(&self, doing: &'static str, error: &io::Error) {
        let copied = error.raw_os_error().map(io::Error::from_raw_os_error);
        let error = copied.unwrap_or_else(|| error.kind().into());
        let mut failures = self.0.lock();
        let count = failures.take().map_or(1, |before| before.count.saturating_add(1));
        *failures = Some(DiskFailures { count, doing, error });
    }

    pub(super) fn take(&self) -> Option<DiskFailures> {
        self.0.lock().take()
    }
}
