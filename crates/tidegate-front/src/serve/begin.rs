//! From a parsed head to a response: the server that is meant, the target, refusals, the phases.

#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Instant;

use tidegate_codec::request::{Method, RequestError, RequestMeta, TargetForm, parse_host};
use tidegate_codec::uri::{self, UriError};
use tidegate_core::client::Connection;
use tidegate_core::error_log::Level;
use tidegate_core::exchange::{Captures, ModuleState, PathSource, Routing};
use tidegate_core::listen::VirtualServers;
use tidegate_core::phases::{self, PhaseResult};
use tidegate_core::plan::{Plan, ServerId};
use tidegate_core::{Exchange, LocalFuture};

use crate::front::Front;
use crate::listener::Binding;

/// Attaches the exchange to the connection's own server until a name is known. `None` when the plan no longer has the
/// listener.
pub(crate) fn at_base_server<'p>(
    binding: &Binding,
    connection: &Connection,
    plan: &'p Plan,
    routing: &mut Routing,
) -> Option<&'p VirtualServers> {
    let servers = binding.servers(plan, &connection.local)?;
    routing.server = base_server(connection, servers);
    routing.location = plan.server(routing.server).location;
    Some(servers)
}

/// Returns the server of requests whose host no server claims: the server that TLS chose by name, else the default.
#[inline]
pub(crate) fn base_server(connection: &Connection, servers: &VirtualServers) -> ServerId {
    match servers.is_single() {
        true => servers.default,
        false => server_of_handshake(connection, servers),
    }
}

fn server_of_handshake(connection: &Connection, servers: &VirtualServers) -> ServerId {
    let tls = connection.tls.as_ref();
    let Some(name) = tls.and_then(|tls| tls.server_name.as_ref()) else { return servers.default };
    let found = parse_host(name.as_bytes())
        .and_then(|name| servers.find_named(name.as_bytes(), &mut Captures::default()));
    found.map_or(servers.default, |(server, _)| server)
}

/// Counts a request whose first byte has arrived, and starts its time. `now` is exact
/// ([`tidegate_rt::clock::batch_now`]), as most requests take less than a tick of the cheap clock.
#[inline]
pub(crate) fn first_byte(front: &Front, x: &mut Exchange, now: Instant) {
    front.counters.request();
    x.progress.started = now;
    x.ordinal = x.connection.requests.get() + 1;
    x.connection.requests.set(x.ordinal);
    if x.plan.timelines {
        begin_timeline(x, now);
    }
}

#[inline(never)]
fn begin_timeline(x: &Exchange, now: Instant) {
    if let Some(timeline) = &x.timeline {
        let tls = x.connection.tls.as_ref().filter(|_| x.ordinal == 1);
        timeline.begin(now, tls.map(|tls| tls.handshake));
    }
}

/// What a head says about its body and the connection.
pub(crate) struct BodyFraming {
    /// `Content-Length`, bytes.
    pub length: Option<u64>,
    /// HTTP/1: the body is sent in chunks, so its length is not known.
    pub chunked: bool,
    /// HTTP/1: the client wants to keep the connection.
    pub keep_alive: bool,
}

/// Why a request is refused before the phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The fields contradict each other or the protocol. Not logged yet.
    Head(RequestError),
    /// The target is malformed. Logged.
    Target,
    /// `CONNECT`, which no server takes (RFC 9110 section 9.3.6). Logged.
    Connect,
}

impl Refusal {
    /// Returns the status of the response.
    pub(crate) fn status(&self) -> u16 {
        match self {
            Refusal::Head(error) => error.status(),
            Refusal::Target => 400,
            Refusal::Connect => 405,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Head(_) => "invalid request head",
            Refusal::Target => "invalid request target",
            Refusal::Connect => "CONNECT is not served",
        })
    }
}

impl std::error::Error for Refusal {}

/// Makes a complete head into a request to one of `servers`, which are those of [`at_base_server`]: host, method,
/// target, server. The body is the driver's.
///
/// # Errors
/// Why the request is refused.
pub(crate) fn request(
    binding: &Binding,
    servers: &VirtualServers,
    x: &mut Exchange,
) -> Result<BodyFraming, Refusal> {
    let request = &mut x.request;
    let meta = RequestMeta::of(&request.head).map_err(Refusal::Head)?;
    if let Some(host) = &meta.host {
        request.host.extend_from_slice(host.as_bytes());
    }
    request.method = request.head.method;
    request.expects_continue = meta.expect_continue;
    let framing = BodyFraming {
        length: meta.content_length,
        chunked: meta.chunked,
        keep_alive: meta.keep_alive,
    };
    // As in nginx, by the address's own server: the target is parsed before a name is known.
    if decode_target(x).is_err() {
        x.progress.action = "reading client request line";
        x.log(Level::Info, format_args!("client sent invalid request"));
        forget_fields(binding, x);
        return Err(Refusal::Target);
    }
    choose_server(servers, x);
    x.debug(|| {
        let line = String::from_utf8_lossy(x.request.head.line());
        format!("request \"{line}\" to the server \"{}\"", x.server().name)
    });
    report_ignored(x);
    if x.request.head.method == Method::Connect {
        x.log(Level::Info, format_args!("client sent CONNECT method"));
        return Err(Refusal::Connect);
    }
    Ok(framing)
}

/// Returns the status for [`refuse`] if the connection may not send this request; else the phases are run.
pub(crate) fn refusal(binding: &Binding, x: &mut Exchange) -> Option<u16> {
    if x.connection.tls.is_none() && binding.expects_tls(&x.plan) {
        x.log(Level::Info, format_args!("client sent plain HTTP request to HTTPS port"));
        return Some(497);
    }
    crate::tls::refusal(x)
}

/// Makes the response to a refused request; no request follows it.
pub(crate) fn refuse(x: &mut Exchange, status: u16) -> LocalFuture<'_, PhaseResult> {
    x.disposition.close_connection();
    // Nothing is being read any more: log lines of an error page do not say so.
    x.progress.action = "";
    Box::pin(phases::refuse(x, status))
}

/// Finds out what is known of a request whose head is malformed (where the request line is, the server that responds),
/// and logs the target.
#[cold]
pub(crate) fn identify(binding: &Binding, x: &mut Exchange) {
    if x.request.head.target().is_empty() {
        return;
    }
    x.request.method = x.request.head.method;
    // Where the target is wrong as well, the error that was found first is reported.
    let _ = decode_target(x);
    if let Some(host) = x.request.head.host() {
        x.request.host = host.as_bytes().to_vec();
        let Exchange { plan, routing, request, modules, connection, .. } = x;
        let servers = binding.servers(plan, &connection.local);
        if let Some(servers) = servers.filter(|servers| !servers.is_single()) {
            choose_by_name(connection, servers, plan, routing, &request.host, modules);
        }
    }
}

/// Forgets the fields: the request line is wrong, so the address's own server responds, and knows that line alone.
#[cold]
pub(crate) fn forget_fields(binding: &Binding, x: &mut Exchange) {
    x.request.head.forget_fields();
    x.request.host.clear();
    at_base_server(binding, &x.connection, &x.plan, &mut x.routing);
}

/// Finds the server that the request's host names.
#[inline]
fn choose_server(servers: &VirtualServers, x: &mut Exchange) {
    if !servers.is_single() {
        let Exchange { plan, routing, request, modules, connection, .. } = x;
        choose_by_name(connection, servers, plan, routing, &request.host, modules);
    }
}

/// Takes parts of an exchange, as `servers` may lie in its plan.
fn choose_by_name(
    connection: &Connection,
    servers: &VirtualServers,
    plan: &Plan,
    routing: &mut Routing,
    host: &[u8],
    modules: &mut ModuleState,
) {
    let found = servers.find_named(host, &mut modules.captures);
    let (server, regex) = found.unwrap_or_else(|| (base_server(connection, servers), None));
    if let Some(regex) = regex {
        regex.store_named(modules);
    }
    routing.server = server;
    routing.location = plan.server(server).location;
}

fn report_ignored(x: &Exchange) {
    for line in &x.request.head.ignored_lines {
        let line = String::from_utf8_lossy(line.of(x.request.head.headers.text()));
        let line = line.trim_end();
        x.log(Level::Info, format_args!("client sent invalid header line: \"{line}\""));
    }
}

/// Decodes the target into the request's path and arguments. The path is empty after an error.
fn decode_target(x: &mut Exchange) -> Result<(), UriError> {
    let merge = x.plan.server(x.routing.server).settings.merge_slashes;
    let request = &mut x.request;
    request.source = PathSource::Target;
    let whole = match request.head.form {
        TargetForm::Asterisk => Some(request.head.target()),
        TargetForm::Authority => Some(&b"/"[..]),
        TargetForm::Origin | TargetForm::Absolute => None,
    };
    if let Some(path) = whole {
        request.path.extend_from_slice(path);
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
    if uri.plain {
        request.path.extend_from_slice(uri.raw_path.of(target));
    }
    Ok(())
}
