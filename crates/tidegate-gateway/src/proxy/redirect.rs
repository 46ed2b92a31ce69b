//! `proxy_redirect`: replaces the origin's URL in `Location` and `Refresh` by the client's.

use std::sync::Arc;

use tidegate_codec::Known;
use tidegate_codec::uri::encode_where;
use tidegate_conf::{Diagnostic, Word};
use tidegate_core::regex::Regex;
use tidegate_core::{Exchange, Template, error_page};
use tidegate_plan::PlanBuilder;

use super::conf::{Conf, RedirectConf};
use crate::common::target;

/// Rules in order; the first match decides.
#[derive(Debug, Default)]
pub(crate) struct Redirects(Vec<RedirectRule>);

#[derive(Debug)]
struct RedirectRule {
    pattern: Pattern,
    replacement: Template,
}

#[derive(Debug)]
enum Pattern {
    Prefix(Template),
    Regex(Arc<Regex>),
}

/// Compiles the rules of a location with the argument `pass` of `proxy_pass`.
pub(super) fn compile(
    conf: &Conf,
    pass: &Word,
    plan: &mut PlanBuilder<'_>,
) -> Result<Redirects, Diagnostic> {
    let mut rules = Vec::new();
    let default = [RedirectConf::Default];
    let written = conf.redirect.as_deref();
    for rule in written.unwrap_or(&default) {
        match rule {
            RedirectConf::Off => return Ok(Redirects::default()),
            RedirectConf::Default => match default_rule(conf, pass) {
                Some(rule) => rules.push(rule),
                None if written.is_none() || conf.redirect_is_inherited => {}
                None if pass.bytes.contains(&b'$') => {
                    let message = "\"proxy_redirect default\" cannot be used with \"proxy_pass\" \
                                   directive with variables";
                    return Err(Diagnostic::emerg(message).at(pass.span));
                }
                None => {}
            },
            RedirectConf::Pair(from, to) => rules.push(pair(from, to, plan)?),
        }
    }
    Ok(Redirects(rules))
}

/// Returns the rule that replaces the origin's URL by the location's name.
fn default_rule(conf: &Conf, pass: &Word) -> Option<RedirectRule> {
    if pass.bytes.contains(&b'$') {
        return None;
    }
    let url = target::split(&pass.bytes, target::HTTP).ok()?;
    let (pattern, replacement) = match url.uri {
        Some(_) => (pass.bytes.clone(), conf.pass.block.name.clone()),
        None => ([&pass.bytes[..], b"/"].concat(), b"/".to_vec()),
    };
    Some(RedirectRule {
        pattern: Pattern::Prefix(Template::constant(&pattern)),
        replacement: Template::constant(&replacement),
    })
}

fn pair(from: &Word, to: &Word, plan: &mut PlanBuilder<'_>) -> Result<RedirectRule, Diagnostic> {
    let pattern = match &from.bytes[..] {
        [b'~', b'*', text @ ..] => Pattern::Regex(plan.regex(text, true, from.span)?),
        [b'~', text @ ..] => Pattern::Regex(plan.regex(text, false, from.span)?),
        _ => Pattern::Prefix(plan.template(from)?),
    };
    Ok(RedirectRule { pattern, replacement: plan.template(to)? })
}

/// Rewrites the response's `Location` (RFC 9110 section 10.2.2) and `Refresh`, each by the first matching rule
/// (`proxy_redirect`).
///
/// Invariant: a field without a matching rule remains byte for byte; in `Refresh` nothing before the URL changes. A
/// path made by a rule becomes a complete URL in `Location` only, as `absolute_redirect` says.
pub(super) fn apply(x: &mut Exchange, redirects: &Redirects) {
    if redirects.0.is_empty() {
        return;
    }
    if let Some(place) = x.response.headers.first(Known::Location) {
        let place = place.to_vec();
        if let Some(changed) = rewritten(x, redirects, &place) {
            let changed = absolute(x, changed);
            x.response.headers.set_known(Known::Location, &changed);
        }
    }
    if let Some(refresh) = x.response.headers.first(Known::Refresh) {
        let refresh = refresh.to_vec();
        let lower = refresh.to_ascii_lowercase();
        let Some(at) = lower.windows(4).position(|part| part == b"url=") else { return };
        let (start, url) = refresh.split_at(at + 4);
        if let Some(changed) = rewritten(x, redirects, url) {
            x.response.headers.set_known(Known::Refresh, &[start, &changed].concat());
        }
    }
}

/// Returns the URL rewritten by the first matching rule, in one line whatever its variables contain. Captures belong to
/// the rule: the request's own are restored afterwards.
fn rewritten(x: &mut Exchange, redirects: &Redirects, url: &[u8]) -> Option<Vec<u8>> {
    let mut changed = replaced(x, redirects, url)?;
    encode_where(&mut changed, 0, |byte| byte.is_ascii_control());
    Some(changed)
}

fn replaced(x: &mut Exchange, redirects: &Redirects, url: &[u8]) -> Option<Vec<u8>> {
    for rule in &redirects.0 {
        match &rule.pattern {
            Pattern::Prefix(template) => {
                let prefix = template.value(x);
                if let Some(rest) = url.strip_prefix(&prefix[..]) {
                    let mut changed = rule.replacement.value(x);
                    changed.extend_from_slice(rest);
                    return Some(changed);
                }
            }
            Pattern::Regex(regex) => {
                let kept = x.modules.captures.clone();
                let matched = regex.capture(x, url).unwrap_or(false);
                let changed = matched.then(|| rule.replacement.value(x));
                x.modules.captures = kept;
                if changed.is_some() {
                    return changed;
                }
            }
        }
    }
    None
}

/// Makes a local path a complete URL, as `absolute_redirect` says.
fn absolute(x: &Exchange, place: Vec<u8>) -> Vec<u8> {
    if place.starts_with(b"/") { error_page::absolute_location(x, &place) } else { place }
}
