//! Purges: the time until they are everywhere, and whether one is ever missed by a server that was cut off.

use std::time::{Duration, Instant};

use super::Bed;

/// Purges whose time is measured.
const TIMED: usize = 200;
const TIME_GOAL: Duration = Duration::from_millis(20);
/// Objects in the caches.
const KEYS: usize = 50;
/// The longest wait for a purge.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn rows(bed: &mut Bed, count: usize, partitions: usize) -> Result<(), String> {
    times(bed, "purge on all servers")?;
    self::partitions(bed, count, partitions)
}

/// Measures the time from a purge to the last server that has it; `name` is that of the row.
pub(super) fn times(bed: &mut Bed, name: &str) -> Result<(), String> {
    let mut times = Vec::new();
    for number in 0..TIMED {
        let target = format!("/timed/{}", number % KEYS);
        for node in &mut bed.nodes {
            node.get(&target)?;
        }
        let version = bed.origin.change(&target);
        let begun = Instant::now();
        let purged = bed.nodes[0].ask("PURGE", &target)?.status;
        if purged != 204 {
            return Err(format!("PURGE {target}: {purged}"));
        }
        for node in 1..bed.nodes.len() {
            await_version(bed, node, &target, version)?;
        }
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    let (middle, late) = (times[TIMED / 2], times[TIMED * 99 / 100]);
    let millis = |time: Duration| time.as_secs_f64() * 1000.0;
    let found = format!("{:.1} / {:.1} ms", millis(middle), millis(late));
    bed.row(&format!("{name}, median / p99"), &found, "p99 20 ms", late <= TIME_GOAL);
    Ok(())
}

fn await_version(bed: &mut Bed, node: usize, target: &str, version: u64) -> Result<(), String> {
    let begun = Instant::now();
    while bed.nodes[node].get(target)?.body != version.to_string().into_bytes() {
        if begun.elapsed() > PATIENCE {
            return Err(format!("{target}: node {} keeps an older version", node + 1));
        }
    }
    Ok(())
}

/// Purges while one server after the other is cut off, in both directions or one; counts stale responses once it is back.
fn partitions(bed: &mut Bed, purges: usize, partitions: usize) -> Result<(), String> {
    const DIRECTIONS: [&[&str]; 3] = [&[], &["in"], &["out"]];
    let (mut stale, mut checked, mut refused, mut key) = (0, 0, 0, 0);
    for partition in 0..partitions {
        let away = partition % bed.nodes.len();
        let name = format!("node{}", away + 1);
        bed.fault(&[&["cut", &name], DIRECTIONS[partition % 3]].concat())?;
        // Some partitions end before they are noticed.
        if partition % 2 == 0 {
            bed.nodes[away].until("/api/9/http/caches/pages", "\"state\":\"cut off\"")?;
        }
        for number in 0..purges.div_ceil(partitions) {
            key = (key * 31 + 17) % 1009;
            let target = format!("/kept/{}", key % KEYS);
            for node in &mut bed.nodes {
                node.get(&target)?;
            }
            bed.origin.change(&target);
            let by = number % bed.nodes.len();
            match bed.nodes[by].ask("PURGE", &target)?.status {
                204 => {}
                503 => refused += 1,
                status => return Err(format!("PURGE {target}: {status}")),
            }
        }
        bed.fault(&["heal", &name])?;
        rejoin(bed)?;
        for key in 0..KEYS {
            stale += stale_on(bed, &format!("/kept/{key}"))?;
            checked += bed.nodes.len();
        }
    }
    let name = format!("{purges} purges, {partitions} partitions");
    bed.row(&name, &format!("{stale} stale of {checked}"), "0 stale", stale == 0);
    bed.row("  of them sent later", &refused.to_string(), "", true);
    Ok(())
}

/// Returns how many servers have an older version than the origin.
pub(super) fn stale_on(bed: &mut Bed, target: &str) -> Result<usize, String> {
    let (version, mut stale) = (bed.origin.version(target).to_string(), 0);
    for node in &mut bed.nodes {
        stale += usize::from(node.get(target)?.body != version.as_bytes());
    }
    Ok(stale)
}

/// Waits until all servers have all purges: each has sent what it had, and then a purge by each is everywhere.
pub(super) fn rejoin(bed: &mut Bed) -> Result<(), String> {
    for node in &mut bed.nodes {
        node.until("/api/9/http/caches/pages", "\"waiting\":0")?;
        node.until("/api/9/http/caches/pages", "\"state\":\"following\"")?;
    }
    for by in 0..bed.nodes.len() {
        for node in &mut bed.nodes {
            node.get("/last")?;
        }
        let version = bed.origin.change("/last");
        // While a connection recovers the purge is sent later.
        bed.nodes[by].ask("PURGE", "/last")?;
        for node in 0..bed.nodes.len() {
            await_version(bed, node, "/last", version)?;
        }
    }
    Ok(())
}
