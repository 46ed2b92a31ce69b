//! Time, cheap enough to be read for every request, and its text forms, made once per second and thread.

use std::cell::{Cell, RefCell};
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};

use tidegate_os::time;

use crate::{batch_epoch, date, iteration};

/// Returns monotonic time, up to one timer tick (1 to 10 ms, by kernel) behind and never ahead. It is read without a
/// system call, and once in a run of a task.
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

/// Runs `work`, which is short: [`now`] reads the clock once in it.
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
        // Within one tick, which many requests share.
        Some((tick, instant)) if tick == coarse => instant,
        _ => new_tick(coarse),
    }
}

/// Returns the time since `then`, a result of [`now`], by the same clock; mostly zero, within one tick.
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

/// Returns exact monotonic time: for measurements, where a tick matters.
#[inline]
pub fn exact_now() -> Instant {
    Instant::now()
}

/// Returns the reading of the system's monotonic clock, which all processes share: for messages to them.
pub fn monotonic_reading() -> Duration {
    time::clock_monotonic()
}

/// Returns the monotonic time of the current batch of events, exact at its beginning: a batch is served within less
/// than the precision of `$request_time`. Outside of a batch it is [`exact_now`], or a reading that the event loop has
/// made just before.
#[inline]
pub fn batch_now() -> Instant {
    BATCH.get().unwrap_or_else(begun_now)
}

#[inline]
fn begun_now() -> Instant {
    iteration::beginning().unwrap_or_else(exact_now)
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
    BATCH.set(Some(begun_now()));
    batch_epoch::advance();
    run(work);
}

/// Whether a batch of events is being served.
#[inline]
pub(crate) fn is_in_batch() -> bool {
    BATCH.get().is_some()
}

/// Returns milliseconds since 1970, up to one timer tick behind (`$msec`).
#[inline]
pub fn unix_millis() -> u64 {
    u64::try_from(time::clock_realtime_coarse().as_millis()).unwrap_or(u64::MAX)
}

/// Returns the time since 1970 in nanoseconds, as exact as the system has it: a call of the system.
pub fn unix_time() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Returns seconds since 1970, up to one timer tick behind.
#[inline]
pub fn unix_seconds() -> i64 {
    i64::try_from(time::clock_realtime_coarse().as_secs()).unwrap_or(i64::MAX)
}

/// Passes the current HTTP date (RFC 9110, 5.6.7) to `use_it`, as in `Date:`.
#[inline]
pub fn http_date<R>(use_it: impl FnOnce(&[u8; date::HTTP]) -> R) -> R {
    with_texts(|texts| use_it(&texts.http))
}

/// Passes the current time in the common log format (`$time_local`) to `use_it`.
#[inline]
pub fn log_time_local<R>(use_it: impl FnOnce(&[u8; date::LOCAL]) -> R) -> R {
    with_texts(|texts| use_it(&texts.local))
}

/// Passes the current time as ISO 8601 (`$time_iso8601`) to `use_it`.
#[inline]
pub fn log_time_iso8601<R>(use_it: impl FnOnce(&[u8; date::ISO8601]) -> R) -> R {
    with_texts(|texts| use_it(&texts.iso8601))
}

/// Passes the current time as at the start of error log lines (`1970/09/28 12:00:00`) to `use_it`.
#[inline]
pub fn log_time_error<R>(use_it: impl FnOnce(&[u8; date::ERROR_LOG]) -> R) -> R {
    with_texts(|texts| use_it(&texts.error_log))
}

/// Returns the offset of local time now, in seconds east of Greenwich.
pub fn local_utc_offset() -> i32 {
    with_texts(|texts| texts.offset)
}

struct Texts {
    second: i64,
    /// The quarter of an hour for which `offset` holds: zones change only at such borders.
    quarter: i64,
    offset: i32,
    http: [u8; date::HTTP],
    local: [u8; date::LOCAL],
    iso8601: [u8; date::ISO8601],
    error_log: [u8; date::ERROR_LOG],
}

/// What a run of a task knows of the time.
#[derive(Clone, Copy)]
enum Run {
    /// Outside of any run.
    None,
    Begun,
    At(Instant),
}

thread_local! {
    static RUN: Cell<Run> = const { Cell::new(Run::None) };
    /// The last tick that this thread read, on both clocks.
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
        // A nested call inside `use_them` in the moment when a new second begins finds the texts borrowed; it then
        // reads those of the second before.
        if let Ok(mut texts) = texts.try_borrow_mut()
            && texts.second != second
        {
            *texts = Texts::at(second, Some((texts.quarter, texts.offset)));
        }
        use_them(&texts.borrow())
    })
}

/// Reads one moment on both clocks. The Instant is read first, so `now` is never ahead.
fn anchor() -> (Instant, Duration) {
    static ANCHOR: OnceLock<(Instant, Duration)> = OnceLock::new();
    *ANCHOR.get_or_init(|| (Instant::now(), time::clock_monotonic()))
}
