//! Renewal of metadata in place, or by a copy when they outgrew their slot. Everything here blocks.

use std::io;

use bytes::Bytes;

use super::files::{Examined, copy_bytes};
use super::handle::Store;
use super::inner::StoreInner;
use super::room::{Room, disk_bytes_of};
use crate::disk::{FileHandle, write_full_at};
use crate::format::{Header, Layout, encode};
use crate::key::Key;
use crate::times::Times;

/// The change of a file's metadata.
pub(super) enum MetadataChange {
    /// The metadata of the file of this generation are replaced; another file keeps its own.
    Renewal { generation: u64, metadata: Bytes, times: Times },
    /// The present file is stale from this moment on, in Unix milliseconds.
    Stale(u64),
}

/// The result of the renewal of metadata.
enum RenewalResult {
    Done,
    /// There is no such file.
    Gone,
    /// This number of bytes has to be charged for a copy.
    NeedsRoom(u64),
}

impl Store {
    /// Renews metadata and times of the file of this generation, after a revalidation. Blocks. Returns false
    /// when there is no such file any more, or it was renewed or made stale meanwhile. After a crash either
    /// the old or the new metadata are found.
    pub fn update_metadata(
        &self,
        key: &Key,
        generation: u64,
        metadata: Bytes,
        times: Times,
    ) -> io::Result<bool> {
        self.inner.update_metadata(key, &MetadataChange::Renewal { generation, metadata, times })
    }
}

impl StoreInner {
    pub(super) fn update_metadata(&self, key: &Key, change: &MetadataChange) -> io::Result<bool> {
        let mut granted = 0;
        loop {
            let result = self.renew(key, change, &mut granted);
            let missing = match result {
                Ok(RenewalResult::NeedsRoom(bytes)) => bytes - granted,
                result => {
                    self.index.uncharge(granted);
                    return result.map(|renewed| matches!(renewed, RenewalResult::Done));
                }
            };
            // Without the lock of this key's path, since other files may have to be removed.
            match self.keep_room(missing, missing) {
                Room::Kept => granted += missing,
                Room::More => {}
                Room::None => {
                    self.index.uncharge(granted);
                    return Err(io::ErrorKind::StorageFull.into());
                }
            }
        }
    }

    /// Renews a file's metadata. `granted` bytes are charged for a copy; the used ones are subtracted.
    ///
    /// In place, where they fit: the slot that is not in use is written, and is valid as soon as its checksum
    /// is. Otherwise by a copy, which takes the file's name. A crash leaves the old or the new metadata.
    ///
    /// Invariant: the lock of the key's path is held, so nothing is evicted for the copy meanwhile: that
    /// would take locks of other paths. Where room is missing, [`RenewalResult::NeedsRoom`] is returned, and the
    /// caller tries again with more. Source: RFC 9111 section 4.3.4, freshening stored responses.
    fn renew(
        &self,
        key: &Key,
        change: &MetadataChange,
        granted: &mut u64,
    ) -> io::Result<RenewalResult> {
        let hash = key.hash();
        let _path_lock = self.lock_path(hash);
        let Some(known) = self.index.peek(hash).present else { return Ok(RenewalResult::Gone) };
        if matches!(change, MetadataChange::Renewal { generation, .. } if *generation != known.generation)
        {
            return Ok(RenewalResult::Gone);
        }
        let path = self.path_of(hash);
        let Examined::Whole(opened) = self.examine(hash, &path)? else {
            return Ok(RenewalResult::Gone);
        };
        let header = opened.header;
        if header.key_text[..] != key.text()[..] {
            return Ok(RenewalResult::Gone);
        }
        let (metadata, times) = match change {
            MetadataChange::Renewal { metadata, times, .. } => (metadata.clone(), *times),
            MetadataChange::Stale(at) => (header.metadata.clone(), header.times.stale_since(*at)),
        };
        let mut renewed = known;
        renewed.generation = self.index.next_generation();
        let mut reserved = 0;
        // Before the write: afterwards the file would seem to be changed.
        let open = self.hot.find(key, known.generation);
        let before = opened.file.stamp().ok();
        // In place where the metadata fit the slot; otherwise by a copy, which needs charged room.
        match header.renewal(&metadata, times) {
            Some((offset, slot)) => {
                let file = self.disk.open_for_update(&path)?;
                write_full_at(&*file, &slot, offset)?;
            }
            None => {
                let layout = Layout::for_new(key, &metadata).ok_or_else(too_long)?;
                renewed.disk_bytes = disk_bytes_of(layout, header.body_bytes);
                if renewed.disk_bytes > *granted {
                    return Ok(RenewalResult::NeedsRoom(renewed.disk_bytes));
                }
                self.rewrite(key, layout, &opened.file, &header, &metadata, times)?;
                reserved = renewed.disk_bytes;
                *granted -= reserved;
            }
        }
        let done = self.index.renew(hash, known.generation, renewed, reserved);
        if !done {
            self.index.uncharge(reserved);
        }
        // A copy has another body start: it is opened again.
        let is_same = reserved == 0;
        if let Some(open) = open.filter(|open| done && (is_same || open.file().is_none())) {
            open.note_renewal(before, renewed.generation);
            self.hot.keep(hash, renewed.generation, open.renewed(metadata, times));
        }
        Ok(if done { RenewalResult::Done } else { RenewalResult::Gone })
    }

    /// Writes a file anew with longer metadata.
    fn rewrite(
        &self,
        key: &Key,
        layout: Layout,
        file: &FileHandle,
        header: &Header,
        metadata: &[u8],
        times: Times,
    ) -> io::Result<()> {
        let (near, copy) = self.create_near(key.hash())?;
        let start = layout.body_start() as u64;
        let bytes = encode(key, layout, metadata, times, header.body_bytes);
        let rest = header.file_bytes().unwrap_or(0).saturating_sub(header.body_start);
        let written = copy_bytes(&**file, &*copy, header.body_start, start, rest)
            .and_then(|()| write_full_at(&*copy, &bytes, 0))
            .and_then(|()| self.disk.rename(&near, &self.path_of(key.hash())));
        if let Err(error) = written {
            self.remove_quietly(&near);
            return Err(self.counted("renewing a file", error));
        }
        Ok(())
    }
}

fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "metadata too long")
}
