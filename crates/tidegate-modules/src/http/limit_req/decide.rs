//! The decision about a request: by this server's buckets, or by the stores that servers share (`sync=wait`).

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::Exchange;
use tidegate_rt::clock;

use super::buckets::Buckets;
use super::logic::Share;
use super::shared::{Shared, Terms};
use super::together::{Together, passes};
use super::{LimitReqStatus, RateLimit, RateLimits, SKIPPED, Zone, logic};

/// The decision of the rules for a request; excesses in thousandths of a request.
pub(super) enum RateDecision<'r> {
    /// No rule has a key.
    Unlimited,
    Pass,
    Delay {
        time: Duration,
        excess: u64,
        zone: &'r Zone,
    },
    Refuse {
        excess: u64,
        zone: &'r Zone,
    },
    NoRoom {
        zone: &'r Zone,
    },
    /// The store of the zone is not available, and `sync_failure=reject`.
    NoStore {
        zone: &'r Zone,
    },
}

/// A rule that has a key in a request.
struct Keyed<'r> {
    rule: &'r RateLimit,
    /// Where the key is in the text of all keys.
    key: Range<usize>,
    /// This server's share, where it decides without the others.
    alone: Option<Share>,
    /// The store was reached, or does not have to be.
    reached: bool,
}

impl RateLimit {
    /// Returns whether its requests await the store.
    pub(super) fn waits(&self) -> bool {
        self.together().is_some()
    }

    fn together(&self) -> Option<(&Shared, &Arc<Together>)> {
        let shared = self.shared.as_deref()?;
        Some((shared, shared.together.as_ref()?))
    }
}

impl Keyed<'_> {
    /// Notes how a request is decided here; `false`: it is refused.
    fn set_terms(&mut self, buckets: &Buckets, text: &[u8]) -> bool {
        let Some(shared) = &self.rule.shared else { return true };
        let terms = shared.terms(buckets, &text[self.key.clone()], self.reached);
        self.alone = match terms {
            Terms::Together | Terms::Refuse => None,
            Terms::Alone(share) => Some(share),
        };
        !matches!(terms, Terms::Refuse)
    }

    /// Counts a request in the zone's bucket.
    fn fill(&self, buckets: &mut Buckets, text: &[u8], now: Instant) -> bool {
        let (zone, key) = (&self.rule.zone, &text[self.key.clone()]);
        let (rate, bytes_max) = (zone.settings.rate, zone.bytes_max);
        let filled = match self.alone {
            None => buckets.fill(key, rate, now, bytes_max),
            Some(share) => buckets.fill_alone(key, share, (rate, now, bytes_max)),
        };
        filled.is_ok()
    }
}

impl<'r> RateDecision<'r> {
    /// Returns the decision of this one and another one, neither of which refuses: the longer delay.
    fn and(self, other: RateDecision<'r>) -> RateDecision<'r> {
        let time = |decision: &RateDecision<'_>| match decision {
            RateDecision::Delay { time, .. } => *time,
            _ => Duration::ZERO,
        };
        if time(&other) > time(&self) { other } else { self }
    }

    fn passes(&self) -> bool {
        matches!(self, RateDecision::Pass | RateDecision::Delay { .. })
    }

    /// Returns the decision about an excess that is within the burst.
    fn within(rule: &'r RateLimit, excess: u64) -> RateDecision<'r> {
        match logic::delay(excess, rule.free, rule.zone.settings.rate) {
            Duration::ZERO => RateDecision::Pass,
            time => RateDecision::Delay { time, excess, zone: &rule.zone },
        }
    }
}

impl RateLimits {
    /// Checks all rules; the request is counted by each or, if one refuses it, by none.
    pub(super) fn decide(&self, x: &mut Exchange, now: Instant) -> RateDecision<'_> {
        let (text, mut keys) = self.keys(x);
        if keys.is_empty() {
            return RateDecision::Unlimited;
        }
        let decision = decide_here(&text, &mut keys, now);
        self.count_passed(&decision, keys.iter());
        decision
    }

    /// As [`RateLimits::decide`], where zones await their stores: each store decides about all of its rules at once. What
    /// this server refuses by other rules is not counted there. Rules of several stores are counted by those that were asked
    /// before the one that refuses.
    ///
    /// Cancelling: dropped, the request may be counted by the stores.
    pub(super) async fn decide_together(&self, x: &mut Exchange) -> RateDecision<'_> {
        let (text, keys) = self.keys(x);
        if keys.is_empty() {
            return RateDecision::Unlimited;
        }
        let (mut waiting, mut here): (Vec<_>, Vec<_>) =
            keys.into_iter().partition(|keyed| keyed.rule.waits());
        if let Some(refusal) = refused_here(&text, &mut here, clock::now()) {
            return refusal;
        }
        let (mut decision, mut asked) = (RateDecision::Pass, Vec::new());
        while let Some((_, together)) = waiting.first().and_then(|keyed| keyed.rule.together()) {
            let is_same = |keyed: &Keyed<'_>| {
                keyed.rule.together().is_some_and(|(_, other)| Arc::ptr_eq(together, other))
            };
            let (mut same, others): (Vec<_>, Vec<_>) = waiting.into_iter().partition(is_same);
            waiting = others;
            match ask(together, &text, &same).await {
                Some(decided) if decided.passes() => {
                    decision = decision.and(decided);
                    asked.extend(same);
                }
                Some(refusal) => return refusal,
                None => {
                    same.iter_mut().for_each(|keyed| keyed.reached = false);
                    here.extend(same);
                }
            }
        }
        if !here.is_empty() {
            match decide_here(&text, &mut here, clock::now()) {
                decided if decided.passes() => decision = decision.and(decided),
                refusal => return refusal,
            }
        }
        self.count_passed(&decision, asked.iter().chain(&here));
        decision
    }

    /// Returns the keys of a request, in one text.
    fn keys(&self, x: &mut Exchange) -> (Vec<u8>, Vec<Keyed<'_>>) {
        let mut text = Vec::new();
        let mut keys = Vec::with_capacity(self.rules.len());
        for rule in &self.rules {
            let start = text.len();
            match rule.zone.write_key(x, &mut text) {
                true => {
                    let key = start..text.len();
                    keys.push(Keyed { rule, key, alone: None, reached: true });
                }
                false => rule.zone.tally.count(SKIPPED),
            }
        }
        (text, keys)
    }

    /// Counts a request that passes or is delayed, in the zones that do not delay it.
    fn count_passed<'k, 'r: 'k>(
        &self,
        decision: &RateDecision<'_>,
        keys: impl Iterator<Item = &'k Keyed<'r>>,
    ) {
        if !decision.passes() {
            return;
        }
        for keyed in keys {
            match decision {
                RateDecision::Delay { zone, .. } if std::ptr::eq(*zone, &*keyed.rule.zone) => {}
                _ => self.count(&keyed.rule.zone, LimitReqStatus::Passed),
            }
        }
    }
}

/// Returns the refusal of the first rule that refuses by this server's buckets. Nothing is counted.
fn refused_here<'r>(text: &[u8], keys: &mut [Keyed<'r>], now: Instant) -> Option<RateDecision<'r>> {
    keys.iter_mut()
        .find_map(|keyed| check(text, keyed, &mut keyed.rule.zone.states.lock(), now).err())
}

/// Checks a rule; returns the excess.
///
/// # Errors
/// The refusal.
fn check<'r>(
    text: &[u8],
    keyed: &mut Keyed<'r>,
    buckets: &mut Buckets,
    now: Instant,
) -> Result<u64, RateDecision<'r>> {
    let zone = &*keyed.rule.zone;
    if !keyed.set_terms(buckets, text) {
        return Err(RateDecision::NoStore { zone });
    }
    let key = &text[keyed.key.clone()];
    let excess = buckets.excess(key, zone.settings.rate, now);
    if excess > keyed.rule.burst {
        // Where the zone is shared, the others tell when it is allowed again.
        buckets.touch(key);
        return Err(RateDecision::Refuse { excess, zone });
    }
    Ok(excess)
}

/// Decides by this server's buckets. The request is counted by each rule or, if one refuses it, by none.
fn decide_here<'r>(text: &[u8], keys: &mut [Keyed<'r>], now: Instant) -> RateDecision<'r> {
    let (mut decision, count) = (RateDecision::Pass, keys.len());
    for (index, keyed) in keys.iter_mut().enumerate() {
        let zone = &*keyed.rule.zone;
        let mut buckets = zone.states.lock();
        let excess = match check(text, keyed, &mut buckets, now) {
            Ok(excess) => excess,
            Err(refusal) => return refusal,
        };
        // The last rule decides and counts under one lock, so that no other thread comes between.
        if index + 1 == count && !keyed.fill(&mut buckets, text, now) {
            return RateDecision::NoRoom { zone };
        }
        decision = decision.and(RateDecision::within(keyed.rule, excess));
    }
    for keyed in keys.iter().rev().skip(1) {
        let zone = &*keyed.rule.zone;
        if !keyed.fill(&mut zone.states.lock(), text, now) {
            return RateDecision::NoRoom { zone };
        }
    }
    decision
}

/// Lets a store decide about rules that are all of it; `None`: it has not.
async fn ask<'r>(
    together: &Arc<Together>,
    text: &[u8],
    keys: &[Keyed<'r>],
) -> Option<RateDecision<'r>> {
    let with = |keyed: &Keyed<'r>| {
        let (shared, _) = keyed.rule.together()?;
        Some(shared.term(&text[keyed.key.clone()], keyed.rule.burst))
    };
    let terms: Vec<_> = keys.iter().map(with).collect::<Option<_>>()?;
    let found = together.ask(terms.clone()).await?;
    let (passed, now) = (passes(&terms, &found), clock::now());
    let (mut decision, mut refusal) = (RateDecision::Pass, None);
    for ((keyed, term), found) in keys.iter().zip(&terms).zip(found) {
        let (rule, (shared, _)) = (keyed.rule, keyed.rule.together()?);
        let excess = shared.learn(&text[keyed.key.clone()], found, passed, now);
        if found.micros > term.most {
            refusal.get_or_insert(RateDecision::Refuse { excess, zone: &rule.zone });
        }
        decision = decision.and(RateDecision::within(rule, excess));
    }
    Some(refusal.unwrap_or(decision))
}
