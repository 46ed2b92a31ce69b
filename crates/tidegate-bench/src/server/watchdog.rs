//! Reads the reports of `loop_watchdog` in the logs of measured servers: the number of long event-loop iterations.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::config::LONG_TURN_MILLIS;

static SERVERS: AtomicU64 = AtomicU64::new(0);
static LONG_TURNS: AtomicU64 = AtomicU64::new(0);
static LONGEST_MILLIS: AtomicU64 = AtomicU64::new(0);

/// Reads the error log of a server that ran with the watchdog and has ended.
pub(crate) fn collect(log: &Path) {
    let text = fs::read(log).unwrap_or_default();
    let lengths = long_turns(&String::from_utf8_lossy(&text));
    SERVERS.fetch_add(1, Ordering::Relaxed);
    LONG_TURNS.fetch_add(lengths.len() as u64, Ordering::Relaxed);
    LONGEST_MILLIS.fetch_max(lengths.into_iter().max().unwrap_or(0), Ordering::Relaxed);
}

/// A line for the report, unless no server was watched.
pub(crate) fn summary() -> Option<String> {
    let load = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
    let (servers, turns, longest) = (load(&SERVERS), load(&LONG_TURNS), load(&LONGEST_MILLIS));
    let longest = if turns > 0 { format!(", the longest of {longest} ms") } else { String::new() };
    let limit = LONG_TURN_MILLIS;
    (servers > 0).then(|| {
        format!(
            "loop watchdog: {turns} event-loop iterations above {limit} ms{longest}, in {servers} servers"
        )
    })
}

/// Returns the lengths in milliseconds of the event-loop iterations that a log reports.
pub(crate) fn long_turns(log: &str) -> Vec<u64> {
    let reports = log.lines().filter(|line| line.contains("the loop of "));
    let lengths = reports.filter_map(|line| line.split_once("was held for ")?.1.split_once(" ms"));
    lengths.filter_map(|(length, _)| length.parse().ok()).collect()
}
