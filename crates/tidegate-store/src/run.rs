//! The task that has an engine's connection: it connects, serves, and connects again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::error_log::{ErrorLog, Level};
use tidegate_rt::{clock, random, timer};

use crate::connection::{Connection, End};
use crate::engine::Engine;

/// The pause after the first failure. It doubles with each further one.
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// The longest pause: an engine that is back is in use within a second.
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// The time after which the same reason is logged again.
const REPEAT: Duration = Duration::from_secs(60);
/// The shortest time between two lines of an engine.
const LINE_PAUSE: Duration = Duration::from_secs(1);

/// Connects to an engine and serves its queue, as long as it is polled. `name` and `log` are for log lines.
///
/// Two tasks may run for one engine for a moment, when a configuration replaces another: each serves a part of the queue.
///
/// Cancelling: dropped, the connection is closed; commands in flight fail with
/// [`CallError::Lost`](crate::CallError::Lost), and those in the queue wait for the next task.
pub async fn run(engine: Arc<Engine>, name: Arc<str>, log: ErrorLog) {
    let mut backoff = Backoff::default();
    let mut lines = Lines::default();
    let hosts = &engine.settings.address.hosts;
    for host in hosts.iter().cycle() {
        let reason = match Connection::open(&engine, host).await {
            Err(reason) => reason,
            Ok(mut connection) => {
                let replies = engine.figures().replies;
                if let Some(since) = engine.set_ready() {
                    let time = clock::exact_now().saturating_duration_since(since).as_millis();
                    let text =
                        format_args!("the store \"{name}\" is available again after {time} ms");
                    log.say(Level::Notice, text);
                    lines = Lines::default();
                }
                let end = connection.serve(&engine).await;
                if engine.figures().replies > replies {
                    backoff = Backoff::default();
                }
                match end {
                    End::Idle => {
                        engine.set_connecting();
                        timer::sleep(PAUSE_MIN).await;
                        continue;
                    }
                    End::Failed(reason) => reason,
                }
            }
        };
        let now = clock::exact_now();
        engine.set_broken(reason.clone(), now);
        if lines.allow(&reason, now) {
            let address = engine.address();
            log.say(
                Level::Error,
                format_args!("the store \"{name}\" ({address}) is unavailable: {reason}"),
            );
        }
        timer::sleep(backoff.next(random::next_u64())).await;
    }
}

/// The pauses between attempts.
#[derive(Debug, Default)]
struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Returns the next pause, shortened by up to a quarter, by `random`, so that servers do not come at the same time.
    fn next(&mut self, random: u64) -> Duration {
        let pause = PAUSE_MIN.saturating_mul(1 << self.failures.min(8)).min(PAUSE_MAX);
        self.failures = self.failures.saturating_add(1);
        let quarter = pause.as_micros() as u64 / 4;
        pause - Duration::from_micros(random % (quarter + 1))
    }
}

/// Which reasons are logged: a new one, and the same one once a minute, at most one a second.
#[derive(Debug, Default)]
pub struct Lines {
    last: Option<(Arc<str>, Instant)>,
}

impl Lines {
    /// Returns whether a line with this reason is written now.
    pub fn allow(&mut self, reason: &Arc<str>, now: Instant) -> bool {
        let allowed = self.last.as_ref().is_none_or(|(last, at)| {
            let passed = now.saturating_duration_since(*at);
            passed >= REPEAT || (passed >= LINE_PAUSE && last != reason)
        });
        if allowed {
            self.last = Some((reason.clone(), now));
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tidegate_rt::clock;

    use super::{Backoff, Lines, PAUSE_MAX, PAUSE_MIN};

    #[test]
    fn pauses_grow_up_to_the_longest() {
        let mut backoff = Backoff::default();
        let pauses: Vec<u128> = (0..6).map(|_| backoff.next(0).as_millis()).collect();
        assert_eq!(pauses, [50, 100, 200, 400, 500, 500]);
        for random in [0, 1, 77_777, u64::MAX] {
            let pause = Backoff::default().next(random);
            assert!(pause <= PAUSE_MIN && pause >= PAUSE_MIN * 3 / 4, "{random} {pause:?}");
            let mut late = Backoff { failures: u32::MAX };
            assert!(late.next(random) >= PAUSE_MAX * 3 / 4);
        }
    }

    #[test]
    fn a_reason_is_logged_once_a_minute_and_others_once_a_second() {
        let (mut lines, start) = (Lines::default(), clock::exact_now());
        let (one, two): (Arc<str>, Arc<str>) = ("one".into(), "two".into());
        let table = [
            (0, &one, true),
            (100, &one, false),
            (200, &two, false),
            (1000, &two, true),
            (1999, &one, false),
            (2000, &one, true),
            (50_000, &one, false),
            (62_000, &one, true),
        ];
        for (millis, reason, expected) in table {
            let now = start + Duration::from_millis(millis);
            assert_eq!(lines.allow(reason, now), expected, "{millis}");
        }
    }
}
