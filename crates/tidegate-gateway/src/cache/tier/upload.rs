//! Uploads: a bounded queue of keys, and the tasks that write their objects to the tier.
//!
//! An object is written on the condition that there is none of its name. Where there is one, its head is read: if it is older
//! and of no more use (stale sooner, or purged), it is replaced on the condition that it is still the same.
//!
//! Cancelling: a task is dropped at any await when another plan comes into use. The object in progress is not uploaded then;
//! what waits in the queue is.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use tidegate_cache::Key;
use tidegate_core::blocking;
use tidegate_rt::clock;
use tidegate_rt::sync::Notify;
use tidegate_store::s3::payload_hash;
use tidegate_upstream::CollectError;
use tidegate_upstream::care::BackgroundTask;

use super::client::{Condition, Failure, Put, etag_of};
use super::figures::TierFigures;
use super::find::is_resumable;
use super::object::{Beginning, ObjectHead};
use super::purges::Purgeable;
use super::read::CHECKED_BYTES;
use super::{CacheTier, Tier};
use crate::cache::meta::{Meta, decoded};
use crate::cache::ranges::part_reader::{self, PartReader};

/// Keys that wait. A fresh cache may admit many at once; those that find no room are admitted again by further uses after a
/// restart, or by another server.
const QUEUE_MAX: usize = 1024;
/// Bytes of an object that are read to compare it with another one: most heads are smaller.
const HEAD_PART_BYTES: u64 = 64 * 1024;

/// An object to upload.
struct Job {
    cache: Arc<CacheTier>,
    main: Key,
    key: Key,
}

/// The keys that wait. The cache of a job may be of an older plan.
#[derive(Default)]
pub(super) struct Queue {
    jobs: Mutex<VecDeque<Job>>,
    changed: Notify,
}

impl Queue {
    fn jobs(&self) -> MutexGuard<'_, VecDeque<Job>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a key, unless there is no room.
    pub(super) fn push(&self, cache: Arc<CacheTier>, main: &Key, key: &Key, figures: &TierFigures) {
        let mut jobs = self.jobs();
        if jobs.len() >= QUEUE_MAX {
            drop(jobs);
            return figures.dropped.add(1);
        }
        jobs.push_back(Job { cache, main: main.clone(), key: key.clone() });
        drop(jobs);
        self.changed.notify_one();
    }

    /// Returns the number of keys that wait.
    pub(super) fn len(&self) -> usize {
        self.jobs().len()
    }

    /// Waits for the next key.
    async fn next(&self) -> Job {
        loop {
            let taken = {
                let mut jobs = self.jobs();
                jobs.pop_front().map(|job| (job, jobs.is_empty()))
            };
            match taken {
                Some((job, is_last)) => {
                    if !is_last {
                        // For another task.
                        self.changed.notify_one();
                    }
                    return job;
                }
                None => self.changed.notified().await,
            }
        }
    }
}

/// One of the tasks of a tier.
pub(super) struct UploadTask(pub(super) Arc<Tier>);

impl BackgroundTask for UploadTask {
    fn run(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(async move {
            loop {
                let job = self.0.kept.queue.next().await;
                self.0.upload(job).await;
            }
        })
    }
}

/// An object ready to be sent.
struct Prepared {
    bytes: Bytes,
    hash: String,
    variant: Vec<u8>,
    requested_at: u64,
    valid_until: u64,
}

impl Tier {
    async fn upload(&self, job: Job) {
        if !self.may_upload() {
            self.kept.figures.not_uploaded.add(1);
            return job.cache.kept.uses.restart(job.key.hash());
        }
        let Some(prepared) = job.prepare(self.settings.object_max).await else {
            return;
        };
        let length = prepared.bytes.len() as u64;
        let figures = &self.kept.figures;
        match self.write(&job, prepared).await {
            Ok(true) => {
                self.note_upload();
                figures.uploaded.add(1);
                figures.upload_bytes.add(length);
                job.cache.kept.absent.forget(job.key.hash());
            }
            Ok(false) => {
                self.note_upload();
                figures.present.add(1);
            }
            Err(failure) => {
                figures.not_uploaded.add(1);
                match failure {
                    Failure::Status(403, _) => self.note_denied("an upload", &failure),
                    _ => self.note_failure("writing an object", &failure),
                }
                job.cache.kept.uses.restart(job.key.hash());
            }
        }
    }

    /// Writes an object; returns false where the tier has one that is as good.
    async fn write(&self, job: &Job, prepared: Prepared) -> Result<bool, Failure> {
        let (client, name) = (&self.kept.client, job.cache.object_name(&job.key));
        let Prepared { bytes, hash, .. } = &prepared;
        let put = |condition| client.put(&name, bytes.clone(), hash, condition);
        match put(Condition::Absent).await? {
            Put::Stored => return Ok(true),
            Put::Unsupported => return Ok(put(Condition::None).await? == Put::Stored),
            Put::Refused => {}
        }
        let Some(mut response) = client.get(&name, Some(0..HEAD_PART_BYTES)).await? else {
            return Ok(put(Condition::Absent).await? == Put::Stored);
        };
        let etag = etag_of(&mut response);
        let most = usize::try_from(HEAD_PART_BYTES).unwrap_or(usize::MAX);
        let part = match response.body.collect(most).await {
            Ok((part, _)) => part,
            // The store ignores ranges, and the object cannot be compared.
            Err(CollectError::TooLong) => return Ok(false),
            Err(_) => return Err(Failure::Broken),
        };
        let etag = etag.filter(|_| job.replaces(&prepared, &part, self.settings.object_max));
        let Some(etag) = etag else { return Ok(false) };
        match put(Condition::Same(&etag)).await? {
            Put::Unsupported => Ok(put(Condition::None).await? == Put::Stored),
            result => Ok(result == Put::Stored),
        }
    }
}

impl Job {
    /// Reads the object from the cache; `None` where there is none that belongs into the tier.
    async fn prepare(&self, object_max: u64) -> Option<Prepared> {
        let store = self.cache.store.get()?;
        let now = clock::unix_millis();
        let (entry, _) = part_reader::open(store, &self.key, now).await;
        let Some(entry) = entry else {
            // Evicted, or not placed yet.
            self.cache.kept.uses.restart(self.key.hash());
            return None;
        };
        let (times, length) = (entry.times(), entry.body_bytes());
        let meta = &decoded(&entry)?.meta;
        let requested_at = meta.requested_at;
        let is_whole = meta.parts.is_none() && meta.head_length.is_none();
        if length > object_max
            || times.valid_until <= now
            || !is_whole
            || meta.from_tier
            // No server would use it.
            || length > CHECKED_BYTES && !(self.cache.completes && is_resumable(meta, length))
            || !self.is_allowed(&meta.tags, requested_at)
        {
            return None;
        }
        let variant = meta.variant.clone();
        let metadata = entry.metadata().clone();
        // Of this entry: by now its key may have another one.
        let mut reader = PartReader::of_entry(&entry, now).await?;
        let (key, length) =
            (Bytes::copy_from_slice(self.key.text()), usize::try_from(length).ok()?);
        // The body is in memory once: it is read behind the room for its head.
        let head_length = ObjectHead::length(key.len(), metadata.len(), length);
        let mut object = BytesMut::with_capacity(head_length + length);
        object.resize(head_length, 0);
        while let Some(bytes) = reader.next().await {
            object.extend_from_slice(&bytes);
        }
        if object.len() != head_length + length {
            return None;
        }
        let made = blocking::run(move || {
            let (room, body) = object.split_at_mut(head_length);
            let head = ObjectHead::new(key, metadata, times, body).encode();
            let Some(head) = head.filter(|head| head.len() == room.len()) else {
                return Ok(None);
            };
            room.copy_from_slice(&head);
            let hash = payload_hash(&object);
            Ok(Some((object.freeze(), hash)))
        });
        let (bytes, hash) = made.await.ok().flatten()?;
        Some(Prepared { bytes, hash, variant, requested_at, valid_until: times.valid_until })
    }

    fn is_allowed(&self, tags: &[u8], requested_at: u64) -> bool {
        let (main, key) = (self.main.hash(), self.key.text());
        self.cache.kept.list.allows(&Purgeable { main, key, tags, requested_at })
    }

    /// Returns whether this object is better than the one in the tier, which begins with `other`.
    fn replaces(&self, own: &Prepared, other: &[u8], object_max: u64) -> bool {
        let head = match ObjectHead::parse(other, object_max) {
            Beginning::Head(head, _) => head,
            Beginning::Invalid(_) => return true,
            // A head that is larger than what was read.
            Beginning::More(_) => return false,
        };
        let Some(meta) = Meta::decode(&head.metadata) else { return true };
        // Another variant is as good, as long as it is fresh: servers would replace each other's without end.
        let is_same = meta.variant == own.variant || head.times.valid_until <= clock::unix_millis();
        head.key != self.key.text()[..]
            || !self.is_allowed(&meta.tags, meta.requested_at)
            || is_same
                && own.requested_at > meta.requested_at
                && own.valid_until > head.times.valid_until
    }
}
