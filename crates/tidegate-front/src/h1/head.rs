//! Receiving a request head and making an exchange of it: server, path, body.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use tidegate_core::Exchange;
use tidegate_core::error_log::Level;
use tidegate_core::exchange::Captures;
use tidegate_core::http_core::conf::{KEEPALIVE_DISABLE_MSIE6, KEEPALIVE_DISABLE_SAFARI};
use tidegate_core::listen::VirtualServers;
use tidegate_core::plan::{Plan, ServerId};
use tidegate_core::request_body::RequestBody;
use tidegate_http::Known;
use tidegate_http::request::{
    Fault, Method, Parse, ParseOptions, RequestError, RequestMeta, TargetForm, keep_partial,
    parse_authority, parse_host, parse_request, parse_request_for,
};
use tidegate_http::uri::{self, UriError};

use super::body::H1Body;
use crate::conn::Conn;
use crate::front::READ_BYTES;

/// What came.
pub enum Received {
    /// A false alarm: nothing to read after all.
    Nothing,
    /// The client closed before it asked for anything.
    End,
    /// No more will come of a head: the client closed (400), or took longer than `client_header_timeout` (408).
    Cut(u16),
    /// A whole head, ready for the phases.
    Request,
    /// A head that is answered with this status.
    Broken(u16),
}

/// Receives a head.
pub async fn receive(conn: &Rc<Conn>, x: &mut Exchange) -> Received {
    // A head that is refused must not be taken for an earlier connection's request.
    let request = &mut x.request;
    request.head.clear();
    request.host.clear();
    request.path.clear();
    request.args.clear();
    let plan = x.plan.clone();
    let Some(servers) = conn.servers(&plan) else { return Received::End };
    x.server = base_server(conn, servers);
    x.location = plan.server(x.server).location;
    let mut options = plan.server(x.server).settings.parse;
    let differing = servers.read_differently.then_some(servers);
    let mut begun = false;
    loop {
        let parsed = {
            let mut input = conn.input.borrow_mut();
            if !begun && !input.is_empty() {
                begun = true;
                conn.front.counters.request();
                begin(x);
            }
            let parsed = match input.is_empty() {
                true => Ok(Parse::Partial),
                false => match differing {
                    None => parse_request(&input, &options, &mut x.request.head),
                    Some(servers) => {
                        let rules = |host: &[u8]| rules_of(conn, &plan, servers, host);
                        let head = &mut x.request.head;
                        parse_request_for(&input, &mut options, head, Some(&rules))
                    }
                },
            };
            if let Ok(Parse::Complete(length)) = parsed {
                x.outcome.request_length = length as u64;
                x.connection.body_bytes.set(0);
                let all = length == input.len();
                if all { input.clear() } else { drop(input.drain(..length)) }
            }
            parsed
        };
        match parsed {
            Ok(Parse::Complete(_)) => return prepare(conn, x),
            Err(error) => return refuse(conn, x, &error),
            Ok(Parse::Partial) => {}
        }
        let reading = begun.then(|| conn.front.counters.reading());
        let received = more(conn, x, begun, &options).await;
        drop(reading);
        match received {
            More::Bytes => {}
            More::Nothing => return Received::Nothing,
            More::End if !begun => return Received::End,
            More::End => {
                return cut(conn, x, &options, 400, "client prematurely closed connection");
            }
            More::Timeout => {
                let reason = "client timed out (110: Connection timed out)";
                return cut(conn, x, &options, 408, reason);
            }
        }
    }
}

/// The head stays incomplete: what there is of it is logged.
#[cold]
fn cut(
    conn: &Rc<Conn>,
    x: &mut Exchange,
    options: &ParseOptions,
    status: u16,
    reason: &str,
) -> Received {
    keep_partial(&conn.input.borrow(), options, &mut x.request.head);
    conn.input.borrow_mut().clear();
    identify(conn, x);
    x.action = action(x, x.request.head.has_line());
    x.log(Level::Info, format_args!("{reason}"));
    Received::Cut(status)
}

/// What the connection was doing, as the error log says it behind "while".
fn action(x: &Exchange, in_fields: bool) -> &'static str {
    match (in_fields, x.outcome.pipelined) {
        (true, _) => "reading client request headers",
        (false, false) => "reading client request line",
        (false, true) => "reading client pipelined request line",
    }
}

/// How the server that `host` means reads heads.
fn rules_of(
    conn: &Conn,
    plan: &Plan,
    servers: &VirtualServers,
    host: &[u8],
) -> Option<ParseOptions> {
    let (host, _) = parse_authority(host)?;
    let found = servers.find_named(host.as_bytes(), &mut Captures::default());
    let server = found.map_or_else(|| base_server(conn, servers), |(server, _)| server);
    Some(plan.server(server).settings.parse)
}

/// The server of requests whose host no server claims: the one that TLS chose by name, else the default.
fn base_server(conn: &Conn, servers: &VirtualServers) -> ServerId {
    let tls = conn.info.tls.as_ref().filter(|_| !servers.is_single());
    let Some(name) = tls.and_then(|tls| tls.server_name.as_ref()) else { return servers.default };
    let found = parse_host(name.as_bytes())
        .and_then(|name| servers.find_named(name.as_bytes(), &mut Captures::default()));
    found.map_or(servers.default, |(server, _)| server)
}

fn begin(x: &mut Exchange) {
    // Exact, as most requests take less than a tick of the cheap clock.
    x.started = tidegate_rt::clock::batch_now();
    x.connection.requests.set(x.connection.requests.get() + 1);
}

enum More {
    Bytes,
    /// Readable, yet nothing there (TLS records without data).
    Nothing,
    End,
    Timeout,
}

async fn more(conn: &Rc<Conn>, x: &Exchange, begun: bool, options: &ParseOptions) -> More {
    let mut waited = false;
    let read = poll_fn(|context| {
        let mut input = conn.input.borrow_mut();
        let room = options.head_bytes_max().saturating_sub(input.len()).clamp(1, READ_BYTES);
        input.reserve(room);
        let room = input.capacity() - input.len();
        if let Poll::Ready(read) = conn.io.poll_read_append(context, &mut input) {
            conn.unread.set(read.as_ref().is_ok_and(|count| *count == room));
            return Poll::Ready(Some(read));
        }
        if !begun {
            return Poll::Ready(None);
        }
        if !waited {
            waited = true;
            // For the whole head: bytes that come one by one gain no time.
            let end = x.started + x.server().settings.client_header_timeout;
            conn.waits().deadline.set(end);
        }
        conn.waits().deadline.poll_elapsed(context).map(|()| None)
    })
    .await;
    match read {
        None if !begun => More::Nothing,
        None => More::Timeout,
        Some(Ok(0) | Err(_)) => More::End,
        Some(Ok(_)) => More::Bytes,
    }
}

fn refuse(conn: &Rc<Conn>, x: &mut Exchange, error: &RequestError) -> Received {
    identify(conn, x);
    x.action = action(x, error.in_fields());
    if error.fault == Fault::TargetHostInvalid {
        forget_fields(conn, x);
    }
    let message = error.message(x.request.head.headers.text());
    x.log(Level::Info, format_args!("{message}"));
    conn.input.borrow_mut().clear();
    Received::Broken(error.status())
}

/// Finds out what is known of a request whose head is not right: where the request line is, the server that it means
/// answers, and logs what was asked for.
#[cold]
fn identify(conn: &Conn, x: &mut Exchange) {
    if x.request.head.target().is_empty() {
        return;
    }
    x.request.method = x.request.head.method;
    // Where the target is wrong as well, what was found first is told.
    let _ = decode_target(x);
    if let Some(host) = x.request.head.host() {
        x.request.host = host.as_bytes().to_vec();
        choose_server(conn, x);
    }
}

/// The request line is wrong: the address's own server answers, and knows of that line alone.
#[cold]
fn forget_fields(conn: &Conn, x: &mut Exchange) {
    x.request.head.forget_fields();
    x.request.host.clear();
    let plan = x.plan.clone();
    if let Some(servers) = conn.servers(&plan) {
        x.server = base_server(conn, servers);
        x.location = plan.server(x.server).location;
    }
}

/// Makes a complete head into a request.
fn prepare(conn: &Rc<Conn>, x: &mut Exchange) -> Received {
    x.action = "reading client request headers";
    let request = &mut x.request;
    let meta = match RequestMeta::of(&request.head) {
        Ok(meta) => meta,
        Err(error) => return refuse(conn, x, &error),
    };
    if let Some(host) = &meta.host {
        request.host.extend_from_slice(host.as_bytes());
    }
    request.method = request.head.method;
    request.keep_alive = meta.keep_alive;
    request.upgrade = meta.upgrade;
    request.expects_continue = meta.expect_continue;
    let (length, chunked, expect) = (meta.content_length, meta.chunked, meta.expect_continue);
    // As in nginx, by the address's own server: the target is read before a name is known.
    if let Err(status) = set_target(x) {
        forget_fields(conn, x);
        return Received::Broken(status);
    }
    choose_server(conn, x);
    report_ignored(x);
    if x.request.head.method == Method::Connect {
        x.log(Level::Info, format_args!("client sent CONNECT method"));
        return Received::Broken(405);
    }
    let timeout = x.settings().client_body_timeout;
    if chunked {
        let source = H1Body::chunked(conn.clone(), expect, timeout);
        x.request.body = RequestBody::new(length, true, Box::new(source));
    } else if let Some(length) = length.filter(|length| *length > 0 || expect) {
        let source = H1Body::with_length(conn.clone(), length, expect, timeout);
        x.request.body = RequestBody::new(Some(length), false, Box::new(source));
    } else {
        x.request.body.length = length;
    }
    x.keep_alive = x.request.keep_alive;
    x.action = "";
    Received::Request
}

/// Finds the server that the request's host means.
fn choose_server(conn: &Conn, x: &mut Exchange) {
    let plan = x.plan.clone();
    let Some(servers) = conn.servers(&plan) else { return };
    if servers.is_single() {
        return;
    }
    let mut captures = std::mem::take(&mut x.captures);
    let found = servers.find_named(&x.request.host, &mut captures);
    x.captures = captures;
    let (server, regex) = found.unwrap_or_else(|| (base_server(conn, servers), None));
    if let Some(regex) = regex {
        regex.store_named(x);
    }
    x.server = server;
    x.location = plan.server(server).location;
}

fn report_ignored(x: &Exchange) {
    for line in &x.request.head.ignored_lines {
        let line = String::from_utf8_lossy(line.of(x.request.head.headers.text()));
        let line = line.trim_end();
        x.log(Level::Info, format_args!("client sent invalid header line: \"{line}\""));
    }
}

/// Makes the target the request's; the error is a status, and logged.
fn set_target(x: &mut Exchange) -> Result<(), u16> {
    decode_target(x).map_err(|_| {
        x.action = "reading client request line";
        x.log(Level::Info, format_args!("client sent invalid request"));
        400
    })
}

/// Decodes path and arguments. The path is empty after an error.
fn decode_target(x: &mut Exchange) -> Result<(), UriError> {
    let merge = x.plan.server(x.server).settings.merge_slashes;
    let request = &mut x.request;
    request.target_is_current = true;
    let whole = match request.head.form {
        TargetForm::Asterisk => Some(request.head.target()),
        TargetForm::Authority => Some(&b"/"[..]),
        TargetForm::Origin | TargetForm::Absolute => None,
    };
    if let Some(path) = whole {
        request.path.extend_from_slice(path);
        request.path_is_raw = true;
        return Ok(());
    }
    let target = request.head.path_and_args();
    let uri = match uri::normalise(target, merge, &mut request.path) {
        Ok(uri) => uri,
        Err(error) => {
            request.path.clear();
            return Err(error);
        }
    };
    request.args.extend_from_slice(uri.args(target));
    request.path_is_raw = uri.plain;
    if uri.plain {
        request.path.extend_from_slice(uri.raw_path.of(target));
    }
    Ok(())
}

/// `keepalive_disable`: old Internet Explorers after POST, and Safari.
pub fn keepalive_disabled(x: &Exchange) -> bool {
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
