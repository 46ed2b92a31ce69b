//! `docker_endpoint`: containers of Docker or Podman are servers of the groups that their labels name.
//!
//! ```nginx
//! http {
//!     docker_endpoint unix:/var/run/docker.sock;
//!     upstream shop { zone shop 1m; }
//! }
//! ```
//! A container with the label `angie.http.upstreams.shop.port=8080` is a server of the group. Labels with `stream` in place of
//! `http` are for groups of that block, which has a task of its own.

mod labels;
mod task;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Span, once, row};
use tidegate_plan::PlanBuilder;
use tidegate_plan::module::Module;
use tidegate_tls::{Protocols, TlsTarget};
use tidegate_upstream::Member;
use tidegate_upstream::care::BackgroundTasks;
use tidegate_upstream::resolve::{self, HostPort, Resolver};

use super::client::{Client, Place};
use super::kept::{Kept, Shown, ShownDiscovery};
use crate::outbound;
use crate::upstream::Groups;
use task::DockerTask;

pub(super) use labels::fuzz_labels;

/// The module of `docker_endpoint`.
pub struct Docker;

/// The directives of the `http` block.
#[derive(Default)]
pub struct Conf {
    endpoint: Option<Endpoint>,
    object_bytes_max: Option<u64>,
}

/// A `docker_endpoint` as written.
#[derive(Clone, Debug)]
struct Endpoint {
    place: Written,
    url: String,
    span: Span,
}

#[derive(Clone, Debug)]
enum Written {
    Unix(String),
    Host { host: String, port: u16, authority: String, tls: bool },
}

const OBJECT_BYTES_MAX: u64 = 128 * 1024;

const ROWS: &[Directive<Conf>] = &[
    row(
        "docker_endpoint",
        Contexts::HTTP,
        Arity::ONE,
        "",
        "Containers of Docker or Podman are servers of groups that have a `zone` and no `state`, by their labels: `unix:PATH`, `http://HOST[:PORT]` \
         (2375) or `https://HOST[:PORT]` (2376, verified by the system's certificates). `angie.http.upstreams.NAME.port` (for \
         groups of `stream`: `angie.stream.upstreams.NAME.port`) makes the container a server of the group NAME, beside those \
         of the configuration; `weight`, `max_conns`, `max_fails`, `fail_timeout`, `slow_start`, `sid` and `backup` (`true`, \
         `false`) in place of `port` are its parameters. Its address is that in the network of the label \
         `angie.http.upstreams.NAME.network`, else `angie.network`, else in the first one. The list is read at the start, and \
         again with each event of a container: one that has stopped is removed, a paused one is `down`. While the engine is not \
         there the servers stay.",
        endpoint,
    ),
    row(
        "docker_max_object_size",
        Contexts::HTTP,
        Arity::ONE,
        "128k",
        "The largest description of a container, in bytes; a larger one is left out, with a line in the log.",
        |conf: &mut Conf, args| once(&mut conf.object_bytes_max, args.size(0)?, args),
    ),
];

fn endpoint(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let text = args.text(0)?;
    let wrong = || {
        args.error(0, "invalid URL in \"docker_endpoint\"")
            .help("write `unix:/var/run/docker.sock` or `http://HOST:2375`")
    };
    let place = match (text.strip_prefix("unix:"), text.split_once("://")) {
        (Some(path), _) if path.starts_with('/') => Written::Unix(path.to_owned()),
        (None, Some((scheme @ ("http" | "https"), authority))) => {
            let tls = scheme == "https";
            let authority = authority.strip_suffix('/').unwrap_or(authority);
            let port = if tls { 2376 } else { 2375 };
            match resolve::parse(authority, port) {
                Ok(HostPort::Inet { host, port: written, .. }) if !authority.contains('/') => {
                    let port = written.unwrap_or(port);
                    Written::Host { host, port, authority: authority.to_owned(), tls }
                }
                _ => return Err(wrong()),
            }
        }
        _ => return Err(wrong()),
    };
    let written = Endpoint { place, url: text.to_owned(), span: args.word(0).span };
    once(&mut conf.endpoint, written, args)
}

/// The servers that containers are, by group: for the next configuration.
#[derive(Debug, Default)]
pub(crate) struct ContainerServers(Mutex<HashMap<String, Vec<Member>>>);

impl ContainerServers {
    fn of(&self, group: &str) -> Vec<Member> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(group).cloned().unwrap_or_default()
    }

    fn set(&self, group: &str, members: Vec<Member>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match members.is_empty() {
            true => all.remove(group),
            false => all.insert(group.to_owned(), members),
        };
    }
}

/// The containers of a plan that is being built; `None` without the directive.
#[derive(Default)]
pub(crate) struct Containers(Option<Joined>);

/// The servers of the configuration before, and those of this one: a task of that one may still change the first.
struct Joined {
    before: Arc<ContainerServers>,
    current: Arc<ContainerServers>,
}

impl Containers {
    /// Adds the servers that containers were in the configuration before to those that a group has now. Those that it has
    /// itself are no longer a container's.
    pub(crate) fn join(&self, group: &str, members: &mut Vec<Member>) {
        let Some(Joined { before, current }) = &self.0 else { return };
        let mut known = before.of(group);
        known.retain(|known| members.iter().all(|member| member.server != known.server));
        members.extend(known.iter().cloned());
        current.set(group, known);
    }
}

/// The endpoint of a configuration, from the build of `http` to that of `stream`.
#[derive(Default)]
struct Handed(Mutex<Option<(u64, Setup)>>);

/// What a task is made of.
#[derive(Clone)]
struct Setup {
    place: Written,
    url: String,
    tls: Option<TlsTarget>,
    resolver: Option<Resolver>,
    object_bytes_max: usize,
}

impl Module for Docker {
    type Conf = Conf;
    const NAME: &'static str = "docker";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];

    fn prepare_http(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        let setup =
            conf.endpoint.as_ref().map(|endpoint| setup(conf, endpoint, plan)).transpose()?;
        let handed = plan.environment.reload_state.get_or_make("docker", no_endpoint)?;
        let generation = plan.environment.generation;
        let mut slot = handed.0.lock().unwrap_or_else(PoisonError::into_inner);
        *slot = setup.clone().map(|setup| (generation, setup));
        drop(slot);
        follow(setup, plan)
    }

    fn prepare_stream(_conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        let handed = plan.environment.reload_state.get_or_make("docker", no_endpoint)?;
        let slot = handed.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let generation = plan.environment.generation;
        follow(slot.filter(|(of, _)| *of == generation).map(|(_, setup)| setup), plan)
    }
}

fn no_endpoint() -> Result<Handed, Diagnostic> {
    Ok(Handed::default())
}

fn setup(
    conf: &Conf,
    endpoint: &Endpoint,
    plan: &mut PlanBuilder<'_>,
) -> Result<Setup, Diagnostic> {
    let resolver = match plan.http_block() {
        Some(http) => outbound::resolver(http, plan)?,
        None => None,
    };
    let tls = match &endpoint.place {
        Written::Host { host, tls: true, .. } => {
            let owner = ("\"docker_endpoint\"", "use a socket");
            let options = outbound::tls_options(owner, None, true, endpoint.span, plan)?;
            let settings = Arc::new(outbound::tls(&options, endpoint.span)?);
            Some(TlsTarget::new(settings, host.as_bytes().into(), Protocols::default()))
        }
        _ => None,
    };
    let object_bytes_max = conf.object_bytes_max.unwrap_or(OBJECT_BYTES_MAX);
    plan.show(&(&endpoint.url, object_bytes_max));
    Ok(Setup {
        place: endpoint.place.clone(),
        url: endpoint.url.clone(),
        tls,
        resolver,
        object_bytes_max: usize::try_from(object_bytes_max).unwrap_or(usize::MAX),
    })
}

/// Begins to follow the engine for the groups of the block, once the plan is in use.
fn follow(setup: Option<Setup>, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
    let Some(Setup { place, url, tls, resolver, object_bytes_max }) = setup else { return Ok(()) };
    let block = if plan.in_stream() { "stream" } else { "http" };
    let key = format!("docker servers {block} {url}");
    let make = || Ok::<_, Diagnostic>(ContainerServers::default());
    let servers = plan.environment.reload_state.get_or_make(&key, make)?;
    let make = || Ok::<_, Diagnostic>(Kept::default());
    let kept = plan.environment.reload_state.get_or_make(&key, make)?;
    let current = Arc::new(ContainerServers::default());
    plan.share(Containers(Some(Joined { before: servers.clone(), current: current.clone() })));
    let shown = ShownDiscovery { kind: "docker", source: url, kept: kept.clone() };
    plan.extensions.entry::<Shown>().0.insert("docker_endpoint".to_owned(), shown);
    let (place, authority) = match place {
        Written::Unix(path) => (Place::Unix(path), "docker".to_owned()),
        Written::Host { host, port, authority, .. } => {
            (Place::Host { host, port, resolver }, authority)
        }
    };
    let task = DockerTask {
        client: Client::new(place, authority, tls),
        block,
        groups: plan.shared::<Groups>().clone(),
        current,
        servers,
        kept,
        object_bytes_max,
        log: plan.main.error_log.clone(),
    };
    plan.shared::<BackgroundTasks>().add(Arc::new(task));
    Ok(())
}
