//! `limit_conn`: at most so many requests at the same time for each key. A connection counts while it has
//! a request whose head has been read.
//!
//! ```nginx
//! limit_conn_zone $binary_remote_addr zone=clients:10m;
//! server { limit_conn clients 5; }
//! ```
//! The zones are shared by all threads and stay over reloads.

mod conf;
mod counts;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_conf::{Diagnostic, Directive};
use tidegate_core::builder::{LocationBuilder, PlanBuilder};
use tidegate_core::module::{BlockInfo, Module};
use tidegate_core::variables::Variable;
use tidegate_core::{Exchange, Level, Phase, Step, Template};

use super::limits::{self, ZoneText};
use conf::{Conf, ROWS, RuleText};
use counts::Counts;

/// `ngx_http_limit_conn_module`.
pub struct LimitConn;

impl Module for LimitConn {
    type Conf = Conf;
    const NAME: &'static str = "limit_conn";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];
    const VARIABLES: &'static [Variable] = &[Variable::fixed("limit_conn_status", |x, out| {
        let Some(status) = x.lineage.inherited.of::<Status>() else { return false };
        out.extend_from_slice(status.name().as_bytes());
        true
    })];

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        if child.rules.is_empty() {
            child.rules.clone_from(&parent.rules);
        }
        child.status = child.status.or(parent.status);
        child.level = child.level.or(parent.level);
        child.dry_run = child.dry_run.or(parent.dry_run);
    }

    fn prepare_http(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        for text in &conf.zones {
            let zone = Zone::open(text, plan)?;
            limits::declare(plan, &text.name);
            plan.shared::<Zones>().0.insert(text.name.clone(), Arc::new(zone));
        }
        Ok(())
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        if conf.rules.is_empty() {
            return Ok(());
        }
        let rules = conf.rules.iter().map(|rule| Rule::new(rule, location.plan));
        let limits = Limits {
            rules: rules.collect::<Result<_, _>>()?,
            status: conf.status.unwrap_or(503),
            level: conf.level.unwrap_or(Level::Error),
            dry_run: conf.dry_run.unwrap_or(false),
        };
        location.handler(Phase::Preaccess, Box::new(move |x| limits.apply(x)));
        Ok(())
    }
}

/// The zones of a configuration by name.
#[derive(Default)]
struct Zones(HashMap<String, Arc<Zone>>);

/// A zone with this configuration's settings.
struct Zone {
    name: String,
    key: Template,
    bytes_max: usize,
    states: Arc<States>,
}

/// What of a zone outlives a reload.
struct States {
    key: Vec<u8>,
    counts: Mutex<Counts>,
}

impl Zone {
    fn open(text: &ZoneText, plan: &mut PlanBuilder<'_>) -> Result<Zone, Diagnostic> {
        let key = plan.template_text(&text.key, text.span)?;
        let made = || -> Result<States, Diagnostic> {
            Ok(States { key: text.key.clone(), counts: Mutex::default() })
        };
        let survivor = format!("limit_conn {}", text.name);
        let states = plan.environment.survivors.get_or_make(&survivor, made)?;
        if states.key != text.key {
            let (name, now) = (&text.name, String::from_utf8_lossy(&text.key));
            let before = String::from_utf8_lossy(&states.key);
            let message = format!(
                "limit_conn_zone \"{name}\" uses the \"{now}\" key while previously it used the \
                 \"{before}\" key"
            );
            return Err(Diagnostic::emerg(message).at(text.span));
        }
        Ok(Zone { name: text.name.clone(), key, bytes_max: text.bytes, states })
    }
}

impl States {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A `limit_conn`.
struct Rule {
    zone: Arc<Zone>,
    most: u32,
}

impl Rule {
    fn new(text: &RuleText, plan: &mut PlanBuilder<'_>) -> Result<Rule, Diagnostic> {
        match plan.shared::<Zones>().0.get(&text.zone).cloned() {
            Some(zone) => Ok(Rule { zone, most: text.most }),
            None => Err(limits::no_zone(plan, &text.zone, text.span)),
        }
    }
}

/// `$limit_conn_status`, for the whole request: a request is counted once, whatever it becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Passed,
    Rejected,
    RejectedDryRun,
}

impl Status {
    fn name(self) -> &'static str {
        match self {
            Status::Passed => "PASSED",
            Status::Rejected => "REJECTED",
            Status::RejectedDryRun => "REJECTED_DRY_RUN",
        }
    }
}

/// A request's place in a zone, given back when the request is over.
struct Held {
    states: Arc<States>,
    key: Vec<u8>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.states.counts().leave(&self.key);
    }
}

/// All places of a request; lives in its extensions.
type Places = Vec<Held>;

/// All limits of a location.
struct Limits {
    rules: Vec<Rule>,
    status: u16,
    level: Level,
    dry_run: bool,
}

impl Limits {
    fn apply(&self, x: &mut Exchange) -> Step<'static> {
        if x.lineage.inherited.of::<Status>().is_some() {
            return Step::Decline;
        }
        let mut places = Places::new();
        for rule in &self.rules {
            let (zone, mut key) = (&*rule.zone, Vec::new());
            if !limits::write_key(&zone.key, x, &mut key) {
                continue;
            }
            if !zone.states.counts().enter(&key, rule.most, zone.bytes_max) {
                // Those that let it in before are left again.
                drop(places);
                return self.refuse(x, zone);
            }
            places.push(Held { states: zone.states.clone(), key });
        }
        if !places.is_empty() {
            note(x, Status::Passed);
            x.extensions.insert(places);
        }
        Step::Decline
    }

    fn refuse(&self, x: &mut Exchange, zone: &Zone) -> Step<'static> {
        let (dry, name) = (if self.dry_run { ", dry run," } else { "" }, &zone.name);
        x.log(self.level, format_args!("limiting connections{dry} by zone \"{name}\""));
        if self.dry_run {
            note(x, Status::RejectedDryRun);
            return Step::Decline;
        }
        note(x, Status::Rejected);
        Step::Status(self.status)
    }
}

fn note(x: &mut Exchange, status: Status) {
    x.lineage.inherited.insert(Rc::new(status));
}
