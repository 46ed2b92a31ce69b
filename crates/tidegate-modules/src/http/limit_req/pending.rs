//! What of a zone's buckets the other servers do not know yet. It is beside the buckets: a zone that is not shared has none.

use super::logic::{REQUEST, Recent, Share, WHOLE};

/// The requests that were not sent yet, by the places of the buckets.
#[derive(Debug, Default)]
pub(super) struct Pending {
    slots: Vec<Slot>,
    /// The places that have changed, each once.
    changed: Vec<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Requests that were not sent.
    requests: u64,
    /// Whether the place is in `changed`.
    listed: bool,
    /// Requests of all servers that the last reply has counted.
    total: u64,
    recent: Recent,
    /// By which share requests were decided since the last reply, without the others; 0: none was.
    alone: Share,
}

impl Pending {
    /// Counts a request at a place.
    pub(super) fn count(&mut self, place: u32) {
        self.slot(place).requests += 1;
        self.touch(place);
    }

    /// Counts a request at a place that was decided by this share, without the others.
    pub(super) fn count_alone(&mut self, place: u32, share: Share) {
        self.slot(place).alone = share;
        self.count(place);
    }

    /// Notes that the contents of a place are of interest, as a request was refused by them.
    pub(super) fn touch(&mut self, place: u32) {
        let slot = self.slot(place);
        if !std::mem::replace(&mut slot.listed, true) {
            self.changed.push(place);
        }
    }

    /// Forgets a place, whose bucket is removed. The place stays listed until its turn, if it was.
    pub(super) fn forget(&mut self, place: u32) {
        if let Some(slot) = self.slots.get_mut(place as usize) {
            *slot = Slot { listed: slot.listed, ..Slot::default() };
        }
    }

    /// Returns the number of places that have changed.
    pub(super) fn len(&self) -> usize {
        self.changed.len()
    }

    /// Takes the places that have changed, up to `most`.
    pub(super) fn take(&mut self, most: usize) -> Vec<u32> {
        match self.changed.len() <= most {
            true => std::mem::take(&mut self.changed),
            false => self.changed.drain(..most).collect(),
        }
    }

    /// Takes the requests of a place to send them. Of those that were decided without the others, only what is this server's
    /// share of the contents is sent, `level`: the others have leaked, and are not counted anywhere any more.
    pub(super) fn send(&mut self, place: u32, level: impl FnOnce() -> u64) -> u64 {
        let slot = self.slot(place);
        slot.listed = false;
        let requests = std::mem::take(&mut slot.requests);
        match slot.alone {
            0 => requests,
            share => requests.min((level().saturating_mul(share) / WHOLE).div_ceil(REQUEST)),
        }
    }

    /// Puts back requests that were not sent after all.
    pub(super) fn put_back(&mut self, place: u32, requests: u64) {
        let slot = self.slot(place);
        slot.requests = slot.requests.saturating_add(requests);
        self.touch(place);
    }

    /// Takes over the total of a reply, where `sent` requests were sent. Returns the requests that were not sent yet.
    pub(super) fn adopt(&mut self, place: u32, sent: u64, total: u64) -> u64 {
        let slot = self.slot(place);
        // The engine begins anew with a key that has been idle.
        let all = if total < slot.total { total } else { total - slot.total };
        slot.recent.count(sent, all);
        (slot.total, slot.alone) = (total, 0);
        slot.requests
    }

    /// Takes over the total of a decision of the store, of which `own` requests are this server's. Returns the requests that
    /// were not sent yet; `None` for a decision that is older than one before: they may arrive in another order than they were
    /// made.
    pub(super) fn learn(&mut self, place: u32, (own, total): (u64, u64)) -> Option<u64> {
        let known = self.slot(place).total;
        let is_older = (known / 2..known).contains(&total);
        (!is_older).then(|| self.adopt(place, own, total))
    }

    /// Returns the recent requests of a place.
    pub(super) fn recent(&self, place: u32) -> Recent {
        self.slots.get(place as usize).map_or(Recent::default(), |slot| slot.recent)
    }

    fn slot(&mut self, place: u32) -> &mut Slot {
        let place = place as usize;
        if place >= self.slots.len() {
            self.slots.resize(place + 1, Slot::default());
        }
        &mut self.slots[place]
    }
}
