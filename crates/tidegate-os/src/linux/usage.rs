//! Memory and processor time of processes, read from /proc: for status pages and benchmarks.

use std::io;
use std::time::Duration;

/// Proportional set size of a process in bytes: its memory, with shared pages divided among their
/// users.
///
/// # Errors
/// No such process, or another user's.
pub fn pss_bytes(pid: u32) -> io::Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    parse_pss(&text).ok_or_else(unreadable)
}

/// Processor time (user and system) that a process and its threads used so far, in steps of one
/// clock tick (10 ms).
///
/// # Errors
/// No such process.
pub fn cpu_time(pid: u32) -> io::Result<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let ticks = parse_ticks(&text).ok_or_else(unreadable)?;
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Ok(Duration::from_millis(ticks.saturating_mul(1000) / per_second))
}

/// Number of threads of this process, from which it follows whether a fork is safe.
///
/// # Errors
/// /proc is not mounted.
pub fn thread_count() -> io::Result<usize> {
    Ok(std::fs::read_dir("/proc/self/task")?.count())
}

pub(super) fn parse_pss(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// Fields 14 and 15 of proc_pid_stat(5). The name (field 2) is in parentheses and may itself
/// contain spaces and parentheses, so counting starts behind the last one.
pub(super) fn parse_ticks(text: &str) -> Option<u64> {
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    user.checked_add(system)
}

fn unreadable() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "unexpected contents of a file in /proc")
}
