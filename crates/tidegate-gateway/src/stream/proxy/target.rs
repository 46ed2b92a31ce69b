//! The group of servers of a `proxy_pass`.

use std::sync::Arc;
use std::time::Instant;

use tidegate_conf::{Diagnostic, Word};
use tidegate_core::{Exchange, Level, Template};
use tidegate_plan::PlanBuilder;
use tidegate_rt::clock;
use tidegate_rt::net::Addr;
use tidegate_upstream::peers::address_text;
use tidegate_upstream::resolve::{self, HostPort, HostPortError, Resolver};
use tidegate_upstream::{BalancingMethod, Group, Keepalive, ServerOptions};

use crate::upstream::{GroupKey, Groups};
use tidegate_core::Refused;

/// The destination of a `proxy_pass`.
#[derive(Debug)]
pub(crate) enum SessionPass {
    Fixed(SessionTarget),
    Variable(Template, Groups),
}

/// A group, and the inputs of the choice in it.
#[derive(Debug, Clone)]
pub(crate) struct SessionTarget {
    pub group: Arc<Group>,
    pub key: Option<GroupKey>,
}

/// Compiles a `proxy_pass`; names are resolved now.
pub(crate) fn compile(word: &Word, plan: &mut PlanBuilder<'_>) -> Result<SessionPass, Diagnostic> {
    let groups = plan.shared::<Groups>().clone();
    if word.bytes.contains(&b'$') {
        return Ok(SessionPass::Variable(plan.template(word)?, groups));
    }
    let text = word.display();
    if let Some(target) = known(&groups, &text) {
        return Ok(SessionPass::Fixed(target));
    }
    groups.check_port(&text).map_err(|what| Diagnostic::emerg(what).at(word.span))?;
    let error = |what: HostPortError| {
        Diagnostic::emerg(format!("{what} in upstream \"{text}\"")).at(word.span)
    };
    let host = address(&text).map_err(error)?;
    let look_up = |host: &str| plan.environment.resources.addresses(host);
    let servers = resolve::addresses(&host, 0, look_up).map_err(error)?;
    let servers: Vec<_> = servers
        .into_iter()
        .map(|address| (address_text(&address), address, ServerOptions::default()))
        .collect();
    let identity = format!("implicit stream {text} {servers:?}");
    let make = || {
        let (method, now) = (BalancingMethod::RoundRobin, clock::now());
        Ok::<_, Diagnostic>(Group::new(&text, method, Keepalive::OFF, servers, now))
    };
    let group = plan.environment.reload_state.get_or_make(&identity, make)?;
    Ok(SessionPass::Fixed(SessionTarget { group, key: None }))
}

/// Returns an `upstream` by its name.
fn known(groups: &Groups, name: &str) -> Option<SessionTarget> {
    Some(SessionTarget { group: groups.find(name, false)?, key: groups.key(name) })
}

/// Reads an address, whose port must be written.
fn address(text: &str) -> Result<HostPort, HostPortError> {
    let host = resolve::parse(text, 0)?;
    match &host {
        HostPort::Inet { port: None, .. } => Err(HostPortError::NoPort),
        _ => Ok(host),
    }
}

impl SessionPass {
    /// Returns the target of a session at `now`.
    ///
    /// # Errors
    /// There is none; the reason was logged.
    pub(crate) async fn target(
        &self,
        x: &mut Exchange,
        resolver: Option<&Resolver>,
        now: Instant,
    ) -> Result<SessionTarget, Refused> {
        let (template, groups) = match self {
            SessionPass::Fixed(target) => return Ok(target.clone()),
            SessionPass::Variable(template, groups) => (template, groups),
        };
        let text = template.value(x);
        let text = String::from_utf8_lossy(&text).into_owned();
        if let Some(target) = known(groups, &text) {
            return Ok(target);
        }
        let failed = |x: &mut Exchange, what: HostPortError| {
            x.log(Level::Error, format_args!("{what} in upstream \"{text}\""));
            Refused::INTERNAL
        };
        let addresses = match address(&text).map_err(|what| failed(x, what))? {
            HostPort::Unix(path) => vec![Addr::Unix(path.into())],
            HostPort::Inet { literal: Some(address), .. } => vec![address.into()],
            HostPort::Inet { host, port, .. } => {
                let port = port.unwrap_or_default();
                resolved(x, resolver, (&host, port), now).await?
            }
        };
        Ok(SessionTarget { group: Arc::new(Group::transient(&text, addresses, now)), key: None })
    }
}

async fn resolved(
    x: &mut Exchange,
    resolver: Option<&Resolver>,
    (name, port): (&str, u16),
    now: Instant,
) -> Result<Vec<Addr>, Refused> {
    let Some(resolver) = resolver else {
        x.log(Level::Error, format_args!("no resolver defined to resolve {name}"));
        return Err(Refused::INTERNAL);
    };
    match Box::pin(resolver.resolve(name, now)).await {
        Ok(addresses) => {
            let with_port = |ip| Addr::Inet(std::net::SocketAddr::new(ip, port));
            Ok(addresses.into_iter().map(with_port).collect())
        }
        Err(error) => {
            x.log(Level::Error, format_args!("{name} could not be resolved ({error})"));
            Err(Refused::INTERNAL)
        }
    }
}
