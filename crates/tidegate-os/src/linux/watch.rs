//! Change notifications for files and folders (inotify).

use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::inotify;
use rustix::io::Errno;

/// What to be told of.
pub use rustix::fs::inotify::WatchFlags;

/// What happened.
pub use rustix::fs::inotify::ReadFlags;

/// A set of watched paths. Its descriptor becomes readable when events wait.
#[derive(Debug)]
pub struct Watcher {
    fd: OwnedFd,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The number that [`Watcher::add`] gave; -1 when the queue overflowed and events were lost.
    pub watch: i32,
    /// What happened.
    pub what: ReadFlags,
    /// The same number in both halves of a rename.
    pub cookie: u32,
    /// The name inside a watched folder.
    pub name: Option<OsString>,
}

impl Watcher {
    /// An empty set, non-blocking and close-on-exec.
    ///
    /// # Errors
    /// The user's limit of inotify instances is reached (`fs.inotify.max_user_instances`).
    pub fn new() -> io::Result<Watcher> {
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        Ok(Watcher { fd: inotify::init(flags)? })
    }

    /// Watches a path; the same object added twice yields the same number.
    ///
    /// # Errors
    /// Absent, no permission, or `StorageFull` for the user's limit of watches.
    pub fn add(&self, path: &Path, what: WatchFlags) -> io::Result<i32> {
        Ok(inotify::add_watch(&self.fd, path, what)?)
    }

    /// Ends a watch; an event with `ReadFlags::IGNORED` follows.
    ///
    /// # Errors
    /// The number is no watch.
    pub fn remove(&self, watch: i32) -> io::Result<()> {
        Ok(inotify::remove_watch(&self.fd, watch)?)
    }

    /// Takes the waiting events, at most some hundred at a time; none when the list is empty.
    ///
    /// # Errors
    /// Those of read.
    pub fn read(&self) -> io::Result<Vec<Event>> {
        let mut events = Vec::new();
        let mut buffer = [MaybeUninit::<u8>::uninit(); 16 * 1024];
        let mut reader = inotify::Reader::new(&self.fd, &mut buffer);
        loop {
            match reader.next() {
                Ok(event) => events.push(Event {
                    watch: event.wd(),
                    what: event.events(),
                    cookie: event.cookie(),
                    name: event
                        .file_name()
                        .map(|name| OsStr::from_bytes(name.to_bytes()).to_os_string()),
                }),
                Err(Errno::AGAIN) => return Ok(events),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if reader.is_buffer_empty() {
                return Ok(events);
            }
        }
    }
}

impl AsFd for Watcher {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
