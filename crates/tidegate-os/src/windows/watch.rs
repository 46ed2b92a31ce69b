//! Change notifications are not to be had here yet: names are looked at again for each request.

use std::ffi::OsString;
use std::io;
use std::ops::{BitOr, BitOrAssign};
use std::path::Path;

/// Nothing is a value of this.
#[derive(Clone, Copy, Debug)]
enum Never {}

/// A set of what to be told of, or of what happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(u32);

/// What to be told of.
pub type WatchFlags = Flags;
/// What happened.
pub type ReadFlags = Flags;

macro_rules! flags {
    ($($name:ident = $bit:literal,)*) => {
        impl Flags {
            $(pub const $name: Flags = Flags(1 << $bit);)*
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

/// A set of watched paths: there is none.
#[derive(Debug)]
pub struct Watcher(Never);

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub watch: i32,
    pub what: ReadFlags,
    pub cookie: u32,
    pub name: Option<OsString>,
}

impl Watcher {
    /// There is none.
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

/// Tells whether something has changed that nobody has looked at yet.
#[derive(Debug)]
pub struct Pending(Never);

/// What a check has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// The watcher has events to read.
    pub events: bool,
    /// A file system was mounted, moved or unmounted since this was last told.
    pub mounts: bool,
}

impl Pending {
    /// For the events of one watcher.
    ///
    /// # Errors
    /// Never called.
    pub fn new(watcher: &Watcher) -> io::Result<Pending> {
        match watcher.0 {}
    }

    /// Looks without waiting.
    ///
    /// # Errors
    /// Never called.
    pub fn check(&self) -> io::Result<Waiting> {
        match self.0 {}
    }

    /// Waits until there is something.
    ///
    /// # Errors
    /// Never called.
    pub fn wait(&self) -> io::Result<Waiting> {
        match self.0 {}
    }
}
