//! Receives a request head of HTTP/1 and makes an exchange of it.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use tidegate_codec::Known;
use tidegate_codec::request::{
    Method, Parse, ParseOptions, RequestError, RequestFault, keep_partial, parse_authority,
    parse_request, parse_request_for,
};
use tidegate_core::Exchange;
use tidegate_core::error_log::Level;
use tidegate_core::exchange::Captures;
use tidegate_core::listen::VirtualServers;
use tidegate_core::plan::Plan;
use tidegate_core::request_body::RequestBody;
use tidegate_core::settings::{KEEPALIVE_DISABLE_MSIE6, KEEPALIVE_DISABLE_SAFARI};
use tidegate_h2::frame::PREFACE;
use tidegate_tls::OpensslError;

use super::body::H1Body;
use crate::client::ClientStream;
use crate::front::Front;
use crate::h2::connection::Multiplexer;
use crate::h2::directives::Http2Server;
use crate::link::Link;
use crate::serve::begin::{self, BodyFraming, Refusal};
use crate::serve::scratch::READ_BYTES;

/// The result of waiting for a request head.
pub(super) enum Received {
    /// There was nothing to read after all.
    Nothing,
    /// The client closed before it sent a request.
    End,
    /// The head stays incomplete: the client closed (400), or took longer than `client_header_timeout` (408).
    Cut(u16),
    /// The preface of HTTP/2: the connection has its protocol now.
    Http2,
    /// A complete head, ready for the phases.
    Request,
    /// A malformed head; the response has this status.
    Broken(u16),
}

/// Receives a head.
///
/// Invariant: bytes behind the head stay in `link.received`. Dropped at its only await, for more bytes of a head that
/// has begun, it leaves the received bytes there; the connection ends. It does not wait for the first byte of a head:
/// [`Received::Nothing`]. `client_header_timeout` limits the whole head (RFC 9112 section 2.2 for empty lines before
/// it).
pub(super) async fn receive(
    front: &Front,
    link: &Rc<Link>,
    x: &mut Exchange,
    client: &Rc<ClientStream>,
) -> Received {
    // Held, so that the servers are looked up once.
    let plan = x.plan.clone();
    let Some(servers) = begin::at_base_server(link.binding(), &x.connection, &plan, &mut x.routing)
    else {
        return Received::End;
    };
    let mut options = plan.server(x.routing.server).settings.parse;
    // Where servers parse heads differently, the rules are chosen once the `Host` field is read.
    let differing = servers.parse_rules_differ.then_some(servers);
    let (mut begun, mut has_part) = (false, false);
    loop {
        let preface = match begun || link.info.requests.get() > 0 {
            true => Preface::No,
            false => preface(&link.received.borrow(), link, &plan, servers),
        };
        if preface == Preface::Yes {
            return hand_over(link, &plan, servers);
        }
        if preface == Preface::Partly && !has_part {
            has_part = true;
            x.progress.started = tidegate_rt::clock::batch_now();
        }
        let parsed = {
            let mut input = link.received.borrow_mut();
            if !begun && !input.is_empty() && preface == Preface::No {
                begun = true;
                begin::first_byte(front, x, tidegate_rt::clock::batch_now());
                client.body_bytes.set(0);
            }
            let parsed = match (!begun, differing) {
                (true, _) => Ok(Parse::Partial),
                (false, None) => parse_request(&input, &options, &mut x.request.head),
                (false, Some(servers)) => {
                    let rules = |host: &[u8]| rules_of(link, &plan, servers, host);
                    let head = &mut x.request.head;
                    parse_request_for(&input, &mut options, head, Some(&rules))
                }
            };
            if let Ok(Parse::Complete(length)) = parsed {
                x.outcome.request_length = length as u64;
                let all = length == input.len();
                if all { input.clear() } else { drop(input.drain(..length)) }
            }
            parsed
        };
        match parsed {
            Ok(Parse::Complete(_)) => return prepare(link, servers, x, client),
            Err(error) => return refuse(link, x, &error),
            Ok(Parse::Partial) => {}
        }
        // Counted as `Reading` only while a head that has begun is incomplete (`stub_status`).
        let reading = begun.then(|| front.counters.reading());
        let received = more(link, x, begun || preface == Preface::Partly, &options).await;
        drop(reading);
        if begun && let Some(timeline) = &x.timeline {
            timeline.head_part();
        }
        if !matches!(received, More::Bytes) {
            return without_more(link, x, &options, begun, received);
        }
    }
}

/// Ends the wait for a head whose rest does not arrive; `begun` where bytes of it have arrived.
fn without_more(
    link: &Rc<Link>,
    x: &mut Exchange,
    options: &ParseOptions,
    begun: bool,
    received: More,
) -> Received {
    match received {
        More::Bytes | More::Nothing => Received::Nothing,
        More::End | More::Failed(_) if !begun => Received::End,
        More::End => cut(link, x, options, 400, "client prematurely closed connection"),
        More::Failed(reason) => {
            cut(link, x, options, 400, &format!("SSL_read() failed (SSL: {reason})"))
        }
        More::Timeout => cut(link, x, options, 408, "client timed out (110: Connection timed out)"),
    }
}

/// Whether a connection begins with HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Preface {
    No,
    /// What has arrived may become either protocol.
    Partly,
    Yes,
}

/// Looks for the preface, where the address serves HTTP/2 to clients that know it beforehand (RFC 9113 section 3.3).
#[inline]
fn preface(input: &[u8], link: &Link, plan: &Plan, servers: &VirtualServers) -> Preface {
    if input.first() != PREFACE.first() {
        return Preface::No;
    }
    let known = input.len().min(PREFACE.len());
    match input[..known] == PREFACE[..known] && link.serves_http2(plan, servers.default) {
        false => Preface::No,
        true if known < PREFACE.len() => Preface::Partly,
        true => Preface::Yes,
    }
}

/// Gives the connection to the driver of HTTP/2.
#[cold]
fn hand_over(link: &Link, plan: &Plan, servers: &VirtualServers) -> Received {
    link.info.protocol.set("h2c");
    let config = Http2Server::of(plan, servers.default).config.clone();
    link.begin_http2(Multiplexer::new(config, link.accepted));
    Received::Http2
}

/// Logs the received part of a head that stays incomplete.
#[cold]
fn cut(
    link: &Rc<Link>,
    x: &mut Exchange,
    options: &ParseOptions,
    status: u16,
    reason: &str,
) -> Received {
    keep_partial(&link.received.borrow(), options, &mut x.request.head);
    link.received.borrow_mut().clear();
    if let Some(timeline) = &x.timeline {
        timeline.lose_head();
    }
    begin::identify(link.binding(), x);
    x.progress.action = action(x, x.request.head.has_line());
    x.log(Level::Info, format_args!("{reason}"));
    Received::Cut(status)
}

/// Returns what the connection was doing, for the error log behind "while".
fn action(x: &Exchange, in_fields: bool) -> &'static str {
    match (in_fields, x.outcome.pipelined) {
        (true, _) => "reading client request headers",
        (false, false) => "reading client request line",
        (false, true) => "reading client pipelined request line",
    }
}

/// Returns how the server that `host` names parses heads.
fn rules_of(
    link: &Link,
    plan: &Plan,
    servers: &VirtualServers,
    host: &[u8],
) -> Option<ParseOptions> {
    let (host, _) = parse_authority(host)?;
    let found = servers.find_named(host.as_bytes(), &mut Captures::default());
    let server =
        found.map_or_else(|| begin::base_server(&link.info, servers), |(server, _)| server);
    Some(plan.server(server).settings.parse)
}

enum More {
    Bytes,
    /// The socket was readable, but gave no bytes (TLS records without data).
    Nothing,
    End,
    /// The client's bytes are no TLS, or an alert.
    Failed(OpensslError),
    Timeout,
}

/// Waits for more bytes of a head that has begun, within `client_header_timeout` from its first byte on; of a head that
/// has not begun it takes the bytes that are there. Dropped at its await, all bytes that it has taken are in
/// `link.received`.
async fn more(link: &Rc<Link>, x: &Exchange, begun: bool, options: &ParseOptions) -> More {
    let mut waited = false;
    let read = poll_fn(|context| {
        let mut input = link.received.borrow_mut();
        let room = options.head_bytes_max().saturating_sub(input.len()).clamp(1, READ_BYTES);
        input.reserve(room);
        let room = input.capacity() - input.len();
        if let Poll::Ready(read) = link.io.poll_read_append(context, &mut input) {
            let filled = read.as_ref().is_ok_and(|count| *count == room);
            link.unread.set(link.io.may_have_more(filled));
            return Poll::Ready(Some(read));
        }
        if !begun {
            return Poll::Ready(None);
        }
        if !waited {
            waited = true;
            // The timeout is for the whole head: bytes that arrive one by one gain no time.
            let end = x.progress.started + x.server().settings.client_header_timeout;
            link.waits().deadline.set(end);
        }
        link.waits().deadline.poll_elapsed(context).map(|()| None)
    })
    .await;
    match read {
        None if !begun => More::Nothing,
        None => More::Timeout,
        Some(Ok(0)) => More::End,
        Some(Err(error)) => OpensslError::of_stream(&error).map_or(More::End, More::Failed),
        Some(Ok(_)) => More::Bytes,
    }
}

fn refuse(link: &Rc<Link>, x: &mut Exchange, error: &RequestError) -> Received {
    begin::identify(link.binding(), x);
    x.progress.action = action(x, error.in_fields());
    if error.fault == RequestFault::TargetHostInvalid {
        begin::forget_fields(link.binding(), x);
    }
    let message = error.message(x.request.head.headers.text());
    x.log(Level::Info, format_args!("{message}"));
    link.received.borrow_mut().clear();
    Received::Broken(error.status())
}

/// Makes a complete head into a request.
fn prepare(
    link: &Rc<Link>,
    servers: &VirtualServers,
    x: &mut Exchange,
    client: &Rc<ClientStream>,
) -> Received {
    x.progress.action = "reading client request headers";
    let BodyFraming { length, chunked, keep_alive } =
        match begin::request(link.binding(), servers, x) {
            Ok(framing) => framing,
            Err(Refusal::Head(error)) => return refuse(link, x, &error),
            Err(refusal) => return Received::Broken(refusal.status()),
        };
    let expect = x.request.expects_continue;
    let timeout = x.settings().client_body_timeout;
    if chunked {
        let source = H1Body::chunked(link.clone(), client.clone(), expect, timeout);
        x.request.body = RequestBody::new(length, true, Box::new(source));
    } else if let Some(length) = length.filter(|length| *length > 0 || expect) {
        let source = H1Body::with_length(link.clone(), client.clone(), length, expect, timeout);
        x.request.body = RequestBody::new(Some(length), false, Box::new(source));
    } else {
        x.request.body.length = length;
    }
    if keep_alive {
        x.disposition.keep_connection();
    }
    x.progress.action = "";
    Received::Request
}

/// Whether `keepalive_disable` applies: to old Internet Explorers after POST, and to Safari.
pub(super) fn keepalive_disabled(x: &Exchange) -> bool {
    let disable = x.settings().keepalive_disable;
    if disable == 0 {
        return false;
    }
    let Some(agent) = x.request.header(Known::UserAgent) else { return false };
    let has = |word: &[u8]| memchr::memmem::find(agent, word).is_some();
    let msie6 = disable & KEEPALIVE_DISABLE_MSIE6 != 0
        && x.request.head.method == Method::Post
        && has(b"MSIE ")
        && [&b"MSIE 4"[..], b"MSIE 5", b"MSIE 6"].iter().any(|old| has(old))
        && !has(b"SV1");
    let safari = disable & KEEPALIVE_DISABLE_SAFARI != 0
        && has(b"Mac OS X")
        && has(b"Safari/")
        && !has(b"Chrome/");
    msie6 || safari
}
