//! Time, cheap enough to be asked on every request, and its texts, made once per second and thread.

use std::cell::{Cell, RefCell};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tidegate_os::time;

use crate::{date, freshness};

/// Monotonic time, up to one timer tick (1 to 10 ms, by kernel) behind and never ahead; read
/// without a system call, and once in a run of a task.
#[inline]
pub fn now() -> Instant {
    match RUN.get() {
        Run::At(now) => now,
        Run::Begun => {
            let now = read();
            RUN.set(Run::At(now));
            now
        }
        Run::None => read(),
    }
}

/// Runs `work`, which ends soon: one reading of the clock does for [`now`] in all of it.
#[inline]
pub(crate) fn run<R>(work: impl FnOnce() -> R) -> R {
    struct Ended;
    impl Drop for Ended {
        fn drop(&mut self) {
            RUN.set(Run::None);
        }
    }
    let _ended = Ended;
    RUN.set(Run::Begun);
    work()
}

fn read() -> Instant {
    let coarse = time::clock_monotonic_coarse();
    match LAST.get() {
        // Within a tick, which many requests share.
        Some((tick, instant)) if tick == coarse => instant,
        _ => new_tick(coarse),
    }
}

/// Time since a moment that [`now`] told, by the same clock; mostly none, within one tick.
#[inline]
pub fn since(then: Instant) -> Duration {
    let now = now();
    if now == then { Duration::ZERO } else { now.saturating_duration_since(then) }
}

#[cold]
fn new_tick(coarse: Duration) -> Instant {
    let (instant, monotonic) = anchor();
    let now = match coarse.checked_sub(monotonic) {
        Some(passed) => instant + passed,
        None => instant.checked_sub(monotonic - coarse).unwrap_or(instant),
    };
    LAST.set(Some((coarse, now)));
    now
}

/// Monotonic time, exact: for measuring, where a tick matters.
#[inline]
pub fn exact_now() -> Instant {
    Instant::now()
}

/// Monotonic time of the present batch of events, exact at its beginning: what one batch holds is served
/// within less than the precision of `$request_time`. Outside of a batch as [`exact_now`].
#[inline]
pub fn batch_now() -> Instant {
    BATCH.get().unwrap_or_else(exact_now)
}

/// Runs `work`, a batch of events, with one reading of the clock for [`batch_now`].
pub fn batch(work: impl FnOnce()) {
    struct Ended;
    impl Drop for Ended {
        fn drop(&mut self) {
            BATCH.set(None);
        }
    }
    let _ended = Ended;
    BATCH.set(Some(exact_now()));
    freshness::received();
    run(work);
}

/// Whether a batch of events is being served.
#[inline]
pub(crate) fn is_in_batch() -> bool {
    BATCH.get().is_some()
}

/// Milliseconds since 1970, up to one timer tick behind (`$msec`).
#[inline]
pub fn unix_millis() -> u64 {
    u64::try_from(time::clock_realtime_coarse().as_millis()).unwrap_or(u64::MAX)
}

/// Seconds since 1970.
#[inline]
pub fn unix_seconds() -> i64 {
    i64::try_from(time::clock_realtime_coarse().as_secs()).unwrap_or(i64::MAX)
}

/// Lends the current HTTP date (RFC 9110, 5.6.7), as in `Date:`.
#[inline]
pub fn http_date<R>(use_it: impl FnOnce(&[u8; date::HTTP]) -> R) -> R {
    with_texts(|texts| use_it(&texts.http))
}

/// Lends the current time in the common log format (`$time_local`).
#[inline]
pub fn log_time_local<R>(use_it: impl FnOnce(&[u8; date::LOCAL]) -> R) -> R {
    with_texts(|texts| use_it(&texts.local))
}

/// Lends the current time as ISO 8601 (`$time_iso8601`).
#[inline]
pub fn log_time_iso8601<R>(use_it: impl FnOnce(&[u8; date::ISO8601]) -> R) -> R {
    with_texts(|texts| use_it(&texts.iso8601))
}

/// Lends the current time as error log lines begin with it (`1970/09/28 12:00:00`).
#[inline]
pub fn log_time_error<R>(use_it: impl FnOnce(&[u8; date::ERROR_LOG]) -> R) -> R {
    with_texts(|texts| use_it(&texts.error_log))
}

/// Seconds east of Greenwich that local clocks show now.
pub fn local_utc_offset() -> i32 {
    with_texts(|texts| texts.offset)
}

struct Texts {
    second: i64,
    /// The quarter of an hour for which `offset` holds: zones change at such borders only.
    quarter: i64,
    offset: i32,
    http: [u8; date::HTTP],
    local: [u8; date::LOCAL],
    iso8601: [u8; date::ISO8601],
    error_log: [u8; date::ERROR_LOG],
}

/// What is known of the time in a run of a task.
#[derive(Clone, Copy)]
enum Run {
    /// Outside of any.
    None,
    Begun,
    At(Instant),
}

thread_local! {
    static RUN: Cell<Run> = const { Cell::new(Run::None) };
    /// The tick that this thread asked for last, on both clocks.
    static LAST: Cell<Option<(Duration, Instant)>> = const { Cell::new(None) };
    static BATCH: Cell<Option<Instant>> = const { Cell::new(None) };
    static TEXTS: RefCell<Texts> = RefCell::new(Texts::at(unix_seconds(), None));
}

impl Texts {
    fn at(second: i64, known: Option<(i64, i32)>) -> Texts {
        let quarter = second.div_euclid(900);
        let offset = match known {
            Some((known_quarter, offset)) if known_quarter == quarter => offset,
            _ => time::local_utc_offset(second),
        };
        Texts {
            second,
            quarter,
            offset,
            http: date::http_date(second),
            local: date::time_local(second, offset),
            iso8601: date::time_iso8601(second, offset),
            error_log: date::time_error_log(second, offset),
        }
    }
}

fn with_texts<R>(use_them: impl FnOnce(&Texts) -> R) -> R {
    let second = unix_seconds();
    TEXTS.with(|texts| {
        // A nested call inside `use_them` in the very moment of a new second finds the texts
        // borrowed; it then reads those of the second before.
        if let Ok(mut texts) = texts.try_borrow_mut()
            && texts.second != second
        {
            *texts = Texts::at(second, Some((texts.quarter, texts.offset)));
        }
        use_them(&texts.borrow())
    })
}

/// One moment on both clocks. The Instant is taken first, so `now` is never ahead of the truth.
fn anchor() -> (Instant, Duration) {
    static ANCHOR: OnceLock<(Instant, Duration)> = OnceLock::new();
    *ANCHOR.get_or_init(|| (Instant::now(), time::clock_monotonic()))
}
