//! `limit_conn`: limits the number of requests in progress for each key. A connection counts while it has a request
//! whose head has been read.
//!
//! ```nginx
//! limit_conn_zone $binary_remote_addr zone=clients:10m;
//! server { limit_conn clients 5; }
//! ```
//! The zones are shared by all threads and kept over reloads.

mod conf;
mod counts;
mod others;
mod shared;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use tidegate_conf::{Diagnostic, Directive};
use tidegate_core::figures::{Kind, LIMIT_CONN, Tally};
use tidegate_core::variables::Variable;
use tidegate_core::{Exchange, Phase, Step};
use tidegate_gateway::zone_sync;
use tidegate_plan::module::{BlockInfo, Module};
use tidegate_plan::{LocationBuilder, PlanBuilder};

use super::limits::{self, Refusal, States};
use conf::{Conf, REFUSAL_ROWS, ROWS, RuleText, ZoneSettings};
use counts::Counts;
use shared::Shared;

/// `ngx_http_limit_conn_module`.
pub(crate) struct LimitConn;

impl Module for LimitConn {
    type Conf = Conf;
    const NAME: &'static str = "limit_conn";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS, REFUSAL_ROWS];
    const VARIABLES: &'static [Variable] = VARIABLES;
    const SESSION_VARIABLES: &'static [Variable] = VARIABLES;

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        if child.rules.is_empty() {
            child.rules.clone_from(&parent.rules);
        }
        child.refusal.inherit(parent.refusal);
    }

    fn prepare_http(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        let kind = if plan.in_stream() { Kind::SessionLimitConn } else { Kind::LimitConn };
        Zone::open_all(&conf.zones, "limit_conn_zone", (kind, COUNTED), plan)?;
        for zone in &conf.zones {
            let states = zone.opened::<Counts>(plan)?.states.clone();
            let (used, is_shared) = (states.clone(), zone.settings().sync.is_some());
            plan.when_in_use(move || used.lock().share(is_shared));
            let fullest = move |most| states.lock().fullest(most);
            plan.figures.add_keys(kind, zone.name(), Arc::new(fullest));
            let Some(sync) = &zone.settings().sync else { continue };
            let store = zone_sync::find(sync, plan)?;
            let shared = Arc::new(Shared::new(zone.opened(plan)?, store));
            shared.store.add(shared.clone());
            plan.shared::<SharedZones>().0.insert(zone.name().to_owned(), shared);
        }
        Ok(())
    }

    fn prepare_stream(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        LimitConn::prepare_http(conf, plan)
    }

    fn prepare_session(
        conf: &Conf,
        server: &mut LocationBuilder<'_, '_>,
    ) -> Result<(), Diagnostic> {
        LimitConn::prepare(conf, server)
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        if conf.rules.is_empty() {
            return Ok(());
        }
        let rules = conf.rules.iter().map(|rule| ConnLimit::new(rule, location.plan));
        let rules = rules.collect::<Result<_, _>>()?;
        let limits = LocationLimits { rules, refusal: conf.refusal.settings() };
        location.plan.show(&limits.refusal);
        location.handler(Phase::Preaccess, Box::new(move |x| limits.apply(x)));
        Ok(())
    }
}

const VARIABLES: &[Variable] = &[Variable::fixed(
    "limit_conn_status",
    "What limits of connections decided: `PASSED`, `REJECTED` or \
            `REJECTED_DRY_RUN`.",
    |x, out| {
        let Some(status) = x.lineage.inherited.of::<LimitConnStatus>() else { return false };
        out.extend_from_slice(status.name().as_bytes());
        true
    },
)];

/// A zone with the number of requests of each key.
type Zone = limits::Zone<Counts, ZoneSettings>;

/// The zones of a configuration that are shared, by name.
#[derive(Default)]
struct SharedZones(HashMap<String, Arc<Shared>>);

/// A `limit_conn` directive.
struct ConnLimit {
    zone: Arc<Zone>,
    /// Where servers share the zone.
    shared: Option<Arc<Shared>>,
    most: u32,
}

impl ConnLimit {
    fn new(text: &RuleText, plan: &mut PlanBuilder<'_>) -> Result<ConnLimit, Diagnostic> {
        let zone = Zone::find(plan, &text.zone, text.span)?;
        let shared = plan.shared::<SharedZones>().0.get(&text.zone).cloned();
        Ok(ConnLimit { zone, shared, most: text.most })
    }

    fn most(&self) -> u32 {
        self.shared.as_ref().map_or(self.most, |shared| shared.most(self.most))
    }
}

/// `$limit_conn_status`, for the whole request: a request is counted once, however it is redirected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LimitConnStatus {
    Passed,
    Rejected,
    RejectedDryRun,
}

impl LimitConnStatus {
    fn name(self) -> &'static str {
        match self {
            LimitConnStatus::Passed => "PASSED",
            LimitConnStatus::Rejected => "REJECTED",
            LimitConnStatus::RejectedDryRun => "REJECTED_DRY_RUN",
        }
    }
}

/// Number of counters of a zone: those of [`LIMIT_CONN`], which begin with one for each status.
const COUNTED: usize = LIMIT_CONN.len();
/// The counter of requests without a key, or with one that is too long.
const SKIPPED: usize = LimitConnStatus::RejectedDryRun as usize + 1;
/// The counter of requests that the zone had no room for.
const EXHAUSTED: usize = SKIPPED + 1;

/// A request's count in a zone, released when the request ends.
struct CountedRequest {
    states: Arc<States<Counts>>,
    tally: Arc<Tally>,
    key: Vec<u8>,
}

impl Drop for CountedRequest {
    fn drop(&mut self) {
        self.states.lock().leave(&self.key);
    }
}

/// All counts of a request; in its extensions.
type CountedRequests = Vec<CountedRequest>;

/// All limits of a location.
struct LocationLimits {
    rules: Vec<ConnLimit>,
    refusal: Refusal,
}

impl LocationLimits {
    fn apply(&self, x: &mut Exchange) -> Step<'static> {
        if x.lineage.inherited.of::<LimitConnStatus>().is_some() {
            return Step::Decline;
        }
        let mut places = CountedRequests::new();
        for rule in &self.rules {
            let (zone, mut key) = (&*rule.zone, Vec::new());
            if !zone.write_key(x, &mut key) {
                zone.tally.count(SKIPPED);
                continue;
            }
            let mut counts = zone.states.lock();
            if !counts.enter(&key, rule.most(), zone.bytes_max) {
                let reason = match counts.has(&key) {
                    true => LimitConnStatus::Rejected as usize,
                    false => EXHAUSTED,
                };
                // The counts in earlier zones, of which one may be this one, are released.
                drop(counts);
                drop(places);
                return self.refuse(x, zone, reason);
            }
            drop(counts);
            let (states, tally) = (zone.states.clone(), zone.tally.clone());
            places.push(CountedRequest { states, tally, key });
        }
        for place in &places {
            place.tally.count(LimitConnStatus::Passed as usize);
        }
        if !places.is_empty() {
            note(x, LimitConnStatus::Passed);
            x.modules.extensions.insert(places);
        }
        Step::Decline
    }

    /// Refuses a request; `reason` is the counter for it.
    fn refuse(&self, x: &mut Exchange, zone: &Zone, reason: usize) -> Step<'static> {
        let (dry, name) = (if self.refusal.dry_run { ", dry run," } else { "" }, &zone.name);
        x.log(self.refusal.level, format_args!("limiting connections{dry} by zone \"{name}\""));
        if self.refusal.dry_run {
            zone.tally.count(LimitConnStatus::RejectedDryRun as usize);
            note(x, LimitConnStatus::RejectedDryRun);
            return Step::Decline;
        }
        zone.tally.count(reason);
        note(x, LimitConnStatus::Rejected);
        Step::Status(self.refusal.status)
    }
}

fn note(x: &mut Exchange, status: LimitConnStatus) {
    x.lineage.inherited.insert(Rc::new(status));
}
