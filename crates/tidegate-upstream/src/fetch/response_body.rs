//! From an accepted head to a body: complete if it has arrived already, else a stream or a raw connection.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tidegate_codec::Known;
use tidegate_codec::chunked::ChunkedDecoder;
use tidegate_codec::memcached;
use tidegate_codec::request::Method;
use tidegate_codec::response::{ResponseFraming, ResponseHead};

use crate::connection::OriginConnection;
use crate::h1::body::{
    BodyReader, BodyStart, OriginBody, TRAILER_BYTES_MAX, Upgraded, report_excess,
};
use crate::h1::framing::{Frames, Framing, Records, Value};
use crate::h1::scratch::{self, Remainder};
use crate::h1::send::Upload;
use crate::h2::OriginStream;
use crate::link::Link;
use crate::log::LogContext;
use crate::peers::Lease;
use crate::pool::{self, fit::Fit};
use crate::report::SharedReport;
use crate::request::{ConnectionReuse, OriginRequest};
use crate::settings::FetchSettings;
use crate::wire::Codec;

use super::sending::Sending;

/// The parts of a fetch that its body takes over.
pub(super) struct BodyParts {
    pub fit: Fit,
    pub request: OriginRequest,
    pub settings: Arc<FetchSettings>,
    pub report: SharedReport,
    pub log: LogContext,
}

/// The bytes behind a response's head, and the codec of the rest.
pub(super) struct BodyInput {
    pub input: Remainder,
    pub framing: ResponseFraming,
    pub codec: Codec,
    /// When the head arrived.
    pub at: Instant,
}

impl BodyParts {
    /// Makes the body behind an accepted head: a raw connection for a requested 101, complete where it has arrived
    /// already, else a stream.
    ///
    /// Decides whether the connection may be used again. It may where the protocol marks the body's end and the
    /// origin did not forbid it (RFC 9112 section 9.3), the request was sent completely, and no bytes followed the
    /// body; a connection whose close ends the body is never kept. Waits for nothing: the lease goes with a stream
    /// and ends here with a complete body.
    pub(super) fn body(
        self,
        mut connection: Box<OriginConnection>,
        head: &ResponseHead,
        received: BodyInput,
        sending: Sending,
        lease: Lease,
    ) -> OriginBody {
        // A requested upgrade: the connection leaves HTTP with the bytes already received.
        if head.status == 101 && self.request.upgrade {
            let upstream = self.upstream(&lease);
            let prefetched = received.input.into_bytes();
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
        let BodyInput { input, framing, codec, at } = received;
        // A connection on which sending failed is not kept.
        let refused = sending.failure().is_some();
        let upload = sending.into_upload();
        let keep = self.request.reuse != ConnectionReuse::Never
            && !refused
            && match &codec {
                Codec::Http => head.keep_alive() && head.status != 101,
                Codec::Cgi => false,
                Codec::FastCgi(..) | Codec::Memcached(..) => true,
            };
        if let Some(field) = head.headers.first(Known::KeepAlive) {
            connection.idle_announced = pool::learn::announced(field);
        }
        // A complete body ends the lease here; while an upload is in progress the body has to be a stream.
        if upload.is_none()
            && let Some((length, is_clean)) =
                self.whole_length(&codec, framing, head.status, input.bytes(), &lease)
        {
            return self.whole(connection, input, (length, keep && is_clean), at);
        }
        let framing = framing_of(codec, framing);
        let upstream = Rc::from(self.upstream(&lease));
        let keep = (keep && !matches!(framing, Framing::UntilClose))
            .then(|| (self.request.group.clone(), self.fit));
        let start = BodyStart {
            framing,
            input: input.into_bytes(),
            keep,
            lease: Some(lease),
            upload,
            refused,
            is_error: head.status >= 400,
            upstream,
            settings: self.settings,
            report: self.report,
            log: self.log,
        };
        OriginBody::Stream(Box::new(BodyReader::new(start, Link::Own(connection))))
    }

    /// Makes the body behind a head that arrived on a stream: complete where it has arrived already and nothing is
    /// left to be sent, or where the head ended the stream; else a stream. The lease ends with the body.
    pub(super) fn stream(
        self,
        mut stream: Box<OriginStream>,
        head: &ResponseHead,
        (upload, refused): (Option<Upload>, bool),
        now: Instant,
        lease: Lease,
    ) -> OriginBody {
        // A response that ended with its head is the last word about the request, sent completely or not. gRPC's status
        // is in such a head, and counts there only if nothing follows it.
        let most = if upload.is_none() { scratch::READ_BYTES } else { 0 };
        if let Some(piece) = stream.whole_body(most, !self.settings.pass_trailers) {
            if let Some(attempt) = self.report.borrow_mut().last() {
                attempt.response_length = piece.len() as u64;
                attempt.finished(now);
            }
            return OriginBody::Whole(piece);
        }
        let bodiless = self.request.method == Method::Head || matches!(head.status, 204 | 304);
        let length = head.headers.first(Known::ContentLength).filter(|_| !bodiless);
        let left = length.and_then(tidegate_codec::connection::parse_length);
        let start = BodyStart {
            framing: Framing::Frames(Frames { left, ended: false }),
            input: Bytes::new(),
            keep: None,
            upstream: Rc::from(self.upstream(&lease)),
            lease: Some(lease),
            upload,
            refused,
            is_error: head.status >= 400,
            settings: self.settings,
            report: self.report,
            log: self.log,
        };
        OriginBody::Stream(Box::new(BodyReader::new(start, Link::Stream(stream))))
    }

    /// Returns the length of a body that has arrived completely, and whether nothing but its end followed it. `None`
    /// where more has to be received, be it the end of the last record or the line behind a value.
    ///
    /// Bytes behind the end are logged here once and make the connection unusable: the next response on it would
    /// begin with them. A close does not count as an end here: but for FastCGI's records, `UntilClose` is always a
    /// stream.
    fn whole_length(
        &self,
        codec: &Codec,
        framing: ResponseFraming,
        status: u16,
        input: &[u8],
        lease: &Lease,
    ) -> Option<(usize, bool)> {
        let length = match framing {
            ResponseFraming::None => 0,
            ResponseFraming::Length(length) if length <= input.len() as u64 => length as usize,
            ResponseFraming::UntilClose => input.len(),
            _ => return None,
        };
        let exact = input.len() == length;
        match codec {
            // Without a body the connection's records are not waited for.
            Codec::FastCgi(decoder, _) if framing == ResponseFraming::None => {
                Some((0, decoder.is_clean()))
            }
            Codec::FastCgi(decoder, _) if !decoder.is_ended() => None,
            Codec::FastCgi(decoder, _) => {
                if !exact {
                    report_excess(&self.log, &self.upstream(lease), &Framing::Length(0));
                }
                Some((length, decoder.is_clean()))
            }
            // Without a value no end follows it.
            Codec::Memcached(..) if status == 404 => Some((0, exact)),
            Codec::Memcached(..) if framing == ResponseFraming::None => Some((0, false)),
            Codec::Memcached(..) => {
                let trailer = input.get(length..).unwrap_or_default();
                if trailer.len() < memcached::TRAILER.len() {
                    return None;
                }
                let is_clean = trailer == memcached::TRAILER;
                if !is_clean {
                    report_excess(&self.log, &self.upstream(lease), &Framing::Value(Value::new(0)));
                }
                Some((length, is_clean))
            }
            _ if framing == ResponseFraming::UntilClose => None,
            _ => {
                if !exact && framing != ResponseFraming::None {
                    report_excess(&self.log, &self.upstream(lease), &Framing::Length(0));
                }
                Some((length, exact))
            }
        }
    }

    /// Makes a complete body: the connection goes back before the response is sent.
    fn whole(
        self,
        connection: Box<OriginConnection>,
        input: Remainder,
        (length, keep): (usize, bool),
        now: Instant,
    ) -> OriginBody {
        if let Some(attempt) = self.report.borrow_mut().last() {
            attempt.response_length = length as u64;
            attempt.finished(now);
        }
        if keep {
            pool::give(&self.request.group, self.fit, connection, now);
        }
        if length == 0 {
            scratch::give_buffer(input.buffer);
            return OriginBody::Whole(Bytes::new());
        }
        let mut bytes = input.into_bytes();
        bytes.truncate(length);
        OriginBody::Whole(bytes)
    }

    fn upstream(&self, lease: &Lease) -> String {
        self.request.url(&lease.peer().text)
    }
}

/// Returns the framing of a body that is read as it arrives.
fn framing_of(codec: Codec, framing: ResponseFraming) -> Framing {
    match (codec, framing) {
        (Codec::FastCgi(decoder, _), framing) => {
            Framing::Records(Box::new(Records::new(decoder, framing)))
        }
        (_, ResponseFraming::None) => Framing::Length(0),
        (Codec::Memcached(..), ResponseFraming::Length(length)) => {
            Framing::Value(Value::new(length))
        }
        (_, ResponseFraming::Length(length)) => Framing::Length(length),
        (_, ResponseFraming::Chunked) => {
            Framing::Chunked(Box::new(ChunkedDecoder::new(TRAILER_BYTES_MAX)))
        }
        (_, ResponseFraming::UntilClose) => Framing::UntilClose,
    }
}
