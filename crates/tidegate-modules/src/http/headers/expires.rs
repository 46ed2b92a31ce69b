//! `expires`: its forms, and the `Expires` and `Cache-Control` fields that they produce.

use std::{error, fmt};

use tidegate_codec::{Known, date};
use tidegate_conf::{Args, Diagnostic, Word};
use tidegate_core::{Exchange, Template};
use tidegate_plan::PlanBuilder;
use tidegate_rt::clock;

/// The directive as written: a fixed rule, or one with variables.
#[derive(Clone)]
pub(super) enum ExpiresConf {
    Fixed(ExpiresRule),
    Variable { modified: bool, value: Word },
}

/// The compiled directive.
#[derive(Debug)]
pub(super) enum Expires {
    Fixed(ExpiresRule),
    Variable { modified: bool, value: Template },
}

/// One form of the directive. Times are in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExpiresRule {
    Off,
    Epoch,
    Max,
    /// This time from now.
    Access(i64),
    /// This time from the last modification.
    Modified(i64),
    /// The next occurrence of this time of the day, in local time.
    Daily(i64),
}

/// Why a value is no rule, in nginx's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExpiresError {
    Value,
    /// A time of the day behind `modified`.
    DailyModified,
    /// A time of the day of 24 hours or more.
    DailyTooLarge,
}

impl fmt::Display for ExpiresError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ExpiresError::Value => "invalid value",
            ExpiresError::DailyModified => "daily time cannot be used with \"modified\" parameter",
            ExpiresError::DailyTooLarge => "daily time value must be less than 24 hours",
        })
    }
}

impl error::Error for ExpiresError {}

const DAY: i64 = 24 * 3600;
const EPOCH_TEXT: &[u8] = b"Thu, 01 Jan 1970 00:00:01 GMT";
const MAX_TEXT: &[u8] = b"Thu, 31 Dec 2037 23:55:55 GMT";

/// Reads the directive.
pub(super) fn read(args: &Args<'_>) -> Result<ExpiresConf, Diagnostic> {
    let modified = args.len() == 2;
    if modified && args.bytes(0) != b"modified" {
        return Err(args.invalid(0));
    }
    let value = args.word(args.len() - 1);
    if value.bytes.contains(&b'$') {
        return Ok(ExpiresConf::Variable { modified, value: value.clone() });
    }
    match parse(&value.bytes, modified) {
        Ok(rule) => Ok(ExpiresConf::Fixed(rule)),
        Err(problem) => Err(args.error(args.len() - 1, format!("\"expires\" directive {problem}"))),
    }
}

/// Parses a value; `modified` says whether the keyword precedes it.
pub(super) fn parse(text: &[u8], modified: bool) -> Result<ExpiresRule, ExpiresError> {
    if !modified {
        match text {
            b"epoch" => return Ok(ExpiresRule::Epoch),
            b"max" => return Ok(ExpiresRule::Max),
            b"off" => return Ok(ExpiresRule::Off),
            _ => {}
        }
    }
    if let Some(time) = text.strip_prefix(b"@") {
        let Some(time) = seconds(time) else { return Err(ExpiresError::Value) };
        return match time {
            _ if modified => Err(ExpiresError::DailyModified),
            DAY.. => Err(ExpiresError::DailyTooLarge),
            _ => Ok(ExpiresRule::Daily(time)),
        };
    }
    let (sign, digits) = match text {
        [b'+', digits @ ..] => (1, digits),
        [b'-', digits @ ..] => (-1, digits),
        digits => (1, digits),
    };
    let time = sign * seconds(digits).ok_or(ExpiresError::Value)?;
    Ok(if modified { ExpiresRule::Modified(time) } else { ExpiresRule::Access(time) })
}

fn seconds(text: &[u8]) -> Option<i64> {
    i64::try_from(tidegate_conf::parse_seconds(text)?.as_secs()).ok()
}

impl ExpiresConf {
    /// Compiles the template of a value with variables.
    pub(super) fn compile(&self, plan: &mut PlanBuilder<'_>) -> Result<Expires, Diagnostic> {
        Ok(match self {
            ExpiresConf::Fixed(rule) => Expires::Fixed(*rule),
            ExpiresConf::Variable { modified, value } => {
                Expires::Variable { modified: *modified, value: plan.template(value)? }
            }
        })
    }
}

impl Expires {
    /// Returns whether it never adds fields.
    pub(super) fn is_off(&self) -> bool {
        matches!(self, Expires::Fixed(ExpiresRule::Off))
    }

    /// Sets both fields.
    pub(super) fn apply(&self, x: &mut Exchange) {
        let rule = match self {
            Expires::Fixed(rule) => *rule,
            // An invalid value counts as `off`.
            Expires::Variable { modified, value } => {
                parse(&value.value(x), *modified).unwrap_or(ExpiresRule::Off)
            }
        };
        if rule == ExpiresRule::Off {
            return;
        }
        let modified = x
            .response
            .last_modified
            .or_else(|| x.response.headers.first(Known::LastModified).and_then(date::parse_http));
        let offset = match rule {
            ExpiresRule::Daily(_) => i64::from(clock::local_utc_offset()),
            _ => 0,
        };
        let now = clock::unix_seconds();
        let Some((expires, control)) = fields(rule, now, modified, offset) else { return };
        x.response.headers.set_known(Known::Expires, &expires);
        x.response.headers.set_known(Known::CacheControl, control.as_bytes());
    }
}

/// Returns the values of `Expires` and `Cache-Control`; `now` is seconds since 1970, `offset` seconds east of
/// Greenwich, which is used by [`ExpiresRule::Daily`] alone.
pub(super) fn fields(
    rule: ExpiresRule,
    now: i64,
    modified: Option<i64>,
    offset: i64,
) -> Option<(Vec<u8>, String)> {
    let (at, age, given) = match rule {
        ExpiresRule::Off => return None,
        ExpiresRule::Epoch => return Some((EPOCH_TEXT.to_vec(), "no-cache".to_owned())),
        ExpiresRule::Max => return Some((MAX_TEXT.to_vec(), "max-age=315360000".to_owned())),
        ExpiresRule::Access(time) => (now.saturating_add(time), time, time),
        ExpiresRule::Modified(time) => {
            let at = modified.unwrap_or(now).saturating_add(time);
            (at, at.saturating_sub(now), time)
        }
        ExpiresRule::Daily(time) => {
            let midnight = (now + offset).div_euclid(DAY) * DAY - offset;
            let today = midnight + time;
            let at = if today > now { today } else { today + DAY };
            (at, at - now, time)
        }
    };
    let control = match given < 0 || age < 0 {
        true => "no-cache".to_owned(),
        false => format!("max-age={age}"),
    };
    Some((date::format_http(at).to_vec(), control))
}
