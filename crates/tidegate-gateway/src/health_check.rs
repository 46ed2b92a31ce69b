//! `health_check`: the servers of a group are checked regularly, and get no requests while they are unhealthy.
//!
//! ```nginx
//! match welcome { status 200-299; header Content-Type ~ text; body ~ "Welcome"; }
//! location / {
//!     proxy_pass http://backend;
//!     health_check interval=3s fails=2 passes=2 uri=/health match=welcome;
//! }
//! location /greet.Greeter/ {
//!     grpc_pass grpc://greeters;
//!     health_check mandatory type=grpc grpc_service=greet.Greeter;
//! }
//! ```
//!
//! `probe` checks by HTTP and `grpc` by the gRPC health checking protocol, whose messages are in `serving`; `common` is
//! the part of both. `rule` has the conditions of `match`.

mod common;
mod grpc;
mod probe;
mod rule;
pub(crate) mod schedule;
mod serving;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Kind, row};
use tidegate_plan::module::Module;
use tidegate_plan::{LocationBuilder, PlanBuilder};
use tidegate_upstream::Group;
use tidegate_upstream::care::checks::Probe;

use self::common::CheckedServers;
use self::grpc::GrpcProbe;
use crate::common::pass::{Pass, PassDestination};
use crate::grpc::settings::GrpcSettings;
use crate::proxy::settings::ProxySettings;
use probe::HttpProbe;
use rule::MatchRules;
use schedule::{MatchBlocks, Schedule};

/// `ngx_http_upstream_hc_module`: the directives `health_check` and `match`. A check of a location becomes a task of
/// the background thread; request processing is unaffected.
pub struct HealthCheck;

/// The settings of one block.
#[derive(Default)]
pub struct Conf {
    checks: Vec<CheckConf>,
    rules: MatchBlocks,
}

/// One `health_check`.
#[derive(Clone, Debug)]
struct CheckConf {
    schedule: Schedule,
    keepalive_time: Option<Duration>,
    kind: CheckKind,
}

/// What a check sends.
#[derive(Clone, Debug)]
enum CheckKind {
    /// A GET of this URI.
    Http { uri: String },
    /// A call of the gRPC health checking protocol (`type=grpc`).
    Grpc {
        /// The service, empty for the whole server (`grpc_service`).
        service: String,
        /// A further status that passes (`grpc_status`).
        status: Option<u32>,
    },
}

impl Module for HealthCheck {
    type Conf = Conf;
    const NAME: &'static str = "upstream_hc";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];

    fn prepare_http(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        conf.rules.compile(plan, MatchRules::compile)
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        conf.checks.iter().try_for_each(|check| begin(check, location))
    }
}

const ROWS: &[Directive<Conf>] = &[
    row(
        "health_check",
        Contexts::LOCATION,
        Arity::ANY,
        "",
        "Sends requests to the servers of the location's group periodically, to check that they are healthy.",
        |conf, args| {
            conf.checks.push(parse(args)?);
            Ok(())
        },
    ),
    Directive {
        name: "match",
        contexts: Contexts::HTTP,
        args: Arity::ONE,
        kind: Kind::Block,
        default: "",
        doc: "Conditions that a response to a health check must meet.",
        has_effect: true,
        set: |conf, args| conf.rules.add(args),
    },
];

fn parse(args: &Args<'_>) -> Result<CheckConf, Diagnostic> {
    let mut check_uri = None;
    let mut keepalive_time = None;
    let mut grpc = None;
    let schedule = Schedule::parse(args, |index, name, value| {
        let invalid = || args.invalid_parameter(index);
        match (name, value) {
            ("keepalive_time", Some(time)) => {
                let time = tidegate_conf::parse_milliseconds(time.as_bytes());
                keepalive_time = Some(time.ok_or_else(invalid)?);
            }
            ("uri", Some(uri)) if uri.starts_with('/') => {
                if uri.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
                    return Err(invalid());
                }
                check_uri = Some(uri.to_owned());
            }
            ("type", Some("grpc")) if grpc.is_none() => {
                grpc = Some(parse_grpc(args, index)?);
            }
            // Those behind `type=grpc` were parsed with it.
            ("grpc_service" | "grpc_status", Some(_)) => {
                if grpc.is_none() {
                    let what = format!("\"{name}\" must follow \"type=grpc\" in \"health_check\"");
                    return Err(args.error(index, what));
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    let kind = match grpc {
        None => CheckKind::Http { uri: check_uri.unwrap_or_else(|| "/".to_owned()) },
        Some(_) if check_uri.is_some() || schedule.rules.is_some() => {
            let name = if check_uri.is_some() { "uri" } else { "match" };
            let what = format!("\"type=grpc\" is incompatible with \"{name}\" in \"health_check\"");
            return Err(args.error_here(what));
        }
        Some(grpc) => grpc,
    };
    Ok(CheckConf { schedule, keepalive_time, kind })
}

/// Parses the parameters behind `type=grpc`, which is at `at`. No others may follow it.
fn parse_grpc(args: &Args<'_>, at: usize) -> Result<CheckKind, Diagnostic> {
    let (mut service, mut status) = (String::new(), None);
    for index in at + 1..args.len() {
        let invalid = || args.invalid_parameter(index);
        match args.parameter(index)? {
            ("grpc_service", Some(name)) => service = name.to_owned(),
            ("grpc_status", Some(code)) => {
                let code = code.parse::<u32>().ok().filter(|code| *code > 0);
                status = Some(code.ok_or_else(invalid)?);
            }
            ("type", _) => return Err(invalid()),
            (name, _) => {
                let what = format!("\"{name}\" must precede \"type=grpc\" in \"health_check\"");
                return Err(args.error(index, what));
            }
        }
    }
    Ok(CheckKind::Grpc { service, status })
}

/// Starts the checks of a location's group.
fn begin(check: &CheckConf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
    let CheckConf { schedule, keepalive_time, kind } = check;
    let extensions = &location.location.extensions;
    let needs = |directive| {
        let what = format!("\"health_check\" needs a \"{directive}\" to a group of servers");
        schedule.error(what)
    };
    let place = String::from_utf8_lossy(&location.location.name).into_owned();
    let port = schedule.port;
    let plan = &mut *location.plan;
    let servers = CheckedServers::new(port, *keepalive_time, plan.main.error_log.clone());
    let (name, group, probe): (_, _, Arc<dyn Probe>) = match kind {
        CheckKind::Http { uri } => {
            let settings = extensions.of::<Arc<ProxySettings>>().cloned();
            let settings = settings.ok_or_else(|| needs("proxy_pass"))?;
            let group = group_of(&settings.pass).ok_or_else(|| needs("proxy_pass"))?;
            let rules = schedule.named::<MatchRules>(plan)?;
            let name = format!("{place} {uri} {port:?} {:?}", schedule.rules);
            (name, group, Arc::new(HttpProbe::new(settings, uri, rules, servers)))
        }
        CheckKind::Grpc { service, status } => {
            let settings = extensions.of::<Arc<GrpcSettings>>().cloned();
            let settings = settings.ok_or_else(|| needs("grpc_pass"))?;
            let group = group_of(&settings.pass).ok_or_else(|| needs("grpc_pass"))?;
            let name = format!("{place} grpc {service} {port:?} {status:?}");
            (name, group, Arc::new(GrpcProbe::new(settings, service, *status, servers)))
        }
    };
    schedule.begin(name, group, probe, plan)
}

fn group_of(pass: &Pass) -> Option<Arc<Group>> {
    match &pass.destination {
        PassDestination::Fixed(target, _) => Some(target.group.clone()),
        PassDestination::Variable(..) => None,
    }
}
