//! HTTP to an engine, over the connections of gateways. A connection is kept for the requests that follow.

use std::sync::{Arc, Mutex, PoisonError};

use tidegate_codec::Known;
use tidegate_codec::request::Method;
use tidegate_core::error_log::ErrorLog;
use tidegate_rt::clock;
use tidegate_rt::net::Addr;
use tidegate_tls::TlsTarget;
use tidegate_upstream::resolve::Resolver;
use tidegate_upstream::{
    BalancingMethod, CollectError, FetchSettings, Group, GroupOptions, Keepalive, LogContext,
    Member, OriginHead, OriginRequest, OriginResponse, Report, RequestPayload, ServerOptions,
    fetch,
};

use super::kept::Failure;
use super::login::Login;
use crate::outbound;

/// Where an engine is.
pub(super) enum Place {
    /// A host, and its port.
    Host { host: String, port: u16, resolver: Option<Resolver> },
    /// The path of a socket.
    Unix(String),
}

/// The client of one engine.
pub(super) struct Client {
    place: Place,
    /// As in `Host`.
    authority: String,
    tls: Option<TlsTarget>,
    login: Option<Login>,
    /// The engine's addresses with their connections; looked up again after a failure.
    group: Mutex<Option<Arc<Group>>>,
}

const USER_AGENT: &str = concat!("tidegate/", env!("CARGO_PKG_VERSION"));
/// Bytes of the largest response: some hundred bytes for each of the most servers that a group may have.
pub(super) const BODY_BYTES_MAX: usize = 64 << 20;
/// Bytes of the largest head of a response.
pub(super) const HEAD_BYTES_MAX: usize = 16 * 1024;

impl Client {
    pub(super) fn new(place: Place, authority: String, tls: Option<TlsTarget>) -> Client {
        Client { place, authority, tls, login: None, group: Mutex::default() }
    }

    /// Makes a client that names itself.
    pub(super) fn with_login(self, login: Option<Login>) -> Client {
        Client { login, ..self }
    }

    /// Returns how it names itself.
    pub(super) fn login(&self) -> Option<&Login> {
        self.login.as_ref()
    }

    /// Sends a request, with a JSON body where there is one, and returns the response.
    ///
    /// Cancelling: dropped at any await, the connection is closed.
    ///
    /// # Errors
    /// There is no response: the reason in words. Nothing is logged.
    pub(super) async fn ask(
        &self,
        target: &str,
        body: Option<String>,
        settings: &Arc<FetchSettings>,
    ) -> Result<OriginResponse, Failure> {
        let group = self.group().await?;
        let request = self.request(group, target, body);
        let report = Report::shared();
        let quiet = LogContext::detached(ErrorLog::default());
        match fetch(request, settings.clone(), report.clone(), quiet).await {
            Ok(response) => Ok(response),
            Err(error) => {
                self.forget();
                let authority = &self.authority;
                let connected = report.borrow().attempts().last().and_then(|last| last.times()[0]);
                Err(Failure::NoResponse(match (error.status, connected) {
                    (504, _) => format!("{authority} did not response in time"),
                    (_, None) => format!("no connection to {authority}"),
                    _ => format!("no valid response from {authority}"),
                }))
            }
        }
    }

    /// Forgets the engine's addresses.
    pub(super) fn forget(&self) {
        *self.group.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Reads a body to its end.
    ///
    /// # Errors
    /// It breaks off, or is longer than `most`.
    pub(super) async fn body(response: OriginResponse, most: usize) -> Result<Vec<u8>, Failure> {
        let length = response.head.headers.first(Known::ContentLength);
        let length = length.and_then(|text| str::from_utf8(text).ok()?.trim().parse::<u64>().ok());
        if length.is_some_and(|length| length > most as u64) {
            return Err(Failure::Refused(format!("a response of more than {most} bytes")));
        }
        let collected = response.body.collect(most).await;
        collected.map(|(bytes, _)| bytes).map_err(|error| match error {
            CollectError::TooLong => {
                Failure::Refused(format!("a response of more than {most} bytes"))
            }
            CollectError::Broken => Failure::NoResponse("the response breaks off".to_owned()),
            CollectError::Upgraded => Failure::Refused("the engine changes protocols".to_owned()),
        })
    }

    /// Returns the engine's group, whose addresses are looked up if they are not known.
    async fn group(&self) -> Result<Arc<Group>, Failure> {
        let known = self.group.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(group) = known {
            return Ok(group);
        }
        let addresses = match &self.place {
            Place::Unix(path) => vec![Addr::Unix(path.as_str().into())],
            Place::Host { host, port, resolver } => {
                let found = outbound::addresses(resolver.as_ref(), host, *port).await;
                found.map_err(Failure::NoResponse)?.into_iter().map(Addr::Inet).collect()
            }
        };
        let options = ServerOptions { max_fails: 0, ..ServerOptions::default() };
        let member = Member::fixed(&self.authority, addresses, options);
        let manner = (BalancingMethod::RoundRobin, Keepalive::DEFAULT, GroupOptions::default());
        let group = Arc::new(Group::with(&self.authority, manner, vec![member], clock::now()));
        *self.group.lock().unwrap_or_else(PoisonError::into_inner) = Some(group.clone());
        Ok(group)
    }

    fn request(&self, group: Arc<Group>, target: &str, body: Option<String>) -> OriginRequest {
        let method = if body.is_some() { Method::Post } else { Method::Get };
        let name = if body.is_some() { "POST" } else { "GET" };
        let authority = &self.authority;
        let mut head = format!(
            "{name} {target} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: {USER_AGENT}\r\n\
             Accept: application/json\r\n"
        );
        let start = name.len() + 1;
        if let Some((name, value)) = self.login.as_ref().and_then(Login::field) {
            head += &format!("{name}: {value}\r\n");
        }
        if let Some(body) = &body {
            let length = body.len();
            head += &format!("Content-Type: application/json\r\nContent-Length: {length}\r\n");
        }
        head += "\r\n";
        let head = (OriginHead::Text(head.into_bytes()), start..start + target.len());
        let payload = body.map_or(RequestPayload::None, |body| RequestPayload::Bytes(body.into()));
        OriginRequest::own(group, method, head, payload, self.tls.clone())
    }
}
