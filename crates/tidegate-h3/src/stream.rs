//! The request streams of a connection.

use tidegate_fields::Priority;

use crate::error::{Fault, Flood};
use crate::frame::PartialHeader;

/// The part of a request that the next frame belongs to (RFC 9114 section 4.1).
///
/// ```text
///   Head ── HEADERS ──► Body ── HEADERS ──► Trailers
///                       │  ▲
///                       DATA
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Head,
    Body,
    /// Behind the trailer section: only unknown frames may follow.
    Trailers,
}

/// What the next bytes of a stream are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// A frame's header.
    Header,
    /// A field section, of which this number of bytes is missing.
    Section(u64),
    /// The section is whole, and waits for insertions: nothing is read.
    Blocked,
    /// The section is whole and can be decoded.
    Unblocked,
    /// A body, of whose frame this number of bytes is missing.
    Data(u64),
    /// The rest of a frame that is skipped.
    Skip(u64),
    /// Bytes of no use: the message is malformed or was reset.
    Discard,
}

/// What was sent of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Interim heads at most.
    Nothing,
    /// The final head.
    Head,
    /// All.
    Ended,
    /// The peer wants no more.
    Stopped,
}

/// One request stream, from its first byte until the caller closes it.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) id: u64,
    pub(crate) place: Place,
    pub(crate) reading: Reading,
    pub(crate) partial: PartialHeader,
    /// The field section in progress.
    pub(crate) section: Vec<u8>,
    /// The stream was reported to the caller.
    pub(crate) is_reported: bool,
    /// The peer has ended or reset its side.
    pub(crate) is_received: bool,
    /// The peer has reset the stream or does not want the response, which was reported and counted.
    pub(crate) is_reset: bool,
    /// The request is CONNECT: nothing but DATA follows (RFC 9114 section 4.4).
    pub(crate) is_tunnel: bool,
    pub(crate) sent: Sent,
    pub(crate) priority: Priority,
    /// What is missing of the body that `content-length` announced, bytes.
    pub(crate) body_left: Option<u64>,
}

impl Stream {
    fn new(id: u64) -> Stream {
        Stream {
            id,
            place: Place::Head,
            reading: Reading::Header,
            partial: PartialHeader::default(),
            section: Vec::new(),
            is_reported: false,
            is_received: false,
            is_reset: false,
            is_tunnel: false,
            sent: Sent::Nothing,
            priority: Priority::UNSIGNALLED,
            body_left: None,
        }
    }
}

/// The numbers of one kind of streams that have begun. QUIC uses a number once, and a stream that is over is not
/// remembered otherwise.
#[derive(Debug)]
pub(crate) struct Begun {
    /// The lowest number above all that have begun.
    next: u64,
    /// Numbers below it that have not begun: their packets are late. QUIC counts them as streams of the peer, so that
    /// there are no more than it may have at once.
    gaps: Vec<u64>,
    gaps_max: usize,
}

/// Numbers of one kind are this far apart (RFC 9000 section 2.1).
const STREAM_STEP: u64 = 4;

impl Begun {
    /// `first` is the lowest number; at most `gaps_max` may be left out.
    pub(crate) fn new(first: u64, gaps_max: usize) -> Begun {
        Begun { next: first, gaps: Vec::new(), gaps_max }
    }

    /// The lowest number above all that have begun.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Bytes arrive on a stream that is not known: `true` if it begins, `false` if it is over.
    pub(crate) fn begin(&mut self, id: u64) -> Result<bool, Fault> {
        if id < self.next {
            let gap = self.gaps.iter().position(|gap| *gap == id);
            return Ok(gap.map(|at| self.gaps.swap_remove(at)).is_some());
        }
        let skipped = usize::try_from((id - self.next) / STREAM_STEP).unwrap_or(usize::MAX);
        if skipped > self.gaps_max.saturating_sub(self.gaps.len()) {
            return Err(Fault::Flood(Flood::Streams));
        }
        self.gaps.extend((self.next..id).step_by(STREAM_STEP as usize));
        self.next = id.saturating_add(STREAM_STEP);
        Ok(true)
    }

    /// Bytes allocated.
    pub(crate) fn capacity(&self) -> usize {
        self.gaps.capacity() * size_of::<u64>()
    }

    pub(crate) fn shrink(&mut self) {
        self.gaps.shrink_to_fit();
    }
}

/// All streams, in the order of their numbers. Most begin in that order and are few, so that a sorted list does.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    list: Vec<Stream>,
}

impl Streams {
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn get(&self, id: u64) -> Option<&Stream> {
        self.list.get(self.find(id).ok()?)
    }

    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut Stream> {
        let at = self.find(id).ok()?;
        self.list.get_mut(at)
    }

    /// Adds a stream, unless it is there.
    pub(crate) fn begin(&mut self, id: u64) {
        if let Err(at) = self.find(id) {
            self.list.insert(at, Stream::new(id));
        }
    }

    pub(crate) fn remove(&mut self, id: u64) -> Option<Stream> {
        let at = self.find(id).ok()?;
        Some(self.list.remove(at))
    }

    /// Bytes allocated.
    pub(crate) fn capacity(&self) -> usize {
        let sections: usize = self.list.iter().map(|stream| stream.section.capacity()).sum();
        self.list.capacity() * size_of::<Stream>() + sections
    }

    pub(crate) fn shrink(&mut self) {
        self.list.shrink_to_fit();
    }

    /// The place of a stream, or where it would be.
    fn find(&self, id: u64) -> Result<usize, usize> {
        // Most bytes concern the newest stream.
        match self.list.last() {
            Some(last) if last.id == id => Ok(self.list.len() - 1),
            Some(last) if last.id < id => Err(self.list.len()),
            _ => self.list.binary_search_by_key(&id, |stream| stream.id),
        }
    }
}
