//! The streams of a connection, and what is remembered of those that are over.

pub(crate) mod state;

use std::collections::VecDeque;

use crate::flow::{ReceiveWindow, SendWindow};
use crate::frame::StreamId;
use crate::priority::Priority;
use state::{Closed, State};

/// Streams that are over whose end is remembered, so that late frames differ from wrong ones.
const RECENT_MAX: usize = 128;
/// The same while the connection is idle: what was on its way has arrived, nearly always.
const RECENT_IDLE_MAX: usize = 16;

/// One stream, from its first head until the caller closes it.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) id: StreamId,
    pub(crate) state: State,
    pub(crate) send: SendWindow,
    pub(crate) receive: ReceiveWindow,
    /// Bytes by which `receive` has grown.
    pub(crate) grown: u32,
    pub(crate) priority: Priority,
    /// What is missing of the body that `content-length` announced, bytes.
    pub(crate) body_left: Option<u64>,
    /// The peer's final head has been received: what follows are data and trailers.
    pub(crate) head_received: bool,
    /// Our final head has been sent.
    pub(crate) head_sent: bool,
    /// The caller has something to send.
    pub(crate) wants: bool,
    /// The message is malformed: what follows of it is dropped.
    pub(crate) discards: bool,
    /// Its response has no body, whatever its `content-length` says: the request was HEAD.
    pub(crate) is_head_request: bool,
}

impl Stream {
    pub(crate) fn new(id: StreamId, send: u32, receive: u32) -> Stream {
        Stream {
            id,
            state: State::Idle,
            send: SendWindow::new(send),
            receive: ReceiveWindow::new(receive),
            grown: 0,
            priority: Priority::UNSIGNALLED,
            body_left: None,
            head_received: false,
            head_sent: false,
            wants: false,
            discards: false,
            is_head_request: false,
        }
    }
}

/// All streams, in the order of their numbers. They begin in that order and are few, so that a sorted list does.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    list: Vec<Stream>,
    recent: VecDeque<(StreamId, Closed)>,
}

impl Streams {
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn get(&self, id: StreamId) -> Option<&Stream> {
        self.list.get(self.find(id)?)
    }

    pub(crate) fn get_mut(&mut self, id: StreamId) -> Option<&mut Stream> {
        let at = self.find(id)?;
        self.list.get_mut(at)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.list.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.list.iter_mut()
    }

    /// Adds a stream whose number is above all others.
    pub(crate) fn push(&mut self, stream: Stream) {
        self.list.push(stream);
    }

    pub(crate) fn remove(&mut self, id: StreamId) -> Option<Stream> {
        let at = self.find(id)?;
        Some(self.list.remove(at))
    }

    /// Remembers how a stream ended.
    pub(crate) fn remember(&mut self, id: StreamId, how: Closed) {
        if self.recent.len() >= RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back((id, how));
    }

    /// How a stream that is over ended; `None` where that is forgotten.
    pub(crate) fn recent(&self, id: StreamId) -> Option<Closed> {
        let found = self.recent.iter().rev().find(|(recent, _)| *recent == id)?;
        Some(found.1)
    }

    pub(crate) fn capacity(&self) -> usize {
        self.list.capacity() * size_of::<Stream>()
            + self.recent.capacity() * size_of::<(StreamId, Closed)>()
    }

    pub(crate) fn shrink(&mut self) {
        let forgotten = self.recent.len().saturating_sub(RECENT_IDLE_MAX);
        self.recent.drain(..forgotten);
        self.list.shrink_to_fit();
        self.recent.shrink_to_fit();
    }

    #[inline]
    fn find(&self, id: StreamId) -> Option<usize> {
        // Most frames concern the newest stream.
        match self.list.last() {
            Some(last) if last.id == id => Some(self.list.len() - 1),
            _ => self.list.binary_search_by_key(&id, |stream| stream.id).ok(),
        }
    }
}
