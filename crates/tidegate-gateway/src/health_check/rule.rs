//! `match`: the conditions of a response.

use std::sync::Arc;

use tidegate_codec::response::ResponseHead;
use tidegate_conf::{Diagnostic, Statement, Word};
use tidegate_core::regex::Regex;
use tidegate_plan::PlanBuilder;

/// The conditions of a block; all have to hold.
#[derive(Default)]
pub(super) struct MatchRules {
    conditions: Vec<Condition>,
}

enum Condition {
    /// Ranges of status codes, both ends included.
    Status {
        negated: bool,
        ranges: Vec<(u16, u16)>,
    },
    /// A field is present, or (`negated`) absent.
    Present {
        negated: bool,
        name: Box<[u8]>,
    },
    Value {
        negated: bool,
        name: Box<[u8]>,
        value: Box<[u8]>,
    },
    Matches {
        negated: bool,
        name: Box<[u8]>,
        regex: Arc<Regex>,
    },
    Body {
        negated: bool,
        regex: Arc<Regex>,
    },
}

impl MatchRules {
    /// Reads the entries of a block.
    ///
    /// # Errors
    /// An invalid condition.
    pub(super) fn compile(
        entries: &[Statement],
        plan: &mut PlanBuilder<'_>,
    ) -> Result<MatchRules, Diagnostic> {
        let conditions = entries.iter().map(|entry| condition(entry, plan));
        Ok(MatchRules { conditions: conditions.collect::<Result<_, _>>()? })
    }

    /// Returns whether the body has to be read.
    pub(super) fn needs_body(&self) -> bool {
        self.conditions.iter().any(|condition| matches!(condition, Condition::Body { .. }))
    }

    /// Checks a response; returns the first condition that does not hold.
    pub(super) fn judge(&self, head: &ResponseHead, body: &[u8]) -> Result<(), &'static str> {
        self.conditions.iter().try_for_each(|condition| match condition.holds(head, body) {
            true => Ok(()),
            false => Err(condition.name()),
        })
    }
}

impl Condition {
    fn holds(&self, head: &ResponseHead, body: &[u8]) -> bool {
        let values = |wanted: &[u8]| {
            let all = head.headers.iter();
            let same = all.filter(|(_, name, _)| name.eq_ignore_ascii_case(wanted));
            same.map(|(_, _, value)| value.to_vec()).collect::<Vec<_>>()
        };
        match self {
            Condition::Status { negated, ranges } => {
                let within = |(low, high): &(u16, u16)| (*low..=*high).contains(&head.status);
                ranges.iter().any(within) != *negated
            }
            Condition::Present { negated, name } => values(name).is_empty() == *negated,
            Condition::Value { negated, name, value } => {
                values(name).iter().any(|found| **found == **value) != *negated
            }
            Condition::Matches { negated, name, regex } => {
                values(name).iter().any(|found| is_match(regex, found)) != *negated
            }
            Condition::Body { negated, regex } => is_match(regex, body) != *negated,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Condition::Status { .. } => "the status does not match",
            Condition::Body { .. } => "the body does not match",
            _ => "the header does not match",
        }
    }
}

/// Returns whether a text matches; a match that exceeds the limit of steps counts as none.
fn is_match(regex: &Regex, text: &[u8]) -> bool {
    regex.is_match(text).unwrap_or(false)
}

fn condition(entry: &Statement, plan: &mut PlanBuilder<'_>) -> Result<Condition, Diagnostic> {
    let invalid = || {
        let what = format!("invalid \"{}\" condition of \"match\"", entry.name.display());
        Err(Diagnostic::emerg(what).at(entry.name.span))
    };
    let texts: Vec<&[u8]> = entry.args.iter().map(|word| &word.bytes[..]).collect();
    match (&entry.name.bytes[..], &texts[..]) {
        (b"status", [b"!", codes @ ..] | codes) if !codes.is_empty() => {
            let negated = texts[0] == b"!";
            let ranges = codes.iter().map(|code| range(code)).collect::<Option<Vec<_>>>();
            ranges.map_or_else(invalid, |ranges| Ok(Condition::Status { negated, ranges }))
        }
        (b"header", [b"!", name]) => Ok(Condition::Present { negated: true, name: (*name).into() }),
        (b"header", [name]) => match name.strip_prefix(b"!") {
            Some(b"") => invalid(),
            Some(name) => Ok(Condition::Present { negated: true, name: name.into() }),
            None => Ok(Condition::Present { negated: false, name: (*name).into() }),
        },
        (b"header", [name, operator @ (b"=" | b"!="), value]) => Ok(Condition::Value {
            negated: *operator == b"!=",
            name: (*name).into(),
            value: (*value).into(),
        }),
        (b"header", [name, operator @ (b"~" | b"!~"), _]) => Ok(Condition::Matches {
            negated: *operator == b"!~",
            name: (*name).into(),
            regex: regex(&entry.args[2], plan)?,
        }),
        (b"body", [operator @ (b"~" | b"!~"), _]) => {
            Ok(Condition::Body { negated: *operator == b"!~", regex: regex(&entry.args[1], plan)? })
        }
        (b"require", _) => {
            let what = "\"require\" in \"match\" is not supported yet";
            Err(Diagnostic::emerg(what).at(entry.name.span))
        }
        _ => invalid(),
    }
}

fn regex(word: &Word, plan: &mut PlanBuilder<'_>) -> Result<Arc<Regex>, Diagnostic> {
    plan.regex(&word.bytes, false, word.span)
}

/// Parses `200` or `200-399`.
fn range(text: &[u8]) -> Option<(u16, u16)> {
    let text = std::str::from_utf8(text).ok()?;
    let code = |text: &str| text.parse::<u16>().ok().filter(|code| (100..=999).contains(code));
    match text.split_once('-') {
        None => code(text).map(|code| (code, code)),
        Some((low, high)) => Some((code(low)?, code(high)?)).filter(|(low, high)| low <= high),
    }
}
