//! `health_check`: servers of a group are asked regularly, and get no requests while they are not well.
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

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Kind, Span, Statement};
use tidegate_core::builder::{LocationBuilder, PlanBuilder};
use tidegate_core::module::Module;
use tidegate_upstream::Group;
use tidegate_upstream::care::Duties;
use tidegate_upstream::care::checks::{CheckDuty, CheckPlan};
use tidegate_upstream::peers::CheckRule;

use super::gateway::pass::To;
use super::proxy::settings::ProxySettings;
use super::row;
use probe::HttpProbe;
use rule::Rules;

/// `ngx_http_upstream_hc_module`.
pub struct HealthCheck;

/// What is written in one block.
#[derive(Default)]
pub struct Conf {
    checks: Vec<CheckConf>,
    rules: Vec<(String, Span, Vec<Statement>)>,
}

/// One `health_check`.
#[derive(Clone, Debug)]
struct CheckConf {
    plan: CheckPlan,
    uri: String,
    rules: Option<String>,
    port: Option<u16>,
    mandatory: bool,
    persistent: bool,
    keepalive_time: Option<Duration>,
    span: Span,
}

/// The `match` blocks by name.
#[derive(Default)]
struct Matches(HashMap<String, Arc<Rules>>);

impl Module for HealthCheck {
    type Conf = Conf;
    const NAME: &'static str = "upstream_hc";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];

    fn prepare_http(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        for (name, span, entries) in &conf.rules {
            let rules = Arc::new(Rules::compile(entries, plan)?);
            if plan.shared::<Matches>().0.insert(name.clone(), rules).is_some() {
                let message = format!("duplicate match \"{name}\"");
                return Err(Diagnostic::emerg(message).at(*span));
            }
        }
        Ok(())
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
        "Asks the servers of the location's group regularly whether they are well.",
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
        doc: "What an answer to a health check has to be like.",
        set: |conf, args| {
            let (name, span) = (args.text(0)?.to_owned(), args.word(0).span);
            conf.rules.push((name, span, args.entries()?.to_vec()));
            Ok(())
        },
    },
];

fn parse(args: &Args<'_>) -> Result<CheckConf, Diagnostic> {
    let mut check = CheckConf {
        plan: CheckPlan::default(),
        uri: "/".to_owned(),
        rules: None,
        port: None,
        mandatory: false,
        persistent: false,
        keepalive_time: None,
        span: args.word(0).span,
    };
    for index in 0..args.len() {
        let invalid = || args.invalid_parameter(index);
        let (name, value) = args.parameter(index)?;
        let time = || value.and_then(|value| tidegate_conf::parse_milliseconds(value.as_bytes()));
        let number = || value.and_then(|value| value.parse::<u32>().ok()).filter(|n| *n > 0);
        match (name, value) {
            ("interval", Some(_)) => {
                let time = time().filter(|time| !time.is_zero());
                check.plan.interval = time.ok_or_else(invalid)?;
            }
            ("jitter", Some(_)) => check.plan.jitter = time().ok_or_else(invalid)?,
            ("fails", Some(_)) => check.plan.fails = number().ok_or_else(invalid)?,
            ("passes", Some(_)) => check.plan.passes = number().ok_or_else(invalid)?,
            ("keepalive_time", Some(_)) => check.keepalive_time = Some(time().ok_or_else(invalid)?),
            ("uri", Some(uri)) if uri.starts_with('/') => {
                if uri.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
                    return Err(invalid());
                }
                check.uri = uri.to_owned();
            }
            ("match", Some(name)) if !name.is_empty() => check.rules = Some(name.to_owned()),
            ("port", Some(text)) => {
                let port = text.parse().ok().filter(|port| *port > 0);
                check.port = Some(port.ok_or_else(invalid)?);
            }
            ("mandatory", None) => check.mandatory = true,
            ("persistent", None) => check.persistent = true,
            ("type", Some(_)) => {
                let what = "the parameter \"type\" of \"health_check\" is not supported yet";
                return Err(args.error(index, what));
            }
            _ => return Err(invalid()),
        }
    }
    if check.persistent && !check.mandatory {
        let what = "\"persistent\" requires \"mandatory\" in \"health_check\"";
        return Err(args.error_here(what));
    }
    Ok(check)
}

/// Has the servers of a location's group checked.
fn begin(check: &CheckConf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
    let error = |message: String| Diagnostic::emerg(message).at(check.span);
    let settings = location.location.extensions.of::<Arc<ProxySettings>>().cloned();
    let group = settings.as_ref().and_then(|settings| group_of(settings));
    let (Some(settings), Some(group)) = (settings, group) else {
        let what = "\"health_check\" needs a \"proxy_pass\" to a group of servers";
        return Err(error(what.to_owned()));
    };
    if !group.is_changing() {
        let what = format!("health checks require upstream \"{}\" in shared memory", group.name);
        return Err(error(what).help("add `zone NAME SIZE;` to the group"));
    }
    let rules = match &check.rules {
        None => None,
        Some(name) => {
            let known = location.plan.shared::<Matches>().0.get(name).cloned();
            Some(known.ok_or_else(|| error(format!("match \"{name}\" not found")))?)
        }
    };
    let place = String::from_utf8_lossy(&location.location.name).into_owned();
    let CheckConf { uri, port, keepalive_time, mandatory, persistent, .. } = check;
    let name = format!("{place} {uri} {port:?} {:?}", check.rules);
    let rule = CheckRule { name: name.into(), mandatory: *mandatory, persistent: *persistent };
    let number = group.add_check(rule);
    let log = location.plan.main.error_log.clone();
    let probe = HttpProbe::new(settings, uri, rules, *port, *keepalive_time, log.clone());
    let duties = location.plan.shared::<Duties>().clone();
    let (plan, probe) = (check.plan, Arc::new(probe));
    duties.add(Arc::new(CheckDuty { group, number, plan, probe, log }));
    Ok(())
}

fn group_of(settings: &ProxySettings) -> Option<Arc<Group>> {
    match &settings.pass.to {
        To::Fixed(target, _) => Some(target.group.clone()),
        To::Variable(..) => None,
    }
}
