//! One server of a group: whether it can be used, its load, and the effect of its attempts.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use md5::{Digest, Md5};

use super::check::{CheckRule, Health};
use super::options::{BalancingMethod, Outcome, ServerOptions};
use super::peer::Peer;

/// Round robin counts in parts of a weight, so that a server of weight 1 can start slowly.
pub(super) const SHARE_UNIT: i64 = 1000;

/// A server of the group and its state that changes with requests.
#[derive(Debug)]
pub(super) struct Slot {
    pub peer: Arc<Peer>,
    pub options: ServerOptions,
    /// Its number for status pages and commands.
    pub number: u32,
    /// Number of the server with a name of which it is an address.
    pub parent: Option<u32>,
    /// The results of the group's checks, and the worst of them.
    check_results: Vec<Health>,
    health: Health,
    /// Results of checks of the same name in an earlier configuration.
    former: Vec<(Box<str>, Health)>,
    /// Smooth weighted round robin: its current weight.
    pub(super) current: i64,
    /// Weight, lowered by failures and slowly restored.
    pub(super) effective: i64,
    fails: u32,
    /// Time of the last failure.
    failed_at: Option<Instant>,
    /// When it was last tried after failures.
    pub(super) checked_at: Option<Instant>,
    /// Start of its growth to its weight (`slow_start`).
    started_at: Option<Instant>,
}

impl Slot {
    pub(super) fn new(
        peer: Arc<Peer>,
        options: ServerOptions,
        parent: Option<u32>,
        number: u32,
    ) -> Slot {
        let effective = i64::from(options.weight);
        Slot {
            peer,
            options,
            number,
            parent,
            check_results: Vec::new(),
            health: Health::Fine,
            former: Vec::new(),
            current: 0,
            effective,
            fails: 0,
            failed_at: None,
            checked_at: None,
            started_at: None,
        }
    }

    /// Takes over the server's earlier state; `checks` are those of the group that had it.
    pub(super) fn inherit(&mut self, before: &Slot, checks: &[CheckRule]) {
        let names = checks.iter().map(|check| check.name.clone());
        self.former = names.zip(before.check_results.iter().copied()).collect();
        self.peer = before.peer.clone();
        self.number = before.number;
        self.fails = before.fails;
        self.failed_at = before.failed_at;
        self.checked_at = before.checked_at;
        self.started_at = before.started_at;
        if before.options.weight == self.options.weight {
            (self.current, self.effective) = (before.current, before.effective);
        }
    }

    /// Adds a check that has to be passed; its earlier result remains valid, where that is allowed.
    pub(super) fn add_check(&mut self, check: &CheckRule) {
        let known = self.former.iter().find(|(name, _)| *name == check.name);
        let known = known.filter(|_| check.persistent || !check.mandatory);
        self.check_results.push(known.map_or(check.initial_health(), |(_, health)| *health));
        self.health = self.check_results.iter().copied().max().unwrap_or_default();
    }

    /// Sets the result of a check. `true`: the server can be used again.
    pub(super) fn judge(&mut self, check: usize, health: Health, now: Instant) -> bool {
        let before = self.health;
        if let Some(verdict) = self.check_results.get_mut(check) {
            *verdict = health;
        }
        self.health = self.check_results.iter().copied().max().unwrap_or_default();
        let back = before != Health::Fine && self.health == Health::Fine;
        if back {
            self.start_slowly(now);
        }
        back
    }

    /// Returns the result of one of the group's checks.
    pub(super) fn check_result(&self, check: usize) -> Health {
        self.check_results.get(check).copied().unwrap_or_default()
    }

    /// Returns the worst result of its checks.
    pub(super) fn health(&self) -> Health {
        self.health
    }

    /// Returns whether failures keep it from being tried. A lone server is tried in any case (directive `server`,
    /// max_fails).
    pub(super) fn is_resting(&self, lone: bool, now: Instant) -> bool {
        let most = self.options.max_fails;
        let failing = !lone && most > 0 && self.fails >= most;
        failing && self.rested_since(now).is_none()
    }

    /// Returns the time of the last failure or trial, once `fail_timeout` has passed since.
    fn rested_since(&self, now: Instant) -> Option<Option<Instant>> {
        match self.checked_at {
            Some(at) if now.saturating_duration_since(at) <= self.options.fail_timeout => None,
            other => Some(other),
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.options.max_conns > 0 && self.peer.active() >= self.options.max_conns
    }

    /// Returns whether requests that are bound to it may be sent to it.
    pub(super) fn is_usable(&self, lone: bool, now: Instant) -> bool {
        !self.options.down
            && self.health == Health::Fine
            && !self.is_full()
            && !self.is_resting(lone, now)
    }

    /// Returns whether any request may be sent to it.
    pub(super) fn is_ready(&self, lone: bool, now: Instant) -> bool {
        !self.options.drain && self.is_usable(lone, now)
    }

    /// Returns its grown part of its weight, in thousandths.
    pub(super) fn grown(&self, now: Instant) -> i64 {
        let span = self.options.slow_start;
        let Some(since) = self.started_at.filter(|_| !span.is_zero()) else { return SHARE_UNIT };
        let passed = now.saturating_duration_since(since);
        match passed >= span {
            true => SHARE_UNIT,
            false => {
                (passed.as_millis() as i64 * SHARE_UNIT / span.as_millis().max(1) as i64).max(1)
            }
        }
    }

    /// Starts its growth from nothing to its weight, after it has recovered.
    pub(super) fn start_slowly(&mut self, now: Instant) {
        if !self.options.slow_start.is_zero() {
            self.started_at = Some(now);
            self.current = 0;
        }
    }

    /// Records that it is used: after `fail_timeout` this request is the trial.
    pub(super) fn used(&mut self, now: Instant) {
        if self.rested_since(now).is_some() {
            self.checked_at = Some(now);
        }
    }

    /// Applies an attempt's outcome. `true`: it is unavailable from now on.
    pub(super) fn report(&mut self, outcome: Outcome, now: Instant) -> bool {
        match outcome {
            Outcome::Failure => {
                self.fails += 1;
                self.failed_at = Some(now);
                self.checked_at = Some(now);
                self.peer.set_troubled(true);
                self.peer.statistics.fails.fetch_add(1, Ordering::Relaxed);
                let most = self.options.max_fails;
                if most > 0 {
                    let weight = i64::from(self.options.weight);
                    self.effective = (self.effective - weight / i64::from(most)).max(0);
                }
                most > 0 && self.fails == most
            }
            // A success long after the last failure clears the failures.
            Outcome::Success if self.failed_at < self.checked_at => {
                if self.fails > 0 && self.options.max_fails <= self.fails {
                    self.start_slowly(now);
                }
                self.fails = 0;
                self.peer.set_troubled(false);
                false
            }
            Outcome::Success | Outcome::Neutral => false,
        }
    }

    /// Returns the name by which requests are bound to it.
    pub(super) fn route(&self) -> Vec<u8> {
        route_of(&self.peer, &self.options)
    }

    /// Returns the value that the method compares, as a fraction: requests or time by weight.
    pub(super) fn load(&self, method: BalancingMethod, now: Instant) -> (u64, u64) {
        let weight = u64::from(self.options.weight.max(1));
        let active = u64::from(self.peer.active());
        let Some(kind) = method.time() else {
            return if method.counts() { (active, weight) } else { (0, 1) };
        };
        let time = self.peer.expected_time(kind, self.options.fail_timeout, now);
        if active == 0 && self.peer.is_to_be_probed(kind, self.options.fail_timeout, now) {
            return (0, 1);
        }
        (time.saturating_mul(active + 1), weight)
    }

    pub(super) fn load_scaled(&self, method: BalancingMethod, now: Instant) -> u64 {
        let (load, weight) = self.load(method, now);
        (u128::from(load) * (1 << 16) / u128::from(weight)).min(u128::from(u64::MAX)) as u64
    }
}

/// Returns the name by which requests are bound to a server (directive `sticky`): its route, or the MD5 of its address in
/// hexadecimal.
pub(super) fn route_of(peer: &Peer, options: &ServerOptions) -> Vec<u8> {
    match &options.route {
        Some(route) => route.as_bytes().to_vec(),
        None => {
            let digest = Md5::digest(peer.text.as_bytes());
            digest.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect()
        }
    }
}
