//! Notices to the program that supervises this process, by systemd's protocol (sd_notify(3), `Type=notify`):
//!
//! ```text
//! NOTIFY_SOCKET=/run/systemd/notify WATCHDOG_USEC=30000000 tidegate …
//!     READY=1                            the worker serves
//!     RELOADING=1 MONOTONIC_USEC=…       a reload begins; READY=1 follows, also where it was refused
//!     STOPPING=1                         QUIT, TERM
//!     MAINPID=…                          this process ends, and a newer binary continues
//!     WATCHDOG=1                         each event loop has responded
//!     WATCHDOG_USEC=…                    with the reload: the time until the next sign, and the usual one afterwards
//! ```
//! Without the variable nothing is sent. Nothing waits for a supervisor, and none is needed for the server to go on.

use std::ffi::{OsStr, OsString};
use std::io;
use std::time::{Duration, Instant};

use tidegate_core::error_log::{ErrorLog, Level};
use tidegate_os::{notify, os_error};
use tidegate_rt::clock::monotonic_reading;

/// The variable with the supervisor's socket.
const SOCKET: &str = "NOTIFY_SOCKET";
/// The variable with the time, in microseconds, after which a silent process is ended.
const WATCHDOG: &str = "WATCHDOG_USEC";
/// The variable with the process that [`WATCHDOG`] is meant for; without it, it is meant for all.
pub(crate) const WATCHDOG_PROCESS: &str = "WATCHDOG_PID";
/// Signs of life in the time of the watchdog: one may be late.
const SIGNS: u32 = 3;
/// Shortest pause between two signs of life, whatever the variable says.
const PAUSE_MIN: Duration = Duration::from_millis(10);

/// Time of the watchdog during a reload, unless the usual one is longer: names are resolved, certificates and lists are
/// read on the thread that shows the signs of life, and each name of an unreachable resolver takes its time. A reload
/// that takes longer hangs.
const RELOAD_MAX: Duration = Duration::from_secs(600);

/// The way to the supervisor, if there is one.
#[derive(Default)]
pub(crate) struct Supervisor {
    socket: Option<OsString>,
    watchdog: Option<Watchdog>,
    /// A notice was lost, which is logged once.
    has_failed: bool,
}

/// When to show the next sign of life.
struct Watchdog {
    /// After which a silent process is ended.
    time: Duration,
    pause: Duration,
    next: Instant,
    /// The event loops were asked and have not all responded: no sign until they have.
    awaited: bool,
}

impl Supervisor {
    /// Reads the environment.
    pub(crate) fn from_environment(now: Instant) -> Supervisor {
        let socket = std::env::var_os(SOCKET).filter(|socket| !socket.is_empty());
        let (usec, process) = (std::env::var_os(WATCHDOG), std::env::var_os(WATCHDOG_PROCESS));
        let time = time(usec.as_deref(), process.as_deref(), std::process::id());
        let watchdog = time.filter(|_| socket.is_some()).map(|time| Watchdog::new(time, now));
        Supervisor { socket, watchdog, has_failed: false }
    }

    /// A generation is served: after the start, after a reload.
    pub(crate) fn ready(&mut self, generation: u64, log: &ErrorLog) {
        let time = self.watchdog_time(Duration::ZERO);
        self.send(&format!("READY=1\nSTATUS=serving generation {generation}\n{time}"), log);
    }

    /// A reload begins, in which signs of life may be late.
    pub(crate) fn reloading(&mut self, log: &ErrorLog) {
        let now = monotonic_reading().as_micros();
        let time = self.watchdog_time(RELOAD_MAX);
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={now}\nSTATUS=reloading\n{time}"), log);
    }

    /// A reload was refused: `generation` is served as before.
    pub(crate) fn refused(&mut self, generation: u64, log: &ErrorLog) {
        let status = format!("the last reload was refused: serving generation {generation}");
        let time = self.watchdog_time(Duration::ZERO);
        self.send(&format!("READY=1\nSTATUS={status}\n{time}"), log);
    }

    /// The server ends.
    pub(crate) fn stopping(&mut self, log: &ErrorLog) {
        self.send("STOPPING=1\nSTATUS=ending\n", log);
    }

    /// This process ends and `process` continues: it is the one to supervise, and notices of this one would be refused.
    pub(crate) fn succeeded_by(&mut self, process: u32, log: &ErrorLog) {
        // A reload may have been in progress.
        let time = self.watchdog_time(Duration::ZERO);
        let status = "continued by another binary";
        self.send(&format!("MAINPID={process}\nSTATUS={status}\n{time}"), log);
        (self.socket, self.watchdog) = (None, None);
    }

    /// Returns the time of the next sign of life, or of the next question to the event loops.
    pub(crate) fn next_sign(&self) -> Option<Instant> {
        self.watchdog.as_ref().filter(|watchdog| !watchdog.awaited).map(|watchdog| watchdog.next)
    }

    /// Whether the event loops are to be asked now; [`Supervisor::alive`] follows when they have responded.
    pub(crate) fn asks(&mut self, now: Instant) -> bool {
        let due =
            self.watchdog.as_mut().filter(|watchdog| !watchdog.awaited && watchdog.next <= now);
        due.map(|watchdog| watchdog.awaited = true).is_some()
    }

    /// Gives a sign of life: what was asked has responded.
    pub(crate) fn alive(&mut self, now: Instant, log: &ErrorLog) {
        if let Some(watchdog) = &mut self.watchdog {
            watchdog.awaited = false;
            watchdog.next = now + watchdog.pause;
            self.send("WATCHDOG=1\n", log);
        }
    }

    /// Returns the line that sets the time of the watchdog, to no less than the given one; nothing without a watchdog.
    fn watchdog_time(&self, at_least: Duration) -> String {
        let Some(watchdog) = &self.watchdog else { return String::new() };
        format!("{WATCHDOG}={}\n", watchdog.time.max(at_least).as_micros())
    }

    fn send(&mut self, message: &str, log: &ErrorLog) {
        let Some(socket) = &self.socket else { return };
        if let Err(error) = notify::notify(socket, message) {
            let level = if self.has_failed { Level::Info } else { Level::Warn };
            self.has_failed = true;
            log.say(level, format_args!("{}", failure(socket, &error)));
        }
    }
}

fn failure(socket: &OsStr, error: &io::Error) -> String {
    let (socket, error) = (socket.display(), os_error(error));
    format!("cannot notify the supervisor at \"{socket}\" ({SOCKET}): {error}")
}

impl Watchdog {
    fn new(time: Duration, now: Instant) -> Watchdog {
        Watchdog { time, pause: (time / SIGNS).max(PAUSE_MIN), next: now, awaited: false }
    }
}

/// Returns the time of the watchdog, given the values of both variables; `None` without one, or with one that is meant
/// for another process.
fn time(usec: Option<&OsStr>, process: Option<&OsStr>, own: u32) -> Option<Duration> {
    let number = |value: &OsStr| value.to_str()?.parse::<u64>().ok();
    if let Some(process) = process
        && number(process) != Some(own.into())
    {
        return None;
    }
    number(usec?).filter(|usec| *usec > 0).map(Duration::from_micros)
}

#[cfg(test)]
mod tests;
