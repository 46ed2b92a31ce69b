//! The latest slow requests, and how often each cause was the verdict: of all requests of the process with timelines.

use std::collections::VecDeque;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_rt::iteration;

use super::Timeline;
use super::cause::{CAUSES, Cause};
use super::view::{NAMED_MICROS, Verdict};
use crate::figures::Counts;

/// Requests that are kept.
const KEPT: usize = 256;
/// Bytes of all of them: what clients send is part of a description.
const BYTES_MAX: usize = 1024 * 1024;

/// Descriptions of requests, the oldest first.
#[derive(Default)]
struct Latest {
    all: VecDeque<Arc<[u8]>>,
    bytes: usize,
}

static LATEST: LazyLock<Mutex<Latest>> = LazyLock::new(Mutex::default);

/// Counters by cause, and one for no cause.
static VERDICTS: LazyLock<Counts<{ CAUSES + 1 }>> = LazyLock::new(Counts::default);

/// Keeps the description of a slow request, a JSON object, in place of the oldest one.
pub fn keep(description: &[u8]) {
    if description.len() > BYTES_MAX {
        return;
    }
    let mut latest = latest_mut();
    while latest.all.len() >= KEPT || latest.bytes + description.len() > BYTES_MAX {
        let Some(oldest) = latest.all.pop_front() else { break };
        latest.bytes -= oldest.len();
    }
    latest.bytes += description.len();
    latest.all.push_back(description.into());
}

/// Returns the descriptions of the latest slow requests, the newest first.
pub fn latest() -> Vec<Arc<[u8]>> {
    latest_mut().all.iter().rev().cloned().collect()
}

fn latest_mut() -> MutexGuard<'static, Latest> {
    LATEST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts the verdict of a request whose log phase begins. Most requests are too quick for one: no state is made of them.
pub(crate) fn count(timeline: &Timeline) {
    if !timeline.is_on() {
        return;
    }
    let now = iteration::exact_now();
    timeline.logged.set(now);
    let least = Duration::from_micros(NAMED_MICROS.into());
    let is_quick = timeline.started().checked_add(least).is_none_or(|at| at > now);
    let view = if is_quick { None } else { timeline.view(now) };
    let cause = view.and_then(|view| view.verdict().cause);
    VERDICTS.add_all(cause.map_or(CAUSES, |cause| cause as usize), [1]);
}

/// Returns the words of verdicts, and how many requests had each.
pub fn verdicts() -> impl Iterator<Item = (&'static str, u64)> {
    let names = Cause::ALL.into_iter().map(Cause::name).chain([Verdict::default().name()]);
    names.zip(VERDICTS.totals())
}
