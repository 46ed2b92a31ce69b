//! Dates as text, without allocation: the forms of HTTP and of nginx's logs.

const DAYS: [&[u8; 3]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];
const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];
const DAY: i64 = 86_400;

/// Length of an HTTP date, bytes.
pub(crate) const HTTP: usize = 29;
/// Length of `$time_local`, bytes.
pub(crate) const LOCAL: usize = 26;
/// Length of `$time_iso8601`, bytes.
pub(crate) const ISO8601: usize = 25;
/// Length of the date of an error log line, bytes.
pub(crate) const ERROR_LOG: usize = 19;

/// Formats an IMF-fixdate (RFC 9110, 5.6.7): `Sun, 06 Nov 1994 08:49:37 GMT`.
pub(crate) fn http_date(unix_seconds: i64) -> [u8; HTTP] {
    let parts = Parts::at(unix_seconds);
    let mut text = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    text[..3].copy_from_slice(DAYS[parts.weekday]);
    two(&mut text, 5, parts.day);
    text[8..11].copy_from_slice(MONTHS[parts.month]);
    four(&mut text, 12, parts.year);
    clock(&mut text, 17, &parts);
    text
}

/// Formats nginx's `$time_local`: `28/Sep/1970:12:00:00 +0600`. `offset` is in seconds east of Greenwich.
pub(crate) fn time_local(unix_seconds: i64, offset: i32) -> [u8; LOCAL] {
    let parts = Parts::at(unix_seconds.saturating_add(offset.into()));
    let mut text = *b"01/Jan/1970:00:00:00 +0000";
    two(&mut text, 0, parts.day);
    text[3..6].copy_from_slice(MONTHS[parts.month]);
    four(&mut text, 7, parts.year);
    clock(&mut text, 12, &parts);
    let (sign, hours, minutes) = zone(offset);
    text[21] = sign;
    two(&mut text, 22, hours);
    two(&mut text, 24, minutes);
    text
}

/// Formats nginx's `$time_iso8601`: `1970-09-28T12:00:00+06:00`.
pub(crate) fn time_iso8601(unix_seconds: i64, offset: i32) -> [u8; ISO8601] {
    let parts = Parts::at(unix_seconds.saturating_add(offset.into()));
    let mut text = *b"1970-01-01T00:00:00+00:00";
    four(&mut text, 0, parts.year);
    two(&mut text, 5, parts.month as i64 + 1);
    two(&mut text, 8, parts.day);
    clock(&mut text, 11, &parts);
    let (sign, hours, minutes) = zone(offset);
    text[19] = sign;
    two(&mut text, 20, hours);
    two(&mut text, 23, minutes);
    text
}

/// Formats the date of an error log line: `1970/09/28 12:00:00`.
pub(crate) fn time_error_log(unix_seconds: i64, offset: i32) -> [u8; ERROR_LOG] {
    let parts = Parts::at(unix_seconds.saturating_add(offset.into()));
    let mut text = *b"1970/01/01 00:00:00";
    four(&mut text, 0, parts.year);
    two(&mut text, 5, parts.month as i64 + 1);
    two(&mut text, 8, parts.day);
    clock(&mut text, 11, &parts);
    text
}

struct Parts {
    year: i64,
    /// 0 to 11.
    month: usize,
    day: i64,
    /// 0 is Thursday, the weekday of 1 January 1970.
    weekday: usize,
    second_of_day: i64,
}

impl Parts {
    /// Computes the parts in the proleptic Gregorian calendar, limited to the years that four digits can show.
    fn at(unix_seconds: i64) -> Parts {
        let seconds = unix_seconds.clamp(-62_135_596_800, 253_402_300_799);
        let days = seconds.div_euclid(DAY);
        // Counted from 1 March of year 0, so that the leap day is the last of its year; eras of
        // 400 years (146 097 days) repeat.
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * day_of_year + 2) / 153;
        let month = if march_month < 10 { march_month + 2 } else { march_month - 10 };
        Parts {
            year: year_of_era + era * 400 + i64::from(month < 2),
            month: usize::try_from(month).unwrap_or(0),
            day: day_of_year - (153 * march_month + 2) / 5 + 1,
            weekday: usize::try_from(days.rem_euclid(7)).unwrap_or(0),
            second_of_day: seconds.rem_euclid(DAY),
        }
    }
}

fn zone(offset: i32) -> (u8, i64, i64) {
    let minutes = i64::from(offset.unsigned_abs() / 60);
    (if offset < 0 { b'-' } else { b'+' }, minutes / 60, minutes % 60)
}

fn clock(text: &mut [u8], at: usize, parts: &Parts) {
    two(text, at, parts.second_of_day / 3600);
    two(text, at + 3, parts.second_of_day / 60 % 60);
    two(text, at + 6, parts.second_of_day % 60);
}

fn four(text: &mut [u8], at: usize, value: i64) {
    two(text, at, value / 100);
    two(text, at + 2, value % 100);
}

fn two(text: &mut [u8], at: usize, value: i64) {
    text[at] = b'0' + u8::try_from(value / 10 % 10).unwrap_or(0);
    text[at + 1] = b'0' + u8::try_from(value % 10).unwrap_or(0);
}
