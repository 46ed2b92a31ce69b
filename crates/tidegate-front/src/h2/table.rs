//! The streams of a connection whose requests wait.

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Wake, Waker};

use slab::Slab;
use tidegate_core::LocalFuture;
use tidegate_h2::StreamId;

use super::stream::Stream;
use super::wakes::{StreamWaker, Wakes};

/// The future of a request.
pub(super) type Request = LocalFuture<'static, ()>;

/// Requests in progress, by stream and by slot. Streams begin in the order of their numbers, so that a sorted list finds
/// them.
#[derive(Default)]
pub(super) struct Table {
    slots: Slab<Slot>,
    by_id: Vec<(StreamId, u32)>,
    /// The waker of each slot, for the streams that use it one after the other.
    wakers: Vec<Arc<StreamWaker>>,
}

struct Slot {
    id: StreamId,
    stream: Rc<Stream>,
    /// `None` while it is polled.
    request: Option<Request>,
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Adds the newest stream, whose request waits. It is marked as woken, since nothing has its waker yet.
    pub(super) fn add(
        &mut self,
        id: StreamId,
        stream: Rc<Stream>,
        request: Request,
        of: &Arc<Wakes>,
    ) {
        let slot = self.slots.insert(Slot { id, stream, request: Some(request) });
        self.by_id.push((id, slot as u32));
        if slot >= self.wakers.len() {
            self.wakers.push(StreamWaker::new(of.clone(), slot as u32));
        }
        if let Some(waker) = self.wakers.get(slot) {
            waker.wake_by_ref();
        }
    }

    /// Returns a stream by its number.
    pub(super) fn stream(&self, id: StreamId) -> Option<&Rc<Stream>> {
        let at = self.by_id.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        let (_, slot) = self.by_id.get(at)?;
        self.slots.get(*slot as usize).map(|slot| &slot.stream)
    }

    /// Returns all streams.
    pub(super) fn streams(&self) -> impl Iterator<Item = &Rc<Stream>> {
        self.slots.iter().map(|(_, slot)| &slot.stream)
    }

    /// Takes the request of a woken slot, to be polled; `None` where it has ended.
    pub(super) fn take(&mut self, slot: u32) -> Option<(StreamId, Request, Waker)> {
        let waker = self.wakers.get(slot as usize)?;
        waker.begin_poll();
        let found = self.slots.get_mut(slot as usize)?;
        Some((found.id, found.request.take()?, waker.clone().into()))
    }

    /// Puts a request back that still waits.
    pub(super) fn put(&mut self, slot: u32, request: Request) {
        if let Some(found) = self.slots.get_mut(slot as usize) {
            found.request = Some(request);
        }
    }

    /// Removes a stream whose request has ended.
    pub(super) fn remove(&mut self, slot: u32) {
        if let Some(removed) = self.slots.try_remove(slot as usize)
            && let Ok(at) = self.by_id.binary_search_by_key(&removed.id, |(id, _)| *id)
        {
            self.by_id.remove(at);
        }
    }
}
