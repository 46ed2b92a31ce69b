//! What protocols share whose requests are streams of a connection: HTTP/2 and HTTP/3.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tidegate_codec::request::{ComposedHead, Method, RequestError, RequestFault, Version};
use tidegate_codec::{Headers, Known, Span};
use tidegate_core::Exchange;
use tidegate_core::body::Body;
use tidegate_core::client::CancelCode;
use tidegate_core::credentials::padded_base64;
use tidegate_core::error_log::Level;
use tidegate_core::error_page;
use tidegate_core::exchange::FieldOwner;
use tidegate_core::phases::{self, PhaseResult};
use tidegate_core::timeline::{self, Timeline};
use tidegate_fields::{FieldEncoder, Fields, Head, HeadFault};

use super::begin;
use crate::listener::Binding;

/// nginx's status for a head that is too large; the client gets 400.
const TOO_LARGE: u16 = 494;
/// The status of a request for a server that does not serve this protocol on a connection made for another one (RFC
/// 9110 section 15.5.20).
const MISDIRECTED: u16 = 421;
/// Bytes of a key of WebSocket before they are encoded (RFC 6455 section 4.1).
const KEY_BYTES: usize = 16;

/// What is known of a head when its request begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// A request for the phases.
    Request,
    /// It is refused with this status.
    Refused(u16),
}

/// ```text
///           reset by the client, the connection ends
///   Open ────────────────────────────────────────────▶ Left
///     │ cancel                                           │ cancel
///     ▼                                                  ▼
///   Cancelled ◀──────────────────────────────────────────┘
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum StreamState {
    #[default]
    Open,
    /// The client has left: nothing more is received, and nothing can be sent.
    Left,
    /// The request was given up; the first code counts.
    Cancelled(CancelCode),
}

/// What has been received of a request's body.
#[derive(Default)]
pub(crate) struct Inbox {
    pub(crate) bytes: Vec<u8>,
    pub(crate) ended: bool,
    pub(crate) trailers: Option<Headers>,
    /// The body is malformed.
    pub(crate) fault: Option<HeadFault>,
    pub(crate) reader: Option<Waker>,
}

impl Inbox {
    /// Keeps a piece of the body.
    pub(crate) fn received(&mut self, bytes: &[u8], end: bool) {
        self.bytes.extend_from_slice(bytes);
        self.ended |= end;
        self.wake();
    }

    /// The body ends with a trailer section.
    pub(crate) fn received_trailers(&mut self, trailers: Headers) {
        self.trailers = (!trailers.is_empty()).then_some(trailers);
        self.ended = true;
        self.wake();
    }

    /// The rest of the body is malformed.
    pub(crate) fn received_fault(&mut self, fault: HeadFault) {
        self.fault = Some(fault);
        self.wake();
    }

    /// Whether the body is malformed; else the task is woken when more of it, or that, has been received.
    fn waits_for_body(&mut self, context: &Context<'_>) -> bool {
        if self.fault.is_none() && !self.ended {
            remember(&mut self.reader, context);
        }
        self.fault.is_some()
    }

    fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

/// Stores the waker of a context.
pub(crate) fn remember(waker: &mut Option<Waker>, context: &Context<'_>) {
    match waker {
        Some(known) if known.will_wake(context.waker()) => {}
        _ => *waker = Some(context.waker().clone()),
    }
}

/// Runs the phases. A request whose body turns out to be malformed is refused, even where all of the announced body was
/// passed on before: no reader may take it for complete (RFC 9113 section 8.1.1, RFC 9114 section 4.1.2).
///
/// Dropped at an await, the phases are given up in the middle.
pub(crate) async fn run_phases(
    inbox: &RefCell<Inbox>,
    x: &mut Exchange,
    timeline: &Timeline,
) -> PhaseResult {
    if !x.request.body.is_present() {
        return timeline::around(Some(timeline), phases::run(x)).await;
    }
    let outcome = {
        let mut run = pin!(timeline::around(Some(timeline), phases::run(x)));
        poll_fn(|context| {
            let polled = run.as_mut().poll(context);
            let is_malformed = inbox.borrow_mut().waits_for_body(context);
            match (polled, is_malformed) {
                (Poll::Ready(outcome), _) => Poll::Ready(Some(outcome)),
                (Poll::Pending, true) => Poll::Ready(None),
                (Poll::Pending, false) => Poll::Pending,
            }
        })
        .await
    };
    match outcome {
        Some(outcome) => outcome,
        None => {
            x.log(Level::Info, format_args!("client sent a body of another length than declared"));
            x.request.body.abandon();
            begin::refuse(x, 400).await
        }
    }
}

/// The server that the request names has `protocol` off.
#[cold]
pub(crate) fn misdirected(x: &Exchange, protocol: &str) -> Begun {
    x.log(
        Level::Info,
        format_args!(
            "client attempted to request the server name for which {protocol} is disabled"
        ),
    );
    Begun::Refused(MISDIRECTED)
}

/// Returns the status for a malformed head, in nginx's statuses.
#[cold]
pub(crate) fn malformed(binding: &Binding, x: &mut Exchange, fault: HeadFault) -> Begun {
    begin::identify(binding, x);
    let status = match fault {
        HeadFault::TooLarge => {
            x.log(Level::Info, format_args!("client sent too large request"));
            TOO_LARGE
        }
        HeadFault::TooMany => {
            x.log(Level::Info, format_args!("client sent too many header lines"));
            400
        }
        // It has a path, which CONNECT may not have; it is not served either way.
        HeadFault::PseudoUnknown if x.request.method == Method::Connect => {
            x.log(Level::Info, format_args!("client sent CONNECT method"));
            405
        }
        _ => {
            x.log(Level::Info, format_args!("client sent invalid request: {fault}"));
            fault.status()
        }
    };
    Begun::Refused(status)
}

/// Returns the status for a head whose fields contradict each other.
#[cold]
pub(crate) fn refuse(binding: &Binding, x: &mut Exchange, error: &RequestError) -> Begun {
    begin::identify(binding, x);
    if error.fault == RequestFault::TargetHostInvalid {
        begin::forget_fields(binding, x);
    }
    let message = error.message(x.request.head.headers.text());
    x.log(Level::Info, format_args!("{message}"));
    Begun::Refused(error.status())
}

/// Makes the request line and the fields of a head that the protocol has received. Returns as well whether it is an
/// extended CONNECT.
pub(crate) fn compose(head: &mut Head, x: &mut Exchange) -> (Result<(), RequestError>, bool) {
    let upgrade = as_upgrade(head);
    x.outcome.request_length = head.block_bytes.into();
    let composed = x.request.head.compose(ComposedHead {
        line: head.line,
        method: upgrade.unwrap_or(head.method),
        target: head.target,
        headers: &mut head.headers,
        ignored_lines: &mut head.ignored,
        version: Version::H2,
    });
    (composed, upgrade.is_some())
}

/// Makes an extended CONNECT (RFC 8441, RFC 9220) the request of HTTP/1 that means the same: GET with `Upgrade`, so that
/// configurations for the one serve the other. Returns the place of its method; `None` for other requests.
fn as_upgrade(head: &mut Head) -> Option<Span> {
    if head.protocol.is_empty() {
        return None;
    }
    let protocol = head.text(head.protocol).to_vec();
    let headers = &mut head.headers;
    // A length would announce a body to the origin, and the bytes of the tunnel are none (RFC 9110 section 9.3.6).
    headers.remove(Known::ContentLength);
    headers.push_as(Known::Upgrade, b"upgrade", &protocol);
    headers.push_as(Known::Connection, b"connection", b"upgrade");
    if protocol.eq_ignore_ascii_case(b"websocket") {
        // HTTP/2 needs none (RFC 8441 section 5); the origin does.
        push_key(headers);
    }
    Some(headers.push_text(b"GET"))
}

fn push_key(headers: &mut Headers) {
    let mut bytes = [0; KEY_BYTES];
    tidegate_rt::random::unpredictable(&mut bytes);
    let key = padded_base64(&bytes);
    headers.push(b"sec-websocket-key", &key);
}

/// Returns the length that the response's head announces.
pub(crate) fn announced_length(x: &mut Exchange, body: &Body) -> Option<u64> {
    let length = match x.disposition.status() {
        204 => return None,
        304 => return x.response.content_length,
        _ => x.response.content_length.or_else(|| body.known_length()),
    };
    // Logs show the announced length.
    x.response.content_length = length;
    length
}

/// Whether the response's head ends the message.
pub(crate) fn has_no_body(x: &Exchange, length: Option<u64>) -> bool {
    let bodiless = x.request.head.method == Method::Head;
    let is_empty = length == Some(0) && !x.delivery.expects_trailers;
    bodiless || is_empty || matches!(x.disposition.status(), 204 | 304)
}

/// Returns the value of the response's `server` field where the server adds it; [`list_fields`] takes it.
pub(crate) fn server_field(x: &mut Exchange) -> Option<Bytes> {
    let is_ours =
        x.delivery.server == FieldOwner::Server && !x.response.headers.contains(Known::Server);
    let value = is_ours.then(|| error_page::server_value(x));
    value.filter(|value| !value.is_empty())
}

/// The fields that most responses begin with, in nginx's order. They change once a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FirstFields<'a> {
    pub(crate) server: Option<&'a [u8]>,
    pub(crate) date: Option<&'a [u8]>,
    pub(crate) content_type: Option<&'a [u8]>,
}

impl FirstFields<'_> {
    /// Lists them.
    #[inline]
    pub(crate) fn list<E: FieldEncoder>(&self, fields: &mut Fields<'_, E>) {
        let first = [
            (Known::Server, self.server),
            (Known::Date, self.date),
            (Known::ContentType, self.content_type),
        ];
        for (known, value) in first {
            if let Some(value) = value {
                fields.push_known(known, value);
            }
        }
    }
}

/// Lists the response's fields in nginx's order: server, date, type, which are `begin`'s to list, then length and the
/// others.
#[inline]
pub(crate) fn list_fields<E: FieldEncoder>(
    x: &Exchange,
    server: Option<&[u8]>,
    length: Option<u64>,
    fields: &mut Fields<'_, E>,
    begin: impl FnOnce(FirstFields<'_>, &mut Fields<'_, E>),
) {
    let headers = &x.response.headers;
    let content_type = headers.first(Known::ContentType);
    match x.delivery.date == FieldOwner::Server && !headers.contains(Known::Date) {
        true => tidegate_rt::clock::http_date(|date| {
            begin(FirstFields { server, date: Some(date), content_type }, fields);
        }),
        false => begin(FirstFields { server, date: None, content_type }, fields),
    }
    if let Some(length) = length {
        fields.push_known(Known::ContentLength, Digits::of(length).text());
    }
    for (known, name, value) in headers.iter() {
        // The protocol leaves out what concerns one connection (RFC 9113 section 8.2.2, RFC 9114 section 4.2).
        if !matches!(known, Known::ContentType | Known::ContentLength) {
            fields.push(name, value);
        }
    }
}

/// Decimal digits of a number.
struct Digits {
    text: [u8; 20],
    start: usize,
}

impl Digits {
    fn of(mut number: u64) -> Digits {
        let mut digits = Digits { text: [0; 20], start: 20 };
        loop {
            digits.start -= 1;
            digits.text[digits.start] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                return digits;
            }
        }
    }

    fn text(&self) -> &[u8] {
        &self.text[self.start..]
    }
}
