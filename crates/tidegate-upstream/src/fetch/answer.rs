//! From an accepted head to a body: whole if it is here already, else a stream or a raw connection.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use tidegate_http::chunked::ChunkedDecoder;
use tidegate_http::response::{ResponseFraming, ResponseHead};

use crate::connection::OriginConnection;
use crate::h1::body::{
    BodyReader, Framing, OriginBody, Start, TRAILER_BYTES_MAX, Upgraded, report_excess,
};
use crate::h1::scratch;
use crate::h1::send::Upload;
use crate::log::LogContext;
use crate::peers::Lease;
use crate::pool::{self, Fit};
use crate::report::SharedReport;
use crate::request::{FetchSettings, OriginRequest};

/// What of a fetch goes on into its body.
pub(super) struct Parts {
    pub fit: Fit,
    pub request: OriginRequest,
    pub settings: Arc<FetchSettings>,
    pub report: SharedReport,
    pub log: LogContext,
}

impl Parts {
    pub fn body(
        self,
        connection: Box<OriginConnection>,
        head: &ResponseHead,
        input: Vec<u8>,
        upload: Option<Upload>,
        lease: Lease,
    ) -> OriginBody {
        if head.status == 101 && self.request.upgrade {
            let upstream = self.upstream(&lease);
            let prefetched = scratch::into_bytes(input, 0);
            let (settings, report, log) = (self.settings, self.report, self.log);
            return OriginBody::Upgraded(Box::new(Upgraded {
                connection,
                prefetched,
                settings,
                report,
                log,
                upstream,
                lease: Some(lease),
            }));
        }
        // Errors of the framing were found before the head was accepted.
        let framing = head.framing(self.request.method).unwrap_or(ResponseFraming::None);
        let keep = head.keep_alive() && self.request.keep_connection && head.status != 101;
        let whole = match framing {
            ResponseFraming::None => Some(0),
            ResponseFraming::Length(length) if length <= input.len() as u64 => {
                Some(length as usize)
            }
            _ => None,
        };
        if let (Some(length), true) = (whole, upload.is_none()) {
            return self.whole(connection, framing, input, length, keep, &lease);
        }
        let upstream = Rc::from(self.upstream(&lease));
        let keep = (keep && framing != ResponseFraming::UntilClose)
            .then(|| (self.request.group.clone(), self.fit));
        let start = Start {
            framing: match framing {
                ResponseFraming::None => Framing::Length(0),
                ResponseFraming::Length(length) => Framing::Length(length),
                ResponseFraming::Chunked => {
                    Framing::Chunked(Box::new(ChunkedDecoder::new(TRAILER_BYTES_MAX)))
                }
                ResponseFraming::UntilClose => Framing::UntilClose,
            },
            input: scratch::into_bytes(input, 0),
            keep,
            lease: Some(lease),
            upload,
            upstream,
            settings: self.settings,
            report: self.report,
            log: self.log,
        };
        OriginBody::Stream(Box::new(BodyReader::new(start, connection)))
    }

    /// The body is here already: the connection goes back before the answer is sent.
    fn whole(
        self,
        connection: Box<OriginConnection>,
        framing: ResponseFraming,
        input: Vec<u8>,
        length: usize,
        keep: bool,
        lease: &Lease,
    ) -> OriginBody {
        if let Some(attempt) = self.report.borrow_mut().last() {
            attempt.response_length = length as u64;
            attempt.finished();
        }
        let exact = input.len() == length;
        if keep && exact {
            pool::give(&self.request.group, self.fit, connection);
        } else if !exact && matches!(framing, ResponseFraming::Length(_)) {
            report_excess(&self.log, &self.upstream(lease), &Framing::Length(0));
        }
        if length == 0 {
            scratch::give_buffer(input);
            return OriginBody::Whole(Bytes::new());
        }
        let mut bytes = scratch::into_bytes(input, 0);
        bytes.truncate(length);
        OriginBody::Whole(bytes)
    }

    fn upstream(&self, lease: &Lease) -> String {
        self.request.url(&lease.peer().text)
    }
}
