//! Dates: IMF-fixdate and the older forms, ISO 8601 and cookie times, from and to Unix seconds.
//!
//! No clock and no time zone: both are arguments.

#[cfg(test)]
mod tests;

/// A moment in the Gregorian calendar. `weekday` 0 is Sunday.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    /// The year.
    pub year: i32,
    /// The month, 1 to 12.
    pub month: u8,
    /// The day of the month, from 1 on.
    pub day: u8,
    /// The hour, 0 to 23.
    pub hour: u8,
    /// The minute, 0 to 59.
    pub minute: u8,
    /// The second, 0 to 59.
    pub second: u8,
    /// The day of the week; 0 is Sunday.
    pub weekday: u8,
}

const WEEKDAYS: [&[u8; 3]; 7] = [b"Sun", b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat"];
const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];
/// 0000-01-01 and 9999-12-31T23:59:59, the range of four-digit years.
const SECONDS_MIN: i64 = -62_167_219_200;
const SECONDS_MAX: i64 = 253_402_300_799;
const DAY: i64 = 86_400;

impl Civil {
    /// Makes a moment of Unix seconds; outside the years 0 to 9999 the nearest limit.
    pub fn from_unix(seconds: i64) -> Civil {
        let seconds = seconds.clamp(SECONDS_MIN, SECONDS_MAX);
        let days = seconds.div_euclid(DAY);
        let of_day = seconds.rem_euclid(DAY);
        // Days since 0000-03-01, so that the leap day is the last of a year.
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let of_era = shifted.rem_euclid(146_097);
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_shifted = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month_shifted + 2) / 5 + 1;
        let month = if month_shifted < 10 { month_shifted + 3 } else { month_shifted - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        Civil {
            year: year as i32,
            month: month as u8,
            day: day as u8,
            hour: (of_day / 3600) as u8,
            minute: (of_day / 60 % 60) as u8,
            second: (of_day % 60) as u8,
            weekday: (days + 4).rem_euclid(7) as u8,
        }
    }

    /// Returns Unix seconds; `None` for a moment that does not exist. `weekday` is ignored.
    pub fn to_unix(self) -> Option<i64> {
        let in_range = self.hour < 24 && self.minute < 60 && self.second < 60 && self.day >= 1;
        if !in_range || self.day > days_in_month(self.year, self.month)? {
            return None;
        }
        let year = i64::from(self.year) - i64::from(self.month <= 2);
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let month_shifted = (i64::from(self.month) + 9) % 12;
        let of_year = (153 * month_shifted + 2) / 5 + i64::from(self.day) - 1;
        let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
        let days = era * 146_097 + of_era - 719_468;
        let of_day =
            i64::from(self.hour) * 3600 + i64::from(self.minute) * 60 + i64::from(self.second);
        Some(days * DAY + of_day)
    }
}

fn days_in_month(year: i32, month: u8) -> Option<u8> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => Some(31),
        4 | 6 | 9 | 11 => Some(30),
        2 => Some(if leap { 29 } else { 28 }),
        _ => None,
    }
}

/// Formats `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 section 5.6.7).
pub fn format_http(seconds: i64) -> [u8; 29] {
    let civil = Civil::from_unix(seconds);
    let mut text = *b"Sun, 00 Jan 0000 00:00:00 GMT";
    text[..3].copy_from_slice(weekday(civil));
    put2(&mut text, 5, civil.day);
    text[8..11].copy_from_slice(month(civil));
    put4(&mut text, 12, civil.year);
    put_time(&mut text, 17, civil);
    text
}

/// Formats `2000-10-10T13:55:36+00:00` (ISO 8601). The offset is in minutes east of UTC.
pub fn format_iso8601(seconds: i64, offset_minutes: i32) -> [u8; 25] {
    let civil = Civil::from_unix(seconds.saturating_add(i64::from(offset_minutes) * 60));
    let mut text = *b"0000-00-00T00:00:00+00:00";
    put4(&mut text, 0, civil.year);
    put2(&mut text, 5, civil.month);
    put2(&mut text, 8, civil.day);
    put_time(&mut text, 11, civil);
    let (sign, hours, minutes) = offset_parts(offset_minutes);
    text[19] = sign;
    put2(&mut text, 20, hours);
    put2(&mut text, 23, minutes);
    text
}

/// Formats `Oct 10 13:55:36 2000 GMT`, the day padded with a space: OpenSSL's format of the times of a
/// certificate.
pub fn format_certificate(seconds: i64) -> String {
    let civil = Civil::from_unix(seconds);
    let name = month(civil).map(char::from);
    let name: String = name.iter().collect();
    let Civil { year, day, hour, minute, second, .. } = civil;
    format!("{name} {day:2} {hour:02}:{minute:02}:{second:02} {year} GMT")
}

/// Appends `Thu, 31-Dec-37 23:55:55 GMT`; after 2037 the year has four digits, as old clients would take two
/// for the last century.
pub fn write_cookie(seconds: i64, out: &mut Vec<u8>) {
    let civil = Civil::from_unix(seconds);
    let http = format_http(seconds);
    out.extend_from_slice(&http[..7]);
    out.push(b'-');
    out.extend_from_slice(month(civil));
    out.push(b'-');
    let year = if civil.year > 2037 { &http[12..16] } else { &http[14..16] };
    out.extend_from_slice(year);
    out.extend_from_slice(&http[16..]);
}

/// Parses IMF-fixdate, RFC 850 and asctime forms (RFC 9110 section 5.6.7) to Unix seconds.
///
/// As tolerant as nginx: the day name is not compared with the date, and `GMT` may be missing. Two-digit
/// years below 70 are of this century.
pub fn parse_http(text: &[u8]) -> Option<i64> {
    if let Ok(text) = text.try_into()
        && let Some(seconds) = parse_fixdate(text)
    {
        return Some(seconds);
    }
    let text = crate::connection::trim(text);
    match memchr::memchr(b',', text) {
        Some(comma) => parse_after_comma(crate::connection::trim(&text[comma + 1..])),
        None => parse_asctime(text),
    }
}

/// Parses one of the three forms exactly as they are specified; returns `None` for any deviation.
pub fn parse_http_strict(text: &[u8]) -> Option<i64> {
    const FIXDATE_BYTES: usize = 29;
    const RFC850_BYTES: usize = 22;
    let text = crate::connection::trim(text);
    if let Some(comma) = memchr::memchr(b',', text) {
        let rest = text[comma + 1..].strip_prefix(b" ")?;
        let is_fixdate = text.len() == FIXDATE_BYTES && comma == 3 && rest.get(2) == Some(&b' ');
        let is_rfc850 = rest.len() == RFC850_BYTES && rest.get(2) == Some(&b'-');
        if !is_fixdate && !is_rfc850 {
            return None;
        }
    }
    parse_http(text)
}

/// Parses `Sun, 06 Nov 1994 08:49:37 GMT`, the form of nearly all senders; returns `None` for any deviation.
fn parse_fixdate(text: &[u8; 29]) -> Option<i64> {
    let separated = text[3..5] == *b", " && text[7] == b' ' && text[11] == b' ' && text[16] == b' ';
    if !separated || text[19] != b':' || text[22] != b':' || text[25..] != *b" GMT" {
        return None;
    }
    let digit = |at: usize| text[at].wrapping_sub(b'0');
    let mut valid = true;
    let mut pair = |at: usize| {
        let (tens, ones) = (digit(at), digit(at + 1));
        valid &= tens <= 9 && ones <= 9;
        tens.wrapping_mul(10).wrapping_add(ones)
    };
    let (day, century, years) = (pair(5), pair(12), pair(14));
    let (hour, minute, second) = (pair(17), pair(20), pair(23));
    if !valid {
        return None;
    }
    let month = month_of(&text[8..11])?;
    let year = i32::from(century) * 100 + i32::from(years);
    Civil { year, month, day, hour, minute, second, weekday: 0 }.to_unix()
}

fn parse_after_comma(text: &[u8]) -> Option<i64> {
    let day = number(text.get(..2)?)?;
    let separator = *text.get(2)?;
    if !matches!(separator, b' ' | b'-') || *text.get(6)? != separator {
        return None;
    }
    let month = month_of(text.get(3..6)?)?;
    let rest = text.get(7..)?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let year = match (digits, separator) {
        (4, _) => number(&rest[..4])?,
        (2, b'-') => match number(&rest[..2])? {
            short @ 0..70 => 2000 + short,
            short => 1900 + short,
        },
        _ => return None,
    };
    let rest = rest[digits..].strip_prefix(b" ")?;
    let zone = rest.get(8..)?;
    if !zone.is_empty() && !zone.eq_ignore_ascii_case(b" GMT") {
        return None;
    }
    unix_of(year, month, day, &rest[..8])
}

/// Parses `Sun Nov  6 08:49:37 1994`.
fn parse_asctime(text: &[u8]) -> Option<i64> {
    if text.len() != 24 || text[3] != b' ' || text[7] != b' ' || text[10] != b' ' {
        return None;
    }
    let month = month_of(&text[4..7])?;
    let day = if text[8] == b' ' { number(&text[9..10])? } else { number(&text[8..10])? };
    if text[19] != b' ' {
        return None;
    }
    unix_of(number(&text[20..24])?, month, day, &text[11..19])
}

fn unix_of(year: u16, month: u8, day: u16, time: &[u8]) -> Option<i64> {
    if time.len() != 8 || time[2] != b':' || time[5] != b':' {
        return None;
    }
    let part = |from: usize| number(&time[from..from + 2]).map(|value| value as u8);
    let (hour, minute, second) = (part(0)?, part(3)?, part(6)?);
    let day = u8::try_from(day).ok()?;
    let civil = Civil { year: i32::from(year), month, day, hour, minute, second, weekday: 0 };
    civil.to_unix()
}

/// Parses up to four digits.
fn number(digits: &[u8]) -> Option<u16> {
    if digits.is_empty() || digits.len() > 4 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0')))
}

fn month_of(name: &[u8]) -> Option<u8> {
    let index = MONTHS.iter().position(|month| name.eq_ignore_ascii_case(*month))?;
    Some(index as u8 + 1)
}

fn weekday(civil: Civil) -> &'static [u8; 3] {
    WEEKDAYS[usize::from(civil.weekday % 7)]
}

fn month(civil: Civil) -> &'static [u8; 3] {
    MONTHS[usize::from(civil.month.saturating_sub(1) % 12)]
}

fn offset_parts(offset_minutes: i32) -> (u8, u8, u8) {
    let sign = if offset_minutes < 0 { b'-' } else { b'+' };
    let minutes = offset_minutes.unsigned_abs().min(99 * 60);
    (sign, (minutes / 60) as u8, (minutes % 60) as u8)
}

fn put_time(text: &mut [u8], at: usize, civil: Civil) {
    put2(text, at, civil.hour);
    put2(text, at + 3, civil.minute);
    put2(text, at + 6, civil.second);
}

fn put2(text: &mut [u8], at: usize, value: u8) {
    text[at] = b'0' + value / 10 % 10;
    text[at + 1] = b'0' + value % 10;
}

fn put4(text: &mut [u8], at: usize, value: i32) {
    let value = value.clamp(0, 9999);
    put2(text, at, (value / 100) as u8);
    put2(text, at + 2, (value % 100) as u8);
}
