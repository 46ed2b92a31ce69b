//! What the disk refuses: counted, and kept until somebody asks who can tell the administrator.

use std::io;
use std::sync::atomic::Ordering;

use super::{Store, StoreInner};

/// Failures of the disk since they were last asked for.
#[derive(Debug)]
pub struct DiskFailures {
    pub count: u64,
    /// What the store was about when it met the last of them, as in "writing a file".
    pub doing: &'static str,
    pub error: io::Error,
}

impl Store {
    /// What the disk has refused since the last call. In memory only; never blocks.
    pub fn take_failures(&self) -> Option<DiskFailures> {
        self.inner.failures.lock().take()
    }
}

impl StoreInner {
    pub(crate) fn disk_failed(&self, doing: &'static str, error: &io::Error) {
        self.counters.disk_errors.fetch_add(1, Ordering::Relaxed);
        let copied = error.raw_os_error().map(io::Error::from_raw_os_error);
        let error = copied.unwrap_or_else(|| error.kind().into());
        let mut failures = self.failures.lock();
        let count = failures.take().map_or(1, |before| before.count.saturating_add(1));
        *failures = Some(DiskFailures { count, doing, error });
    }

    /// Notes an error on its way up.
    pub(crate) fn counted(&self, doing: &'static str, error: io::Error) -> io::Error {
        self.disk_failed(doing, &error);
        error
    }
}
