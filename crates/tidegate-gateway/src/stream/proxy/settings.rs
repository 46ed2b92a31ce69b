//! The compiled settings of a server with `proxy_pass`.

use std::time::Duration;

use tidegate_conf::{Diagnostic, Word};
use tidegate_core::{Exchange, Template};
use tidegate_plan::{LocationBuilder, PlanBuilder};
use tidegate_upstream::relay::EndCondition;
use tidegate_upstream::resolve::Resolver;

use super::conf::{Conf, Header};
use super::target::{self, SessionPass};
use crate::common::settings;
use crate::common::tls::{self, GatewayTls};

/// The settings of a session.
#[derive(Debug)]
pub(crate) struct Settings {
    pub pass: SessionPass,
    /// `proxy_connect_timeout`
    pub connect_timeout: Duration,
    /// `proxy_timeout`.
    pub timeout: Duration,
    /// `proxy_buffer_size`: bytes of each direction's buffer.
    pub buffer_bytes: usize,
    /// `proxy_bind`; the flag is `transparent`.
    pub bind: Option<(Template, bool)>,
    pub socket_keepalive: bool,
    /// `None`: the operating system's default.
    pub rcvbuf: Option<usize>,
    pub sndbuf: Option<usize>,
    upload_rate: Option<Template>,
    download_rate: Option<Template>,
    /// Datagrams of a session; 0 for no limit.
    pub requests: u64,
    /// Responses to each of them; `None`: any number.
    pub responses: Option<u64>,
    /// `proxy_next_upstream`
    pub next_upstream: bool,
    /// Number of tries; 0 for no limit.
    pub tries: u32,
    /// Time for all tries; zero for no limit.
    pub tries_time: Duration,
    pub protocol: Header,
    /// `proxy_half_close`
    pub closing: EndCondition,
    pub tls: Option<GatewayTls>,
    /// For names that are known only per session.
    pub resolver: Option<Resolver>,
}

const SECOND: Duration = Duration::from_secs(1);
const BUFFER_BYTES: u64 = 16 * 1024;

/// Compiles a server's settings: the defaults of all directives are filled in here, and a 0 becomes its meaning.
///
/// # Errors
/// An invalid or unknown address, an invalid text with variables, unusable TLS files, an invalid `resolver`.
pub(crate) fn compile(
    conf: &Conf,
    word: &Word,
    server: &mut LocationBuilder<'_, '_>,
) -> Result<Settings, Diagnostic> {
    let core = &server.location.settings;
    let resolver = match core.resolver.is_empty() {
        true => None,
        false => {
            let look_up = |host: &str| server.plan.environment.resources.addresses(host);
            let resolver = Resolver::parse(&core.resolver, core.resolver_timeout, look_up);
            Some(resolver.map_err(|error| Diagnostic::emerg(error.to_string()))?)
        }
    };
    let plan = &mut *server.plan;
    let gateway = &conf.gateway;
    let tls = match conf.ssl.unwrap_or(false) {
        true => Some(tls::compile(&gateway.tls, "proxy_", plan, word.span)?),
        false => None,
    };
    let size = |bytes: Option<u64>| bytes.filter(|bytes| *bytes > 0).map(|bytes| bytes as usize);
    let tries = gateway.next_upstream_tries.unwrap_or(0);
    Ok(Settings {
        pass: target::compile(word, plan)?,
        connect_timeout: gateway.connect_timeout.unwrap_or(60 * SECOND),
        timeout: conf.timeout.unwrap_or(600 * SECOND),
        buffer_bytes: gateway.buffer_size.unwrap_or(BUFFER_BYTES) as usize,
        bind: settings::bind(gateway, plan)?,
        socket_keepalive: gateway.socket_keepalive.unwrap_or(false),
        rcvbuf: size(conf.rcvbuf),
        sndbuf: size(conf.sndbuf),
        upload_rate: rate(conf.upload_rate.as_ref(), plan)?,
        download_rate: rate(conf.download_rate.as_ref(), plan)?,
        requests: conf.requests.unwrap_or(0),
        responses: conf.responses,
        next_upstream: conf.next_upstream.unwrap_or(true),
        tries: u32::try_from(tries).unwrap_or(u32::MAX),
        tries_time: gateway.next_upstream_timeout.unwrap_or_default(),
        protocol: conf.protocol.unwrap_or(Header::None),
        closing: match conf.half_close.unwrap_or(false) {
            true => EndCondition::Both,
            false => EndCondition::Either,
        },
        tls,
        resolver,
    })
}

fn rate(word: Option<&Word>, plan: &mut PlanBuilder<'_>) -> Result<Option<Template>, Diagnostic> {
    word.filter(|word| word.bytes != b"0").map(|word| plan.template(word)).transpose()
}

impl Settings {
    /// Returns the bytes a second from the client; 0 for no limit.
    pub(crate) fn upload_rate(&self, x: &mut Exchange) -> u64 {
        value(self.upload_rate.as_ref(), x)
    }

    /// Returns the bytes a second from the origin; 0 for no limit.
    pub(crate) fn download_rate(&self, x: &mut Exchange) -> u64 {
        value(self.download_rate.as_ref(), x)
    }
}

fn value(rate: Option<&Template>, x: &mut Exchange) -> u64 {
    let text = rate.map(|rate| rate.value(x));
    text.and_then(|text| tidegate_conf::parse_size(&text)).unwrap_or(0)
}
