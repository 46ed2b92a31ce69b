//! Change notifications, which are not supported on this system yet: names are checked again for each request.

use std::ffi::OsString;
use std::io;
use std::ops::{BitOr, BitOrAssign};
use std::path::Path;

/// A type without values.
#[derive(Clone, Copy, Debug)]
enum Never {}

/// A set of kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(u32);

/// The kinds of events to report.
pub type WatchFlags = Flags;
/// The kinds of an event.
pub type ReadFlags = Flags;

macro_rules! flags {
    ($($name:ident = $bit:literal,)*) => {
        impl Flags {
            $(
                #[doc = concat!("See inotify(7), `IN_", stringify!($name), "`.")]
                pub const $name: Flags = Flags(1 << $bit);
            )*
        }
    };
}

flags! {
    MODIFY = 1, ATTRIB = 2, CLOSE_WRITE = 3, MOVED_TO = 7, CREATE = 8, DELETE = 9, DELETE_SELF = 10,
    MOVE_SELF = 11, QUEUE_OVERFLOW = 14, IGNORED = 15, ONLYDIR = 24, DONT_FOLLOW = 25, MASK_ADD = 29,
}

impl Flags {
    /// Whether all of the other set are in this one.
    pub fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether some of the other set are in this one.
    pub fn intersects(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for Flags {
    type Output = Flags;

    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Flags) {
        self.0 |= other.0;
    }
}

/// A set of watched paths: there is none on this system.
#[derive(Debug)]
pub struct Watcher(Never);

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The number of the watch.
    pub watch: i32,
    /// The kinds of the event.
    pub what: ReadFlags,
    /// The same number in both halves of a rename.
    pub cookie: u32,
    /// The name inside a watched directory.
    pub name: Option<OsString>,
}

impl Watcher {
    /// Fails: there is none on this system.
    ///
    /// # Errors
    /// Always `Unsupported`.
    pub fn new() -> io::Result<Watcher> {
        Err(super::unsupported("no change notifications"))
    }

    /// Watches a path.
    ///
    /// # Errors
    /// Never called.
    pub fn add(&self, _path: &Path, _what: WatchFlags) -> io::Result<i32> {
        match self.0 {}
    }

    /// Ends a watch.
    ///
    /// # Errors
    /// Never called.
    pub fn remove(&self, _watch: i32) -> io::Result<()> {
        match self.0 {}
    }

    /// Takes the waiting events.
    ///
    /// # Errors
    /// Never called.
    pub fn read(&self) -> io::Result<Vec<Event>> {
        match self.0 {}
    }
}

/// Detects changes that have not been read yet; see the Linux version.
#[derive(Debug)]
pub struct Pending(Never);

/// The result of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// The watcher has events to read.
    pub events: bool,
    /// A file system was mounted, moved or unmounted since the last report.
    pub mounts: bool,
}

impl Pending {
    /// Makes the check for one watcher.
    ///
    /// # Errors
    /// Never called.
    pub fn new(watcher: &Watcher) -> io::Result<Pending> {
        match watcher.0 {}
    }

    /// Checks without waiting.
    ///
    /// # Errors
    /// Never called.
    pub fn check(&self) -> io::Result<Waiting> {
        match self.0 {}
    }

    /// Waits until there are changes.
    ///
    /// # Errors
    /// Never called.
    pub fn wait(&self) -> io::Result<Waiting> {
        match self.0 {}
    }
}
