//! The ways to choose: pure functions over a group's state, with the time as an argument.

use std::time::Instant;

use tidegate_rt::net::Addr;

use super::{Choice, Group, Method, Outcome, Peer, ServerOptions};

/// Keys that meet an unavailable server are hashed again so often; then round robin decides
/// (directive `ip_hash`: "the next server").
const REHASH_MAX: u32 = 20;
/// Points on the ring for each unit of weight, as Cache::Memcached::Fast has them.
const POINTS_PER_WEIGHT: u32 = 160;

/// What changes as requests go by.
#[derive(Debug)]
pub struct State {
    peers: Box<[PeerState]>,
}

#[derive(Clone, Debug)]
struct PeerState {
    /// Smooth weighted round robin: how long it is this server's turn.
    current: i64,
    /// Weight, lowered by failures and slowly restored.
    effective: i64,
    fails: u32,
    /// Of the last failure.
    failed_at: Option<Instant>,
    /// When it was last tried after failures.
    checked_at: Option<Instant>,
}

impl State {
    pub fn new(peers: &[Peer]) -> State {
        let fresh = |peer: &Peer| PeerState {
            current: 0,
            effective: i64::from(peer.options.weight),
            fails: 0,
            failed_at: None,
            checked_at: None,
        };
        State { peers: peers.iter().map(fresh).collect() }
    }

    /// Takes an attempt's outcome into account.
    pub fn report(&mut self, peers: &[Peer], index: usize, outcome: Outcome, now: Instant) {
        let (Some(state), Some(peer)) = (self.peers.get_mut(index), peers.get(index)) else {
            return;
        };
        match outcome {
            Outcome::Failure => {
                state.fails += 1;
                state.failed_at = Some(now);
                state.checked_at = Some(now);
                if peer.options.max_fails > 0 {
                    let weight = i64::from(peer.options.weight);
                    state.effective -= weight / i64::from(peer.options.max_fails);
                    state.effective = state.effective.max(0);
                }
            }
            // A success long after the last failure ends the bad time.
            Outcome::Success if state.failed_at < state.checked_at => state.fails = 0,
            Outcome::Success | Outcome::Neutral => {}
        }
    }
}

/// Chooses an untried, available server.
pub fn choose(
    group: &Group,
    state: &mut State,
    choice: &mut Choice,
    now: Instant,
) -> Option<usize> {
    let by_method = match group.method {
        Method::RoundRobin => None,
        Method::IpHash => by_hash(group, state, choice, now, ip_hash),
        Method::Hash => by_hash(group, state, choice, now, key_hash),
        Method::HashConsistent => by_ring(group, state, choice, now),
        Method::LeastConnections => None,
        Method::Random => at_random(group, state, choice, now, 1),
        Method::RandomTwo => at_random(group, state, choice, now, 2),
    };
    if by_method.is_some() {
        return by_method;
    }
    for backup in [choice.in_backup, true] {
        choice.in_backup = backup;
        let found = match group.method {
            Method::LeastConnections => least(group, state, choice, now, backup),
            _ => round_robin(group, state, choice, now, backup),
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

/// Whether a server may be chosen now.
fn available(group: &Group, state: &State, choice: &Choice, now: Instant, index: usize) -> bool {
    let (Some(peer), Some(of)) = (group.peers().get(index), state.peers.get(index)) else {
        return false;
    };
    let options = &peer.options;
    if options.down || choice.tried.get(index).copied().unwrap_or(false) || group.is_busy(index) {
        return false;
    }
    let failing = options.max_fails > 0 && of.fails >= options.max_fails;
    let resting =
        of.checked_at.is_some_and(|at| now.saturating_duration_since(at) <= options.fail_timeout);
    !(failing && resting)
}

/// Notes that a server is used: after a rest this request is the probe.
fn used(group: &Group, state: &mut State, index: usize, now: Instant) {
    let Some(of) = state.peers.get_mut(index) else { return };
    let timeout = group.peers()[index].options.fail_timeout;
    if of.checked_at.is_none_or(|at| now.saturating_duration_since(at) > timeout) {
        of.checked_at = Some(now);
    }
}

/// Smooth weighted round robin among the servers for which `eligible` holds: every server's turn grows
/// by its weight, the largest is taken and pays the sum.
fn smooth(
    group: &Group,
    state: &mut State,
    mut eligible: impl FnMut(&State, usize) -> bool,
) -> Option<usize> {
    let mut total = 0;
    let mut best: Option<usize> = None;
    for index in 0..group.peers().len() {
        if !eligible(state, index) {
            continue;
        }
        let of = &mut state.peers[index];
        of.current += of.effective;
        total += of.effective;
        if of.effective < i64::from(group.peers()[index].options.weight) {
            of.effective += 1;
        }
        if best.is_none_or(|best| state.peers[index].current > state.peers[best].current) {
            best = Some(index);
        }
    }
    let best = best?;
    state.peers[best].current -= total;
    Some(best)
}

fn round_robin(
    group: &Group,
    state: &mut State,
    choice: &Choice,
    now: Instant,
    backup: bool,
) -> Option<usize> {
    let found = smooth(group, state, |state, index| {
        group.peers()[index].options.backup == backup && available(group, state, choice, now, index)
    })?;
    used(group, state, found, now);
    Some(found)
}

fn least(
    group: &Group,
    state: &mut State,
    choice: &Choice,
    now: Instant,
    backup: bool,
) -> Option<usize> {
    let load = |index: usize| {
        let peer = &group.peers()[index];
        let busy = group.counter(index).load(std::sync::atomic::Ordering::Relaxed);
        (u64::from(busy), u64::from(peer.options.weight.max(1)))
    };
    // busy/weight compared without division.
    let less = |a: (u64, u64), b: (u64, u64)| a.0 * b.1 < b.0 * a.1;
    let mut lowest: Option<(u64, u64)> = None;
    for index in 0..group.peers().len() {
        let fits = group.peers()[index].options.backup == backup
            && available(group, state, choice, now, index);
        if fits && lowest.is_none_or(|lowest| less(load(index), lowest)) {
            lowest = Some(load(index));
        }
    }
    let lowest = lowest?;
    let found = smooth(group, state, |state, index| {
        group.peers()[index].options.backup == backup
            && available(group, state, choice, now, index)
            && !less(lowest, load(index))
    })?;
    used(group, state, found, now);
    Some(found)
}

/// The running value of a hash over a key; `u32` is the number of the attempt.
type KeyHash = fn(&[u8], &mut u32, u32) -> u32;

/// `ip_hash`: a polynomial over the address's bytes, further for each attempt.
fn ip_hash(key: &[u8], running: &mut u32, _attempt: u32) -> u32 {
    if *running == 0 {
        *running = 89;
    }
    for byte in key {
        *running = (*running * 113 + u32::from(*byte)) % 6271;
    }
    *running
}

/// `hash`: 15 bits out of CRC-32 as Cache::Memcached takes them, summed over the attempts.
fn key_hash(key: &[u8], running: &mut u32, attempt: u32) -> u32 {
    let mut text = Vec::with_capacity(key.len() + 4);
    if attempt > 0 {
        text.extend_from_slice(attempt.to_string().as_bytes());
    }
    text.extend_from_slice(key);
    *running = running.wrapping_add((crc32(&text) >> 16) & 0x7fff);
    *running
}

fn by_hash(
    group: &Group,
    state: &mut State,
    choice: &mut Choice,
    now: Instant,
    hash: KeyHash,
) -> Option<usize> {
    let primary = |index: &usize| !group.peers()[*index].options.backup;
    let total: u64 = (0..group.peers().len())
        .filter(primary)
        .map(|index| u64::from(group.peers()[index].options.weight))
        .sum();
    if total == 0 || choice.key.is_empty() {
        return None;
    }
    let mut running = 0;
    for attempt in 0..REHASH_MAX {
        let mut weight = u64::from(hash(&choice.key, &mut running, attempt)) % total;
        let found = (0..group.peers().len()).filter(primary).find(|index| {
            let own = u64::from(group.peers()[*index].options.weight);
            let here = weight < own;
            weight = weight.saturating_sub(own);
            here
        })?;
        if attempt >= choice.rehash && available(group, state, choice, now, found) {
            choice.rehash = attempt;
            used(group, state, found, now);
            return Some(found);
        }
    }
    None
}

fn by_ring(group: &Group, state: &mut State, choice: &Choice, now: Instant) -> Option<usize> {
    let ring = &group.ring;
    if choice.key.is_empty() {
        return None;
    }
    let start = ring.partition_point(|(point, _)| *point < crc32(&choice.key));
    let found = (0..ring.len()).find_map(|step| {
        let (_, index) = ring[(start + step) % ring.len()];
        let index = index as usize;
        available(group, state, choice, now, index).then_some(index)
    })?;
    used(group, state, found, now);
    Some(found)
}

/// The points of all primary servers: their names hashed in a chain, 160 for each unit of weight.
pub fn ring(servers: &[(String, Addr, ServerOptions)]) -> Box<[(u32, u32)]> {
    let mut points = Vec::new();
    for (index, (name, _, options)) in servers.iter().enumerate() {
        if options.backup {
            continue;
        }
        let (host, port) = match name.strip_prefix("unix:") {
            Some(path) => (path, ""),
            None => name.rsplit_once(':').unwrap_or((name, "80")),
        };
        let mut base = host.as_bytes().to_vec();
        base.push(0);
        base.extend_from_slice(port.as_bytes());
        let mut previous: u32 = 0;
        for _ in 0..options.weight.saturating_mul(POINTS_PER_WEIGHT) {
            let mut text = base.clone();
            text.extend_from_slice(&previous.to_le_bytes());
            previous = crc32(&text);
            points.push((previous, index as u32));
        }
    }
    points.sort_unstable();
    points.dedup_by_key(|(point, _)| *point);
    points.into()
}

fn at_random(
    group: &Group,
    state: &mut State,
    choice: &Choice,
    now: Instant,
    count: usize,
) -> Option<usize> {
    let usable = |state: &State, index: usize| {
        !group.peers()[index].options.backup && available(group, state, choice, now, index)
    };
    let mut best: Option<usize> = None;
    for _ in 0..count {
        let open = |index: &usize| usable(state, *index) && Some(*index) != best;
        let weight = |index: usize| u64::from(group.peers()[index].options.weight);
        let total: u64 = (0..group.peers().len()).filter(open).map(weight).sum();
        if total == 0 {
            break;
        }
        let mut left = tidegate_rt::random::below(total);
        let drawn = (0..group.peers().len()).filter(open).find(|index| {
            let here = left < weight(*index);
            left = left.saturating_sub(weight(*index));
            here
        })?;
        let busy = |index: usize| {
            let count = group.counter(index).load(std::sync::atomic::Ordering::Relaxed);
            u64::from(count) * 1000 / weight(index).max(1)
        };
        best = match best {
            Some(best) if busy(best) <= busy(drawn) => Some(best),
            _ => Some(drawn),
        };
    }
    let found = best?;
    used(group, state, found, now);
    Some(found)
}

/// CRC-32 (IEEE 802.3), bit by bit: keys are short and rings are made while loading.
pub fn crc32(bytes: &[u8]) -> u32 {
    let mut value = u32::MAX;
    for byte in bytes {
        value ^= u32::from(*byte);
        for _ in 0..8 {
            value = (value >> 1) ^ (0xedb8_8320 & (value & 1).wrapping_neg());
        }
    }
    !value
}
