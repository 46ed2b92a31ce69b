//! The scrubber: reads files that are not requested and compares them with their checksums, so that damage is
//! found before the damaged response is needed. Blocks; the caller sets the pace.

use std::path::PathBuf;
use std::sync::Weak;

use super::files::Examined;
use super::handle::Store;
use super::inner::StoreInner;
use super::scrubber::Current;
use crate::key::KeyHash;
use crate::sums::BLOCK_BYTES;
use crate::verify::{DamageHandler, Verification, VerifiedFile};

/// The least cost of one key, in bytes of a step, so that steps end where files are small.
const KEY_BYTES: u64 = 4096;

/// The result of one step of the scrubber.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubReport {
    /// Bytes read, and a fixed number for each file.
    pub bytes: u64,
    /// The number of undamaged files.
    pub sound: usize,
    /// The paths of damaged files, which have been removed.
    pub damaged: Vec<PathBuf>,
    /// Whether the whole cache was compared; the next step begins anew.
    pub round_ended: bool,
}

impl Store {
    /// Runs one step of the scrubber: compares about `bytes` of files with their checksums and removes
    /// damaged ones. Blocks.
    pub fn scrub_step(&self, bytes: u64, now: u64) -> ScrubReport {
        self.inner.scrub_step(bytes, now)
    }
}

impl StoreInner {
    /// Returns a file whose body is to be compared.
    pub(super) fn subject(
        &self,
        hash: &KeyHash,
        generation: u64,
        body_start: u64,
        body_bytes: u64,
    ) -> VerifiedFile {
        let (store, alarm) = (self.this.clone() as Weak<dyn DamageHandler>, self.alarm.clone());
        VerifiedFile { hash: *hash, generation, store, alarm, body_start, body_bytes }
    }

    fn scrub_step(&self, bytes: u64, now: u64) -> ScrubReport {
        let mut scrubber = self.scrubber.lock();
        let mut report = ScrubReport::default();
        // Each iteration costs bytes or advances to the next shard.
        while report.bytes < bytes {
            if let Some(current) = scrubber.current.take() {
                let length = (bytes - report.bytes).max(BLOCK_BYTES);
                scrubber.current = self.compare_part(current, (length, now), &mut report);
            } else if let Some(hash) = scrubber.keys.pop() {
                report.bytes += KEY_BYTES;
                scrubber.current = self.begin(&hash, now, &mut report);
            } else if let Some(keys) = self.index.with_files(scrubber.shard) {
                scrubber.shard += 1;
                scrubber.keys = keys;
            } else {
                scrubber.shard = 0;
                report.round_ended = true;
                break;
            }
        }
        report
    }

    /// Opens a key's file; removes it when its header is damaged.
    fn begin(&self, hash: &KeyHash, now: u64, report: &mut ScrubReport) -> Option<Current> {
        let known = self.index.peek(hash).present?;
        let path = self.path_of(hash);
        let opened = match self.examine_header(hash, &path).ok()? {
            Examined::Whole(opened) => opened,
            Examined::Nothing => return None,
            Examined::Torn => {
                // Again under the path lock, so that no rename or renewal of that name is under way.
                let _path_lock = self.lock_path(hash);
                let is_torn = matches!(self.examine_header(hash, &path), Ok(Examined::Torn));
                let known = self.index.peek(hash).present.filter(|_| is_torn)?;
                self.forget_damaged(hash, known.generation, now);
                report.damaged.push(path);
                return None;
            }
        };
        let (file, header) = (opened.file, opened.header);
        let subject = self.subject(hash, known.generation, header.body_start, header.body_bytes);
        let verification = Verification::new(subject, &*file).ok()?;
        Some(Current { file, path, verification, offset: 0, body_bytes: header.body_bytes })
    }

    /// Continues with a file; returns it when there is more of it.
    fn compare_part(
        &self,
        mut current: Current,
        (length, now): (u64, u64),
        report: &mut ScrubReport,
    ) -> Option<Current> {
        let length = length.min(current.body_bytes - current.offset);
        report.bytes += length;
        match current.verification.verify(&*current.file, current.offset, length, now) {
            Ok(true) => current.offset += length,
            Ok(false) => {
                report.damaged.push(current.path);
                return None;
            }
            // The failure of the disk has been counted.
            Err(_) => return None,
        }
        if current.offset < current.body_bytes {
            return Some(current);
        }
        report.sound += 1;
        None
    }
}
