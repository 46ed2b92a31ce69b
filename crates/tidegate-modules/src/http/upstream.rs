//! `upstream`: groups of servers that `proxy_pass` names.
//!
//! ```nginx
//! upstream backend {
//!     least_conn;
//!     server 192.0.2.1:8080 weight=5;
//!     server 192.0.2.2:8080 max_fails=3 fail_timeout=30s;
//!     server unix:/run/spare.sock backup;
//!     keepalive 32;
//! }
//! ```

mod rows;

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use tidegate_conf::{Contexts, Diagnostic, Directive, Span, Word};
use tidegate_core::builder::{Outline, PlanBuilder};
use tidegate_core::client::Address;
use tidegate_core::module::{BlockRow, Module};
use tidegate_core::variables::Variable;
use tidegate_core::{Exchange, Template};
use tidegate_upstream::{Group, Keepalive, Method, ServerOptions, resolve};

use super::gateway::variables;

/// `ngx_http_upstream_module` with its keepalive, zone and balancing companions.
pub struct Upstream;

/// One `upstream` block as written.
#[derive(Default)]
pub struct Conf {
    pub servers: Vec<ServerConf>,
    pub keepalive: Option<(u64, bool)>,
    pub keepalive_requests: Option<u64>,
    pub keepalive_time: Option<std::time::Duration>,
    pub keepalive_timeout: Option<std::time::Duration>,
    pub method: Option<(Method, Option<Word>)>,
    pub zone: Option<()>,
}

/// One `server`.
#[derive(Clone, Debug)]
pub struct ServerConf {
    pub address: String,
    pub options: ServerOptions,
    pub span: Span,
}

/// All groups by name, those of `upstream` blocks and those that a `proxy_pass` implies.
#[derive(Clone, Default)]
pub struct Groups(Arc<RwLock<Known>>);

#[derive(Default)]
struct Known {
    named: HashMap<String, Entry>,
    /// By scheme, plain and TLS: they differ in the port where none is written.
    implied: [HashMap<String, Arc<Group>>; 2],
}

#[derive(Clone)]
struct Entry {
    group: Arc<Group>,
    key: Option<GroupKey>,
}

/// What a group's choice depends on.
#[derive(Clone)]
pub enum GroupKey {
    /// `hash KEY`.
    Text(Template),
    /// `ip_hash`.
    Client,
}

impl GroupKey {
    /// The key of a request.
    pub fn value(&self, x: &mut Exchange) -> Vec<u8> {
        match self {
            GroupKey::Text(template) => template.value(x),
            GroupKey::Client => match x.client_address() {
                Address::Inet(address) => match address.ip() {
                    std::net::IpAddr::V4(ip) => ip.octets()[..3].to_vec(),
                    std::net::IpAddr::V6(ip) => ip.octets().to_vec(),
                },
                Address::Unix(_) => Vec::new(),
            },
        }
    }
}

impl Groups {
    /// The group of this name, or the one implied by a directive with the same scheme.
    pub fn find(&self, name: &str, tls: bool) -> Option<Arc<Group>> {
        let groups = self.0.read().unwrap_or_else(PoisonError::into_inner);
        match groups.named.get(name) {
            Some(entry) => Some(entry.group.clone()),
            None => groups.implied[usize::from(tls)].get(name).cloned(),
        }
    }

    /// What the choice in the group of this name depends on.
    pub fn key(&self, name: &str) -> Option<GroupKey> {
        let groups = self.0.read().unwrap_or_else(PoisonError::into_inner);
        groups.named.get(name).and_then(|entry| entry.key.clone())
    }

    /// Adds a group that an address in a directive implies.
    pub fn add_implicit(&self, name: &str, tls: bool, group: Arc<Group>) {
        let mut groups = self.0.write().unwrap_or_else(PoisonError::into_inner);
        groups.implied[usize::from(tls)].entry(name.to_owned()).or_insert(group);
    }

    fn add(&self, name: &str, entry: Entry) -> bool {
        let mut groups = self.0.write().unwrap_or_else(PoisonError::into_inner);
        groups.named.insert(name.to_owned(), entry).is_none()
    }
}

impl Module for Upstream {
    type Conf = Conf;
    const NAME: &'static str = "upstream";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[rows::ROWS];
    const BLOCKS: &'static [BlockRow] =
        &[BlockRow { name: "upstream", within: Contexts::HTTP, opens: Contexts::UPSTREAM }];
    const VARIABLES: &'static [Variable] = variables::VARIABLES;

    fn prepare_http(_conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        let groups = plan.shared::<Groups>().clone();
        let Some(http) = plan.http_block() else { return Ok(()) };
        for outline in http.blocks("upstream") {
            match entry(outline, plan) {
                Ok((name, entry)) => {
                    if !groups.add(&name, entry) {
                        let message = format!("duplicate upstream \"{name}\"");
                        plan.diagnostics.push(Diagnostic::emerg(message).at(outline.span));
                    }
                }
                Err(diagnostic) => plan.diagnostics.push(diagnostic),
            }
        }
        Ok(())
    }
}

const PORT: u16 = 80;

/// Makes a block's group, or finds the one that an equal block has left.
fn entry(outline: &Outline, plan: &mut PlanBuilder<'_>) -> Result<(String, Entry), Diagnostic> {
    let name = outline.args.first().map(|word| word.display().into_owned()).unwrap_or_default();
    let empty = Conf::default();
    let conf = outline.conf::<Upstream>().unwrap_or(&empty);
    if conf.servers.is_empty() {
        let message = "no servers are inside upstream";
        return Err(Diagnostic::emerg(message).at(outline.span));
    }
    let mut servers = Vec::new();
    for server in &conf.servers {
        let fail = |what: &str| {
            let message = format!("{what} in upstream \"{}\"", server.address);
            Diagnostic::emerg(message).at(server.span)
        };
        let host = resolve::parse(&server.address, PORT).map_err(fail)?;
        for address in resolve::addresses(&host, PORT).map_err(fail)? {
            servers.push((server.address.clone(), address, server.options.clone()));
        }
    }
    let keepalive = keepalive(conf);
    let method = conf.method.as_ref().map_or(Method::RoundRobin, |(method, _)| *method);
    let identity = format!("upstream {name} {method:?} {keepalive:?} {servers:?}");
    let make = || Ok::<_, Diagnostic>(Group::new(&name, method, keepalive, servers));
    let group = plan.environment.survivors.get_or_make(&identity, make)?;
    let key = match &conf.method {
        Some((Method::IpHash, _)) => Some(GroupKey::Client),
        Some((_, Some(word))) => Some(GroupKey::Text(plan.template(word)?)),
        _ => None,
    };
    Ok((name, Entry { group, key }))
}

fn keepalive(conf: &Conf) -> Keepalive {
    let default = Keepalive::DEFAULT;
    let (idle_max, local) = match conf.keepalive {
        Some((count, local)) => (usize::try_from(count).unwrap_or(usize::MAX), local),
        None => (default.idle_max, default.local),
    };
    Keepalive {
        idle_max,
        local,
        requests_max: conf.keepalive_requests.unwrap_or(default.requests_max),
        age_max: conf.keepalive_time.unwrap_or(default.age_max),
        idle_time_max: conf.keepalive_timeout.unwrap_or(default.idle_time_max),
    }
}
