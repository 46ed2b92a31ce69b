//! Names whose files change, each in a different way.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{CWD, Mode, RenameFlags};

use super::judge::{History, State};
use crate::torture::object::{self, Random};

/// A name that readers request.
pub(super) struct Subject {
    /// Path of the target.
    pub target: String,
    pub history: History,
    kind: Kind,
    path: PathBuf,
    /// The directory in which files are created before they get their name.
    spare: PathBuf,
    sizes: (u64, u64),
}

/// The kind of its changes.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Replaced, removed, turned into a directory or a FIFO, moved away.
    Name,
    /// Truncated and extended in place.
    Length,
    /// A directory above it is exchanged for another, moved or removed.
    Directory,
    /// A symbolic link above it leads elsewhere.
    Link,
}

/// Creates all subjects below a new directory.
pub(super) fn all(root: &Path) -> io::Result<Vec<Subject>> {
    let table = [
        (Kind::Name, "small", (1, 2000)),
        (Kind::Name, "a/b/c/deep", (1, 2000)),
        (Kind::Name, "large", (200_000, 330_000)),
        (Kind::Length, "length", (0, 20_000)),
        (Kind::Length, "long", (100_000, 330_000)),
        (Kind::Directory, "x/one/two/three/file", (1, 5000)),
        (Kind::Directory, "y/one/two/three/file", (265_000, 330_000)),
        (Kind::Link, "z/current/sub/file", (1, 5000)),
    ];
    let make = |(number, (kind, name, sizes)): (usize, (Kind, &str, (u64, u64)))| {
        Subject::make(root, number, kind, name, sizes)
    };
    table.into_iter().enumerate().map(make).collect()
}

/// Versions are numbered; no two have the same bytes.
fn next_base() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Subject {
    fn make(
        root: &Path,
        number: usize,
        kind: Kind,
        name: &str,
        sizes: (u64, u64),
    ) -> io::Result<Subject> {
        let path = root.join(name);
        let spare = root.join(format!("spare{number}"));
        fs::create_dir_all(&spare)?;
        let mut subject = Subject {
            target: format!("/{name}"),
            history: History::new(State::Absent),
            kind,
            path,
            spare,
            sizes,
        };
        if let Kind::Link = kind {
            fs::create_dir_all(subject.above(2).parent().unwrap_or(root))?;
            symlink(subject.spare.join("v0"), subject.above(2))?;
            fs::create_dir_all(subject.spare.join("v0/sub"))?;
        }
        fs::create_dir_all(subject.path.parent().unwrap_or(root))?;
        let state = write_file(&subject.path, subject.sizes.0)?;
        subject.history = History::new(state);
        Ok(subject)
    }

    /// Returns the directory N names above the file.
    fn above(&self, count: usize) -> PathBuf {
        self.path.ancestors().nth(count).unwrap_or(&self.path).to_owned()
    }

    fn size(&self, random: &mut Random) -> u64 {
        let (least, most) = self.sizes;
        least + random.below(most - least + 1)
    }

    /// Makes one or several changes, each of which is recorded before and after.
    pub(super) fn change(&self, random: &mut Random) -> io::Result<()> {
        match self.kind {
            Kind::Name => self.change_name(random),
            Kind::Length => self.change_length(random),
            Kind::Directory => self.change_directory(random),
            Kind::Link => self.change_link(random),
        }
    }

    fn change_name(&self, random: &mut Random) -> io::Result<()> {
        let new = self.spare.join("new");
        match (self.history.last(), random.below(8)) {
            (State::Directory, _) => {
                self.history.change(State::Absent, || fs::remove_dir(&self.path))
            }
            (State::File { .. }, 0) => {
                self.history.change(State::Absent, || fs::remove_file(&self.path))
            }
            (State::File { .. }, 1) => {
                self.history.change(State::Absent, || fs::rename(&self.path, &new))
            }
            (State::File { .. }, 2) => {
                let _ = fs::remove_file(&new);
                rustix::fs::mkfifoat(CWD, &new, Mode::RUSR | Mode::WUSR)?;
                self.history.change(State::Absent, || fs::rename(&new, &self.path))
            }
            (State::Absent, 0) if !self.path.exists() => {
                self.history.change(State::Directory, || fs::create_dir(&self.path))
            }
            (State::Absent, 1) if !self.path.exists() => {
                let state = write_file(&new, self.size(random))?;
                self.history.change(state, || fs::hard_link(&new, &self.path))?;
                fs::remove_file(&new)
            }
            _ => {
                let state = write_file(&new, self.size(random))?;
                self.history.change(state, || fs::rename(&new, &self.path))
            }
        }
    }

    fn change_length(&self, random: &mut Random) -> io::Result<()> {
        let State::File { base, length } = self.history.last() else { return Ok(()) };
        let file = OpenOptions::new().read(true).write(true).open(&self.path)?;
        // Within one page a write is atomic.
        let room = PAGE - length % PAGE;
        match random.below(4) {
            0 if length > 0 => {
                let length = random.below(length);
                self.history.change(State::File { base, length }, || file.set_len(length))
            }
            1 => {
                let new = self.spare.join("new");
                let state = write_file(&new, self.sizes.1)?;
                self.history.change(state, || fs::rename(&new, &self.path))
            }
            _ => {
                let added = 1 + random.below(room);
                let bytes = object::bytes(base, length, added as usize);
                let state = State::File { base, length: length + added };
                self.history.change(state, || file.write_all_at(&bytes, length))
            }
        }
    }

    /// The directory three names above is `one`; another one like it waits in the spare directory.
    fn change_directory(&self, random: &mut Random) -> io::Result<()> {
        let (here, other) = (self.above(3), self.spare.join("other"));
        let _ = fs::remove_dir_all(&other);
        if self.history.last() != State::Absent && random.below(4) == 0 {
            match random.below(2) {
                0 => self.history.change(State::Absent, || fs::rename(&here, &other))?,
                _ => self.history.change(State::Absent, || fs::remove_file(&self.path))?,
            }
            return Ok(());
        }
        fs::create_dir_all(other.join("two/three"))?;
        let state = write_file(&other.join("two/three/file"), self.size(random))?;
        match here.exists() {
            true => self.history.change(state, || {
                rustix::fs::renameat_with(CWD, &other, CWD, &here, RenameFlags::EXCHANGE)
            })?,
            false => self.history.change(state, || fs::rename(&other, &here))?,
        }
        Ok(())
    }

    /// Prepares a release, then switches the link to it.
    fn change_link(&self, random: &mut Random) -> io::Result<()> {
        let link = self.above(2);
        let now = fs::read_link(&link)?;
        let next = self.spare.join(if now.ends_with("v0") { "v1" } else { "v0" });
        if random.below(5) == 0 {
            let away = State::Absent;
            return self.history.change(away, || fs::remove_file(&self.path)).or_else(|error| {
                match error.kind() {
                    io::ErrorKind::NotFound => Ok(()),
                    _ => Err(error),
                }
            });
        }
        let _ = fs::remove_dir_all(&next);
        fs::create_dir_all(next.join("sub"))?;
        let state = write_file(&next.join("sub/file"), self.size(random))?;
        let new = self.spare.join("link");
        let _ = fs::remove_file(&new);
        symlink(&next, &new)?;
        self.history.change(state, || fs::rename(&new, &link))
    }
}

/// Writes a new version to a file of its own; the state that it is once it has its name.
///
/// A file that was moved to this path may still be the body of a response. It is removed rather than truncated, since the
/// truncation would be a change that no history records.
fn write_file(path: &Path, length: u64) -> io::Result<State> {
    let base = next_base();
    let _ = fs::remove_file(path);
    let mut file = fs::File::create_new(path)?;
    file.write_all(&object::bytes(base, 0, length as usize))?;
    Ok(State::File { base, length })
}

const PAGE: u64 = 4096;
