//! One health check of one server: a request as the location would make it, without a client.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_core::body::{BodyStream, Chunk};
use tidegate_core::error_log::ErrorLog;
use tidegate_http::request::Method as HttpMethod;
use tidegate_rt::net::Addr;
use tidegate_rt::timer;
use tidegate_upstream::care::checks::Probe;
use tidegate_upstream::peers::Choice;
use tidegate_upstream::request::Keeping;
use tidegate_upstream::{
    Group, Keepalive, LogContext, Member, Method, OriginBody, OriginRequest, OriginResponse, Peer,
    Report, RequestPayload, ServerOptions,
};

use super::rule::Rules;
use crate::common::pass::To;
use crate::proxy::conf::Version;
use crate::proxy::settings::{FieldValue, ProxySettings};

/// Asks by HTTP.
pub(super) struct HttpProbe {
    settings: Arc<ProxySettings>,
    uri: String,
    rules: Option<Arc<Rules>>,
    port: Option<u16>,
    /// How long one connection is used (`keepalive_time`).
    keepalive_time: Option<Duration>,
    log: ErrorLog,
    /// By the server's id: the group of it alone, which keeps its connection.
    targets: Mutex<HashMap<u64, Arc<Group>>>,
}

/// As much of a body is looked at (directive `match`).
const BODY_BYTES_MAX: usize = 256 * 1024;

impl Probe for HttpProbe {
    fn check(
        self: Arc<Self>,
        peer: Arc<Peer>,
    ) -> Pin<Box<dyn Future<Output = Result<(), String>>>> {
        Box::pin(async move {
            let fetch = &self.settings.gateway.fetch;
            // Each step has its own limit; a body that trickles has none but this.
            let limit = fetch.connect_timeout * 2 + fetch.send_timeout + fetch.read_timeout;
            match timer::timeout(limit, self.ask(&peer)).await {
                Ok(result) => result,
                Err(_) => Err("it takes too long".to_owned()),
            }
        })
    }
}

impl HttpProbe {
    pub(super) fn new(
        settings: Arc<ProxySettings>,
        uri: &str,
        rules: Option<Arc<Rules>>,
        port: Option<u16>,
        keepalive_time: Option<Duration>,
        log: ErrorLog,
    ) -> HttpProbe {
        let (uri, targets) = (uri.to_owned(), Mutex::default());
        HttpProbe { settings, uri, rules, port, keepalive_time, log, targets }
    }

    async fn ask(&self, peer: &Peer) -> Result<(), String> {
        let request = self.request(peer);
        let fetch = self.settings.gateway.fetch.clone();
        let log = LogContext::detached(self.log.clone());
        let answer = tidegate_upstream::fetch(request, fetch, Report::shared(), log).await;
        let OriginResponse { head, body, .. } = match answer {
            Ok(response) => response,
            Err(error) if error.invalid_header => return Err("no valid answer".to_owned()),
            Err(error) if error.status == 504 => return Err("no answer in time".to_owned()),
            Err(_) => return Err("no answer".to_owned()),
        };
        match &self.rules {
            None if (200..400).contains(&head.status) => Ok(()),
            None => Err(format!("status {}", head.status)),
            Some(rules) => {
                let body = match rules.needs_body() {
                    true => read(body).await?,
                    false => Vec::new(),
                };
                rules.judge(&head, &body).map_err(str::to_owned)
            }
        }
    }

    fn request(&self, peer: &Peer) -> OriginRequest {
        let settings = &self.settings;
        let mut head = format!("GET {} ", self.uri).into_bytes();
        let target = 4..head.len() - 1;
        head.extend_from_slice(match settings.version {
            Version::H10 => b"HTTP/1.0\r\n",
            Version::H11 => b"HTTP/1.1\r\n",
        });
        let host = match &settings.pass.to {
            To::Fixed(target, _) => target.host.clone(),
            To::Variable(..) => Vec::new(),
        };
        let mut has_connection = false;
        for (name, value) in &settings.fields.set {
            let is_host = name.eq_ignore_ascii_case(b"Host");
            let value = match value {
                FieldValue::ProxyHost => &host[..],
                // Variables are of requests, and there is none.
                FieldValue::Template(template) | FieldValue::Host(template) => {
                    match template.literal() {
                        Some(text) => text,
                        None if is_host => &host,
                        None => continue,
                    }
                }
                FieldValue::BodyLength | FieldValue::Chunked => continue,
            };
            has_connection |= name.eq_ignore_ascii_case(b"Connection");
            for piece in [name, &b": "[..], value, b"\r\n"] {
                head.extend_from_slice(piece);
            }
        }
        if !has_connection && self.keepalive_time.is_none() {
            head.extend_from_slice(b"Connection: close\r\n");
        }
        head.extend_from_slice(b"\r\n");
        OriginRequest {
            group: self.target(peer),
            choice: Choice::default(),
            method: HttpMethod::Get,
            head,
            target,
            payload: RequestPayload::None,
            local: None,
            paced: false,
            interim: None,
            keeping: match self.keepalive_time {
                Some(_) => Keeping::AsGroup,
                None => Keeping::Never,
            },
            upgrade: false,
            location_tag: 0,
            tls: settings.tls.as_ref().map(|tls| tls.fixed_target(&host)),
            wire: Default::default(),
        }
    }

    /// A group of the one server.
    fn target(&self, peer: &Peer) -> Arc<Group> {
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
            let options = Default::default();
            Arc::new(Group::with(&peer.text, Method::RoundRobin, keepalive, options, vec![member]))
        };
        targets.entry(peer.id).or_insert_with(make).clone()
    }
}

async fn read(body: OriginBody) -> Result<Vec<u8>, String> {
    let mut stream = match body {
        OriginBody::Whole(bytes) => return Ok(bytes.to_vec()),
        OriginBody::Stream(stream) => stream,
        OriginBody::Upgraded(_) => return Err("it switches protocols".to_owned()),
    };
    let mut text = Vec::new();
    while text.len() < BODY_BYTES_MAX {
        match poll_fn(|context| stream.poll_chunk(context)).await {
            None => break,
            Some(Ok(Chunk::Bytes(bytes))) => text.extend_from_slice(&bytes),
            Some(Ok(_)) => {}
            Some(Err(_)) => return Err("the answer breaks off".to_owned()),
        }
    }
    text.truncate(BODY_BYTES_MAX);
    Ok(text)
}
