//! What has arrived for one stream and was not taken yet.

use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;
use std::task::{Context, Waker};

use bytes::Bytes;
use tidegate_codec::Headers;
use tidegate_codec::response::ResponseHead;
use tidegate_h2::{ErrorCode, HeadFault, StreamId};

/// Interim heads of one stream that wait for its request; later ones are dropped.
const INTERIM_MAX: usize = 8;

/// How a response ended.
#[derive(Clone, Debug)]
pub(crate) enum StreamEnd {
    /// With END_STREAM.
    Complete,
    /// The origin reset the stream.
    Reset(ErrorCode),
    /// The origin has not processed the request (RFC 9113 section 8.7): REFUSED_STREAM, or GOAWAY with an earlier
    /// stream.
    Unprocessed,
    /// The response is malformed; the stream was reset.
    Malformed(HeadFault),
    /// The connection ended; the text is for the log.
    Lost(Rc<str>),
}

impl fmt::Display for StreamEnd {
    /// Writes the error log's text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StreamEnd::Complete => f.write_str("upstream prematurely closed stream"),
            StreamEnd::Reset(code) => write!(f, "upstream rejected request with error {}", code.0),
            StreamEnd::Unprocessed => f.write_str("upstream refused to process request"),
            StreamEnd::Malformed(HeadFault::TooLarge) => {
                f.write_str("upstream sent too big header")
            }
            StreamEnd::Malformed(HeadFault::BodyLength) => {
                f.write_str("upstream sent response body of another length than \"Content-Length\"")
            }
            StreamEnd::Malformed(fault) => write!(f, "upstream sent invalid header: {fault}"),
            StreamEnd::Lost(reason) => f.write_str(reason),
        }
    }
}

/// The driver's side of a stream.
pub(super) struct Slot {
    pub id: StreamId,
    /// Of the task that reads or sends.
    waker: Option<Waker>,
    /// 103 responses are passed on.
    pub wants_interim: bool,
    pub interim: VecDeque<ResponseHead>,
    /// The final head, until it is taken.
    pub head: Option<ResponseHead>,
    pub has_head: bool,
    pub body: VecDeque<Bytes>,
    pub trailers: Option<Headers>,
    pub end: Option<StreamEnd>,
    /// Bytes of its frames, as received.
    pub received: u64,
}

impl Slot {
    pub(super) fn new(id: StreamId, wants_interim: bool) -> Slot {
        Slot {
            id,
            waker: None,
            wants_interim,
            interim: VecDeque::new(),
            head: None,
            has_head: false,
            body: VecDeque::new(),
            trailers: None,
            end: None,
            received: 0,
        }
    }

    /// Keeps the waker of the task that waits for the stream.
    pub(super) fn wait(&mut self, context: &Context<'_>) {
        match &mut self.waker {
            Some(waker) => waker.clone_from(context.waker()),
            empty => *empty = Some(context.waker().clone()),
        }
    }

    /// Takes the waker, to be called when the state is no longer borrowed.
    pub(super) fn take_waker(&mut self) -> Option<Waker> {
        self.waker.take()
    }

    pub(super) fn push_interim(&mut self, head: ResponseHead) {
        if self.wants_interim && self.interim.len() < INTERIM_MAX {
            self.interim.push_back(head);
        }
    }

    /// Ends the stream; the first end counts.
    pub(super) fn end(&mut self, end: StreamEnd) {
        self.end.get_or_insert(end);
    }

    /// Returns whether the response is complete.
    pub(super) fn is_complete(&self) -> bool {
        matches!(self.end, Some(StreamEnd::Complete))
    }
}
