//! `proxy_cookie_domain`, `proxy_cookie_path`, `proxy_cookie_flags`: attributes of `Set-Cookie` fields.

use std::sync::Arc;

use tidegate_codec::connection::trim;
use tidegate_codec::headers::one_line;
use tidegate_codec::{Headers, Known};
use tidegate_conf::{Diagnostic, Word};
use tidegate_core::regex::Regex;
use tidegate_core::{Exchange, Template};
use tidegate_plan::PlanBuilder;

use super::conf::Conf;

/// All three kinds of rules.
#[derive(Debug, Default)]
pub(crate) struct CookieRules {
    domains: Vec<AttributeRule>,
    paths: Vec<AttributeRule>,
    flags: Vec<FlagRule>,
}

#[derive(Debug)]
struct AttributeRule {
    pattern: Pattern,
    replacement: Template,
}

#[derive(Debug)]
struct FlagRule {
    name: Pattern,
    flags: Vec<Template>,
}

#[derive(Debug)]
enum Pattern {
    Text(Template),
    Regex(Arc<Regex>),
}

impl CookieRules {
    /// Compiles a block's rules.
    pub(crate) fn compile(
        conf: &Conf,
        plan: &mut PlanBuilder<'_>,
    ) -> Result<CookieRules, Diagnostic> {
        let mut rules = CookieRules::default();
        for (from, to) in conf.cookie_domain.iter().flatten() {
            let from = match from.bytes.strip_prefix(b".") {
                Some(bare) => Word { bytes: bare.to_vec(), ..from.clone() },
                None => from.clone(),
            };
            let to = match to.bytes.strip_prefix(b".") {
                Some(bare) => Word { bytes: bare.to_vec(), ..to.clone() },
                None => to.clone(),
            };
            let pattern = pattern(&from, true, plan)?;
            rules.domains.push(AttributeRule { pattern, replacement: plan.template(&to)? });
        }
        for (from, to) in conf.cookie_path.iter().flatten() {
            let pattern = pattern(from, false, plan)?;
            rules.paths.push(AttributeRule { pattern, replacement: plan.template(to)? });
        }
        for words in conf.cookie_flags.iter().flatten() {
            let Some((name, flags)) = words.split_first() else { continue };
            let name = pattern(name, true, plan)?;
            let flags = flags
                .iter()
                .map(|flag| match is_flag(&flag.bytes) {
                    true => plan.template(flag),
                    false => {
                        let message = format!("invalid parameter \"{}\"", flag.display());
                        Err(Diagnostic::emerg(message).at(flag.span))
                    }
                })
                .collect::<Result<_, _>>()?;
            rules.flags.push(FlagRule { name, flags });
        }
        Ok(rules)
    }

    fn is_empty(&self) -> bool {
        self.domains.is_empty() && self.paths.is_empty() && self.flags.is_empty()
    }
}

/// Compiles the first argument of a rule. Domains and names of cookies are compared without regard to case in any case
/// (`caseless`), so `~*` is no prefix of theirs; with paths it makes the difference.
fn pattern(word: &Word, caseless: bool, plan: &mut PlanBuilder<'_>) -> Result<Pattern, Diagnostic> {
    Ok(match &word.bytes[..] {
        [b'~', b'*', text @ ..] if !caseless => Pattern::Regex(plan.regex(text, true, word.span)?),
        [b'~', text @ ..] => Pattern::Regex(plan.regex(text, caseless, word.span)?),
        _ => Pattern::Text(plan.template(word)?),
    })
}

fn is_flag(text: &[u8]) -> bool {
    text.contains(&b'$') || Flag::of(text).is_some()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Flag {
    Secure(bool),
    HttpOnly(bool),
    SameSite(Option<&'static [u8]>),
}

impl Flag {
    fn of(text: &[u8]) -> Option<Flag> {
        Some(match &text.to_ascii_lowercase()[..] {
            b"secure" => Flag::Secure(true),
            b"nosecure" => Flag::Secure(false),
            b"httponly" => Flag::HttpOnly(true),
            b"nohttponly" => Flag::HttpOnly(false),
            b"samesite=strict" => Flag::SameSite(Some(b"; SameSite=Strict")),
            b"samesite=lax" => Flag::SameSite(Some(b"; SameSite=Lax")),
            b"samesite=none" => Flag::SameSite(Some(b"; SameSite=None")),
            b"nosamesite" => Flag::SameSite(None),
            _ => return None,
        })
    }

    fn attribute(self) -> &'static [u8] {
        match self {
            Flag::Secure(_) => b"secure",
            Flag::HttpOnly(_) => b"httponly",
            Flag::SameSite(_) => b"samesite",
        }
    }

    fn addition(self) -> Option<&'static [u8]> {
        match self {
            Flag::Secure(true) => Some(b"; Secure"),
            Flag::HttpOnly(true) => Some(b"; HttpOnly"),
            Flag::SameSite(value) => value,
            _ => None,
        }
    }
}

/// Rewrites the cookies of the response.
pub(super) fn apply(x: &mut Exchange, rules: &CookieRules) {
    if rules.is_empty() || !x.response.headers.contains(Known::SetCookie) {
        return;
    }
    let headers = std::mem::take(&mut x.response.headers);
    let mut changed = Headers::with_capacity(headers.text().len() + 64, headers.len());
    for (known, name, value) in headers.iter() {
        match known {
            Known::SetCookie => changed.push(name, &one_line(cookie(x, rules, value))),
            _ => changed.push(name, value),
        }
    }
    x.response.headers = changed;
}

/// Returns one field's value with all rules applied (`proxy_cookie_domain`, `proxy_cookie_path`,
/// `proxy_cookie_flags`; the attributes of RFC 6265 section 4.1).
///
/// Invariant: name and value of the cookie and attributes without a rule remain byte for byte, in their order. An
/// attribute with a flag is removed from its place, and added once at the end if the flag sets it.
fn cookie(x: &mut Exchange, rules: &CookieRules, value: &[u8]) -> Vec<u8> {
    let mut parts = value.split(|byte| *byte == b';');
    let pair = parts.next().unwrap_or_default();
    let mut out = pair.to_vec();
    let flags = flags(x, rules, pair);
    for part in parts {
        let (name, text) = match part.iter().position(|byte| *byte == b'=') {
            Some(equals) => (trim(&part[..equals]), Some(&part[equals + 1..])),
            None => (trim(part), None),
        };
        if flags.iter().any(|flag| name.eq_ignore_ascii_case(flag.attribute())) {
            continue;
        }
        let rewritten = match text.map(trim) {
            Some(text) if name.eq_ignore_ascii_case(b"domain") => domain(x, &rules.domains, text),
            Some(text) if name.eq_ignore_ascii_case(b"path") => path(x, &rules.paths, text),
            _ => None,
        };
        out.push(b';');
        match (rewritten, part.iter().position(|byte| *byte == b'=')) {
            (Some(text), Some(equals)) => {
                out.extend_from_slice(&part[..=equals]);
                out.extend_from_slice(&text);
            }
            _ => out.extend_from_slice(part),
        }
    }
    for flag in flags {
        out.extend_from_slice(flag.addition().unwrap_or_default());
    }
    out
}

/// Rewrites a domain equal to the rule's, whatever the case; a leading dot is not compared and remains.
fn domain(x: &mut Exchange, rules: &[AttributeRule], text: &[u8]) -> Option<Vec<u8>> {
    let (dot, bare) = match text.strip_prefix(b".") {
        Some(bare) => (&b"."[..], bare),
        None => (&b""[..], text),
    };
    for rule in rules {
        match &rule.pattern {
            Pattern::Text(template) => {
                if template.value(x).eq_ignore_ascii_case(bare) {
                    return Some([dot, &rule.replacement.value(x)].concat());
                }
            }
            Pattern::Regex(regex) => {
                if let Some(value) = by_regex(x, regex, &rule.replacement, bare) {
                    return Some([dot, &value].concat());
                }
            }
        }
    }
    None
}

/// Rewrites a path that begins with the rule's.
fn path(x: &mut Exchange, rules: &[AttributeRule], text: &[u8]) -> Option<Vec<u8>> {
    for rule in rules {
        match &rule.pattern {
            Pattern::Text(template) => {
                let prefix = template.value(x);
                if let Some(rest) = text.strip_prefix(&prefix[..]) {
                    return Some([&rule.replacement.value(x), rest].concat());
                }
            }
            Pattern::Regex(regex) => {
                if let Some(value) = by_regex(x, regex, &rule.replacement, text) {
                    return Some(value);
                }
            }
        }
    }
    None
}

fn by_regex(x: &mut Exchange, regex: &Regex, to: &Template, text: &[u8]) -> Option<Vec<u8>> {
    let kept = x.modules.captures.clone();
    let matched = regex.capture(x, text).unwrap_or(false);
    let value = matched.then(|| to.value(x));
    x.modules.captures = kept;
    value
}

/// Returns the flags of the first rule for this cookie, in nginx's order of appending.
fn flags(x: &mut Exchange, rules: &CookieRules, pair: &[u8]) -> Vec<Flag> {
    let name = pair.split(|byte| *byte == b'=').next().map(trim).unwrap_or_default();
    for rule in &rules.flags {
        let fits = match &rule.name {
            Pattern::Text(template) => template.value(x).eq_ignore_ascii_case(name),
            Pattern::Regex(regex) => {
                let kept = x.modules.captures.clone();
                let matched = regex.capture(x, name).unwrap_or(false);
                x.modules.captures = kept;
                matched
            }
        };
        if fits {
            let values = rule.flags.iter().map(|flag| flag.value(x));
            let mut flags: Vec<Flag> = values.filter_map(|value| Flag::of(&value)).collect();
            flags.sort_by_key(|flag| match flag {
                Flag::Secure(_) => 0,
                Flag::HttpOnly(_) => 1,
                Flag::SameSite(_) => 2,
            });
            return flags;
        }
    }
    Vec::new()
}
