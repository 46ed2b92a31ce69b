//! File tests: the one place where `try_files`, `index`, `if (-f …)` and `gzip_static` query the file system.
//!
//! ```ignore
//! location.handler(Phase::Content, files::handler(move |x, looks| {
//!     match looks.test(x, b"/srv/maintenance")? {
//!         Ok(_) => Ok(Step::Status(503)),
//!         Err(_) => Ok(Step::Decline),
//!     }
//! }));
//! ```
//! The event loop waits for no disk. A handler whose test would block returns early by its `?`; a pool thread makes
//! the same test, so that the kernel has the names in memory, and the handler is run again.

#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;

use tidegate_core::phases::PhaseHandler;
use tidegate_core::{Exchange, Level, Step};
use tidegate_os::FileKind;
use tidegate_os::os_error;

use super::static_files::{self, Entry};

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathKind {
    File,
    Directory,
    /// A socket, device or pipe.
    Other,
}

/// The result of a test of an existing file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProbeResult {
    pub kind: PathKind,
    /// Whether its owner may execute it, as `if (-x …)` tests.
    pub executable: bool,
}

/// The path of a test that might wait for a disk.
pub(crate) struct WouldBlock(Vec<u8>);

/// The file tests of one handler for one request. They use the location's cache of open files and
/// `disable_symlinks`.
#[derive(Default)]
pub(crate) struct PathProbe {
    /// Index of the list element that the handler has reached.
    element: usize,
    /// Tests made for this element since the handler was started, and the number of these that may block: a pool
    /// thread has made them before.
    made: usize,
    warmed: usize,
}

impl PathProbe {
    /// Returns the element from which the handler has to continue.
    pub(crate) fn from(&self) -> usize {
        self.element
    }

    /// Records that the elements before this one are done, so that the handler does not run them again.
    pub(crate) fn reach(&mut self, element: usize) {
        if element != self.element {
            *self = PathProbe { element, ..PathProbe::default() };
        }
    }

    /// Tests a path without opening the file.
    ///
    /// # Errors
    /// `WouldBlock` if the test has to be made by another thread first; within, the errors of stat.
    pub(crate) fn test(
        &mut self,
        x: &mut Exchange,
        path: &[u8],
    ) -> Result<io::Result<ProbeResult>, WouldBlock> {
        let tested = match self.may_wait() {
            true => Some(static_files::test(x, path)),
            false => static_files::test_nonblocking(x, path),
        };
        let tested = tested.ok_or_else(|| WouldBlock(path.to_vec()))?;
        Ok(tested.map(|tested| {
            let kind = match tested.kind {
                FileKind::File => PathKind::File,
                FileKind::Directory => PathKind::Directory,
                FileKind::Symlink | FileKind::Other => PathKind::Other,
            };
            ProbeResult { kind, executable: tested.executable }
        }))
    }

    /// Opens a path: the file, directory or error there.
    ///
    /// # Errors
    /// The open has to be made by another thread first.
    pub(crate) fn open(&mut self, x: &mut Exchange, path: &[u8]) -> Result<Arc<Entry>, WouldBlock> {
        let entry = match self.may_wait() {
            true => Some(static_files::open(x, path)),
            false => static_files::open_nonblocking(x, path),
        };
        entry.ok_or_else(|| WouldBlock(path.to_vec()))
    }

    /// Returns whether this test may block. Tests are counted, as some file systems do not cache absent names: each
    /// run gets one test further.
    fn may_wait(&mut self) -> bool {
        self.made += 1;
        self.made <= self.warmed
    }

    /// Has a pool thread make the refused test; in the next run the tests up to it may block. Dropped at its await,
    /// the result of the test is discarded.
    async fn warm(&mut self, x: &mut Exchange, cold: WouldBlock) {
        static_files::warm(x, &cold.0).await;
        (self.made, self.warmed) = (0, self.made);
    }
}

/// Makes a handler that tests files. It may run several times for one request, each time from the element that it
/// has reached.
pub(crate) fn handler<F>(decide: F) -> PhaseHandler
where
    F: Fn(&mut Exchange, &mut PathProbe) -> Result<Step<'static>, WouldBlock>
        + Send
        + Sync
        + 'static,
{
    let decide = Arc::new(decide);
    Box::new(move |x| {
        let mut probe = PathProbe::default();
        let mut cold = match decide(x, &mut probe) {
            Ok(step) => return step,
            Err(cold) => cold,
        };
        let decide = decide.clone();
        Step::Wait(Box::pin(async move {
            loop {
                probe.warm(x, cold).await;
                cold = match decide(x, &mut probe) {
                    Ok(step) => return step,
                    Err(cold) => cold,
                };
            }
        }))
    })
}

/// Opens the directory at a path for reading, provided that the path is its own name. `from` is the length of the
/// configured beginning of the path (`file_path::root_length`). May block on a disk.
///
/// # Errors
/// It is absent, not a directory, or has another name (a symbolic link).
pub(crate) fn read_directory(path: &[u8], from: usize) -> io::Result<std::fs::ReadDir> {
    let path = tidegate_os::path::of(path);
    tidegate_os::path::check(path, from)?;
    std::fs::read_dir(path)
}

/// Returns true for errors that mean "no such file", so that another one may be tried.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::InvalidFilename
            | io::ErrorKind::InvalidInput
    )
}

/// Returns true for errors that mean "forbidden": no permission, or a link that must not be followed.
pub(crate) fn is_refused(error: &io::Error) -> bool {
    static_files::is_refused(static_files::errno(error))
}

/// Logs why a directory could not be listed, and returns the status.
pub(crate) fn directory_failed(x: &Exchange, directory: &[u8], error: &io::Error) -> Step<'static> {
    let (status, level) = match () {
        () if is_absent(error) => (404, Level::Error),
        () if is_refused(error) => (403, Level::Error),
        () => (500, Level::Crit),
    };
    if status != 404 || x.settings().log_not_found {
        let directory = String::from_utf8_lossy(directory.strip_suffix(b"/").unwrap_or(directory));
        let error = os_error(error);
        x.log(level, format_args!("opendir() \"{directory}\" failed ({error})"));
    }
    Step::Status(status)
}
