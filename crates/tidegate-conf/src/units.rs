//! Numbers, sizes and times in nginx's format.

use std::time::Duration;

/// Parses a number of decimal digits; returns `None` for anything else and when it does not fit 63 bits.
pub fn parse_number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    let mut number: u64 = 0;
    for byte in text {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit <= 9)?;
        number = number.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    (number <= NUMBER_MAX).then_some(number)
}

/// The largest number: nginx's are signed.
const NUMBER_MAX: u64 = i64::MAX as u64;

/// Parses a size in bytes: a number, or one of kilobytes (`k`, `K`) or megabytes (`m`, `M`).
pub fn parse_size(text: &[u8]) -> Option<u64> {
    match text.split_last()? {
        (b'k' | b'K', digits) => scaled(digits, 1 << 10),
        (b'm' | b'M', digits) => scaled(digits, 1 << 20),
        _ => parse_number(text),
    }
}

/// Parses as [`parse_size`], with gigabytes (`g`, `G`): for file sizes.
pub fn parse_offset(text: &[u8]) -> Option<u64> {
    match text.split_last()? {
        (b'g' | b'G', digits) => scaled(digits, 1 << 30),
        _ => parse_size(text),
    }
}

fn scaled(digits: &[u8], factor: u64) -> Option<u64> {
    parse_number(digits)?.checked_mul(factor).filter(|size| *size <= NUMBER_MAX)
}

/// Parses a time in seconds: `30`, `30s`, `1h30m`, `1y 6M`. Milliseconds are refused.
pub fn parse_seconds(text: &[u8]) -> Option<Duration> {
    parse_time(text, Resolution::Seconds).map(Duration::from_secs)
}

/// Parses a time down to milliseconds: `30`, `500ms`, `1h30m`. Years and months are refused.
pub fn parse_milliseconds(text: &[u8]) -> Option<Duration> {
    parse_time(text, Resolution::Milliseconds).map(Duration::from_millis)
}

#[derive(Clone, Copy, PartialEq)]
enum Resolution {
    Seconds,
    Milliseconds,
}

/// Units from the largest to the smallest; each may be given once, in this order.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Step {
    Start,
    Year,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
    Last,
}

impl Step {
    /// Returns the length in seconds; the caller counts milliseconds.
    fn seconds(self) -> u64 {
        match self {
            Step::Year => 365 * 24 * 3600,
            Step::Month => 30 * 24 * 3600,
            Step::Week => 7 * 24 * 3600,
            Step::Day => 24 * 3600,
            Step::Hour => 3600,
            Step::Minute => 60,
            Step::Start | Step::Second | Step::Millisecond | Step::Last => 1,
        }
    }
}

/// Parses numbers with units, spaces allowed after a unit; a number without a unit counts seconds and ends
/// the list. As in nginx, a unit without a number counts nothing (`h30m`), though at least one digit must be
/// present.
fn parse_time(text: &[u8], resolution: Resolution) -> Option<u64> {
    let scale = if resolution == Resolution::Milliseconds { 1000 } else { 1 };
    let mut rest = text;
    let (mut total, mut value, mut has_digits, mut step) = (0_u64, 0_u64, false, Step::Start);
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if byte.is_ascii_digit() {
            value = value.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?;
            if value > NUMBER_MAX {
                return None;
            }
            has_digits = true;
            continue;
        }
        let unit = unit(*byte, &mut rest, resolution)?;
        // A second number without a unit is not allowed either: both would end the list.
        if step >= unit || (unit == Step::Last && step >= Step::Second) {
            return None;
        }
        step = unit;
        let length = if unit == Step::Millisecond { 1 } else { unit.seconds() * scale };
        total = total.checked_add(value.checked_mul(length)?)?;
        value = 0;
        while let Some(after) = rest.strip_prefix(b" ") {
            rest = after;
        }
    }
    if !has_digits {
        return None;
    }
    total.checked_add(value.checked_mul(scale)?).filter(|time| *time <= NUMBER_MAX)
}

/// Returns the unit that begins with `byte`; takes the second letter of `ms` from `rest`.
fn unit(byte: u8, rest: &mut &[u8], resolution: Resolution) -> Option<Step> {
    let fine = resolution == Resolution::Milliseconds;
    match byte {
        b'y' if !fine => Some(Step::Year),
        b'M' if !fine => Some(Step::Month),
        b'w' => Some(Step::Week),
        b'd' => Some(Step::Day),
        b'h' => Some(Step::Hour),
        b'm' => match rest.strip_prefix(b"s") {
            Some(after) if fine => {
                *rest = after;
                Some(Step::Millisecond)
            }
            Some(_) => None,
            None => Some(Step::Minute),
        },
        b's' => Some(Step::Second),
        b' ' => Some(Step::Last),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
