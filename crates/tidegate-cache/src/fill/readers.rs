//! The slots of a fill's readers.

use std::task::Waker;

/// The readers of a fill: their offsets and their wakers.
#[derive(Default)]
pub(crate) struct Readers {
    slots: Vec<Option<ReaderSlot>>,
    free: Vec<usize>,
    waiting: usize,
}

struct ReaderSlot {
    offset: u64,
    waker: Option<Waker>,
}

impl Readers {
    pub(crate) fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn add(&mut self, offset: u64) -> usize {
        let slot = Some(ReaderSlot { offset, waker: None });
        match self.free.pop() {
            Some(at) => {
                self.slots[at] = slot;
                at
            }
            None => {
                self.slots.push(slot);
                self.slots.len() - 1
            }
        }
    }

    pub(crate) fn remove(&mut self, at: usize) {
        if let Some(slot) = self.slots.get_mut(at).and_then(Option::take) {
            self.waiting -= usize::from(slot.waker.is_some());
            self.free.push(at);
        }
    }

    /// Notes a reader's progress; the reader no longer waits.
    pub(crate) fn moved(&mut self, at: usize, offset: u64) {
        if let Some(Some(slot)) = self.slots.get_mut(at) {
            slot.offset = offset;
            self.waiting -= usize::from(slot.waker.take().is_some());
        }
    }

    pub(crate) fn waits(&mut self, at: usize, waker: &Waker) {
        if let Some(Some(slot)) = self.slots.get_mut(at) {
            match &mut slot.waker {
                Some(known) => known.clone_from(waker),
                empty => {
                    *empty = Some(waker.clone());
                    self.waiting += 1;
                }
            }
        }
    }

    pub(super) fn take_waiting(&mut self, below: u64) -> Vec<Waker> {
        if self.waiting == 0 {
            return Vec::new();
        }
        let mut wakers = Vec::with_capacity(self.waiting);
        for slot in self.slots.iter_mut().flatten().filter(|slot| slot.offset < below) {
            wakers.extend(slot.waker.take());
        }
        self.waiting -= wakers.len();
        wakers
    }

    /// Returns the offsets of all readers.
    pub(super) fn offsets(&self) -> impl Iterator<Item = u64> {
        self.slots.iter().flatten().map(|slot| slot.offset)
    }

    /// Returns the lowest offset.
    pub(super) fn lowest(&self) -> u64 {
        self.offsets().min().unwrap_or(u64::MAX)
    }

    /// Returns the greatest offset up to the watermark. Readers that wait for a later part set no pace.
    pub(super) fn foremost(&self, watermark: u64) -> Option<u64> {
        self.offsets().filter(|offset| *offset <= watermark).max()
    }
}
