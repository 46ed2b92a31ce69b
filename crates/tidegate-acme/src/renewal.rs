//! When a certificate is renewed: at a random moment of the server's window (RFC 9773), or by its life.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use crate::backoff::share;
use crate::chain::Chain;
use crate::key::Key;
use crate::limits::{RENEWAL_AGE_MIN, RENEWAL_PAUSE, RENEWAL_PAUSE_MAX, RENEWAL_PAUSE_MIN};
use crate::message::Renewal;
use crate::time::Time;

/// A certificate in use.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub key: Arc<Key>,
    pub chain: Chain,
    window: Option<Renewal>,
    /// The place in a window, chosen once.
    position: u64,
    /// When the server is asked for its window.
    ask: Time,
    /// The earliest renewal, of one that was issued while the process ran.
    earliest: Time,
}

/// Certificates with a shorter life are renewed in the middle of it: a failure then leaves more time.
const SHORT_LIFE: Duration = Duration::from_secs(10 * 24 * 3600);

impl Held {
    pub(crate) fn new(key: Arc<Key>, chain: Chain, now: Time, random: u64) -> Held {
        Held { key, chain, window: None, position: random, ask: now, earliest: Time(0) }
    }

    /// The certificate was just issued: however far the clock is ahead of the server's, the next order has time.
    pub(crate) fn issued(self, now: Time) -> Held {
        let life = self.chain.facts().not_after.since(self.chain.facts().not_before);
        Held { earliest: now.after(RENEWAL_AGE_MIN.min(life / 4)), ..self }
    }

    /// The clock was set back by this time.
    pub(crate) fn set_back(&mut self, back: Duration) {
        self.ask = self.ask.before(back);
        self.earliest = self.earliest.before(back);
    }

    /// Returns the name of the certificate in renewal information.
    pub(crate) fn id(&self) -> Option<&str> {
        self.chain.facts().renewal_id.as_deref()
    }

    /// Returns when the certificate is renewed, as far as is known.
    ///
    /// Without a window: after 2/3 of its life, or 1/2 of a short one, and up to 1/20 of it earlier. With a window: in it,
    /// but at the latest after 19/20 of its life, since a wrong window must not let it expire, and at the earliest at
    /// [`RENEWAL_AGE_MIN`].
    pub(crate) fn renew_at(&self) -> Time {
        let facts = self.chain.facts();
        let life = facts.not_after.since(facts.not_before);
        let due = match &self.window {
            Some(window) => {
                let length = window.end.since(window.start);
                let chosen = Time(window.start.0 + share(length, self.position).as_secs());
                let earliest = facts.not_before.after(RENEWAL_AGE_MIN.min(life / 4));
                chosen.max(earliest).min(facts.not_before.after(life / 20 * 19))
            }
            None => {
                let nominal = if life < SHORT_LIFE { life / 2 } else { life * 2 / 3 };
                facts.not_before.after(nominal.saturating_sub(share(life / 20, self.position)))
            }
        };
        due.max(self.earliest)
    }

    /// Returns when the server is to be asked for its window; never, if the certificate has no name for that.
    pub(crate) fn ask_at(&self) -> Time {
        if self.id().is_some() { self.ask } else { Time(u64::MAX) }
    }

    /// Takes the server's window, and when it wants to be asked again. Returns the page that explains a new window.
    pub(crate) fn set_window(
        &mut self,
        renewal: Renewal,
        retry_after: Option<Time>,
        now: Time,
    ) -> Option<String> {
        self.ask_again(retry_after, now);
        let is_new = self.window.as_ref() != Some(&renewal);
        let explanation = renewal.explanation.clone().filter(|_| is_new);
        self.window = Some(renewal);
        explanation
    }

    /// Asks again later. A window that is known stays.
    pub(crate) fn ask_again(&mut self, retry_after: Option<Time>, now: Time) {
        let asked = retry_after.map_or(RENEWAL_PAUSE, |time| time.since(now));
        self.ask = now.after(asked.clamp(RENEWAL_PAUSE_MIN, RENEWAL_PAUSE_MAX));
    }
}
