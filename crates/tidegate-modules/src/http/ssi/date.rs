//! Dates in a format that the page chooses (`config timefmt`): `strftime` in the C locale.

use std::io::Write;

use tidegate_codec::date::Civil;

/// The format of `$date_local` and `$date_gmt` unless a page chooses another.
pub(super) const DEFAULT_FORMAT: &[u8] = b"%A, %d-%b-%Y %H:%M:%S %Z";

const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// A time and the time zone that it is shown in.
pub(crate) struct ZonedTime<'a> {
    pub unix_seconds: i64,
    /// Seconds east of Greenwich.
    pub offset: i32,
    pub zone: &'a str,
}

/// Appends the time in `format`; unknown conversions are copied.
pub(crate) fn format(moment: &ZonedTime<'_>, format: &[u8], out: &mut Vec<u8>) {
    let civil = Civil::from_unix(moment.unix_seconds.saturating_add(i64::from(moment.offset)));
    let mut rest = format;
    while let Some(percent) = rest.iter().position(|byte| *byte == b'%') {
        out.extend_from_slice(&rest[..percent]);
        let Some(letter) = rest.get(percent + 1) else { return };
        // `%Ey` and `%Od` are alternative forms of other locales, which the C locale does not have.
        let (letter, used) = match (letter, rest.get(percent + 2)) {
            (b'E' | b'O', Some(letter)) => (letter, 3),
            _ => (letter, 2),
        };
        convert(*letter, moment, civil, out);
        rest = &rest[percent + used..];
    }
    out.extend_from_slice(rest);
}

/// Appends one conversion of `strftime` (POSIX, and GNU's `k`, `l`, `P`, `s`) in the C locale. An unknown one is
/// copied with its percent sign. Composed ones call [`format()`] with texts without composed ones, so the depth is
/// two. Source: `timefmt` of SSI's `config`.
fn convert(letter: u8, moment: &ZonedTime<'_>, civil: Civil, out: &mut Vec<u8>) {
    let weekday = WEEKDAYS[usize::from(civil.weekday % 7)];
    let month = MONTHS[usize::from(civil.month.clamp(1, 12) - 1)];
    let hour12 = match civil.hour % 12 {
        0 => 12,
        hour => hour,
    };
    let mut again = |text: &[u8]| format(moment, text, out);
    match letter {
        b'c' => return again(b"%a %b %e %H:%M:%S %Y"),
        b'D' | b'x' => return again(b"%m/%d/%y"),
        b'F' => return again(b"%Y-%m-%d"),
        b'r' => return again(b"%I:%M:%S %p"),
        b'R' => return again(b"%H:%M"),
        b'T' | b'X' => return again(b"%H:%M:%S"),
        _ => {}
    }
    let noon = civil.hour >= 12;
    // Writing to memory cannot fail.
    let _ = match letter {
        b'a' => write!(out, "{}", &weekday[..3]),
        b'A' => write!(out, "{weekday}"),
        b'b' | b'h' => write!(out, "{}", &month[..3]),
        b'B' => write!(out, "{month}"),
        b'C' => write!(out, "{:02}", civil.year / 100),
        b'd' => write!(out, "{:02}", civil.day),
        b'e' => write!(out, "{:2}", civil.day),
        b'H' => write!(out, "{:02}", civil.hour),
        b'I' => write!(out, "{hour12:02}"),
        b'j' => write!(out, "{:03}", day_of_year(civil) + 1),
        b'k' => write!(out, "{:2}", civil.hour),
        b'l' => write!(out, "{hour12:2}"),
        b'm' => write!(out, "{:02}", civil.month),
        b'M' => write!(out, "{:02}", civil.minute),
        b'n' => writeln!(out),
        b'p' => write!(out, "{}", if noon { "PM" } else { "AM" }),
        b'P' => write!(out, "{}", if noon { "pm" } else { "am" }),
        b's' => write!(out, "{}", moment.unix_seconds),
        b'S' => write!(out, "{:02}", civil.second),
        b't' => write!(out, "\t"),
        b'u' => write!(out, "{}", (civil.weekday + 6) % 7 + 1),
        b'U' => write!(out, "{:02}", week_of_year(civil, 0)),
        b'w' => write!(out, "{}", civil.weekday),
        b'W' => write!(out, "{:02}", week_of_year(civil, 1)),
        b'V' => write!(out, "{:02}", iso_week(civil).1),
        b'G' => write!(out, "{}", iso_week(civil).0),
        b'g' => write!(out, "{:02}", iso_week(civil).0 % 100),
        b'y' => write!(out, "{:02}", civil.year % 100),
        b'Y' => write!(out, "{}", civil.year),
        b'z' => zone(moment.offset, out),
        b'Z' => write!(out, "{}", moment.zone),
        b'%' => write!(out, "%"),
        other => out.write_all(&[b'%', other]),
    };
}

fn zone(offset: i32, out: &mut Vec<u8>) -> std::io::Result<()> {
    let sign = if offset < 0 { '-' } else { '+' };
    let minutes = offset.unsigned_abs() / 60;
    write!(out, "{sign}{:02}{:02}", minutes / 60, minutes % 60)
}

fn is_leap(year: i32) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Returns the day of the year, counted from 0.
fn day_of_year(civil: Civil) -> i32 {
    const BEFORE: [i32; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let leap = i32::from(is_leap(civil.year) && civil.month > 2);
    BEFORE[usize::from(civil.month.clamp(1, 12) - 1)] + leap + i32::from(civil.day) - 1
}

/// Returns the number of weeks since the year's first `first` weekday.
fn week_of_year(civil: Civil, first: i32) -> i32 {
    let weekday = (i32::from(civil.weekday) - first).rem_euclid(7);
    (day_of_year(civil) + 7 - weekday) / 7
}

/// Returns year and week by ISO 8601: a week belongs to the year that has its Thursday.
fn iso_week(civil: Civil) -> (i32, i32) {
    let monday_based = (i32::from(civil.weekday) + 6) % 7;
    let thursday = day_of_year(civil) - monday_based + 3;
    let days = |year: i32| 365 + i32::from(is_leap(year));
    let (year, thursday) = match thursday {
        before if before < 0 => (civil.year - 1, before + days(civil.year - 1)),
        behind if behind >= days(civil.year) => (civil.year + 1, behind - days(civil.year)),
        within => (civil.year, within),
    };
    (year, thursday / 7 + 1)
}
