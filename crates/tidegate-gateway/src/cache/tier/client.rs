//! Requests to an S3-compatible store, over the connections of gateways: GET, and PUT on a condition. Objects are never listed.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, mem};

use bytes::Bytes;
use tidegate_codec::Known;
use tidegate_codec::date::Civil;
use tidegate_codec::request::Method;
use tidegate_core::error_log::ErrorLog;
use tidegate_rt::net::Addr;
use tidegate_rt::{clock, timer};
use tidegate_store::s3::{
    Credentials, ERROR_BYTES_MAX, Request, authorization, encode_path, error_code, payload_hash,
};
use tidegate_tls::TlsTarget;
use tidegate_upstream::resolve::Resolver;
use tidegate_upstream::{
    BalancingMethod, FetchSettings, Group, GroupOptions, Keepalive, LogContext, Member, OriginHead,
    OriginRequest, OriginResponse, Report, RequestPayload, ServerOptions, fetch,
};

use crate::outbound;

const USER_AGENT: &str = concat!("tidegate/", env!("CARGO_PKG_VERSION"));
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// How long the addresses of the endpoint's name are used.
const ADDRESSES_FOR: Duration = Duration::from_secs(30);
/// Limits for an upload: for the whole, and for a pause in it.
const UPLOAD_TIME_MAX: Duration = Duration::from_secs(60);
const UPLOAD_PAUSE_MAX: Duration = Duration::from_secs(10);

/// Where a store is, and the keys by which it is asked.
pub(super) struct Endpoint {
    pub tls: Option<TlsTarget>,
    /// Without the brackets of an IPv6 address.
    pub host: String,
    pub port: u16,
    /// As in `Host`.
    pub authority: String,
    /// What the path of every object begins with, with a `/` at both ends.
    pub base: String,
    pub region: String,
    /// `None`: requests are not signed.
    pub credentials: Option<Credentials>,
    /// The system's resolver is used without one.
    pub resolver: Option<Resolver>,
}

/// A client of one store.
pub(super) struct Client {
    endpoint: Endpoint,
    /// Limit for the head of a response.
    timeout: Duration,
    reading: Arc<FetchSettings>,
    writing: Arc<FetchSettings>,
    /// The addresses with their connections, and when they were looked up.
    group: Mutex<Option<(Arc<Group>, Instant)>>,
}

/// Why a store has not done what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// There is no connection, or it broke.
    Connection,
    /// There is no address.
    Name(String),
    /// There was no response in time.
    Late,
    /// A status that means neither yes nor no, with the code in the response's text.
    Status(u16, Option<String>),
    /// The body breaks off, or comes too slowly.
    Broken,
}

/// On which condition an object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition<'a> {
    /// There is none of this name.
    Absent,
    /// It is still the one with this `ETag`.
    Same(&'a [u8]),
    /// The store knows no conditions.
    None,
}

/// The result of a PUT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    Stored,
    /// The condition does not hold.
    Refused,
    /// The store does not know the condition.
    Unsupported,
}

impl Client {
    pub(super) fn new(endpoint: Endpoint, timeout: Duration) -> Client {
        let reading = outbound::fetch_settings(timeout, timeout, timeout, HEAD_BYTES_MAX);
        let pause = UPLOAD_PAUSE_MAX.max(timeout);
        let writing = outbound::fetch_settings(timeout, pause, UPLOAD_TIME_MAX, HEAD_BYTES_MAX);
        let writing = FetchSettings { send_timeout: pause, ..writing };
        let (reading, writing) = (Arc::new(reading), Arc::new(writing));
        Client { endpoint, timeout, reading, writing, group: Mutex::default() }
    }

    /// Requests an object, or a part of it; `None`: there is none. The body may still be arriving.
    ///
    /// Cancelling: dropped at any await, it closes its connection.
    pub(super) async fn get(
        &self,
        name: &str,
        part: Option<Range<u64>>,
    ) -> Result<Option<OriginResponse>, Failure> {
        let range = part.map(|part| format!("bytes={}-{}", part.start, part.end.saturating_sub(1)));
        let fields: Vec<_> = range.iter().map(|range| ("range", range.as_str())).collect();
        let hash = payload_hash(b"");
        let head = self.head("GET", name, &fields, &hash);
        let call = self.send(Method::Get, head, RequestPayload::None, self.reading.clone());
        let response = timer::timeout(self.timeout, Box::pin(call)).await;
        let response = self.noted(response.unwrap_or(Err(Failure::Late)))?;
        match response.head.status {
            200 | 206 => Ok(Some(response)),
            status => match self.refusal(response).await {
                // A bucket that does not exist is a mistake of the configuration, not a miss.
                code if status == 404 && code.as_deref() != Some("NoSuchBucket") => Ok(None),
                code => Err(Failure::Status(status, code)),
            },
        }
    }

    /// Writes an object, whose hash is [`payload_hash`].
    ///
    /// Cancelling: as [`Client::get`]; the store may have the object all the same.
    pub(super) async fn put(
        &self,
        name: &str,
        body: Bytes,
        hash: &str,
        condition: Condition<'_>,
    ) -> Result<Put, Failure> {
        let length = body.len().to_string();
        let mut fields = vec![("content-length", length.as_str())];
        match condition {
            Condition::Absent => fields.push(("if-none-match", "*")),
            Condition::Same(etag) => {
                fields.push(("if-match", str::from_utf8(etag).unwrap_or_default()));
            }
            Condition::None => {}
        }
        let head = self.head("PUT", name, &fields, hash);
        let payload = RequestPayload::Bytes(body);
        let call = self.send(Method::Put, head, payload, self.writing.clone());
        let response = timer::timeout(UPLOAD_TIME_MAX, Box::pin(call)).await;
        let response = self.noted(response.unwrap_or(Err(Failure::Late)))?;
        match response.head.status {
            200..=299 => {
                // Read to its end, so that the connection is kept.
                let _ = self.refusal(response).await;
                Ok(Put::Stored)
            }
            // 409: another one is being written at this moment; 404: the one that was to be replaced has gone.
            409 | 412 => Ok(Put::Refused),
            501 => Ok(Put::Unsupported),
            status => match self.refusal(response).await {
                code if status == 404 && code.as_deref() == Some("NoSuchKey") => Ok(Put::Refused),
                code => Err(Failure::Status(status, code)),
            },
        }
    }

    /// Notes the result of a request: after a failure the name is looked up again.
    fn noted(&self, result: Result<OriginResponse, Failure>) -> Result<OriginResponse, Failure> {
        if result.is_err() {
            *self.group.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        result
    }

    async fn send(
        &self,
        method: Method,
        (head, target): (Vec<u8>, Range<usize>),
        payload: RequestPayload,
        settings: Arc<FetchSettings>,
    ) -> Result<OriginResponse, Failure> {
        let (group, tls) = (self.group().await?, self.endpoint.tls.clone());
        let head = (OriginHead::Text(head), target);
        let request = OriginRequest::own(group, method, head, payload, tls);
        // Every request may fail: the tier itself logs a line a second.
        let log = LogContext::detached(ErrorLog::new(Vec::new()));
        let fetched = fetch(request, settings, Report::shared(), log).await;
        fetched.map_err(|error| match error.status {
            504 => Failure::Late,
            _ => Failure::Connection,
        })
    }

    async fn group(&self) -> Result<Arc<Group>, Failure> {
        let Endpoint { host, port, authority, resolver, .. } = &self.endpoint;
        let lock = || self.group.lock().unwrap_or_else(PoisonError::into_inner);
        let now = clock::now();
        let known = lock().clone();
        if let Some((group, _)) =
            known.filter(|(_, at)| now.saturating_duration_since(*at) < ADDRESSES_FOR)
        {
            return Ok(group);
        }
        let found = outbound::addresses(resolver.as_ref(), host, *port).await;
        let addresses: Vec<Addr> =
            found.map_err(Failure::Name)?.into_iter().map(Addr::Inet).collect();
        let member = Member::fixed(authority, addresses, ServerOptions::default());
        let manner = (BalancingMethod::RoundRobin, Keepalive::DEFAULT, GroupOptions::default());
        let mut group = Group::with(authority, manner, vec![member], clock::now());
        let mut slot = lock();
        if let Some((before, _)) = &*slot {
            // Its connections are used further.
            group.inherit(before, now);
        }
        let group = Arc::new(group);
        *slot = Some((group.clone(), now));
        Ok(group)
    }

    /// Returns the head of a request, and where its target is. `fields` have names in lower case.
    fn head(
        &self,
        method: &str,
        name: &str,
        fields: &[(&str, &str)],
        hash: &str,
    ) -> (Vec<u8>, Range<usize>) {
        let Endpoint { authority, base, region, credentials, .. } = &self.endpoint;
        let path = encode_path(&format!("{base}{name}"));
        let time = amz_time(clock::unix_seconds());
        let mut all = vec![
            ("host", authority.as_str()),
            ("x-amz-content-sha256", hash),
            ("x-amz-date", time.as_str()),
        ];
        all.extend_from_slice(fields);
        let token = credentials.as_ref().and_then(Credentials::session_token);
        all.extend(token.map(|token| ("x-amz-security-token", token)));
        let signed = credentials.as_ref().map(|credentials| {
            let request = Request {
                method,
                path: &path,
                query: "",
                fields: &all,
                payload_hash: hash,
                region,
                time: &time,
            };
            authorization(&request, credentials)
        });
        all.push(("user-agent", USER_AGENT));
        all.extend(signed.as_deref().map(|value| ("authorization", value)));
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        for (name, value) in all {
            head.push_str(name);
            head.push_str(": ");
            head.push_str(value);
            head.push_str("\r\n");
        }
        head.push_str("\r\n");
        let start = method.len() + 1;
        (head.into_bytes(), start..start + path.len())
    }

    /// Reads the text of a response that is no object; returns its code.
    async fn refusal(&self, response: OriginResponse) -> Option<String> {
        let body = response.body.collect(ERROR_BYTES_MAX);
        let (text, _) = timer::timeout(self.timeout, body).await.ok()?.ok()?;
        error_code(&text).map(str::to_owned)
    }
}

/// Returns the `ETag` of a response, for [`Condition::Same`].
pub(super) fn etag_of(response: &mut OriginResponse) -> Option<Vec<u8>> {
    let headers = mem::take(&mut response.head.headers);
    let etag = headers.first(Known::Etag)?;
    let is_field = !etag.is_empty() && etag.iter().all(u8::is_ascii_graphic);
    is_field.then(|| etag.to_vec())
}

/// Returns a time in the form of `x-amz-date`.
fn amz_time(unix_seconds: i64) -> String {
    let Civil { year, month, day, hour, minute, second, .. } = Civil::from_unix(unix_seconds);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Connection => f.write_str("no connection"),
            Failure::Name(reason) => f.write_str(reason),
            Failure::Late => f.write_str("no response in time"),
            Failure::Status(status, None) => write!(f, "status {status}"),
            Failure::Status(status, Some(code)) => write!(f, "status {status} \"{code}\""),
            Failure::Broken => f.write_str("a body breaks off or comes too slowly"),
        }
    }
}
