//! `set_real_ip_from`: the client's address as a trusted proxy reports it, for all later phases: rules, limits,
//! variables, logs.
//!
//! ```nginx
//! set_real_ip_from  10.0.0.0/8;
//! set_real_ip_from  unix:;
//! real_ip_header    X-Forwarded-For;
//! real_ip_recursive on;
//! ```

mod logic;
#[cfg(test)]
mod tests;

use std::rc::Rc;
use std::sync::Arc;

use tidegate_codec::Known;
use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, once, row};
use tidegate_core::client::{Address, ClientAddress};
use tidegate_core::variables::Variable;
use tidegate_core::{Exchange, Phase, Step};
use tidegate_plan::module::{BlockInfo, Module};
use tidegate_plan::{LocationBuilder, PlanBuilder};

pub(crate) use logic::{Trusted, client, is_trusted};
use tidegate_conf::network::{self, Network};

/// `ngx_http_realip_module`.
pub(crate) struct RealIp;

/// The directives of one block.
#[derive(Default)]
pub(crate) struct Conf {
    /// Shared with the blocks that inherit them.
    trusted: Arc<Vec<Trusted>>,
    header: Option<AddressSource>,
    recursive: Option<bool>,
    warnings: Vec<Diagnostic>,
}

/// The source of the address.
#[derive(Clone, Debug, PartialEq, Eq)]
enum AddressSource {
    XRealIp,
    XForwardedFor,
    ProxyProtocol,
    Field(Box<[u8]>),
}

impl Module for RealIp {
    type Conf = Conf;
    const NAME: &'static str = "realip";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];
    const VARIABLES: &'static [Variable] = VARIABLES;
    const SESSION_VARIABLES: &'static [Variable] = VARIABLES;

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        if child.trusted.is_empty() {
            child.trusted.clone_from(&parent.trusted);
        }
        if child.header.is_none() {
            child.header.clone_from(&parent.header);
        }
        child.recursive = child.recursive.or(parent.recursive);
    }

    fn prepare_http(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        plan.diagnostics.extend(conf.warnings.iter().cloned());
        Ok(())
    }

    fn prepare_stream(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        RealIp::prepare_http(conf, plan)
    }

    fn prepare_session(
        conf: &Conf,
        server: &mut LocationBuilder<'_, '_>,
    ) -> Result<(), Diagnostic> {
        server.plan.diagnostics.extend(conf.warnings.iter().cloned());
        if !conf.trusted.is_empty() {
            // A session has no other source.
            let rules = RealIpRules {
                trusted: conf.trusted.clone(),
                source: AddressSource::ProxyProtocol,
                recursive: false,
            };
            server.handler(Phase::PostRead, Box::new(move |x| rules.apply(x)));
        }
        Ok(())
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        location.plan.diagnostics.extend(conf.warnings.iter().cloned());
        if conf.trusted.is_empty() {
            return Ok(());
        }
        let rules = Arc::new(RealIpRules {
            trusted: conf.trusted.clone(),
            source: conf.header.clone().unwrap_or(AddressSource::XRealIp),
            recursive: conf.recursive.unwrap_or(false),
        });
        location.plan.show(&rules);
        // First with the server's settings, so that its rewrites see the client; then with the location's, unless
        // the client is already known.
        for phase in [Phase::PostRead, Phase::Preaccess] {
            let rules = rules.clone();
            location.handler(phase, Box::new(move |x| rules.apply(x)));
        }
        Ok(())
    }
}

const VARIABLES: &[Variable] = &[
    Variable::fixed(
        "realip_remote_addr",
        "Client's address before `set_real_ip_from` changed it.",
        |x, out| {
            out.extend_from_slice(x.connection.peer_text().as_bytes());
            true
        },
    ),
    Variable::fixed(
        "realip_remote_port",
        "Client's port before `set_real_ip_from` changed it.",
        |x, out| {
            if let Some(port) = x.connection.peer.port() {
                out.extend_from_slice(port.to_string().as_bytes());
            }
            true
        },
    ),
];

const ROWS: &[Directive<Conf>] = &[
    row(
        "set_real_ip_from",
        Contexts::HTTP_SERVER_LOCATION.union(Contexts::STREAM_AND_SERVER),
        Arity::ONE,
        "",
        "A proxy that is believed: an address, a network, a host name, or `unix:` for Unix sockets.",
        trust,
    ),
    row(
        "real_ip_header",
        Contexts::HTTP_SERVER_LOCATION,
        Arity::ONE,
        "X-Real-IP",
        "The request field with the client's address, or `proxy_protocol`.",
        |conf, args| once(&mut conf.header, source(args.bytes(0)), args),
    ),
    row(
        "real_ip_recursive",
        Contexts::HTTP_SERVER_LOCATION,
        Arity::FLAG,
        "off",
        "Whether the client's address is the last one that is not a trusted proxy's, and not the last of all.",
        |conf, args| once(&mut conf.recursive, args.flag(0)?, args),
    ),
];

fn trust(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let text = args.text(0)?;
    if text == "unix:" {
        Arc::make_mut(&mut conf.trusted).push(Trusted::Unix);
        return Ok(());
    }
    if let Some((network, exact)) = Network::parse(text) {
        if !exact {
            conf.warnings.push(network::meaningless_bits(args, 0));
        }
        Arc::make_mut(&mut conf.trusted).push(Trusted::Network(network));
        return Ok(());
    }
    let failed = || args.error(0, format!("host not found in set_real_ip_from \"{text}\""));
    if text.is_empty() || text.contains(['/', ':']) {
        return Err(failed());
    }
    for ip in args.names.addresses(text).map_err(|_| failed())? {
        Arc::make_mut(&mut conf.trusted).push(Trusted::Network(Network::single(ip)));
    }
    Ok(())
}

fn source(name: &[u8]) -> AddressSource {
    if name == b"proxy_protocol" {
        return AddressSource::ProxyProtocol;
    }
    match Known::of(name) {
        Known::XRealIp => AddressSource::XRealIp,
        Known::XForwardedFor => AddressSource::XForwardedFor,
        _ => AddressSource::Field(name.into()),
    }
}

/// The settings of a location.
#[derive(Debug)]
struct RealIpRules {
    trusted: Arc<Vec<Trusted>>,
    source: AddressSource,
    recursive: bool,
}

impl RealIpRules {
    fn apply(&self, x: &mut Exchange) -> Step<'static> {
        if x.request.real_client_address.is_none()
            && is_trusted(&self.trusted, &x.connection.peer)
            && let Some(reported) = self.reported(x)
        {
            x.request.real_client_address =
                Some(Rc::new(ClientAddress::from(Address::Inet(reported))));
        }
        Step::Decline
    }

    fn reported(&self, x: &Exchange) -> Option<std::net::SocketAddr> {
        let headers = &x.request.head.headers;
        let one = |value| client([value].into_iter(), &self.trusted, self.recursive);
        match &self.source {
            AddressSource::ProxyProtocol => x.connection.proxy_protocol.as_ref()?.client,
            AddressSource::XRealIp => one(headers.first(Known::XRealIp)?),
            AddressSource::Field(name) => one(headers.first_named(name)?),
            AddressSource::XForwardedFor => {
                let values: Vec<&[u8]> = headers.all(Known::XForwardedFor).collect();
                client(values.into_iter(), &self.trusted, self.recursive)
            }
        }
    }
}
