//! Tokens of NEW_TOKEN frames (RFC 9000 section 8.1.3): each validates an address once.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use quinn_proto::{TokenLog, TokenReuseError};

/// The time in which a token can be used.
pub(crate) const LIFETIME: Duration = Duration::from_secs(3600);
/// Most tokens that are remembered of those that were issued in one lifetime; further ones are not accepted. 4 MiB at most.
const TOKENS_MAX: usize = 1 << 16;

/// The tokens that were used.
#[derive(Default)]
pub(crate) struct UsedTokens(Mutex<Used>);

#[derive(Default)]
struct Used {
    /// The lifetime since 1970 that `now` is in.
    period: u64,
    now: HashSet<u128>,
    /// Those of the lifetime before, whose tokens may still be valid.
    before: HashSet<u128>,
}

impl Used {
    fn advance(&mut self, period: u64) {
        if period <= self.period {
            return;
        }
        let before = std::mem::take(&mut self.now);
        self.before = if period == self.period + 1 { before } else { HashSet::new() };
        self.period = period;
    }
}

impl TokenLog for UsedTokens {
    fn check_and_insert(
        &self,
        nonce: u128,
        issued: SystemTime,
        lifetime: Duration,
    ) -> Result<(), TokenReuseError> {
        let since = issued.duration_since(SystemTime::UNIX_EPOCH).map_err(|_| TokenReuseError)?;
        let period = since.as_secs() / lifetime.as_secs().max(1);
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        used.advance(period);
        let is_older = period < used.period;
        if is_older && period + 1 < used.period {
            return Err(TokenReuseError);
        }
        let set = if is_older { &mut used.before } else { &mut used.now };
        match set.len() < TOKENS_MAX && set.insert(nonce) {
            true => Ok(()),
            false => Err(TokenReuseError),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_used_once() {
        let used = UsedTokens::default();
        let check = |nonce, hours| {
            let issued = SystemTime::UNIX_EPOCH + LIFETIME * hours + Duration::from_secs(1);
            used.check_and_insert(nonce, issued, LIFETIME).is_ok()
        };
        for (nonce, hours, expected) in [
            (1, 10, true),
            (1, 10, false),
            (2, 10, true),
            (1, 11, true),
            // Of the hour before.
            (2, 10, false),
            (3, 10, true),
            (1, 13, true),
            // Older than its lifetime.
            (4, 11, false),
        ] {
            assert_eq!(check(nonce, hours), expected, "{nonce} {hours}");
        }
    }
}
