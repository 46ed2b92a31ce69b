//! What the disk refuses: counted, and kept until somebody asks who can tell the administrator.

use std::io;

use crate::sync::Mutex;

/// Failures of the disk since they were last asked for.
#[derive(Debug)]
pub struct DiskFailures {
    /// How many calls failed.
    pub count: u64,
    /// What the store was about when it met the last of them, as in "writing a file".
    pub doing: &'static str,
    /// The last error.
    pub error: io::Error,
}

/// The failures since somebody last asked.
#[derive(Default)]
pub(super) struct Failures(Mutex<Option<DiskFailures>>);

impl Failures {
    /// Counts a failure; of several the last one is kept.
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
