//! One call of the collector: `opentelemetry.proto.collector.trace.v1.TraceService/Export`, by gRPC over the connections of
//! gateways. A connection is kept for the calls that follow.

use std::fmt;
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
use tidegate_upstream::peers::Choice;
use tidegate_upstream::resolve::Resolver;
use tidegate_upstream::{
    BalancingMethod, CollectError, ConnectionReuse, FetchSettings, FieldWriter, Group,
    GroupOptions, HeadList, Keepalive, ListFields, LogContext, Member, OriginHead, OriginRequest,
    OriginResponse, Report, RequestPayload, ServerOptions, Wire, fetch,
};

/// Method and path of the request line.
const LINE: &[u8] = b"POST /opentelemetry.proto.collector.trace.v1.TraceService/Export";
/// Offset of the path in [`LINE`].
const PATH_START: usize = 5;
const USER_AGENT: &[u8] = concat!("tidegate/", env!("CARGO_PKG_VERSION")).as_bytes();
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

/// The collector of a configuration.
pub(super) struct Collector {
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
    /// Makes it. `address` is its host, its port and both as written.
    pub(super) fn new(
        (host, port, authority): (&str, u16, &str),
        tls: Option<TlsSettings>,
        headers: Vec<(Vec<u8>, Vec<u8>)>,
        resolver: Option<Resolver>,
        log: ErrorLog,
    ) -> Collector {
        let name: Arc<[u8]> = host.as_bytes().into();
        let protocols = Protocols::from([b"h2".to_vec()]);
        let tls = tls.map(|settings| TlsTarget::new(Arc::new(settings), name, protocols));
        Collector {
            host: host.to_owned(),
            port,
            authority: authority.to_owned(),
            tls,
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
        // A response without a message may have its status in the head.
        let fields = [trailers.as_ref(), Some(&head.headers)];
        let with_status = |fields: &Headers| Some((status_of(fields)?, message_of(fields)));
        match fields.into_iter().flatten().find_map(with_status) {
            Some((0, _)) => {
                self.report_refused(&bytes);
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
        let target = PATH_START..LINE.len();
        let mut list = HeadList::new(LINE, target.clone());
        let mut fields = ListFields::new(&mut list);
        fields.field(Known::Host, b"host", self.authority.as_bytes());
        fields.field(Known::Te, b"te", b"trailers");
        fields.field(Known::ContentType, b"content-type", b"application/grpc");
        fields.field(Known::UserAgent, b"user-agent", USER_AGENT);
        for (name, value) in &self.headers {
            fields.field(Known::of(name), name, value);
        }
        OriginRequest {
            group,
            choice: Choice::default(),
            method: Method::Post,
            head: OriginHead::List(Box::new(list)),
            target,
            payload: RequestPayload::Bytes(frame(message).into()),
            local: None,
            paced: false,
            interim: None,
            reuse: ConnectionReuse::AsGroup,
            upgrade: false,
            location_tag: 0,
            tls: self.tls.clone(),
            wire: Wire::Http2 { grpc: true },
        }
    }

    /// Logs the spans that a collector has refused of a message that it took.
    fn report_refused(&self, body: &[u8]) {
        let Some((count, text)) = refused_of(body) else { return };
        let level = tidegate_core::error_log::Level::Warn;
        self.log.say(level, format_args!("OTel: the collector refused {count} spans: \"{text}\""));
    }
}

/// Returns how many spans a response's message refuses, and why: `ExportTracePartialSuccess` of
/// `ExportTraceServiceResponse`. `None` for none.
pub(super) fn refused_of(body: &[u8]) -> Option<(u64, String)> {
    let (_, message) = body.split_at_checked(PREFIX_BYTES)?;
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
