//! `limit_req`: limits the rate of requests for each key; requests above the rate are delayed, or refused above the
//! burst.
//!
//! ```nginx
//! limit_req_zone $binary_remote_addr zone=clients:10m rate=10r/s;
//! server { limit_req zone=clients burst=20 delay=5; }
//! ```
//! The zones are shared by all threads and kept over reloads.

mod buckets;
mod conf;
mod logic;
mod pending;
mod shared;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_conf::{Diagnostic, Directive};
use tidegate_core::figures::{Kind, LIMIT_REQ};
use tidegate_core::pause::pause;
use tidegate_core::timeline::Cause;
use tidegate_core::variables::Variable;
use tidegate_core::{Exchange, Level, Phase, Step};
use tidegate_gateway::zone_sync;
use tidegate_plan::module::{BlockInfo, Module};
use tidegate_plan::{LocationBuilder, PlanBuilder};

use super::limits::{self, Refusal};
use buckets::{Buckets, NoRoom};
use conf::{Conf, REFUSAL_ROWS, ROWS, RuleText, ZoneSettings};
use shared::{Shared, Terms};

/// `ngx_http_limit_req_module`.
pub(crate) struct LimitReq;

impl Module for LimitReq {
    type Conf = Conf;
    const NAME: &'static str = "limit_req";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS, REFUSAL_ROWS];
    const VARIABLES: &'static [Variable] = &[Variable::fixed(
        "limit_req_status",
        "What limits of requests decided: `PASSED`, `DELAYED`, `REJECTED`, \
            `DELAYED_DRY_RUN` or `REJECTED_DRY_RUN`.",
        |x, out| {
            let Some(status) = x.lineage.inherited.of::<LimitReqStatus>() else { return false };
            out.extend_from_slice(status.name().as_bytes());
            true
        },
    )];

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        if child.rules.is_empty() {
            child.rules.clone_from(&parent.rules);
        }
        child.refusal.inherit(parent.refusal);
    }

    fn prepare_http(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        Zone::open_all(&conf.zones, "limit_req", (Kind::LimitReq, COUNTED), plan)?;
        for zone in &conf.zones {
            let (states, rate) =
                (zone.opened::<Buckets>(plan)?.states.clone(), zone.settings().rate);
            let fullest = move |most| states.lock().fullest(rate, tidegate_rt::clock::now(), most);
            plan.figures.add_keys(Kind::LimitReq, zone.name(), Arc::new(fullest));
            let Some(sync) = &zone.settings().sync else { continue };
            let store = zone_sync::find(sync, plan)?;
            let (opened, failure) = (zone.opened(plan)?, zone.settings().failure);
            let shared = Arc::new(Shared::new(opened, store, failure));
            shared.store.add(shared.clone());
            plan.shared::<SharedZones>().0.insert(zone.name().to_owned(), shared);
        }
        Ok(())
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        if conf.rules.is_empty() {
            return Ok(());
        }
        let rules = conf.rules.iter().map(|rule| RateLimit::new(rule, location.plan));
        let rules = rules.collect::<Result<_, _>>()?;
        let limits = RateLimits { rules, refusal: conf.refusal.settings() };
        location.plan.show(&limits.refusal);
        location.handler(Phase::Preaccess, Box::new(move |x| limits.apply(x)));
        Ok(())
    }
}

/// A zone with the bucket of each key.
type Zone = limits::Zone<Buckets, ZoneSettings>;

/// The zones of a configuration that are shared, by name.
#[derive(Default)]
struct SharedZones(HashMap<String, Arc<Shared>>);

/// Counts a request in a zone's bucket.
fn fill(
    zone: &Zone,
    buckets: &mut Buckets,
    (key, rate): (&[u8], u64),
    now: Instant,
) -> Result<(), NoRoom> {
    buckets.fill(key, rate, now, zone.bytes_max)
}

/// A `limit_req` directive; excesses in thousandths of a request.
struct RateLimit {
    zone: Arc<Zone>,
    /// Where servers share the zone.
    shared: Option<Arc<Shared>>,
    burst: u64,
    free: u64,
}

impl RateLimit {
    fn new(text: &RuleText, plan: &mut PlanBuilder<'_>) -> Result<RateLimit, Diagnostic> {
        let zone = Zone::find(plan, &text.zone, text.span)?;
        let shared = plan.shared::<SharedZones>().0.get(&text.zone).cloned();
        if let Some(shared) = &shared {
            shared.allow_burst(text.burst);
        }
        Ok(RateLimit { zone, shared, burst: text.burst, free: text.free })
    }

    /// Returns the rate by which a request with this key is decided; `None`: it is refused.
    fn rate(&self, buckets: &Buckets, key: &[u8]) -> Option<u64> {
        match self.shared.as_ref().map(|shared| shared.terms(buckets, key)) {
            None => Some(self.zone.settings.rate),
            Some(Terms::Rate(rate)) => Some(rate),
            Some(Terms::Refuse) => None,
        }
    }
}

/// `$limit_req_status`, for the whole request: a request is limited once, however it is redirected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LimitReqStatus {
    Passed,
    Delayed,
    Rejected,
    DelayedDryRun,
    RejectedDryRun,
}

impl LimitReqStatus {
    fn name(self) -> &'static str {
        match self {
            LimitReqStatus::Passed => "PASSED",
            LimitReqStatus::Delayed => "DELAYED",
            LimitReqStatus::Rejected => "REJECTED",
            LimitReqStatus::DelayedDryRun => "DELAYED_DRY_RUN",
            LimitReqStatus::RejectedDryRun => "REJECTED_DRY_RUN",
        }
    }
}

/// Number of counters of a zone: those of [`LIMIT_REQ`], which begin with one for each status.
const COUNTED: usize = LIMIT_REQ.len();
/// The counter of requests without a key, or with one that is too long.
const SKIPPED: usize = LimitReqStatus::RejectedDryRun as usize + 1;
/// The counter of requests that the zone had no room for.
const EXHAUSTED: usize = SKIPPED + 1;

/// All limits of a location.
struct RateLimits {
    rules: Vec<RateLimit>,
    refusal: Refusal,
}

/// The decision of the rules for a request; excesses in thousandths of a request.
enum RateDecision<'r> {
    /// No rule has a key.
    Unlimited,
    Pass,
    Delay {
        time: Duration,
        excess: u64,
        zone: &'r Zone,
    },
    Refuse {
        excess: u64,
        zone: &'r Zone,
    },
    NoRoom {
        zone: &'r Zone,
    },
    /// The store of the zone is not available, and `sync_failure=reject`.
    NoStore {
        zone: &'r Zone,
    },
}

impl RateLimits {
    /// Applies the limits to a request.
    ///
    /// | decision | dry run | else |
    /// |---|---|---|
    /// | no key in any rule | declined, as if there were no limit | the same |
    /// | within all rates | PASSED | the same |
    /// | above a rate, within the burst | DELAYED_DRY_RUN | DELAYED: waits, then declines |
    /// | above a burst, no room in the zone, or no store | REJECTED_DRY_RUN | REJECTED: the status of `limit_req_status` |
    ///
    /// Invariant: a request is counted once, however often internal redirects bring it here: its status is kept
    /// with it and its subrequests. Dropped while it waits, it is still counted, as in nginx. Sources: `limit_req`,
    /// `limit_req_dry_run`, `limit_req_log_level`, `$limit_req_status`.
    fn apply<'a>(&self, x: &'a mut Exchange) -> Step<'a> {
        if x.lineage.inherited.of::<LimitReqStatus>().is_some() {
            return Step::Decline;
        }
        let verdict = self.decide(x, tidegate_rt::clock::now());
        let dry = if self.refusal.dry_run { ", dry run" } else { "" };
        match verdict {
            RateDecision::Unlimited => return Step::Decline,
            RateDecision::Pass => note(x, LimitReqStatus::Passed),
            RateDecision::NoRoom { zone } => {
                match self.refusal.dry_run {
                    true => zone.tally.count(LimitReqStatus::RejectedDryRun as usize),
                    false => zone.tally.count(EXHAUSTED),
                }
                x.log(Level::Alert, format_args!("could not allocate node{dry}"));
                return self.refuse(x);
            }
            RateDecision::NoStore { zone } => {
                self.count(zone, LimitReqStatus::Rejected);
                let name = &zone.name;
                x.log(
                    self.refusal.level,
                    format_args!("limiting requests{dry}, no store of zone \"{name}\""),
                );
                return self.refuse(x);
            }
            RateDecision::Refuse { excess, zone } => {
                self.count(zone, LimitReqStatus::Rejected);
                let (whole, rest, name) = (excess / 1000, excess % 1000, &zone.name);
                x.log(
                    self.refusal.level,
                    format_args!(
                        "limiting requests{dry}, excess: {whole}.{rest:03} by zone \"{name}\""
                    ),
                );
                return self.refuse(x);
            }
            RateDecision::Delay { time, excess, zone } => {
                self.count(zone, LimitReqStatus::Delayed);
                let (whole, rest, name) = (excess / 1000, excess % 1000, &zone.name);
                x.log(
                    less(self.refusal.level),
                    format_args!(
                        "delaying request{dry}, excess: {whole}.{rest:03}, by zone \"{name}\""
                    ),
                );
                if !self.refusal.dry_run {
                    note(x, LimitReqStatus::Delayed);
                    return Step::Wait(Box::pin(wait(x, time)));
                }
                note(x, LimitReqStatus::DelayedDryRun);
            }
        }
        Step::Decline
    }

    /// Checks all rules; the request is counted by each or, if one refuses it, by none.
    fn decide(&self, x: &mut Exchange, now: Instant) -> RateDecision<'_> {
        let mut text = Vec::new();
        let mut keys = Vec::with_capacity(self.rules.len());
        for rule in &self.rules {
            let start = text.len();
            match rule.zone.write_key(x, &mut text) {
                true => keys.push((rule, start..text.len(), rule.zone.settings.rate)),
                false => rule.zone.tally.count(SKIPPED),
            }
        }
        let mut verdict =
            if keys.is_empty() { RateDecision::Unlimited } else { RateDecision::Pass };
        let mut longest = Duration::ZERO;
        let count = keys.len();
        for (index, (rule, key, rate)) in keys.iter_mut().enumerate() {
            let (zone, key) = (&*rule.zone, &text[key.clone()]);
            let mut buckets = zone.states.lock();
            let Some(now_rate) = rule.rate(&buckets, key) else {
                return RateDecision::NoStore { zone };
            };
            *rate = now_rate;
            let excess = buckets.excess(key, *rate, now);
            if excess > rule.burst {
                // Where the zone is shared, the others tell when it is allowed again.
                buckets.touch(key);
                return RateDecision::Refuse { excess, zone };
            }
            // The last rule decides and counts under one lock, so that no other thread comes between.
            if index + 1 == count && fill(zone, &mut buckets, (key, *rate), now).is_err() {
                return RateDecision::NoRoom { zone };
            }
            let time = logic::delay(excess, rule.free, *rate);
            if time > longest {
                longest = time;
                verdict = RateDecision::Delay { time, excess, zone };
            }
        }
        for (rule, key, rate) in keys.iter().rev().skip(1) {
            let mut buckets = rule.zone.states.lock();
            if fill(&rule.zone, &mut buckets, (&text[key.clone()], *rate), now).is_err() {
                return RateDecision::NoRoom { zone: &rule.zone };
            }
        }
        for (rule, ..) in &keys {
            match verdict {
                RateDecision::Delay { zone, .. } if std::ptr::eq(zone, &*rule.zone) => {}
                _ => self.count(&rule.zone, LimitReqStatus::Passed),
            }
        }
        verdict
    }

    /// Counts a decision in the zone that made it.
    fn count(&self, zone: &Zone, status: LimitReqStatus) {
        let status = match (status, self.refusal.dry_run) {
            (LimitReqStatus::Delayed, true) => LimitReqStatus::DelayedDryRun,
            (LimitReqStatus::Rejected, true) => LimitReqStatus::RejectedDryRun,
            (status, _) => status,
        };
        zone.tally.count(status as usize);
    }

    fn refuse(&self, x: &mut Exchange) -> Step<'static> {
        if self.refusal.dry_run {
            note(x, LimitReqStatus::RejectedDryRun);
            return Step::Decline;
        }
        note(x, LimitReqStatus::Rejected);
        Step::Status(self.refusal.status)
    }
}

fn note(x: &mut Exchange, status: LimitReqStatus) {
    x.lineage.inherited.insert(Rc::new(status));
}

/// Returns the log level of delays: one less severe than that of refusals.
fn less(level: Level) -> Level {
    match level {
        Level::Error => Level::Warn,
        Level::Warn => Level::Notice,
        _ => Level::Info,
    }
}

/// Delays a request, unless its client closes the connection.
async fn wait(x: &mut Exchange, time: Duration) -> Step<'static> {
    match pause(x, time, Cause::Limit).await {
        Ok(()) => Step::Decline,
        Err(gone) => gone,
    }
}
