//! One health check of one server by HTTP: a request as the location would make it, without a client.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use tidegate_codec::request::Method as HttpMethod;
use tidegate_core::body::{BodyStream, Chunk};
use tidegate_rt::clock;
use tidegate_upstream::care::checks::{CheckFailure, Probe};
use tidegate_upstream::{
    HeadList, ListFields, OriginBody, OriginHead, OriginRequest, OriginResponse, Peer,
    RequestPayload, TextFields, Wire,
};

use super::common::{CheckedServers, ProbeError, fetch, limited, write_fields};
use super::rule::MatchRules;
use crate::proxy::conf::OriginVersion;
use crate::proxy::settings::ProxySettings;

/// A health check by HTTP.
pub(super) struct HttpProbe {
    settings: Arc<ProxySettings>,
    uri: String,
    rules: Option<Arc<MatchRules>>,
    servers: CheckedServers,
}

/// Bytes of a body that are checked (directive `match`).
const BODY_BYTES_MAX: usize = 256 * 1024;

impl Probe for HttpProbe {
    fn check(
        self: Arc<Self>,
        peer: Arc<Peer>,
    ) -> Pin<Box<dyn Future<Output = Result<(), CheckFailure>>>> {
        Box::pin(async move { limited(&self.settings.gateway.fetch, self.send(&peer)).await })
    }
}

impl HttpProbe {
    pub(super) fn new(
        settings: Arc<ProxySettings>,
        uri: &str,
        rules: Option<Arc<MatchRules>>,
        servers: CheckedServers,
    ) -> HttpProbe {
        HttpProbe { settings, uri: uri.to_owned(), rules, servers }
    }

    /// Sends the request and judges the response: by its `match`, or that the status is 2xx or 3xx (`health_check`).
    ///
    /// Cancelling: the limit in `check` and the end of the plan drop this at any await, which closes the connection.
    async fn send(&self, peer: &Arc<Peer>) -> Result<(), ProbeError> {
        let request = self.request(peer, clock::now());
        let OriginResponse { head, body, .. } =
            fetch(request, &self.settings.gateway, &self.servers).await?;
        match &self.rules {
            None if (200..400).contains(&head.status) => Ok(()),
            None => Err(ProbeError::Status(head.status)),
            Some(rules) => {
                let body = match rules.needs_body() {
                    true => read(body).await?,
                    false => Vec::new(),
                };
                rules.judge(&head, &body).map_err(ProbeError::Mismatch)
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
    fn request(&self, peer: &Arc<Peer>, now: Instant) -> OriginRequest {
        let settings = &self.settings;
        let line = format!("GET {}", self.uri).into_bytes();
        let target = 4..line.len();
        let host = settings.pass.fixed_host();
        let (head, wire) = match settings.version {
            OriginVersion::H2 => {
                let mut list = HeadList::new(&line, target.clone());
                write_fields(&settings.fields, &[], host, ListFields::new(&mut list));
                (OriginHead::List(Box::new(list)), Wire::Http2 { grpc: false })
            }
            version => {
                let mut head = line;
                head.extend_from_slice(match version {
                    OriginVersion::H10 => b" HTTP/1.0\r\n",
                    _ => b" HTTP/1.1\r\n",
                });
                let has_connection =
                    write_fields(&settings.fields, &[], host, TextFields::new(&mut head));
                if !has_connection && !self.servers.keeps_connections() {
                    head.extend_from_slice(b"Connection: close\r\n");
                }
                head.extend_from_slice(b"\r\n");
                (OriginHead::Text(head), Wire::Http)
            }
        };
        let group = self.servers.group(peer, now);
        let tls = settings.tls.as_ref().map(|tls| tls.fixed_target(host));
        let (head, payload) = ((head, target), RequestPayload::None);
        OriginRequest {
            reuse: self.servers.reuse(),
            wire,
            ..OriginRequest::own(group, HttpMethod::Get, head, payload, tls)
        }
    }
}

async fn read(body: OriginBody) -> Result<Vec<u8>, ProbeError> {
    let mut stream = match body {
        OriginBody::Whole(bytes) => return Ok(bytes.to_vec()),
        OriginBody::Stream(stream) => stream,
        OriginBody::Upgraded(_) => return Err(ProbeError::Upgraded),
    };
    let mut text = Vec::new();
    while text.len() < BODY_BYTES_MAX {
        match poll_fn(|context| stream.poll_chunk(context)).await {
            None => break,
            Some(Ok(Chunk::Bytes(bytes))) => text.extend_from_slice(&bytes),
            Some(Ok(_)) => {}
            Some(Err(_)) => return Err(ProbeError::Incomplete),
        }
    }
    text.truncate(BODY_BYTES_MAX);
    Ok(text)
}
