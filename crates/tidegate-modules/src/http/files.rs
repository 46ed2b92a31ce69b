//! What is at a path: the one place where `try_files`, `index`, `if (-f …)` and `gzip_static` ask the file system.
//!
//! ```ignore
//! location.handler(Phase::Content, files::handler(move |x, looks| {
//!     match looks.test(x, b"/srv/maintenance")? {
//!         Ok(_) => Ok(Step::Status(503)),
//!         Err(_) => Ok(Step::Decline),
//!     }
//! }));
//! ```
//! The loop waits for no disk: a handler whose look would have to is broken off by its `?`, a pool thread looks,
//! so that the kernel has the names in memory, and the handler is run again.

#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;

use tidegate_core::phases::Handler;
use tidegate_core::{Exchange, Level, Step};
use tidegate_os::FileKind;
use tidegate_os::os_error;

use super::static_files::{self, Entry};

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
    /// A socket, device or pipe.
    Other,
}

/// What a test tells of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub kind: Kind,
    /// Executable by its owner, as `if (-x …)` asks.
    pub executable: bool,
}

/// The path of a look for which the disk might have to be waited for.
pub(crate) struct Cold(Vec<u8>);

/// The looks of one handler at one request: by the present location's cache of open files and `disable_symlinks`.
#[derive(Default)]
pub(crate) struct Looks {
    /// The element of its list that the handler has come to.
    element: usize,
    /// Looks made for it since the handler was run, and how many of these may wait: a pool thread has made them before.
    made: usize,
    warmed: usize,
}

impl Looks {
    /// The element from which the handler has to go on.
    pub(crate) fn from(&self) -> usize {
        self.element
    }

    /// Tells that the handler has done with the elements before this one, so that it is not run from there again.
    pub(crate) fn reach(&mut self, element: usize) {
        if element != self.element {
            *self = Looks { element, ..Looks::default() };
        }
    }

    /// What is at a path, without opening it.
    ///
    /// # Errors
    /// The look has to be made by another thread first; within, those of stat.
    pub(crate) fn test(
        &mut self,
        x: &mut Exchange,
        path: &[u8],
    ) -> Result<io::Result<Found>, Cold> {
        let tested = match self.may_wait() {
            true => Some(static_files::test(x, path)),
            false => static_files::test_at_once(x, path),
        };
        let tested = tested.ok_or_else(|| Cold(path.to_vec()))?;
        Ok(tested.map(|tested| {
            let kind = match tested.kind {
                FileKind::File => Kind::File,
                FileKind::Directory => Kind::Directory,
                FileKind::Symlink | FileKind::Other => Kind::Other,
            };
            Found { kind, executable: tested.executable }
        }))
    }

    /// The file, directory or error at a path.
    ///
    /// # Errors
    /// The look has to be made by another thread first.
    pub(crate) fn open(&mut self, x: &mut Exchange, path: &[u8]) -> Result<Arc<Entry>, Cold> {
        let entry = match self.may_wait() {
            true => Some(static_files::open(x, path)),
            false => static_files::open_at_once(x, path),
        };
        entry.ok_or_else(|| Cold(path.to_vec()))
    }

    /// Counted, as some file systems forget at once what does not exist: each run comes one look further.
    fn may_wait(&mut self) -> bool {
        self.made += 1;
        self.made <= self.warmed
    }

    /// Has a pool thread make the look that was refused; the looks up to it are free in the next run. Dropped at its
    /// await, the look is made for nobody.
    async fn warm(&mut self, x: &mut Exchange, cold: Cold) {
        static_files::warm(x, &cold.0).await;
        (self.made, self.warmed) = (0, self.made);
    }
}

/// A handler that looks at files. It can be run several times for one request, from the element on that it has reached.
pub(crate) fn handler<F>(decide: F) -> Handler
where
    F: Fn(&mut Exchange, &mut Looks) -> Result<Step<'static>, Cold> + Send + Sync + 'static,
{
    let decide = Arc::new(decide);
    Box::new(move |x| {
        let mut looks = Looks::default();
        let mut cold = match decide(x, &mut looks) {
            Ok(step) => return step,
            Err(cold) => cold,
        };
        let decide = decide.clone();
        Step::Wait(Box::pin(async move {
            loop {
                looks.warm(x, cold).await;
                cold = match decide(x, &mut looks) {
                    Ok(step) => return step,
                    Err(cold) => cold,
                };
            }
        }))
    })
}

/// The directory at a path, to be read: nothing but its own name leads there. `from` is the length of the path's
/// begin that the configuration wrote (`file_path::root_length`). Waits for the disk.
///
/// # Errors
/// Absent, no directory, another name than its own.
pub(crate) fn read_directory(path: &[u8], from: usize) -> io::Result<std::fs::ReadDir> {
    let path = tidegate_os::path::of(path);
    tidegate_os::path::check(path, from)?;
    std::fs::read_dir(path)
}

/// True for errors that mean "there is no such file", so that another may be tried.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::InvalidFilename
            | io::ErrorKind::InvalidInput
    )
}

/// True for errors that mean "not for you": no permission, or a link that must not be followed.
pub(crate) fn is_refused(error: &io::Error) -> bool {
    static_files::is_refused(static_files::errno(error))
}

/// Logs why a directory could not be listed, and answers.
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
