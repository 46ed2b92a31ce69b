//! Change notifications for files and directories (inotify).

use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::event::{Timespec, epoll};
use rustix::fs::inotify;
use rustix::io::Errno;

/// The kinds of events to report.
pub use rustix::fs::inotify::WatchFlags;

/// The kinds of an event.
pub use rustix::fs::inotify::ReadFlags;

/// A set of watched paths. Its descriptor becomes readable when events wait.
#[derive(Debug)]
pub struct Watcher {
    fd: OwnedFd,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The number that [`Watcher::add`] returned; -1 when the queue overflowed and events were lost.
    pub watch: i32,
    /// The kinds of the event.
    pub what: ReadFlags,
    /// The same number in both halves of a rename.
    pub cookie: u32,
    /// The name inside a watched directory.
    pub name: Option<OsString>,
}

impl Watcher {
    /// Makes an empty set, non-blocking and close-on-exec.
    ///
    /// # Errors
    /// The user's limit of inotify instances is reached (`fs.inotify.max_user_instances`).
    pub fn new() -> io::Result<Watcher> {
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        Ok(Watcher { fd: inotify::init(flags)? })
    }

    /// Watches a path and returns the watch's number; the same object added twice has one number.
    ///
    /// # Errors
    /// Absent, no permission, or `StorageFull` for the user's limit of watches.
    pub fn add(&self, path: &Path, what: WatchFlags) -> io::Result<i32> {
        Ok(inotify::add_watch(&self.fd, path, what)?)
    }

    /// Ends a watch; an event with `ReadFlags::IGNORED` follows.
    ///
    /// # Errors
    /// There is no watch with this number.
    pub fn remove(&self, watch: i32) -> io::Result<()> {
        Ok(inotify::remove_watch(&self.fd, watch)?)
    }

    /// Takes the waiting events, at most some hundred at a time; an empty list means that there are none.
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

/// Detects with one system call, whatever the number of watches, whether there are changes that have not been read yet:
/// events in a [`Watcher`]'s queue, or a changed table of mounted file systems.
///
/// The kernel puts an event into the queue before the call that caused it returns, so a check made after a write has
/// ended sees it. Each thread has its own value: a mount is reported once to each, an event to all until it is read.
#[derive(Debug)]
pub struct Pending {
    epoll: OwnedFd,
    /// Kept open: its state reports mounts. Absent where there is no `/proc`.
    _mounts: Option<std::fs::File>,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// The watcher has events to read.
    pub events: bool,
    /// A file system was mounted, moved or unmounted since the last report.
    pub mounts: bool,
}

const EVENTS: u64 = 1;
const MOUNTS: u64 = 2;

impl Pending {
    /// Makes the check for one watcher.
    ///
    /// # Errors
    /// No descriptor is left, or no memory.
    pub fn new(watcher: &Watcher) -> io::Result<Pending> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let events = epoll::EventData::new_u64(EVENTS);
        epoll::add(&epoll, watcher, events, epoll::EventFlags::IN)?;
        let mounts = std::fs::File::open("/proc/self/mountinfo").ok();
        let mounts = mounts.filter(|mounts| {
            let data = epoll::EventData::new_u64(MOUNTS);
            epoll::add(&epoll, mounts, data, epoll::EventFlags::PRI).is_ok()
        });
        Ok(Pending { epoll, _mounts: mounts })
    }

    /// Checks without waiting.
    ///
    /// # Errors
    /// None in a working process; take one as "everything may have changed".
    pub fn check(&self) -> io::Result<Waiting> {
        self.wait_for(Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))
    }

    /// Waits until there are changes.
    ///
    /// # Errors
    /// As [`Pending::check`].
    pub fn wait(&self) -> io::Result<Waiting> {
        self.wait_for(None)
    }

    fn wait_for(&self, timeout: Option<&Timespec>) -> io::Result<Waiting> {
        let mut found = [MaybeUninit::<epoll::Event>::uninit(); 2];
        let found = loop {
            match epoll::wait(&self.epoll, &mut found[..], timeout) {
                Ok((found, _)) => break found,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        };
        let mut waiting = Waiting::default();
        for event in found {
            match event.data.u64() {
                EVENTS => waiting.events = true,
                _ => waiting.mounts = true,
            }
        }
        Ok(waiting)
    }
}
