//! Renaming the file of a complete fill to its final name. Everything here blocks.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::files::{copy_bytes, is_absent};
use super::inner::StoreInner;
use super::options::Sync;
use super::room::present;
use crate::disk::{FileHandle, Stamp, write_full_at};
use crate::fill::{Fill, FillHead};
use crate::format::{Layout, encode};
use crate::hot::{BodySource, OpenEntry, OpenInner};
use crate::key::{Key, KeyHash};
use crate::times::Times;
use crate::verify::Verification;

/// A complete temporary file, to be placed.
pub(crate) struct CompleteFile<'a> {
    pub layout: Layout,
    pub head: &'a FillHead,
    pub file: FileHandle,
    /// The body, if all of it is in memory.
    pub body: Option<Bytes>,
    pub body_bytes: u64,
}

impl CompleteFile<'_> {
    /// Returns the times of its head, unless it was made stale meanwhile.
    fn times(&self, fill: &Fill) -> Times {
        let times = self.head.times;
        fill.stale_since().map_or(times, |at| times.stale_since(at))
    }

    fn write_header(&self, key: &Key, times: Times) -> io::Result<()> {
        let header = encode(key, self.layout, &self.head.metadata, times, self.body_bytes);
        write_full_at(&*self.file, &header, 0)
    }
}

impl StoreInner {
    /// Gives a complete temporary file its final name and adds it to the index; returns false when the key
    /// was removed meanwhile. In both cases the temporary name no longer exists afterwards, and the
    /// `reserved` bytes are charged for the file or given back.
    ///
    /// | step | a crash behind it leaves |
    /// |---|---|
    /// | the index still wants it, and no purge forbids it | a temporary file, which the loader removes |
    /// | the header once more, where it was made stale meanwhile | the same |
    /// | contents to the disk (`Sync::Data`) | the same |
    /// | the rename | a cache file, which the loader finds |
    /// | the name to the disk (`Sync::All`) | the same, after a power cut too |
    /// | index and journal | the same, known |
    ///
    /// Invariant: the lock of the key's path is held all the time, so that the index and the name agree. The
    /// result of the index may differ between the first and the last step, as fills begin and are offered
    /// without that lock: the file is then removed again.
    pub(crate) fn place(
        &self,
        fill: &Arc<Fill>,
        temporary: PathBuf,
        placed: CompleteFile<'_>,
        reserved: u64,
        now: u64,
    ) -> io::Result<bool> {
        let hash = fill.key().hash();
        let path = self.path_of(hash);
        let _path_lock = self.lock_path(hash);
        if !self.index.may_fill(hash, fill) || self.is_purged(fill, placed.head) {
            self.remove_quietly(&temporary);
            self.index.uncharge(reserved);
            return Ok(false);
        }
        let times = placed.times(fill);
        let sync = self.options().sync;
        let written = match times == placed.head.times {
            true => Ok(()),
            false => placed.write_header(fill.key(), times),
        }
        .and_then(|()| if sync == Sync::Off { Ok(()) } else { placed.file.sync(true) });
        let unnamed = placed.file.stamp();
        let renamed =
            written.and_then(|()| self.rename_into(hash, &placed.file, &temporary, &path));
        if sync == Sync::All
            && let Err(error) = self.disk.sync_directory(&self.directory_of(hash))
        {
            self.disk_failed("writing a directory", &error);
        }
        if let Err(error) = renamed {
            self.remove_quietly(&temporary);
            self.index.uncharge(reserved);
            return Err(self.counted("placing a file", error));
        }
        let known = present(&self.index, placed.layout, placed.body_bytes);
        // The index decides again: fills begin and are offered without the path lock.
        if !self.index.filled(hash, fill, known, reserved, now) {
            // Taken over or removed in between; the rename has removed the older file.
            if let Some(older) = self.index.peek(hash).present {
                self.index.forget_file(hash, older.generation);
            }
            self.remove_quietly(&path);
            self.note_removed(hash);
            self.index.uncharge(reserved);
            return Ok(false);
        }
        self.note_placed(hash, &known, now);
        let entry = self.placed_entry(fill, placed, times, known.generation, unnamed);
        self.hot.keep(hash, known.generation, entry);
        Ok(true)
    }

    /// Returns the open entry of a file that has just got its name; `unnamed` is its stamp from before.
    fn placed_entry(
        &self,
        fill: &Fill,
        placed: CompleteFile<'_>,
        times: Times,
        generation: u64,
        unnamed: io::Result<Stamp>,
    ) -> OpenEntry {
        let body_start = placed.layout.body_start() as u64;
        let (source, verification) = match placed.body {
            Some(body) => (BodySource::Memory(body), None),
            None => {
                let subject =
                    self.subject(fill.key().hash(), generation, body_start, placed.body_bytes);
                let verification = Verification::written(subject, unnamed, &*placed.file);
                (BodySource::File(placed.file), Some(Arc::new(verification)))
            }
        };
        OpenEntry::new(OpenInner {
            key_text: Bytes::copy_from_slice(fill.key().text()),
            metadata: placed.head.metadata.clone(),
            times,
            body_start,
            body_bytes: placed.body_bytes,
            source,
            verification,
            companion: OnceLock::new(),
            checked: AtomicU64::new(0),
        })
    }

    /// Renames, and creates directories as needed; copies first if the name is on another file system.
    fn rename_into(
        &self,
        hash: &KeyHash,
        file: &FileHandle,
        temporary: &Path,
        path: &Path,
    ) -> io::Result<()> {
        let mut result = self.disk.rename(temporary, path);
        if result.as_ref().is_err_and(is_absent) {
            self.disk.create_directory(&self.directory_of(hash))?;
            result = self.disk.rename(temporary, path);
        }
        match result {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                let (near, copy) = self.create_near(hash)?;
                let sync = self.options().sync;
                let copied = copy_bytes(&**file, &*copy, 0, 0, file.length()?)
                    .and_then(|()| if sync == Sync::Off { Ok(()) } else { copy.sync(true) })
                    .and_then(|()| self.disk.rename(&near, path));
                self.remove_quietly(if copied.is_ok() { temporary } else { &near });
                copied
            }
            other => other,
        }
    }
}
