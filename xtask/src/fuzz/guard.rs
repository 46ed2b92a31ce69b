//! Runs one input at a time and keeps the one that panics, hangs or (optionally) aborts.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// An input of at most 16 KiB that takes longer than this, even unoptimised, is a hang.
const INPUT_TIME_MAX: Duration = Duration::from_secs(10);

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

fn watch(ended: &mpsc::Receiver<()>, running: &Running, failures: &Path) {
    while ended.recv_timeout(WATCH_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        let running = running.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((began, target, input)) = running.as_ref() else { continue };
        if began.elapsed() > INPUT_TIME_MAX {
            let kept = keep(failures, &name_of(target, input), input);
            eprintln!("fuzz: {target}: an input runs for more than {INPUT_TIME_MAX:?}: {kept:?}");
            std::process::exit(1);
        }
    }
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
