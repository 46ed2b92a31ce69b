//! A body that is copied into a file while it is sent: the thread pool writes each piece before the next one is read.
//! When the client leaves, a task reads the rest of the body in its place.

use std::cell::RefCell;
use std::fs::{self, File, FileTimes};
use std::future::poll_fn;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, SystemTime};
use std::{error, fmt};

use bytes::Bytes;
use tidegate_codec::Headers;
use tidegate_core::body::{BodyError, BodyStream};
use tidegate_core::{Body, Chunk, Level, LocalFuture, blocking, temp_file};
use tidegate_os::os_error;
use tidegate_upstream::LogContext;

use super::super::settings::SpoolSettings;
use tidegate_conf::file_mode::of_directory;

/// The destination of a copy.
pub struct StoreCopy {
    pub target: PathBuf,
    pub mode: u32,
    /// Modification time of the file, in Unix seconds; `None` leaves it the time of writing.
    pub modified: Option<i64>,
    /// Length of the body in bytes, if known: then its last piece is sent once the file is in place, so that the
    /// client's next request finds it.
    pub length: Option<u64>,
    /// Settings of temporary files.
    pub spool: Arc<SpoolSettings>,
    pub log: LogContext,
}

/// The client's side of a body that is copied.
pub struct CopiedBody(Rc<RefCell<CopyState>>);

struct CopyState {
    source: Body,
    trailers: Option<Headers>,
    copy: StoreCopy,
    /// Bytes of the body that have arrived.
    arrived: u64,
    /// The last piece.
    held: Option<Chunk>,
    /// The file as far as it is written, while no job has it.
    file: Option<Temporary>,
    job: Option<LocalFuture<'static, io::Result<CopyResult>>>,
    /// The disk has failed, or the source has broken off.
    given_up: bool,
    ended: bool,
    client_gone: bool,
    /// Waker of the task that waits for the client to leave.
    waiting: Option<Waker>,
}

/// The result of a job: a file to continue with, or the reason why there is none.
type CopyResult = Result<Option<Temporary>, CopyError>;

/// A temporary file that is removed on drop unless it is placed.
struct Temporary {
    file: File,
    path: PathBuf,
    bytes: u64,
    placed: bool,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.placed {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl StoreCopy {
    /// Makes a body that is copied while it is read, and after that.
    pub fn of(self, source: Body) -> CopiedBody {
        let work = Rc::new(RefCell::new(CopyState {
            source,
            trailers: None,
            copy: self,
            arrived: 0,
            held: None,
            file: None,
            job: None,
            given_up: false,
            ended: false,
            client_gone: false,
            waiting: None,
        }));
        let rest = work.clone();
        // It ends by itself; dropping its handle does not end it.
        drop(tidegate_rt::spawn_local(poll_fn(move |context| {
            rest.borrow_mut().poll_rest(context)
        })));
        CopiedBody(work)
    }
}

impl BodyStream for CopiedBody {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        self.0.borrow_mut().poll(context)
    }

    fn trailers(&mut self) -> Option<Headers> {
        self.0.borrow_mut().trailers.take()
    }
}

impl Drop for CopiedBody {
    fn drop(&mut self) {
        let mut work = self.0.borrow_mut();
        work.client_gone = true;
        let waiting = work.waiting.take();
        drop(work);
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// ```text
///   reading ──► (a piece) ──► writing on the pool ──► reading … ──► placing ──► ended
///       └── the source breaks off, or the disk fails: given up ──► reading without a copy ──► ended
/// ```
/// Invariant: one job at a time has the file, and no piece is read while it runs, so the copy is never behind by more
/// than one piece. The file gets its name when it is complete, by one `rename`; before that it is removed on drop.
///
/// Cancelling: a client that leaves hands the body to the task, which reads it to its end if the copy is still in
/// progress. When the thread ends, both are dropped: then there is no file.
impl CopyState {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        loop {
            if let Some(job) = &mut self.job {
                let written = ready!(job.as_mut().poll(context));
                self.job = None;
                self.take(written);
            }
            if self.ended {
                return Poll::Ready(self.held.take().map(Ok));
            }
            match ready!(self.source.poll_chunk(context)) {
                Some(Ok(chunk)) => {
                    self.copy(&chunk);
                    self.arrived += chunk.length();
                    if Some(self.arrived) == self.copy.length && self.held.is_none() {
                        self.held = Some(chunk);
                        continue;
                    }
                    return Poll::Ready(Some(Ok(chunk)));
                }
                Some(Err(error)) => {
                    self.ended = true;
                    self.give_up();
                    return Poll::Ready(Some(Err(error)));
                }
                None => {
                    self.ended = true;
                    self.trailers = self.source.trailers();
                    self.source = Body::Empty;
                    self.place();
                }
            }
        }
    }

    /// Is ready when all is done; waits for the client to leave, then reads the rest.
    fn poll_rest(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.ended && self.job.is_none() || self.client_gone && self.given_up {
                return Poll::Ready(());
            }
            if !self.client_gone {
                self.waiting = Some(context.waker().clone());
                return Poll::Pending;
            }
            // Each iteration reads a piece of the body, which ends.
            let _ = ready!(self.poll(context));
        }
    }

    fn copy(&mut self, chunk: &Chunk) {
        match chunk {
            _ if self.given_up => {}
            Chunk::Bytes(bytes) => {
                let (spool, file, bytes) =
                    (self.copy.spool.clone(), self.file.take(), bytes.clone());
                let write = blocking::run(move || Ok(write(file, &bytes, &spool)));
                self.job = Some(Box::pin(write));
            }
            Chunk::Flush => {}
            // No origin sends files.
            Chunk::File(_) => self.give_up(),
        }
    }

    fn place(&mut self) {
        if self.given_up {
            return;
        }
        let (file, target) = (self.file.take(), self.copy.target.clone());
        let spool = self.copy.spool.clone();
        let (mode, modified) = (self.copy.mode, self.copy.modified);
        self.job = Some(Box::pin(blocking::run(move || {
            let empty = Bytes::new();
            let file = match file {
                Some(file) => Ok(Some(file)),
                None => write(None, &empty, &spool),
            };
            Ok(file.and_then(|file| match file {
                Some(file) => place(file, &target, mode, modified).map(|()| None),
                None => Ok(None),
            }))
        })));
    }

    fn take(&mut self, written: io::Result<CopyResult>) {
        let error = match written {
            Ok(Ok(file)) => {
                self.file = file;
                return;
            }
            Ok(Err(error)) => error,
            Err(error) => CopyError::Pool(self.copy.target.clone(), error),
        };
        self.copy.log.write(Level::Crit, &error.to_string(), "reading upstream", "");
        self.give_up();
    }

    fn give_up(&mut self) {
        self.given_up = true;
        self.file = None;
    }
}

/// Appends to a file, which is made when there is none. Blocks.
fn write(
    file: Option<Temporary>,
    bytes: &[u8],
    spool: &SpoolSettings,
) -> Result<Option<Temporary>, CopyError> {
    let mut file = match file {
        Some(file) => file,
        None => {
            let made = temp_file::create(&spool.path, &spool.levels);
            let (file, path) =
                made.map_err(|error| CopyError::Temporary(spool.path.clone(), error))?;
            Temporary { file, path, bytes: 0, placed: false }
        }
    };
    let written = tidegate_os::file::pwrite_all(&file.file, bytes, file.bytes);
    written.map_err(|error| failed("pwrite()", &file.path, error))?;
    file.bytes += bytes.len() as u64;
    Ok(Some(file))
}

/// Gives a complete file its name, its permissions and its time. Blocks.
fn place(
    mut file: Temporary,
    target: &Path,
    mode: u32,
    modified: Option<i64>,
) -> Result<(), CopyError> {
    dress(&file.file, mode, modified).map_err(|error| failed("chmod()", &file.path, error))?;
    let mut result = fs::rename(&file.path, target);
    if result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        let directory = target.parent().unwrap_or(target);
        let made = tidegate_os::file::create_directory(directory, of_directory(mode), true);
        made.map_err(|error| failed("mkdir()", directory, error))?;
        result = fs::rename(&file.path, target);
    }
    match result {
        Ok(()) => {
            file.placed = true;
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            copy_over(&file, target, mode, modified)
        }
        Err(error) => {
            Err(CopyError::Rename { from: file.path.clone(), to: target.to_owned(), error })
        }
    }
}

/// Copies to another file system, under a temporary name until the copy is complete.
fn copy_over(
    file: &Temporary,
    target: &Path,
    mode: u32,
    modified: Option<i64>,
) -> Result<(), CopyError> {
    let name = file.path.file_name().unwrap_or_default();
    let mut near = target.as_os_str().to_owned();
    near.push(".");
    near.push(name);
    let near = PathBuf::from(near);
    let copied = fs::copy(&file.path, &near)
        .and_then(|_| File::options().write(true).open(&near))
        .and_then(|copy| dress(&copy, mode, modified))
        .and_then(|()| fs::rename(&near, target));
    copied.map_err(|error| {
        let _ = fs::remove_file(&near);
        failed("copying to", target, error)
    })
}

fn dress(file: &File, mode: u32, modified: Option<i64>) -> io::Result<()> {
    tidegate_os::file::set_mode(file, mode)?;
    // Times before 1970 are ignored; the file keeps the time of its writing.
    let seconds = modified.and_then(|seconds| u64::try_from(seconds).ok());
    let time = seconds.and_then(|s| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(s)));
    time.map_or(Ok(()), |time| file.set_times(FileTimes::new().set_modified(time)))
}

fn failed(call: &'static str, path: &Path, error: io::Error) -> CopyError {
    CopyError::Call(call, path.to_owned(), error)
}

/// The reason why a body is not stored as a file; in nginx's words.
#[derive(Debug)]
enum CopyError {
    /// The thread pool's queue is full, or it has ended; with the file that was to be made.
    Pool(PathBuf, io::Error),
    /// No temporary file can be made in a directory.
    Temporary(PathBuf, io::Error),
    /// A system call on a file or directory failed.
    Call(&'static str, PathBuf, io::Error),
    Rename {
        from: PathBuf,
        to: PathBuf,
        error: io::Error,
    },
}

impl fmt::Display for CopyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CopyError::Pool(target, error) => {
                write!(f, "storing \"{}\" failed ({error})", target.display())
            }
            CopyError::Temporary(directory, error) => {
                let (directory, error) = (directory.display(), os_error(error));
                write!(f, "open() of a file in \"{directory}\" failed ({error})")
            }
            CopyError::Call(call, path, error) => {
                write!(f, "{call} \"{}\" failed ({})", path.display(), os_error(error))
            }
            CopyError::Rename { from, to, error } => {
                let (from, to, error) = (from.display(), to.display(), os_error(error));
                write!(f, "rename() \"{from}\" to \"{to}\" failed ({error})")
            }
        }
    }
}

impl error::Error for CopyError {}
