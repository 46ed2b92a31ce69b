//! Active health checks of servers (`health_check`). The caller implements the check; this module schedules checks
//! and evaluates their results.
//!
//! ```text
//!                 passed                     `fails` failed in a row
//! Checking ──────────────────> Fine ────────────────────────────────> Unhealthy
//!     │                         ^                                        │
//!     │ failed                  └──────── `passes` passed in a row ──────┘
//!     └────────────────────────────────────────────────────────────────> Unhealthy
//! ```
//!
//! A server begins as `Checking` where the check is `mandatory` (no request is sent to it), else as `Fine`, or with
//! its state in an earlier configuration. Each server has one task: a random wait, the check, the interval. So a
//! server has at most one check of a kind in progress. Dropped while it waits or checks (the plan or the server is
//! gone), the task reports nothing about that check: health changes only after a complete check.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate_core::error_log::{ErrorLog, Level};
use tidegate_rt::{clock, random, timer};

use super::{BackgroundTask, RunningTask};
use crate::peers::{Group, Health, Peer};

/// The schedule of checks, and how often servers have to pass or fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckPlan {
    /// Time between the end of one check and the next.
    pub interval: Duration,
    /// Each check is delayed by a random time up to this.
    pub jitter: Duration,
    /// Checks that a server has to fail in a row to be unhealthy.
    pub fails: u32,
    /// Checks that an unhealthy server has to pass in a row.
    pub passes: u32,
}

impl Default for CheckPlan {
    fn default() -> Self {
        let interval = Duration::from_secs(5);
        CheckPlan { interval, jitter: Duration::ZERO, fails: 1, passes: 1 }
    }
}

/// One check of one server.
pub trait Probe: Send + Sync {
    /// Checks a server.
    fn check(
        self: Arc<Self>,
        peer: Arc<Peer>,
    ) -> Pin<Box<dyn Future<Output = Result<(), CheckFailure>>>>;
}

/// The reason of a failed check. Displayed in words for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckFailure(Cow<'static, str>);

impl From<&'static str> for CheckFailure {
    fn from(reason: &'static str) -> CheckFailure {
        CheckFailure(Cow::Borrowed(reason))
    }
}

impl From<String> for CheckFailure {
    fn from(reason: String) -> CheckFailure {
        CheckFailure(Cow::Owned(reason))
    }
}

impl fmt::Display for CheckFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CheckFailure {}

/// The task that checks a group's servers as long as the group is in use.
pub struct CheckTask {
    /// The group; servers added later are checked as well.
    pub group: Arc<Group>,
    /// The number from [`Group::add_check`].
    pub number: usize,
    /// The schedule, and how often servers have to pass or fail.
    pub plan: CheckPlan,
    /// The check.
    pub probe: Arc<dyn Probe>,
    /// Gets a line for each change: `warn` for a server that becomes unhealthy, `notice` for one that recovers.
    pub log: ErrorLog,
}

/// The results of a server's last checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HealthState {
    health: Health,
    /// Consecutive results that contradict the state.
    against: u32,
}

impl HealthState {
    fn new(health: Health) -> HealthState {
        HealthState { health, against: 0 }
    }

    /// Returns the state after a check. The first one decides about a server without a state.
    fn after(self, passed: bool, plan: &CheckPlan) -> HealthState {
        let result = if passed { Health::Fine } else { Health::Unhealthy };
        if result == self.health || self.health == Health::Checking {
            return HealthState::new(result);
        }
        let against = self.against + 1;
        let needed = if passed { plan.passes } else { plan.fails };
        match against >= needed {
            true => HealthState::new(result),
            false => HealthState { against, ..self },
        }
    }
}

impl BackgroundTask for CheckTask {
    fn run(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(async move {
            let mut tasks: HashMap<u64, RunningTask> = HashMap::new();
            loop {
                let altered = self.group.altered();
                let view = self.group.view(clock::now());
                tasks.retain(|id, _| view.iter().any(|slot| slot.peer.id == *id));
                for slot in view.into_iter().filter(|slot| !slot.options.down) {
                    tasks.entry(slot.peer.id).or_insert_with(|| {
                        // Other checks of the group have results of their own.
                        let health = self.group.check_result(&slot.peer, self.number);
                        let watch = self.clone().watch(slot.peer, health);
                        RunningTask::begin(watch)
                    });
                }
                altered.await;
            }
        })
    }
}

impl CheckTask {
    async fn watch(self: Arc<Self>, peer: Arc<Peer>, health: Health) {
        let mut state = HealthState::new(health);
        loop {
            let jitter = self.plan.jitter.as_nanos().min(u128::from(u64::MAX)) as u64;
            timer::sleep(Duration::from_nanos(random::below(jitter.saturating_add(1)))).await;
            let result = self.probe.clone().check(peer.clone()).await;
            let statistics = &peer.statistics;
            statistics.checks.fetch_add(1, Ordering::Relaxed);
            statistics.last_check.store(if result.is_ok() { 2 } else { 1 }, Ordering::Relaxed);
            if result.is_err() {
                statistics.checks_failed.fetch_add(1, Ordering::Relaxed);
            }
            let next = state.after(result.is_ok(), &self.plan);
            if next.health != state.health {
                self.group.judge(&peer, self.number, next.health, clock::now());
                self.log_change(&peer, next.health, result.as_ref().err());
            }
            state = next;
            timer::sleep(self.plan.interval).await;
        }
    }

    fn log_change(&self, peer: &Peer, health: Health, reason: Option<&CheckFailure>) {
        let (group, peer) = (&self.group.name, &peer.text);
        match (health, reason) {
            (Health::Unhealthy, Some(reason)) => self.log.say(
                Level::Warn,
                format_args!("peer is unhealthy: {reason}, health check, peer: {peer} of upstream \"{group}\""),
            ),
            _ => self.log.say(
                Level::Notice,
                format_args!("peer is healthy, health check, peer: {peer} of upstream \"{group}\""),
            ),
        }
    }
}

#[cfg(test)]
mod tests;
