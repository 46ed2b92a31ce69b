//! One health check of one server: a request as the location would make it, without a client.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{error, fmt};

use tidegate_codec::Known;
use tidegate_codec::request::Method as HttpMethod;
use tidegate_core::body::{BodyStream, Chunk};
use tidegate_core::error_log::ErrorLog;
use tidegate_rt::clock;
use tidegate_rt::net::Addr;
use tidegate_rt::timer;
use tidegate_upstream::care::checks::{CheckFailure, Probe};
use tidegate_upstream::peers::Choice;
use tidegate_upstream::{
    ConnectionReuse, FieldWriter, Group, HeadList, Keepalive, ListFields, LogContext, Member,
    Method, OriginBody, OriginHead, OriginRequest, OriginResponse, Peer, Report, RequestPayload,
    ServerOptions, TextFields, Wire,
};

use super::rule::MatchRules;
use crate::common::pass::PassDestination;
use crate::common::request_head::FieldValue;
use crate::proxy::conf::Version;
use crate::proxy::settings::ProxySettings;

/// A health check by HTTP.
pub(super) struct HttpProbe {
    settings: Arc<ProxySettings>,
    uri: String,
    rules: Option<Arc<MatchRules>>,
    port: Option<u16>,
    /// Longest use of one connection (`keepalive_time`).
    keepalive_time: Option<Duration>,
    log: ErrorLog,
    /// By the server's id: a group of this server alone, which keeps its connection.
    targets: Mutex<HashMap<u64, Arc<Group>>>,
}

/// Bytes of a body that are checked (directive `match`).
const BODY_BYTES_MAX: usize = 256 * 1024;

impl Probe for HttpProbe {
    fn check(
        self: Arc<Self>,
        peer: Arc<Peer>,
    ) -> Pin<Box<dyn Future<Output = Result<(), CheckFailure>>>> {
        Box::pin(async move {
            let fetch = &self.settings.gateway.fetch;
            // Each step has its own limit; a body that trickles is bounded by this one alone.
            let limit = fetch.connect_timeout * 2 + fetch.send_timeout + fetch.read_timeout;
            let asked = timer::timeout(limit, self.send(&peer)).await;
            asked
                .unwrap_or(Err(HttpProbeError::TooSlow))
                .map_err(|error| CheckFailure::from(error.to_string()))
        })
    }
}

impl HttpProbe {
    pub(super) fn new(
        settings: Arc<ProxySettings>,
        uri: &str,
        rules: Option<Arc<MatchRules>>,
        port: Option<u16>,
        keepalive_time: Option<Duration>,
        log: ErrorLog,
    ) -> HttpProbe {
        let (uri, targets) = (uri.to_owned(), Mutex::default());
        HttpProbe { settings, uri, rules, port, keepalive_time, log, targets }
    }

    /// Sends the request and judges the response: by its `match`, or that the status is 2xx or 3xx (`health_check`).
    ///
    /// Cancelling: the limit in `check` and the end of the plan drop this at any await, which closes the connection.
    async fn send(&self, peer: &Peer) -> Result<(), HttpProbeError> {
        let request = self.request(peer, clock::now());
        let fetch = self.settings.gateway.fetch.clone();
        let log = LogContext::detached(self.log.clone());
        let result = tidegate_upstream::fetch(request, fetch, Report::shared(), log).await;
        let OriginResponse { head, body, .. } = match result {
            Ok(response) => response,
            Err(error) if error.invalid_header => return Err(HttpProbeError::Invalid),
            Err(error) if error.status == 504 => return Err(HttpProbeError::TimedOut),
            Err(_) => return Err(HttpProbeError::NoResponse),
        };
        match &self.rules {
            None if (200..400).contains(&head.status) => Ok(()),
            None => Err(HttpProbeError::Status(head.status)),
            Some(rules) => {
                let body = match rules.needs_body() {
                    true => read(body).await?,
                    false => Vec::new(),
                };
                rules.judge(&head, &body).map_err(HttpProbeError::Mismatch)
            }
        }
    }

    /// Makes the request as `proxy_pass` would make it for a GET of `uri` without fields of its own (RFC 9112 section
    /// 3).
    ///
    /// Invariant: values that only a request has are left out. A field made of variables is not sent, except that
    /// `Host` falls back to the one of `proxy_pass`, since HTTP/1.1 has no request without it; lengths and framing of
    /// a body are not sent, as there is none. Without `keepalive_time` the connection is closed afterwards, and the
    /// request announces it.
    fn request(&self, peer: &Peer, now: Instant) -> OriginRequest {
        let settings = &self.settings;
        let line = format!("GET {}", self.uri).into_bytes();
        let target = 4..line.len();
        let host = match &settings.pass.destination {
            PassDestination::Fixed(target, _) => target.host.clone(),
            PassDestination::Variable(..) => Vec::new(),
        };
        let (head, wire) = match settings.version {
            Version::H2 => {
                let mut list = HeadList::new(&line, target.clone());
                self.write_fields(&host, ListFields::new(&mut list));
                (OriginHead::List(Box::new(list)), Wire::Http2 { grpc: false })
            }
            version => {
                let mut head = line;
                head.extend_from_slice(match version {
                    Version::H10 => b" HTTP/1.0\r\n",
                    _ => b" HTTP/1.1\r\n",
                });
                let has_connection = self.write_fields(&host, TextFields::new(&mut head));
                if !has_connection && self.keepalive_time.is_none() {
                    head.extend_from_slice(b"Connection: close\r\n");
                }
                head.extend_from_slice(b"\r\n");
                (OriginHead::Text(head), Wire::Http)
            }
        };
        OriginRequest {
            group: self.target(peer, now),
            choice: Choice::default(),
            method: HttpMethod::Get,
            head,
            target,
            payload: RequestPayload::None,
            local: None,
            paced: false,
            interim: None,
            reuse: match self.keepalive_time {
                Some(_) => ConnectionReuse::AsGroup,
                None => ConnectionReuse::Never,
            },
            upgrade: false,
            location_tag: 0,
            tls: settings.tls.as_ref().map(|tls| tls.fixed_target(&host)),
            wire,
        }
    }

    /// Writes the fields of `proxy_set_header`; returns whether `Connection` is one of them.
    fn write_fields(&self, host: &[u8], mut writer: impl FieldWriter) -> bool {
        let mut has_connection = false;
        for (name, value) in &self.settings.fields.set {
            let is_host = name.eq_ignore_ascii_case(b"Host");
            let value = match value {
                FieldValue::ProxyHost => host,
                // Variables belong to requests, and there is none.
                FieldValue::Template(template) | FieldValue::Host(template) => {
                    match template.literal() {
                        Some(text) => text,
                        None if is_host => host,
                        None => continue,
                    }
                }
                FieldValue::BodyLength | FieldValue::Chunked => continue,
            };
            has_connection |= name.eq_ignore_ascii_case(b"Connection");
            writer.field(Known::of(name), name, value);
        }
        has_connection
    }

    /// Returns a group of the one server, made at `now` if there is none yet.
    fn target(&self, peer: &Peer, now: Instant) -> Arc<Group> {
        let mut targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || {
            let mut address = peer.address.clone();
            if let (Addr::Inet(address), Some(port)) = (&mut address, self.port) {
                address.set_port(port);
            }
            let keepalive = match self.keepalive_time {
                None => Keepalive::OFF,
                Some(time) => Keepalive {
                    idle_max: 1,
                    age_max: time,
                    idle_time_max: time,
                    ..Keepalive::DEFAULT
                },
            };
            let member = Member::fixed(&peer.text, vec![address], ServerOptions::default());
            let manner = (Method::RoundRobin, keepalive, Default::default());
            Arc::new(Group::with(&peer.text, manner, vec![member], now))
        };
        targets.entry(peer.id).or_insert_with(make).clone()
    }
}

async fn read(body: OriginBody) -> Result<Vec<u8>, HttpProbeError> {
    let mut stream = match body {
        OriginBody::Whole(bytes) => return Ok(bytes.to_vec()),
        OriginBody::Stream(stream) => stream,
        OriginBody::Upgraded(_) => return Err(HttpProbeError::Upgraded),
    };
    let mut text = Vec::new();
    while text.len() < BODY_BYTES_MAX {
        match poll_fn(|context| stream.poll_chunk(context)).await {
            None => break,
            Some(Ok(Chunk::Bytes(bytes))) => text.extend_from_slice(&bytes),
            Some(Ok(_)) => {}
            Some(Err(_)) => return Err(HttpProbeError::Incomplete),
        }
    }
    text.truncate(BODY_BYTES_MAX);
    Ok(text)
}

/// The reason of a failed check, in words for the log.
#[derive(Debug)]
enum HttpProbeError {
    /// The total time limit has passed.
    TooSlow,
    NoResponse,
    TimedOut,
    /// The response is not HTTP.
    Invalid,
    /// The status does not pass without a `match`.
    Status(u16),
    /// The first condition of the `match` that does not hold.
    Mismatch(&'static str),
    Upgraded,
    Incomplete,
}

impl fmt::Display for HttpProbeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HttpProbeError::TooSlow => "it takes too long",
            HttpProbeError::NoResponse => "no response",
            HttpProbeError::TimedOut => "no response in time",
            HttpProbeError::Invalid => "invalid response",
            HttpProbeError::Status(status) => return write!(f, "status {status}"),
            HttpProbeError::Mismatch(condition) => condition,
            HttpProbeError::Upgraded => "it switches protocols",
            HttpProbeError::Incomplete => "the response breaks off",
        })
    }
}

impl error::Error for HttpProbeError {}
