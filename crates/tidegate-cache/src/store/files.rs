//! The store's files: opening and verifying them, making temporary ones, removing. Everything here blocks.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::inner::StoreInner;
use super::room::present;
use crate::disk::{DiskFile, FileHandle, read_full_at, write_full_at};
use crate::format::{FormatError, Header};
use crate::hot::{BodySource, OpenEntry, OpenInner};
use crate::key::{Key, KeyHash, temporary_name};
use crate::sums::is_sound;
use crate::verify::{DamageHandler, Verification};

/// Bytes of the first read of a file: most headers fit.
const FIRST_READ_BYTES: usize = 4096;

/// Bytes copied at a time where a file has to be copied.
const COPY_BYTES: usize = 256 * 1024;

/// Names tried for a temporary file. Files of an earlier process may have some of them.
const TEMPORARY_NAMES_TRIED: usize = 16;

/// The failed work, in the words of the log.
const READING: &str = "reading a file";
const REMOVING: &str = "removing a file";

/// A file that was opened and verified.
pub(super) struct OpenedFile {
    pub header: Header,
    pub file: FileHandle,
    /// The bytes that were read: the header and perhaps the whole body.
    read: Bytes,
}

/// The content of a name.
pub(super) enum Examined {
    Whole(Box<OpenedFile>),
    /// Not a whole cache file of this hash.
    Torn,
    Nothing,
}

impl StoreInner {
    /// Opens the file that the index has, or one that the loader has not reached yet.
    ///
    /// The first look takes no lock, as most files agree with the index. A file that does not may be in the
    /// middle of a rename or a renewal, so it is examined again under the lock of its path. If it still does
    /// not agree, it is removed from disk and index. An error of the disk changes nothing.
    ///
    /// Returns the entry and the generation that the index had for it; 0: none.
    pub(super) fn open_entry(&self, key: &Key, now: u64) -> io::Result<Option<(OpenEntry, u64)>> {
        let is_loaded = self.is_loaded();
        let view = self.index.peek(key.hash());
        let Some(known) = view.present else {
            if is_loaded {
                return Ok(None);
            }
            return self.open_unknown(key, now);
        };
        if let Some(open) = self.hot.find(key, known.generation) {
            return Ok(Some((open, known.generation)));
        }
        let path = self.path_of(key.hash());
        if let Examined::Whole(opened) = self.examine(key.hash(), &path)?
            && let Some(entry) = self.entry_of(*opened, known.generation, now)?
        {
            // Replaced or renewed between the two looks: it may be served, not kept.
            return Ok(entry.is_of(key).then(|| self.keep(key.hash(), known.generation, entry)));
        }
        // Again under the path lock, so that no rename or renewal of that name is under way.
        let _path_lock = self.lock_path(key.hash());
        let Some(known) = self.index.peek(key.hash()).present else { return Ok(None) };
        let found = match self.examine(key.hash(), &path)? {
            Examined::Whole(opened) => match self.entry_of(*opened, known.generation, now)? {
                Some(entry) => {
                    let is_own = entry.is_of(key);
                    return Ok(is_own.then(|| self.keep(key.hash(), known.generation, entry)));
                }
                None => Examined::Torn,
            },
            found => found,
        };
        match found {
            Examined::Torn | Examined::Whole(_) => {
                self.forget_damaged(key.hash(), known.generation, now)
            }
            Examined::Nothing => {
                self.index.forget_file(key.hash(), known.generation);
                self.note_removed(key.hash());
            }
        }
        Ok(None)
    }

    /// Opens a file that the loader has not reached yet.
    fn open_unknown(&self, key: &Key, now: u64) -> io::Result<Option<(OpenEntry, u64)>> {
        let _path_lock = self.lock_path(key.hash());
        let path = self.path_of(key.hash());
        let opened = match self.examine(key.hash(), &path)? {
            Examined::Whole(opened) => opened,
            Examined::Torn => {
                self.remove_torn(&path);
                return Ok(None);
            }
            Examined::Nothing => return Ok(None),
        };
        let generation = self.add_found(key.hash(), &opened.header, now);
        let Some(entry) = self.entry_of(*opened, generation.unwrap_or(0), now)? else {
            if let Some(generation) = generation {
                self.index.forget_file(key.hash(), generation);
                self.note_removed(key.hash());
            }
            self.remove_torn(&path);
            return Ok(None);
        };
        Ok(entry.is_of(key).then(|| match generation {
            Some(generation) => self.keep(key.hash(), generation, entry),
            None => (entry, 0),
        }))
    }

    /// Adds a verified file to the index. Returns its generation, unless the key has a file already. The
    /// caller holds the path lock.
    pub(super) fn add_found(&self, hash: &KeyHash, header: &Header, now: u64) -> Option<u64> {
        let found = present(&self.index, header.layout, header.body_bytes);
        let evicted = |evicted, bytes| self.discard_entry(evicted, bytes);
        let added = self.index.add_found(hash, found, now, evicted);
        if added {
            self.note_placed(hash, &found, now);
        }
        added.then_some(found.generation)
    }

    /// Opens and verifies the file of a name; a small file is read whole.
    pub(super) fn examine(&self, hash: &KeyHash, path: &Path) -> io::Result<Examined> {
        self.examine_up_to(hash, path, self.options().memory_body_bytes_max + FIRST_READ_BYTES)
    }

    /// Opens and verifies the file of a name, without its body.
    pub(super) fn examine_header(&self, hash: &KeyHash, path: &Path) -> io::Result<Examined> {
        self.examine_up_to(hash, path, 0)
    }

    fn examine_up_to(&self, hash: &KeyHash, path: &Path, whole_max: usize) -> io::Result<Examined> {
        let file = match self.disk.open(path) {
            Ok(file) => file,
            Err(error) if is_absent(&error) => return Ok(Examined::Nothing),
            Err(error) => return Err(self.counted(READING, error)),
        };
        let verified = self.verify(hash, file, whole_max);
        verified.map_err(|error| self.counted(READING, error))
    }

    fn verify(&self, hash: &KeyHash, file: FileHandle, whole_max: usize) -> io::Result<Examined> {
        let length = file.length()?;
        let first = if length <= whole_max as u64 { length as usize } else { FIRST_READ_BYTES };
        let mut read = read_start(&*file, first)?;
        let header = loop {
            match Header::parse(&read) {
                Ok(header) => break header,
                Err(FormatError::Short(needed)) if needed as u64 <= length => {
                    let longer = read_start(&*file, needed)?;
                    if longer.len() < needed {
                        return Ok(Examined::Torn);
                    }
                    read = longer;
                }
                Err(_) => return Ok(Examined::Torn),
            }
        };
        if header.hash != *hash || header.file_bytes() != Some(length) {
            return Ok(Examined::Torn);
        }
        Ok(Examined::Whole(Box::new(OpenedFile { header, file, read })))
    }

    /// Makes the entry to be served, with a small body in memory. Returns `None` when the part of the body
    /// that is compared now is damaged.
    ///
    /// Invariant: a body in memory is compared whole, and the file is not read again. A body in a file is
    /// compared up to [`crate::verify::VERIFIED_AT_OPEN`], and the rest as it is served. The file may change
    /// at any moment, so its length, which was compared with the header, is not relied upon: each read may
    /// end early.
    fn entry_of(
        &self,
        opened: OpenedFile,
        generation: u64,
        now: u64,
    ) -> io::Result<Option<OpenEntry>> {
        let OpenedFile { header, file, read } = opened;
        let limit = self.options().memory_body_bytes_max as u64;
        let in_memory = header.body_bytes <= limit;
        let whole = if in_memory && header.file_bytes() != Some(read.len() as u64) {
            // A small body behind a long header, or the limit was raised meanwhile.
            let bytes = header.file_bytes().unwrap_or(0) as usize;
            let longer = read_start(&*file, bytes);
            let longer = longer.map_err(|error| self.counted(READING, error))?;
            (longer.len() == bytes).then_some(longer)
        } else {
            in_memory.then_some(read)
        };
        let (source, verification) = match whole {
            Some(whole) => {
                let mut body = whole.slice(header.body_start as usize..);
                let sums = body.split_off(header.body_bytes as usize);
                if !is_sound(&body, &sums, &header.hash) {
                    return Ok(None);
                }
                (BodySource::Memory(body), None)
            }
            None => {
                let (start, bytes) = (header.body_start, header.body_bytes);
                let subject = self.subject(&header.hash, generation, start, bytes);
                let verification = Verification::new(subject, &*file)
                    .map_err(|error| self.counted(READING, error))?;
                (BodySource::File(file), Some(Arc::new(verification)))
            }
        };
        // Copied: slices would keep all bytes of the read in memory.
        let entry = OpenEntry::new(OpenInner {
            key_text: Bytes::copy_from_slice(&header.key_text),
            metadata: Bytes::copy_from_slice(&header.metadata),
            times: header.times,
            body_start: header.body_start,
            body_bytes: header.body_bytes,
            source,
            verification,
            companion: OnceLock::new(),
            checked: AtomicU64::new(0),
        });
        let sound = entry.is_sound_at_start(now).map_err(|error| self.counted(READING, error))?;
        Ok(sound.then_some(entry))
    }

    /// Removes the file of this generation. The caller holds the path lock.
    pub(super) fn forget_damaged(&self, hash: &KeyHash, generation: u64, now: u64) {
        self.alarm.raise(now);
        self.forget_file(hash, generation);
        self.remove_torn(&self.path_of(hash));
    }

    /// Forgets the file of this generation, which the caller removes. The caller holds the path lock.
    pub(super) fn forget_file(&self, hash: &KeyHash, generation: u64) {
        self.index.forget_file(hash, generation);
        self.note_removed(hash);
        self.hot.forget(hash);
    }

    /// Keeps an entry open, if the index still has the same generation. Returns both.
    fn keep(&self, hash: &KeyHash, generation: u64, entry: OpenEntry) -> (OpenEntry, u64) {
        let known = self.index.peek(hash).present;
        let matches = known.is_some_and(|known| {
            known.generation == generation && known.body_bytes == entry.body_bytes()
        });
        if matches {
            self.hot.keep(hash, generation, entry.clone());
        }
        (entry, generation)
    }

    /// Removes the object of this generation; a fill of its key goes on. Returns whether there was one.
    pub(super) fn remove_generation(&self, hash: &KeyHash, generation: u64) -> io::Result<bool> {
        let _path_lock = self.lock_path(hash);
        let Some(bytes) = self.index.take_file(hash, generation) else { return Ok(false) };
        self.hot.forget(hash);
        self.index.uncharge(bytes);
        self.note_removed(hash);
        match self.disk.remove(&self.path_of(hash)) {
            Err(error) if !is_absent(&error) => Err(self.counted(REMOVING, error)),
            _ => Ok(true),
        }
    }

    pub(super) fn remove(&self, hash: &KeyHash) -> io::Result<bool> {
        let _path_lock = self.lock_path(hash);
        let known = self.index.remove(hash);
        self.hot.forget(hash);
        let has_file = known.as_ref().is_some_and(|known| known.present.is_some());
        // The file of an object that made room may still wait for its removal, and would be found by the next start.
        if !has_file && self.is_loaded() && !self.has_garbage() {
            return Ok(known.is_some_and(|known| known.fill.is_some()));
        }
        let removed = self.disk.remove(&self.path_of(hash));
        if let Some(present) = known.as_ref().and_then(|known| known.present) {
            self.index.uncharge(present.disk_bytes);
            self.note_removed(hash);
        }
        match removed {
            Ok(()) => Ok(true),
            Err(error) if is_absent(&error) => {
                Ok(known.is_some_and(|known| known.present.is_some() || known.fill.is_some()))
            }
            Err(error) => Err(self.counted(REMOVING, error)),
        }
    }

    fn has_garbage(&self) -> bool {
        self.counters.abandoned.load(Ordering::Relaxed) > 0 || !self.garbage.lock().is_empty()
    }

    /// Creates a temporary file for a fill.
    pub(crate) fn create_temporary(&self, hash: &KeyHash) -> io::Result<(PathBuf, FileHandle)> {
        match &self.options().temporary_directory {
            Some(directory) => self.create_in(directory, hash),
            None => self.create_near(hash),
        }
        .map_err(|error| self.counted("creating a file", error))
    }

    /// Creates a temporary file beside a key's file.
    pub(super) fn create_near(&self, hash: &KeyHash) -> io::Result<(PathBuf, FileHandle)> {
        self.create_in(&self.directory_of(hash), hash)
    }

    fn create_in(&self, directory: &Path, hash: &KeyHash) -> io::Result<(PathBuf, FileHandle)> {
        let base = self.options().started_at;
        for _ in 0..TEMPORARY_NAMES_TRIED {
            let count = self.counters.temporaries.fetch_add(1, Ordering::Relaxed);
            let path = directory.join(temporary_name(hash, base.saturating_add(count)));
            let mut created = self.disk.create(&path);
            if created.as_ref().is_err_and(is_absent) {
                self.disk.create_directory(directory)?;
                created = self.disk.create(&path);
            }
            match created {
                Ok(file) => return Ok((path, file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    pub(super) fn path_of(&self, hash: &KeyHash) -> PathBuf {
        let options = self.options();
        options.levels.path(&options.path, hash)
    }

    pub(super) fn directory_of(&self, hash: &KeyHash) -> PathBuf {
        let options = self.options();
        options.levels.directory(&options.path, hash)
    }

    pub(super) fn remove_torn(&self, path: &Path) {
        self.counters.torn.fetch_add(1, Ordering::Relaxed);
        self.remove_quietly(path);
    }

    /// Removes a file; returns whether it no longer exists. A failure is only counted.
    pub(super) fn remove_quietly(&self, path: &Path) -> bool {
        match self.disk.remove(path) {
            Ok(()) => true,
            Err(error) if is_absent(&error) => true,
            Err(error) => {
                self.disk_failed(REMOVING, &error);
                false
            }
        }
    }
}

impl DamageHandler for StoreInner {
    fn read_failed(&self, error: &io::Error) {
        self.disk_failed(READING, error);
    }

    fn remove_damaged(&self, hash: &KeyHash, generation: u64, now: u64) {
        let _path_lock = self.lock_path(hash);
        let known = self.index.peek(hash).present;
        // Otherwise it has been replaced or removed meanwhile, or the caller removes it.
        if known.is_some_and(|known| known.generation == generation) {
            self.forget_damaged(hash, generation, now);
        }
    }
}

fn read_start(file: &dyn DiskFile, bytes: usize) -> io::Result<Bytes> {
    let mut buffer = vec![0; bytes];
    let count = read_full_at(file, &mut buffer, 0)?;
    buffer.truncate(count);
    Ok(buffer.into())
}

/// Copies a range. Fails when the source ends too early.
pub(super) fn copy_bytes(
    from: &dyn DiskFile,
    to: &dyn DiskFile,
    from_offset: u64,
    to_offset: u64,
    bytes: u64,
) -> io::Result<()> {
    let mut buffer = vec![0; COPY_BYTES.min(usize::try_from(bytes).unwrap_or(COPY_BYTES))];
    let mut done = 0;
    while done < bytes {
        let part = (bytes - done).min(buffer.len() as u64) as usize;
        if read_full_at(from, &mut buffer[..part], from_offset + done)? < part {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        write_full_at(to, &buffer[..part], to_offset + done)?;
        done += part as u64;
    }
    Ok(())
}

pub(super) fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}
