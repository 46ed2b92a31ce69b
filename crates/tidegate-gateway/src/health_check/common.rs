//! The common part of checks by HTTP and by gRPC: the checked servers, the fields of a request, its response within
//! the time limits, and the reasons of failures.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use std::{error, fmt};

use tidegate_codec::Known;
use tidegate_core::error_log::ErrorLog;
use tidegate_rt::net::Addr;
use tidegate_rt::timer;
use tidegate_upstream::care::checks::CheckFailure;
use tidegate_upstream::{
    BalancingMethod, ConnectionReuse, FetchSettings, FieldWriter, Group, Keepalive, LogContext,
    Member, OriginRequest, OriginResponse, Peer, Report, ServerOptions,
};

use crate::common::request_head::{FieldValue, Fields};
use crate::common::settings::GatewaySettings;

/// The servers that a check sends requests to.
pub(super) struct CheckedServers {
    /// The port in place of the server's own (`port`).
    port: Option<u16>,
    /// Longest use of one connection (`keepalive_time`).
    keepalive_time: Option<Duration>,
    log: ErrorLog,
    /// By the server's id: a group of this server alone, which keeps its connection, as long as there is the server.
    groups: Mutex<HashMap<u64, OwnGroup>>,
}

/// The group of a server alone, and the server.
type OwnGroup = (Weak<Peer>, Arc<Group>);

impl CheckedServers {
    pub(super) fn new(
        port: Option<u16>,
        keepalive_time: Option<Duration>,
        log: ErrorLog,
    ) -> CheckedServers {
        CheckedServers { port, keepalive_time, log, groups: Mutex::default() }
    }

    pub(super) fn keeps_connections(&self) -> bool {
        self.keepalive_time.is_some()
    }

    /// Returns whether the connection of a check is kept for the next one.
    pub(super) fn reuse(&self) -> ConnectionReuse {
        match self.keepalive_time {
            Some(_) => ConnectionReuse::AsGroup,
            None => ConnectionReuse::Never,
        }
    }

    /// Returns a group of the one server, made at `now` if there is none yet.
    pub(super) fn group(&self, peer: &Arc<Peer>, now: Instant) -> Arc<Group> {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = groups.get(&peer.id) {
            return known.clone();
        }
        groups.retain(|_, (peer, _)| peer.strong_count() > 0);
        let mut address = peer.address.clone();
        if let (Addr::Inet(address), Some(port)) = (&mut address, self.port) {
            address.set_port(port);
        }
        let keepalive = match self.keepalive_time {
            None => Keepalive::OFF,
            Some(time) => {
                Keepalive { idle_max: 1, age_max: time, idle_time_max: time, ..Keepalive::DEFAULT }
            }
        };
        let member = Member::fixed(&peer.text, vec![address], ServerOptions::default());
        let manner = (BalancingMethod::RoundRobin, keepalive, Default::default());
        let made = Arc::new(Group::with(&peer.text, manner, vec![member], now));
        groups.insert(peer.id, (Arc::downgrade(peer), made.clone()));
        made
    }
}

/// Returns the result of a check within the limits of its location. Each step has its own limit; a body that trickles
/// is bounded by this one alone.
pub(super) async fn limited(
    fetch: &FetchSettings,
    check: impl Future<Output = Result<(), ProbeError>>,
) -> Result<(), CheckFailure> {
    let limit = fetch.connect_timeout * 2 + fetch.send_timeout + fetch.read_timeout;
    let result = timer::timeout(limit, check).await;
    result
        .unwrap_or(Err(ProbeError::TooSlow))
        .map_err(|error| CheckFailure::from(error.to_string()))
}

/// Sends a request and waits for the head of its response.
///
/// # Errors
/// There is no response in time, or it is not HTTP.
pub(super) async fn fetch(
    request: OriginRequest,
    gateway: &GatewaySettings,
    servers: &CheckedServers,
) -> Result<OriginResponse, ProbeError> {
    let log = LogContext::detached(servers.log.clone());
    let result =
        tidegate_upstream::fetch(request, gateway.fetch.clone(), Report::shared(), log).await;
    result.map_err(|error| match error.status {
        _ if error.invalid_header => ProbeError::Invalid,
        504 => ProbeError::TimedOut,
        _ => ProbeError::NoResponse,
    })
}

/// Writes the fields of `proxy_set_header` or `grpc_set_header` without those that the check sets itself (`own`);
/// returns whether `Connection` is one of them.
pub(super) fn write_fields(
    fields: &Fields,
    own: &[Known],
    host: &[u8],
    mut writer: impl FieldWriter,
) -> bool {
    let mut has_connection = false;
    for (name, value) in &fields.set {
        let known = Known::of(name);
        if own.contains(&known) {
            continue;
        }
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
        writer.field(known, name, value);
    }
    has_connection
}

/// The reason of a failed check, in words for the log.
#[derive(Debug)]
pub(super) enum ProbeError {
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
    /// The status of the call does not pass (`grpc-status`); `None`: there is none.
    GrpcStatus(Option<u32>),
    /// The service does not serve, by the name of its state.
    NotServing(&'static str),
    /// The message behind a successful status is none of the health checking protocol.
    InvalidMessage,
}

impl fmt::Display for ProbeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ProbeError::TooSlow => "it takes too long",
            ProbeError::NoResponse => "no response",
            ProbeError::TimedOut => "no response in time",
            ProbeError::Invalid => "invalid response",
            ProbeError::Status(status) => return write!(f, "status {status}"),
            ProbeError::Mismatch(condition) => condition,
            ProbeError::Upgraded => "it switches protocols",
            ProbeError::Incomplete => "the response breaks off",
            ProbeError::GrpcStatus(Some(status)) => return write!(f, "gRPC status {status}"),
            ProbeError::GrpcStatus(None) => "no gRPC status",
            ProbeError::NotServing(state) => return write!(f, "the service is {state}"),
            ProbeError::InvalidMessage => "invalid gRPC message",
        })
    }
}

impl error::Error for ProbeError {}
