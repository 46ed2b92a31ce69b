//! Servers are asked now and then whether they are well (`health_check`). What is asked is the caller's;
//! here is when, and what follows from the answers.
//!
//! ```text
//!                 passed                     `fails` failed in a row
//! Checking ──────────────────> Fine ────────────────────────────────> Unhealthy
//!     │                         ^                                        │
//!     │ failed                  └──────── `passes` passed in a row ──────┘
//!     └────────────────────────────────────────────────────────────────> Unhealthy
//! ```
//!
//! A server begins as `Checking` where the check is `mandatory` (no request goes to it), else as `Fine`, or with what
//! an earlier configuration knew. Each server has one task: a random wait, the check, the interval. So a server has one
//! check of a kind under way at most. Dropped while it waits or checks (the plan or the server is gone), the task says
//! nothing of that check: health changes behind a whole check only.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate_core::error_log::{ErrorLog, Level};
use tidegate_rt::{clock, random, timer};

use super::{BackgroundTask, Running};
use crate::peers::{Group, Health, Peer};

/// When servers are checked and how often they have to pass or fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckPlan {
    /// Between the end of one check and the next.
    pub interval: Duration,
    /// Each check is put off by a random time up to this.
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
    /// Asks a server whether it is well.
    fn check(
        self: Arc<Self>,
        peer: Arc<Peer>,
    ) -> Pin<Box<dyn Future<Output = Result<(), CheckFailure>>>>;
}

/// What is wrong with a server that fails a check. Displayed in words for the log.
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

/// Checks a group's servers as long as the group is in use.
pub struct CheckTask {
    /// Whose servers are checked; those that come later as well.
    pub group: Arc<Group>,
    /// As [`Group::add_check`] gave it.
    pub number: usize,
    /// When, and how often they have to pass or fail.
    pub plan: CheckPlan,
    /// What is asked of a server.
    pub probe: Arc<dyn Probe>,
    /// Gets a line for each change: `warn` for a server that becomes unhealthy, `notice` for one that is well again.
    pub log: ErrorLog,
}

/// How a server has done in the last checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    health: Health,
    /// Checks in a row that said the opposite.
    against: u32,
}

impl Standing {
    fn new(health: Health) -> Standing {
        Standing { health, against: 0 }
    }

    /// Takes a check's result into account. The first one decides about a server that nothing is known of.
    fn after(self, passed: bool, plan: &CheckPlan) -> Standing {
        let result = if passed { Health::Fine } else { Health::Unhealthy };
        if result == self.health || self.health == Health::Checking {
            return Standing::new(result);
        }
        let against = self.against + 1;
        let needed = if passed { plan.passes } else { plan.fails };
        match against >= needed {
            true => Standing::new(result),
            false => Standing { against, ..self },
        }
    }
}

impl BackgroundTask for CheckTask {
    fn run(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(async move {
            let mut tasks: HashMap<u64, Running> = HashMap::new();
            loop {
                let altered = self.group.altered();
                let view = self.group.view(clock::now());
                tasks.retain(|id, _| view.iter().any(|slot| slot.peer.id == *id));
                for slot in view.into_iter().filter(|slot| !slot.options.down) {
                    tasks.entry(slot.peer.id).or_insert_with(|| {
                        let watch = self.clone().watch(slot.peer, slot.health);
                        Running::begin(watch)
                    });
                }
                altered.await;
            }
        })
    }
}

impl CheckTask {
    async fn watch(self: Arc<Self>, peer: Arc<Peer>, health: Health) {
        let mut standing = Standing::new(health);
        loop {
            let jitter = self.plan.jitter.as_nanos().min(u128::from(u64::MAX)) as u64;
            timer::sleep(Duration::from_nanos(random::below(jitter.saturating_add(1)))).await;
            let result = self.probe.clone().check(peer.clone()).await;
            let figures = &peer.figures;
            figures.checks.fetch_add(1, Ordering::Relaxed);
            figures.last_check.store(if result.is_ok() { 2 } else { 1 }, Ordering::Relaxed);
            if result.is_err() {
                figures.checks_failed.fetch_add(1, Ordering::Relaxed);
            }
            let next = standing.after(result.is_ok(), &self.plan);
            if next.health != standing.health {
                self.group.judge(&peer, self.number, next.health, clock::now());
                self.tell(&peer, next.health, result.as_ref().err());
            }
            standing = next;
            timer::sleep(self.plan.interval).await;
        }
    }

    fn tell(&self, peer: &Peer, health: Health, reason: Option<&CheckFailure>) {
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
