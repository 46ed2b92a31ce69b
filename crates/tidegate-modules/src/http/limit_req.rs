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
mod decide;
mod logic;
mod pending;
mod shared;
#[cfg(test)]
mod tests;
mod together;

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tidegate_conf::{Diagnostic, Directive};
use tidegate_core::figures::{Kind, LIMIT_REQ};
use tidegate_core::pause::{left, pause, watched, while_connected};
use tidegate_core::timeline::{Cause, blame};
use tidegate_core::variables::Variable;
use tidegate_core::{Exchange, Level, Phase, Step};
use tidegate_gateway::zone_sync::{self, SyncStore};
use tidegate_plan::module::{BlockInfo, Module};
use tidegate_plan::{LocationBuilder, PlanBuilder};

use super::limits::{self, Refusal};
use buckets::Buckets;
use conf::{Conf, REFUSAL_ROWS, ROWS, RuleText, ZoneSettings};
use decide::RateDecision;
use shared::Shared;
use together::Together;

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
            let (used, is_shared) = (states.clone(), zone.settings().sync.is_some());
            plan.when_in_use(move || used.lock().share(is_shared));
            let fullest = move |most| states.lock().fullest(rate, tidegate_rt::clock::now(), most);
            plan.figures.add_keys(Kind::LimitReq, zone.name(), Arc::new(fullest));
            let ZoneSettings { sync, waits, failure, .. } = zone.settings();
            let Some(sync) = sync else { continue };
            let store = zone_sync::find(sync, plan)?;
            let opened = zone.opened(plan)?;
            let together = waits.then(|| together(&store, plan));
            let shared = Arc::new(Shared::new(opened, store, *failure, together));
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
        let limits = Arc::new(RateLimits { rules, refusal: conf.refusal.settings() });
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

/// What awaits the stores of a configuration, by their addresses in memory.
#[derive(Default)]
struct Waiting(HashMap<*const SyncStore, Arc<Together>>);

fn together(store: &Arc<SyncStore>, plan: &mut PlanBuilder<'_>) -> Arc<Together> {
    let make = || Arc::new(Together::new(store.clone()));
    plan.shared::<Waiting>().0.entry(Arc::as_ptr(store)).or_insert_with(make).clone()
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
    fn apply<'a>(self: &Arc<Self>, x: &'a mut Exchange) -> Step<'a> {
        if x.lineage.inherited.of::<LimitReqStatus>().is_some() {
            return Step::Decline;
        }
        if self.rules.iter().any(RateLimit::waits) {
            let own = self.clone();
            return Step::Wait(Box::pin(async move {
                let client = watched(x);
                let deciding = while_connected(client, own.decide_together(x));
                let Some(decision) = blame(Cause::Limit, deciding).await else { return left(x) };
                match own.carry_out(x, decision) {
                    Ok(step) => step,
                    Err(time) => wait(x, time).await,
                }
            }));
        }
        let decision = self.decide(x, tidegate_rt::clock::now());
        match self.carry_out(x, decision) {
            Ok(step) => step,
            Err(time) => Step::Wait(Box::pin(wait(x, time))),
        }
    }

    /// Notes, counts and logs a decision, and returns its step.
    ///
    /// # Errors
    /// The time for which the request is to wait.
    fn carry_out(
        &self,
        x: &mut Exchange,
        decision: RateDecision<'_>,
    ) -> Result<Step<'static>, Duration> {
        let dry = if self.refusal.dry_run { ", dry run" } else { "" };
        match decision {
            RateDecision::Unlimited => return Ok(Step::Decline),
            RateDecision::Pass => note(x, LimitReqStatus::Passed),
            RateDecision::NoRoom { zone } => {
                match self.refusal.dry_run {
                    true => zone.tally.count(LimitReqStatus::RejectedDryRun as usize),
                    false => zone.tally.count(EXHAUSTED),
                }
                x.log(Level::Alert, format_args!("could not allocate node{dry}"));
                return Ok(self.refuse(x));
            }
            RateDecision::NoStore { zone } => {
                self.count(zone, LimitReqStatus::Rejected);
                let name = &zone.name;
                x.log(
                    self.refusal.level,
                    format_args!("limiting requests{dry}, no store of zone \"{name}\""),
                );
                return Ok(self.refuse(x));
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
                return Ok(self.refuse(x));
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
                    return Err(time);
                }
                note(x, LimitReqStatus::DelayedDryRun);
            }
        }
        Ok(Step::Decline)
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
