//! `health_check`: the servers of a group are checked regularly, and get no requests while they are unhealthy.
//!
//! ```nginx
//! match welcome { status 200-299; header Content-Type ~ text; body ~ "Welcome"; }
//! location / {
//!     proxy_pass http://backend;
//!     health_check interval=3s fails=2 passes=2 uri=/health match=welcome;
//! }
//! ```

mod probe;
mod rule;
pub(crate) mod schedule;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Kind, row};
use tidegate_plan::module::Module;
use tidegate_plan::{LocationBuilder, PlanBuilder};
use tidegate_upstream::Group;

use super::common::pass::PassDestination;
use super::proxy::settings::ProxySettings;
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
    uri: String,
    keepalive_time: Option<Duration>,
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
        set: |conf, args| conf.rules.add(args),
    },
];

fn parse(args: &Args<'_>) -> Result<CheckConf, Diagnostic> {
    let mut check_uri = "/".to_owned();
    let mut keepalive_time = None;
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
                check_uri = uri.to_owned();
            }
            ("type", Some(_)) => {
                let what = "the parameter \"type\" of \"health_check\" is not supported yet";
                return Err(args.error(index, what));
            }
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(CheckConf { schedule, uri: check_uri, keepalive_time })
}

/// Starts the checks of a location's group.
fn begin(check: &CheckConf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
    let CheckConf { schedule, uri, keepalive_time } = check;
    let settings = location.location.extensions.of::<Arc<ProxySettings>>().cloned();
    let group = settings.as_ref().and_then(|settings| group_of(settings));
    let (Some(settings), Some(group)) = (settings, group) else {
        return Err(schedule.error("\"health_check\" needs a \"proxy_pass\" to a group of servers"));
    };
    let plan = &mut *location.plan;
    let rules = schedule.named::<MatchRules>(plan)?;
    let place = String::from_utf8_lossy(&location.location.name).into_owned();
    let port = schedule.port;
    let name = format!("{place} {uri} {port:?} {:?}", schedule.rules);
    let log = plan.main.error_log.clone();
    let probe = HttpProbe::new(settings, uri, rules, port, *keepalive_time, log);
    schedule.begin(name, group, Arc::new(probe), plan)
}

fn group_of(settings: &ProxySettings) -> Option<Arc<Group>> {
    match &settings.pass.destination {
        PassDestination::Fixed(target, _) => Some(target.group.clone()),
        PassDestination::Variable(..) => None,
    }
}
