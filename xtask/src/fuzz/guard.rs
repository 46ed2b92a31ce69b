//! Runs one input at a time and keeps the one that panics, hangs or (optionally) aborts.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// An input of at most 16 KiB that takes more of the processor than this, even unoptimised, is a hang. Other processes of
/// the machine take no part of it.
const PROCESSOR_TIME_MAX: Duration = Duration::from_secs(10);

/// An input that takes longer than this waits for something that does not come.
const WAIT_MAX: Duration = Duration::from_secs(600);

/// Interval of the watchdog.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// The running input and its start time.
type Running = Arc<Mutex<Option<(Instant, String, Vec<u8>)>>>;

pub(super) struct Guard {
    failures: PathBuf,
    careful: bool,
    running: Running,
    /// Dropped with the guard, which ends the watchdog.
    _alive: mpsc::Sender<()>,
}

impl Guard {
    /// `failures` is the directory for failing inputs; created with the first one.
    pub(super) fn new(failures: PathBuf, careful: bool) -> Guard {
        let running = Running::default();
        let (alive, ended) = mpsc::channel();
        let (watched, directory) = (running.clone(), failures.clone());
        std::thread::spawn(move || watch(&ended, &watched, &directory));
        Guard { failures, careful, running, _alive: alive }
    }

    /// `Err` is the path of the input that panicked.
    pub(super) fn run(&self, target: &str, run: fn(&[u8]), input: &[u8]) -> Result<(), String> {
        if self.careful {
            keep(&self.failures, &format!("{target}-last"), input)?;
        }
        self.note(Some((Instant::now(), target.to_owned(), input.to_vec())));
        let outcome = catch_unwind(AssertUnwindSafe(|| run(input)));
        self.note(None);
        match outcome {
            Ok(()) => Ok(()),
            Err(_) => Err(keep(&self.failures, &name_of(target, input), input)?),
        }
    }

    fn note(&self, now: Option<(Instant, String, Vec<u8>)>) {
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }
}

/// Looks at the running input at each interval. An input is known by its start, so its time counts from the first look.
fn watch(ended: &mpsc::Receiver<()>, running: &Running, failures: &Path) {
    let mut seen = None;
    while ended.recv_timeout(WATCH_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        let running = running.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((began, target, input)) = running.as_ref() else { continue };
        let now = processor_time();
        let first = match seen {
            Some((start, first)) if start == *began => first,
            _ => now,
        };
        seen = Some((*began, first));
        let spent = match (now, first) {
            (Some(now), Some(first)) => now.saturating_sub(first),
            _ => began.elapsed(),
        };
        if spent > PROCESSOR_TIME_MAX || began.elapsed() > WAIT_MAX {
            let kept = keep(failures, &name_of(target, input), input);
            eprintln!(
                "fuzz: {target}: an input runs for {:?}, of which {spent:?} on a processor: {kept:?}",
                began.elapsed()
            );
            std::process::exit(1);
        }
    }
}

/// The processor time of this process; `None` where the system has no `/proc`.
fn processor_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    ticks(&stat).map(|ticks| Duration::from_millis(ticks.saturating_mul(10)))
}

/// utime and stime of proc(5), in the hundredths of a second of its interface. They are the 14th and 15th field; the second
/// one is a name that may hold anything.
fn ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user.saturating_add(system))
}

/// Writes an input; returns its path.
fn keep(directory: &Path, name: &str, input: &[u8]) -> Result<String, String> {
    let file = directory.join(name);
    std::fs::create_dir_all(directory)
        .and_then(|()| std::fs::write(&file, input))
        .map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(file.display().to_string())
}

/// The same input gets the same name (FNV-1a of its bytes).
fn name_of(target: &str, input: &[u8]) -> String {
    format!("{target}-{:016x}", fingerprint(input))
}

pub(super) fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_behind_any_name() {
        let stat = "7 (a) b (c)) R 1 2 3 4 5 6 7 8 9 10 120 30 0 0 20";
        assert_eq!(ticks(stat), Some(150));
        assert_eq!(ticks("7 (cut off"), None);
        assert_eq!(ticks("7 (short) R 1 2 3"), None);
    }
}
