//! Open entries, shared by all requests that serve them, and the memory tier: small bodies are kept as bytes,
//! so that a hit needs no system call and no descriptor.

use std::any::Any;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::disk::{FileHandle, Stamp};
use crate::key::{Key, KeyHash};
use crate::lru::{KeyPosition, LruMap, Sharded};
use crate::times::Times;
use crate::verify::{VERIFIED_AT_OPEN, Verification};

const SHARDS: usize = 8;

/// The bytes that an open entry costs beside its body: list links, table slot, the structure itself.
const ENTRY_COST_BYTES: usize = 400;

/// A whole object, ready to be served. It is cheap to clone and stays valid after removal or replacement.
///
/// Functions that compare the body take `now`, in Unix milliseconds, the moment when the work began. Damage
/// that is found makes all files suspect for a while, and a file that was changed a moment ago may be changed
/// again undetected.
#[derive(Clone)]
pub struct OpenEntry {
    inner: Arc<OpenInner>,
}

pub(crate) struct OpenInner {
    pub key_text: Bytes,
    pub metadata: Bytes,
    pub times: Times,
    pub body_start: u64,
    pub body_bytes: u64,
    pub source: BodySource,
    /// The verified blocks of a file's body; `None`: all of it.
    pub verification: Option<Arc<Verification>>,
    pub companion: OnceLock<Box<dyn Any + Send + Sync>>,
    /// The serial of the last purge rule that it was compared with.
    pub checked: AtomicU64,
}

/// The location of the body of an open entry.
#[derive(Clone)]
pub(crate) enum BodySource {
    /// In memory, all of it.
    Memory(Bytes),
    /// In the file, from [`OpenEntry::body_start`] on.
    File(FileHandle),
}

impl OpenEntry {
    pub(crate) fn new(inner: OpenInner) -> OpenEntry {
        OpenEntry { inner: Arc::new(inner) }
    }

    /// Returns the metadata as they were published, or renewed since.
    pub fn metadata(&self) -> &Bytes {
        &self.inner.metadata
    }

    /// Returns when the object was made, and until when it may be used.
    pub fn times(&self) -> Times {
        self.inner.times
    }

    /// Returns the offset of the body in the file.
    pub fn body_start(&self) -> u64 {
        self.inner.body_start
    }

    /// Returns the length of the body in bytes.
    pub fn body_bytes(&self) -> u64 {
        self.inner.body_bytes
    }

    /// Returns the whole body when the memory tier has it. Otherwise [`OpenEntry::file`] does.
    pub fn body_in_memory(&self) -> Option<Bytes> {
        match &self.inner.source {
            BodySource::Memory(body) => Some(body.clone()),
            BodySource::File(_) => None,
        }
    }

    /// Returns the file, unless the body is in memory.
    pub fn file(&self) -> Option<&FileHandle> {
        match &self.inner.source {
            BodySource::Memory(_) => None,
            BodySource::File(file) => Some(file),
        }
    }

    /// Returns the offset up to which the body may be served from `offset` on without [`OpenEntry::verify`].
    /// It is `offset` itself if no byte may, as when another program has changed the file. Makes one system
    /// call where the body is in a file; never blocks.
    pub fn verified_to(&self, offset: u64, now: u64) -> u64 {
        self.look();
        self.verified_to_cached(offset, now)
    }

    /// Returns the same as [`OpenEntry::verified_to`] by the last look at the file: for a caller that has
    /// just found the entry.
    pub fn verified_to_cached(&self, offset: u64, now: u64) -> u64 {
        match &self.inner.verification {
            Some(verification) => verification.compared_to(offset, now),
            None => self.inner.body_bytes.max(offset),
        }
    }

    /// Returns whether the body is to be served by [`OpenEntry::read_verified`] alone, since damage was found
    /// in the cache a moment ago.
    pub fn is_suspect(&self, now: u64) -> bool {
        self.inner.verification.as_ref().is_some_and(|verification| verification.is_suspect(now))
    }

    /// Looks at the file, and returns the number of changes that were detected until now. If it differs from
    /// the number before, the bytes served in between may have been damaged. Makes one system call where the
    /// body is in a file; never blocks.
    pub fn changes(&self) -> u64 {
        self.look();
        self.inner.verification.as_ref().map_or(0, |verification| verification.changes())
    }

    /// Looks whether another program has changed the file since it was written or compared.
    fn look(&self) {
        if let (Some(verification), BodySource::File(file)) =
            (&self.inner.verification, &self.inner.source)
        {
            verification.is_unchanged(&**file);
        }
    }

    /// Notes that this process has renewed the head of the file, whose stamp was `before`.
    pub(crate) fn note_renewal(&self, before: Option<Stamp>, generation: u64) {
        if let (Some(verification), BodySource::File(file)) =
            (&self.inner.verification, &self.inner.source)
        {
            verification.renewed(before, &**file, generation);
        }
    }

    /// Compares a part of the body with its checksums. Returns false when it is damaged; the file has been
    /// removed then. Blocks.
    pub fn verify(&self, offset: u64, length: u64, now: u64) -> io::Result<bool> {
        match (&self.inner.verification, &self.inner.source) {
            (Some(verification), BodySource::File(file)) => {
                verification.verify(&**file, offset, length, now)
            }
            _ => Ok(true),
        }
    }

    /// Reads at most `length` bytes of the body and compares them with their checksums. Returns `None` when
    /// they are damaged; the file has been removed then. It is for a file that another program keeps
    /// changing. Blocks.
    pub fn read_verified(&self, offset: u64, length: u64, now: u64) -> io::Result<Option<Bytes>> {
        match (&self.inner.verification, &self.inner.source) {
            (Some(verification), BodySource::File(file)) => {
                verification.read(&**file, offset, length, now)
            }
            _ => Ok(None),
        }
    }

    /// Returns the value that the caller makes of the metadata. It is kept with the entry, so that it is made
    /// once for all hits. `None` only when a value of another type was kept before.
    pub fn companion<T: Send + Sync + 'static>(&self, make: impl FnOnce() -> T) -> Option<&T> {
        self.inner.companion.get_or_init(|| Box::new(make())).downcast_ref()
    }

    /// Compares the part that is compared when a file is opened. Blocks.
    pub(crate) fn is_sound_at_start(&self, now: u64) -> io::Result<bool> {
        match (&self.inner.verification, &self.inner.source) {
            (Some(verification), BodySource::File(file)) => {
                verification.compare(&**file, 0, VERIFIED_AT_OPEN, now)
            }
            _ => Ok(true),
        }
    }

    pub(crate) fn is_of(&self, key: &Key) -> bool {
        self.inner.key_text[..] == key.text()[..]
    }

    /// Returns the same body with renewed metadata.
    pub(crate) fn renewed(&self, metadata: Bytes, times: Times) -> OpenEntry {
        OpenEntry::new(OpenInner {
            key_text: self.inner.key_text.clone(),
            metadata,
            times,
            body_start: self.inner.body_start,
            body_bytes: self.inner.body_bytes,
            source: self.inner.source.clone(),
            verification: self.inner.verification.clone(),
            companion: OnceLock::new(),
            checked: AtomicU64::new(0),
        })
    }

    pub(crate) fn checked(&self) -> u64 {
        self.inner.checked.load(Ordering::Relaxed)
    }

    pub(crate) fn check_through(&self, serial: u64) {
        self.inner.checked.fetch_max(serial, Ordering::Relaxed);
    }

    pub(crate) fn key_text(&self) -> &[u8] {
        &self.inner.key_text
    }

    fn cost(&self) -> Cost {
        let shared = ENTRY_COST_BYTES + self.inner.key_text.len() + self.inner.metadata.len();
        match &self.inner.source {
            BodySource::Memory(body) => Cost { bytes: shared + body.len(), files: 0 },
            BodySource::File(_) => {
                let verification = self.inner.verification.as_ref();
                let bytes = shared + verification.map_or(0, |verification| verification.bytes());
                Cost { bytes, files: 1 }
            }
        }
    }
}

/// The bounded cache of open entries.
pub(crate) struct HotEntries {
    shards: Sharded<HotShard>,
    bytes_max: AtomicUsize,
    files_max: AtomicUsize,
}

#[derive(Default)]
struct HotShard {
    map: LruMap<Hot>,
    total: Cost,
}

struct Hot {
    generation: u64,
    entry: OpenEntry,
}

#[derive(Clone, Copy, Default)]
struct Cost {
    bytes: usize,
    files: usize,
}

impl HotEntries {
    pub(crate) fn new(bytes_max: usize, files_max: usize) -> HotEntries {
        let hot = HotEntries {
            shards: Sharded::new(SHARDS),
            bytes_max: AtomicUsize::new(0),
            files_max: AtomicUsize::new(0),
        };
        hot.limit(bytes_max, files_max);
        hot
    }

    pub(crate) fn limit(&self, bytes_max: usize, files_max: usize) {
        self.bytes_max.store(bytes_max / SHARDS, Ordering::Relaxed);
        self.files_max.store(files_max / SHARDS, Ordering::Relaxed);
        for shard in self.shards.shards() {
            self.shrink(&mut shard.lock());
        }
    }

    /// Returns the open entry of a key, if it is of this generation. An entry whose file was changed by
    /// another program is dropped: the file is opened and compared anew, before the head of a response is sent.
    /// That holds as well where a response that is being sent has noticed the change first.
    pub(crate) fn find(&self, key: &Key, generation: u64) -> Option<OpenEntry> {
        let entry = {
            let (mut shard, place) = self.shards.lock(key.hash());
            let hot = shard.map.touch(place)?;
            let fits = hot.generation == generation && hot.entry.is_of(key);
            fits.then(|| hot.entry.clone())
        }?;
        if entry.changes() == 0 {
            return Some(entry);
        }
        self.forget(key.hash());
        None
    }

    pub(crate) fn keep(&self, hash: &KeyHash, generation: u64, entry: OpenEntry) {
        let (mut shard, place) = self.shards.lock(hash);
        if shard.map.find(place).is_some_and(|hot| hot.generation > generation) {
            return;
        }
        shard.total.add(entry.cost());
        if let Some(old) = shard.map.insert(place, Hot { generation, entry }) {
            shard.total.subtract(old.entry.cost());
        }
        self.shrink(&mut shard);
    }

    pub(crate) fn forget(&self, hash: &KeyHash) {
        let (mut shard, place) = self.shards.lock(hash);
        shard.drop_at(place);
    }

    /// Returns the bytes and descriptors held.
    pub(crate) fn totals(&self) -> (usize, usize) {
        self.shards.shards().iter().fold((0, 0), |(bytes, files), shard| {
            let total = shard.lock().total;
            (bytes + total.bytes, files + total.files)
        })
    }

    fn shrink(&self, shard: &mut HotShard) {
        let bytes_max = self.bytes_max.load(Ordering::Relaxed);
        let files_max = self.files_max.load(Ordering::Relaxed);
        while shard.total.bytes > bytes_max || shard.total.files > files_max {
            let Some((hash, _)) = shard.map.victim() else { return };
            let place = self.shards.place(&hash);
            shard.drop_at(place);
        }
    }
}

impl HotShard {
    fn drop_at(&mut self, place: KeyPosition<'_>) {
        if let Some(old) = self.map.remove(place) {
            self.total.subtract(old.entry.cost());
        }
    }
}

impl Cost {
    fn add(&mut self, other: Cost) {
        self.bytes += other.bytes;
        self.files += other.files;
    }

    fn subtract(&mut self, other: Cost) {
        self.bytes = self.bytes.saturating_sub(other.bytes);
        self.files = self.files.saturating_sub(other.files);
    }
}
