//! `limit_rate` and `limit_rate_after`: how many bytes of a response may have left by now.

#[cfg(test)]
mod tests;

use std::task::{Context, Poll, ready};

use tidegate_core::Exchange;
use tidegate_core::pace::{GrantInterval, Rate};

/// The rate limit of one response.
pub(crate) struct Pace {
    rate: Rate,
    /// The first bytes, which leave without a limit (`limit_rate_after`).
    after: u64,
}

impl Pace {
    /// Returns the limit by the variable, the origin's `X-Accel-Limit-Rate` or the location; `None` without a limit.
    /// Boxed: few responses have a limit, and the future of each response would have its size.
    #[inline]
    pub(crate) fn of(x: &mut Exchange) -> Option<Box<Pace>> {
        match x.limit_rate.is_none() && x.settings().limit_rate.is_none() {
            true => None,
            false => Pace::limited(x),
        }
    }

    fn limited(x: &mut Exchange) -> Option<Box<Pace>> {
        let location = x.location_ref();
        let settings = &location.settings;
        let rate = match x.limit_rate {
            Some(rate) => rate,
            None => number(&settings.limit_rate.as_ref()?.value(x)),
        };
        let rate = Rate::new(rate, GrantInterval::Quarters, x.progress.started)?;
        let after = settings.limit_rate_after.as_ref().map_or(0, |after| number(&after.value(x)));
        Some(Box::new(Pace { rate, after }))
    }

    /// Returns how many of `want` bytes may leave after the first `sent` ones; ready once that is at least one.
    pub(crate) fn poll_allowance(
        &self,
        context: &mut Context<'_>,
        sent: u64,
        want: u64,
    ) -> Poll<u64> {
        let free = self.after.saturating_sub(sent);
        if want <= free {
            return Poll::Ready(want);
        }
        let limited = sent.saturating_sub(self.after);
        let allowed = ready!(self.rate.poll_allowance(context, limited));
        Poll::Ready(want.min(allowed.saturating_add(free)))
    }
}

fn number(text: &[u8]) -> u64 {
    tidegate_conf::parse_size(text).unwrap_or(0)
}
