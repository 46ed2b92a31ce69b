//! `match`: the bytes sent to a server, and those expected from it.

use std::sync::Arc;

use tidegate_conf::{Diagnostic, Statement};
use tidegate_core::regex::Regex;
use tidegate_plan::PlanBuilder;

/// A block. Without `send` nothing is sent, without `expect` nothing is awaited.
#[derive(Default)]
pub(super) struct SessionMatchRules {
    pub send: Option<Vec<u8>>,
    pub expect: Option<Expect>,
}

/// The condition of the received bytes.
pub(super) enum Expect {
    /// They begin with this text.
    Text(Vec<u8>),
    Regex(Arc<Regex>),
}

/// The result for the bytes received so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MatchResult {
    Passed,
    /// More bytes may change it.
    Open,
    Failed,
}

impl SessionMatchRules {
    /// Reads the entries of a block.
    ///
    /// # Errors
    /// Anything but `send` and `expect`, or one of them twice.
    pub(super) fn compile(
        entries: &[Statement],
        plan: &mut PlanBuilder<'_>,
    ) -> Result<SessionMatchRules, Diagnostic> {
        let mut rules = SessionMatchRules::default();
        for entry in entries {
            let name = &entry.name;
            let error = |what: String| Err(Diagnostic::emerg(what).at(name.span));
            let texts: Vec<&[u8]> = entry.args.iter().map(|word| &word.bytes[..]).collect();
            let is_second = match (&name.bytes[..], &texts[..]) {
                (b"send", [text]) => rules.send.replace(unescaped(text)).is_some(),
                (b"expect", [text]) => {
                    rules.expect.replace(Expect::Text(unescaped(text))).is_some()
                }
                (b"expect", [operator @ (b"~" | b"~*"), text]) => {
                    let regex = plan.regex(text, *operator == b"~*", entry.args[1].span)?;
                    rules.expect.replace(Expect::Regex(regex)).is_some()
                }
                _ => {
                    let name = name.display();
                    return error(format!("invalid \"{name}\" condition of \"match\""));
                }
            };
            if is_second {
                return error(format!("\"{}\" is duplicate in \"match\"", name.display()));
            }
        }
        Ok(rules)
    }
}

impl Expect {
    /// Checks all bytes received so far.
    pub(super) fn judge(&self, received: &[u8]) -> MatchResult {
        match self {
            Expect::Text(text) if received.starts_with(text) => MatchResult::Passed,
            Expect::Text(text) if text.starts_with(received) => MatchResult::Open,
            Expect::Text(_) => MatchResult::Failed,
            // A match that exceeds the limit of steps counts as none.
            Expect::Regex(regex) if regex.is_match(received).unwrap_or(false) => {
                MatchResult::Passed
            }
            Expect::Regex(_) => MatchResult::Open,
        }
    }
}

/// Decodes a text in which `\x80` denotes a byte.
pub(super) fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, behind)) = rest.split_first() {
        let digits = rest.strip_prefix(b"\\x").and_then(|rest| rest.get(..2));
        let byte = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let byte = byte.and_then(|digits| std::str::from_utf8(digits).ok());
        match byte.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &rest[4..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    bytes
}
