//! Moments. The crate has no clock: each call passes the time.

#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use tidegate_codec::date::{self, Civil};

/// A moment, in seconds since 1970 (UTC).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// Returns the moment `duration` later, in full seconds rounded up; at most the last one.
    #[must_use]
    pub fn after(self, duration: Duration) -> Time {
        let seconds = duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0));
        Time(self.0.saturating_add(seconds))
    }

    /// Returns the moment `duration` earlier; at least the first one.
    #[must_use]
    pub(crate) fn before(self, duration: Duration) -> Time {
        Time(self.0.saturating_sub(duration.as_secs()))
    }

    /// Returns the time from `earlier` to this moment; zero where `earlier` is later.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_secs(self.0.saturating_sub(earlier.0))
    }

    /// Parses a date of RFC 3339, such as `2026-11-25T15:10:00.5+01:00`; fractions of seconds are dropped.
    pub(crate) fn from_rfc3339(text: &str) -> Option<Time> {
        let (date, rest) = text.as_bytes().split_at_checked(19)?;
        let separators = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
        let separated = separators.iter().all(|(at, byte)| date[*at] == *byte)
            && matches!(date[10], b'T' | b't' | b' ');
        if !separated {
            return None;
        }
        let civil = Civil {
            year: i32::from(number(&date[..4])?),
            month: u8::try_from(number(&date[5..7])?).ok()?,
            day: u8::try_from(number(&date[8..10])?).ok()?,
            hour: u8::try_from(number(&date[11..13])?).ok()?,
            minute: u8::try_from(number(&date[14..16])?).ok()?,
            // A leap second is the last one of its minute.
            second: u8::try_from(number(&date[17..19])?.min(59)).ok()?,
            weekday: 0,
        };
        let seconds = civil.to_unix()?.checked_sub(offset(without_fraction(rest)?)?)?;
        Some(Time(u64::try_from(seconds).ok()?))
    }

    /// Parses the value of `Retry-After` (RFC 9110 section 10.2.3): seconds from `now`, or a date.
    pub(crate) fn from_retry_after(value: &str, now: Time) -> Option<Time> {
        let value = value.trim();
        if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
            let seconds = value.parse().unwrap_or(u64::MAX);
            return Some(now.after(Duration::from_secs(seconds)));
        }
        Some(Time(u64::try_from(date::parse_http(value.as_bytes())?).ok()?))
    }
}

impl fmt::Display for Time {
    /// Writes the moment as `2026-11-25T15:10:00Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Civil { year, month, day, hour, minute, second, .. } =
            Civil::from_unix(i64::try_from(self.0).unwrap_or(i64::MAX));
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

fn number(digits: &[u8]) -> Option<u16> {
    digits.iter().try_fold(0_u16, |sum, digit| {
        digit.is_ascii_digit().then(|| sum * 10 + u16::from(digit - b'0'))
    })
}

fn without_fraction(text: &[u8]) -> Option<&[u8]> {
    let Some(rest) = text.strip_prefix(b".") else { return Some(text) };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (digits > 0).then(|| &rest[digits..])
}

/// Returns the seconds by which local time is ahead of UTC.
fn offset(text: &[u8]) -> Option<i64> {
    match text {
        b"Z" | b"z" => Some(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (number(&[*h1, *h2])?, number(&[*m1, *m2])?);
            let seconds = i64::from(hours) * 3600 + i64::from(minutes) * 60;
            let exists = hours < 24 && minutes < 60;
            exists.then_some(if *sign == b'-' { -seconds } else { seconds })
        }
        _ => None,
    }
}
