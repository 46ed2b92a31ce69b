//! The figures of the last minutes, for a page that has just been opened (`dashboard`).
//!
//! A service of the plan takes a sample each second. The samples belong to the process, so that a reload loses none. What
//! they hold are sums, like all figures: a reader subtracts.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_core::counters;
use tidegate_core::figures::{BOUNDS_MILLIS, BUCKETS, Figures, Kind};
use tidegate_core::plan::Service;
use tidegate_os::time::clock_process_cpu;
use tidegate_plan::PlanBuilder;
use tidegate_rt::clock;

use super::objects::Object;
use crate::cache::config::zones::{ShownCaches, Zone};
use crate::cache::status::CacheStatus;

/// Samples that are kept: five minutes.
const SAMPLES: usize = 300;
/// Time between two samples.
const INTERVAL: Duration = Duration::from_secs(1);

static HISTORY: Mutex<VecDeque<Sample>> = Mutex::new(VecDeque::new());

/// Sums at one moment: of the process, of all zones of servers, and of all caches.
struct Sample {
    /// Unix milliseconds.
    at: u64,
    requests: u64,
    active: u64,
    idle: u64,
    cpu_millis: Option<u64>,
    classes: [u64; 5],
    sent: u64,
    /// Requests by time, by the buckets of [`BOUNDS_MILLIS`].
    counts: [u64; BUCKETS],
    /// Responses that caches served.
    served: u64,
    /// Responses of locations with a cache.
    asked: u64,
}

/// Keeps the figures of the last minutes as long as the plan serves. Called more than once, it keeps them once.
pub fn keep(plan: &mut PlanBuilder<'_>) {
    #[derive(Default)]
    struct Kept(bool);
    if std::mem::replace(&mut plan.shared::<Kept>().0, true) {
        return;
    }
    let caches = plan.extensions.entry::<ShownCaches>().0.clone();
    plan.services.push(Arc::new(Sampler { figures: plan.all_figures(), caches }));
}

struct Sampler {
    figures: Arc<Figures>,
    caches: BTreeMap<String, Arc<Zone>>,
}

impl Service for Sampler {
    fn name(&self) -> String {
        "figures of the last minutes".to_owned()
    }

    fn step(&self) -> Duration {
        let sample = self.sample();
        let mut history = HISTORY.lock().unwrap_or_else(PoisonError::into_inner);
        if history.len() == SAMPLES {
            history.pop_front();
        }
        history.push_back(sample);
        INTERVAL
    }
}

impl Sampler {
    fn sample(&self) -> Sample {
        let connections = counters::figures();
        let mut sample = Sample {
            at: clock::unix_millis(),
            requests: connections.requests,
            active: connections.active.saturating_sub(connections.waiting),
            idle: connections.waiting,
            cpu_millis: cpu_millis(),
            classes: [0; 5],
            sent: 0,
            counts: [0; BUCKETS],
            served: 0,
            asked: 0,
        };
        for zone in self.figures.zones(Kind::Server) {
            let totals = zone.totals();
            sample.sent += totals.sent;
            sample.classes.iter_mut().zip(totals.classes()).for_each(|(sum, one)| *sum += one);
            sample.counts.iter_mut().zip(totals.times).for_each(|(sum, one)| *sum += one);
        }
        for zone in self.caches.values() {
            let of = zone.figures.totals();
            let responses = |status: CacheStatus| of(status)[0];
            let served: u64 = SERVED.map(responses).iter().sum();
            let fetched: u64 = FETCHED.map(responses).iter().sum();
            sample.served += served;
            sample.asked += served + fetched;
        }
        sample
    }
}

/// Responses from caches, and responses from origins.
const SERVED: [CacheStatus; 4] =
    [CacheStatus::Hit, CacheStatus::Stale, CacheStatus::Updating, CacheStatus::Revalidated];
const FETCHED: [CacheStatus; 3] = [CacheStatus::Miss, CacheStatus::Expired, CacheStatus::Bypass];

/// Returns the process's processor time in milliseconds.
pub(super) fn cpu_millis() -> Option<u64> {
    clock_process_cpu().map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// Shows all samples, the oldest first.
pub(super) fn shown() -> Object {
    let show = || {
        let history = HISTORY.lock().unwrap_or_else(PoisonError::into_inner);
        let samples: Vec<Value> = history.iter().map(sample).collect();
        json!({ "bounds_ms": BOUNDS_MILLIS, "samples": samples })
    };
    // Some milliseconds of work: on a pool thread.
    Object::new(show).weighing(SAMPLES)
}

fn sample(sample: &Sample) -> Value {
    let Sample { at, requests, active, idle, cpu_millis, classes, sent, counts, served, asked } =
        sample;
    json!({
        "active": active,
        "asked": asked,
        "at": at,
        "classes": classes,
        "counts": counts,
        "cpu": cpu_millis,
        "idle": idle,
        "requests": requests,
        "sent": sent,
        "served": served,
    })
}
