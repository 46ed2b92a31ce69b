//! One call of the collector: `opentelemetry.proto.collector.trace.v1.TraceService/Export`, by gRPC or as a request of HTTP,
//! over the connections of gateways. A connection is kept for the calls that follow.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use tidegate_codec::protobuf::{Fields, Value};
use tidegate_codec::request::Method;
use tidegate_codec::{Headers, Known};
use tidegate_core::error_log::ErrorLog;
use tidegate_gateway::grpc_call::{PREFIX_BYTES, frame, status_of};
use tidegate_gateway::outbound;
use tidegate_rt::net::Addr;
use tidegate_rt::{clock, timer};
use tidegate_tls::{Protocols, TlsSettings, TlsTarget};
use tidegate_upstream::resolve::Resolver;
use tidegate_upstream::{
    BalancingMethod, CollectError, FetchSettings, FieldWriter, Group, GroupOptions, HeadList,
    Keepalive, ListFields, LogContext, Member, OriginHead, OriginRequest, OriginResponse, Report,
    RequestPayload, ServerOptions, Wire, fetch,
};

use super::conf::Protocol;

/// The method of a call, and the space behind it.
const METHOD: &str = "POST ";
/// The path of gRPC: service and method.
const GRPC_PATH: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
const USER_AGENT: &str = concat!("tidegate/", env!("CARGO_PKG_VERSION"));
/// Limit for a call, from the lookup of the name to the end of the response; OTLP's default.
const TIME_MAX: Duration = Duration::from_secs(10);
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Bytes of a response, whose message says which spans were refused.
const BODY_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a collector's text in the log.
const TEXT_BYTES_MAX: usize = 256;

static SETTINGS: LazyLock<Arc<FetchSettings>> = LazyLock::new(|| {
    let limits = outbound::fetch_settings(TIME_MAX, TIME_MAX, TIME_MAX, HEAD_BYTES_MAX);
    Arc::new(FetchSettings { pass_trailers: true, ..limits })
});

/// Where a collector is.
pub(super) struct Endpoint<'c> {
    pub protocol: Protocol,
    pub host: &'c str,
    pub port: u16,
    /// Host and port as they are written.
    pub authority: &'c str,
    /// For [`Protocol::Http`].
    pub path: &'c str,
}

/// The collector of a configuration.
pub(super) struct Collector {
    pub(super) protocol: Protocol,
    /// Method and path: the begin of the request line.
    line: String,
    host: String,
    port: u16,
    /// As in `:authority`.
    authority: String,
    tls: Option<TlsTarget>,
    headers: Vec<(Vec<u8>, Vec<u8>)>,
    /// The system's resolver is used without one.
    resolver: Option<Resolver>,
    log: ErrorLog,
    /// Its addresses with their connections; looked up again after a failure.
    group: Mutex<Option<Arc<Group>>>,
}

/// The reason why a batch was not taken.
#[derive(Debug)]
pub(super) enum Failure {
    /// There is no response; the reason. Details were logged.
    Connection(String),
    /// The call's status, and its text.
    Status(u32, String),
    /// A status of HTTP other than 200.
    Http(u16),
    /// The response is not one of gRPC.
    Invalid(&'static str),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Connection(reason) => f.write_str(reason),
            Failure::Status(status, text) => write!(f, "gRPC status {status} \"{text}\""),
            Failure::Http(status) => write!(f, "HTTP status {status}"),
            Failure::Invalid(what) => write!(f, "invalid response: {what}"),
        }
    }
}

impl Collector {
    /// Makes it.
    pub(super) fn new(
        endpoint: Endpoint<'_>,
        tls: Option<TlsSettings>,
        headers: Vec<(Vec<u8>, Vec<u8>)>,
        resolver: Option<Resolver>,
        log: ErrorLog,
    ) -> Collector {
        let name: Arc<[u8]> = endpoint.host.as_bytes().into();
        let (path, protocols) = match endpoint.protocol {
            Protocol::Grpc => (GRPC_PATH, Protocols::from([b"h2".to_vec()])),
            Protocol::Http => (endpoint.path, Protocols::default()),
        };
        Collector {
            protocol: endpoint.protocol,
            line: format!("{METHOD}{path}"),
            host: endpoint.host.to_owned(),
            port: endpoint.port,
            authority: endpoint.authority.to_owned(),
            tls: tls.map(|settings| TlsTarget::new(Arc::new(settings), name, protocols)),
            headers,
            resolver,
            log,
            group: Mutex::default(),
        }
    }

    /// Sends a message. Spans that the collector refuses of one that it takes are logged.
    ///
    /// # Errors
    /// The collector has not taken it, or has not said so in time.
    ///
    /// Cancelling: dropped at any await, it resets its stream; the connection stays.
    pub(super) async fn export(&self, message: &[u8]) -> Result<(), Failure> {
        let call = Box::pin(self.call(message));
        let result = timer::timeout(TIME_MAX, call).await.unwrap_or_else(|_| {
            let seconds = TIME_MAX.as_secs();
            Err(Failure::Connection(format!("no response of {} in {seconds} s", self.authority)))
        });
        if matches!(result, Err(Failure::Connection(_))) {
            *self.group.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        result
    }

    async fn call(&self, message: &[u8]) -> Result<(), Failure> {
        let group = self.group().await?;
        let log = LogContext::detached(self.log.clone());
        let request = self.request(group, message);
        let fetched = fetch(request, SETTINGS.clone(), Report::shared(), log).await;
        let OriginResponse { head, body, .. } = fetched
            .map_err(|_| Failure::Connection(format!("no connection to {}", self.authority)))?;
        if head.status != 200 {
            return Err(Failure::Http(head.status));
        }
        let collected = body.collect(BODY_BYTES_MAX).await;
        let (bytes, trailers) = collected.map_err(|error| match error {
            CollectError::Upgraded => Failure::Invalid("another protocol"),
            CollectError::Broken => Failure::Connection("the response breaks off".to_owned()),
            CollectError::TooLong => Failure::Invalid("too long"),
        })?;
        if self.protocol == Protocol::Http {
            self.report_refused(&bytes);
            return Ok(());
        }
        // A response without a message may have its status in the head.
        let fields = [trailers.as_ref(), Some(&head.headers)];
        let with_status = |fields: &Headers| Some((status_of(fields)?, message_of(fields)));
        match fields.into_iter().flatten().find_map(with_status) {
            Some((0, _)) => {
                self.report_refused(bytes.get(PREFIX_BYTES..).unwrap_or_default());
                Ok(())
            }
            Some((status, text)) => Err(Failure::Status(status, text)),
            None => Err(Failure::Invalid("no grpc-status")),
        }
    }

    /// Looks the collector's addresses up, so that the first call need not. If that fails, so does the call, which is logged.
    pub(super) async fn look_up(&self) {
        let _ = self.group().await;
    }

    /// Returns the collector's group, whose addresses are looked up if they are not known.
    async fn group(&self) -> Result<Arc<Group>, Failure> {
        let known = self.group.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(group) = known {
            return Ok(group);
        }
        let found = outbound::addresses(self.resolver.as_ref(), &self.host, self.port).await;
        let addresses = found.map_err(Failure::Connection)?.into_iter().map(Addr::Inet).collect();
        let member = Member::fixed(&self.authority, addresses, ServerOptions::default());
        let manner = (BalancingMethod::RoundRobin, Keepalive::DEFAULT, GroupOptions::default());
        let group = Group::with(&self.authority, manner, vec![member], clock::now());
        let group = Arc::new(group);
        *self.group.lock().unwrap_or_else(PoisonError::into_inner) = Some(group.clone());
        Ok(group)
    }

    fn request(&self, group: Arc<Group>, message: &[u8]) -> OriginRequest {
        let target = METHOD.len()..self.line.len();
        let (head, body, wire) = match self.protocol {
            Protocol::Grpc => {
                let list = OriginHead::List(Box::new(self.head_list(target.clone())));
                (list, frame(message), Wire::Http2 { grpc: true })
            }
            Protocol::Http => {
                (OriginHead::Text(self.head_text(message.len())), message.to_vec(), Wire::Http)
            }
        };
        let payload = RequestPayload::Bytes(body.into());
        let request =
            OriginRequest::own(group, Method::Post, (head, target), payload, self.tls.clone());
        OriginRequest { wire, ..request }
    }

    /// Returns the head of a call by gRPC.
    fn head_list(&self, path: Range<usize>) -> HeadList {
        let mut list = HeadList::new(self.line.as_bytes(), path);
        let mut fields = ListFields::new(&mut list);
        fields.field(Known::Host, b"host", self.authority.as_bytes());
        fields.field(Known::Te, b"te", b"trailers");
        fields.field(Known::ContentType, b"content-type", b"application/grpc");
        fields.field(Known::UserAgent, b"user-agent", USER_AGENT.as_bytes());
        for (name, value) in &self.headers {
            fields.field(Known::of(name), name, value);
        }
        list
    }

    /// Returns the head of a request with a message of `length` bytes.
    fn head_text(&self, length: usize) -> Vec<u8> {
        let Collector { line, authority, .. } = self;
        let mut head = format!(
            "{line} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: {USER_AGENT}\r\n\
             Content-Type: application/x-protobuf\r\nContent-Length: {length}\r\n"
        )
        .into_bytes();
        for (name, value) in &self.headers {
            for part in [name.as_slice(), b": ", value.as_slice(), b"\r\n"] {
                head.extend_from_slice(part);
            }
        }
        head.extend_from_slice(b"\r\n");
        head
    }

    /// Logs the spans that a collector has refused of a message that it took.
    fn report_refused(&self, message: &[u8]) {
        let Some((count, text)) = refused_of(message) else { return };
        let level = tidegate_core::error_log::Level::Warn;
        self.log.say(level, format_args!("OTel: the collector refused {count} spans: \"{text}\""));
    }
}

/// Returns how many spans a message of the collector refuses, and why: `ExportTracePartialSuccess` of
/// `ExportTraceServiceResponse`. `None` for none.
pub(super) fn refused_of(message: &[u8]) -> Option<(u64, String)> {
    let partial = Fields(message).find_map(|field| match field {
        (1, Value::Bytes(bytes)) => Some(bytes),
        _ => None,
    })?;
    let (mut count, mut text) = (0, String::new());
    for field in Fields(partial) {
        match field {
            (1, Value::Integer(number)) => count = number,
            (2, Value::Bytes(bytes)) => text = shown(bytes),
            _ => {}
        }
    }
    (count > 0).then_some((count, text))
}

/// Returns the text beside a call's status.
fn message_of(fields: &Headers) -> String {
    shown(fields.first_named(b"grpc-message").unwrap_or_default())
}

/// Returns the beginning of a collector's text, on one line.
fn shown(text: &[u8]) -> String {
    let text = text.get(..TEXT_BYTES_MAX).unwrap_or(text);
    String::from_utf8_lossy(text).chars().filter(|letter| !letter.is_control()).collect()
}
