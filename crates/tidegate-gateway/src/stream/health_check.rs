//! `health_check` in `stream`: the servers of a group are connected to regularly, perhaps sent a request, and get no
//! sessions while they are unhealthy.
//!
//! ```nginx
//! stream {
//!     match redis { send "PING\r\n"; expect ~ ^.PONG; }
//!     upstream caches { zone caches 64k; server 192.0.2.1:6379; server 192.0.2.2:6379; }
//!     server { listen 6379; proxy_pass caches; health_check interval=3s match=redis; }
//!     server { listen 53 udp; proxy_pass names; health_check udp; health_check_timeout 1s; }
//! }
//! ```

mod probe;
mod rule;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Kind, once, row};
use tidegate_plan::module::{BlockInfo, Module};
use tidegate_plan::{LocationBuilder, PlanBuilder};

use super::proxy::settings::Settings;
use super::proxy::target::SessionPass;
use crate::health_check::schedule::{MatchBlocks, Schedule};
use probe::SessionProbe;
use rule::SessionMatchRules;

/// `ngx_stream_upstream_hc_module`: the directives `health_check`, `health_check_timeout` and `match` of `stream`. As
/// with [`HealthCheck`](crate::HealthCheck), session processing is unaffected.
pub struct SessionHealthCheck;

/// The settings of one block.
#[derive(Default)]
pub struct Conf {
    checks: Vec<CheckConf>,
    rules: MatchBlocks,
    timeout: Option<Duration>,
}

/// One `health_check`.
#[derive(Clone, Debug)]
struct CheckConf {
    schedule: Schedule,
    udp: bool,
}

impl Module for SessionHealthCheck {
    type Conf = Conf;
    const NAME: &'static str = "stream_upstream_hc";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        child.timeout = child.timeout.or(parent.timeout);
    }

    fn prepare_stream(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        conf.rules.compile(plan, SessionMatchRules::compile)
    }

    fn prepare_session(
        conf: &Conf,
        server: &mut LocationBuilder<'_, '_>,
    ) -> Result<(), Diagnostic> {
        let timeout = conf.timeout.unwrap_or(TIMEOUT);
        server.plan.show(&timeout);
        conf.checks.iter().try_for_each(|check| begin(check, timeout, server))
    }
}

const TIMEOUT: Duration = Duration::from_secs(5);

const ROWS: &[Directive<Conf>] = &[
    row(
        "health_check",
        Contexts::STREAM_SERVER,
        Arity::ANY,
        "",
        "Connects to the servers of the `proxy_pass` regularly to see whether they are well.",
        |conf, args| {
            conf.checks.push(parse(args)?);
            Ok(())
        },
    ),
    row(
        "health_check_timeout",
        Contexts::STREAM_AND_SERVER,
        Arity::ONE,
        "5s",
        "Longest time of a check, in place of `proxy_timeout`.",
        |conf, args| once(&mut conf.timeout, args.milliseconds(0)?, args),
    ),
    Directive {
        name: "match",
        contexts: Contexts::STREAM,
        args: Arity::ONE,
        kind: Kind::Block,
        default: "",
        doc: "Data that a health check sends (`send`), and data that it must receive (`expect`).",
        has_effect: true,
        set: |conf, args| conf.rules.add(args),
    },
];

fn parse(args: &Args<'_>) -> Result<CheckConf, Diagnostic> {
    let mut udp = false;
    let schedule = Schedule::parse(args, |_, name, value| {
        let known = (name, value) == ("udp", None);
        udp |= known;
        Ok(known)
    })?;
    Ok(CheckConf { schedule, udp })
}

/// Starts the checks of a server's group.
fn begin(
    check: &CheckConf,
    timeout: Duration,
    server: &mut LocationBuilder<'_, '_>,
) -> Result<(), Diagnostic> {
    let CheckConf { schedule, udp } = check;
    let settings = server.location.extensions.of::<Arc<Settings>>().cloned();
    let group = settings.as_ref().and_then(|settings| match &settings.pass {
        SessionPass::Fixed(target) => Some(target.group.clone()),
        SessionPass::Variable(..) => None,
    });
    let (Some(settings), Some(group)) = (settings, group) else {
        return Err(schedule.error("\"health_check\" needs a \"proxy_pass\" to a group of servers"));
    };
    let rules = schedule.named::<SessionMatchRules>(server.plan)?;
    let (port, udp) = (schedule.port, *udp);
    let name = format!("session {port:?} {udp} {:?}", schedule.rules);
    let host = group.name.as_bytes().into();
    let probe = Arc::new(SessionProbe { settings, host, udp, rules, port, timeout });
    schedule.begin(name, group, probe, server.plan)
}
