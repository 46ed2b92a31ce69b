//! Values with variables in directives that are not used: `proxy_set_header` without a `proxy_pass`, `auth_basic`
//! without a file of users. They are compiled as well, so that `-t` reports undefined variables.

use tidegate_conf::{Contexts, Statement, Word};

/// Prefixes of gateways' directives.
const GATEWAYS: &[&str] = &["proxy_", "fastcgi_", "scgi_", "uwsgi_", "memcached_"];

/// Gateways' directives without the prefix, and the index of their first argument that is a value.
const OF_GATEWAYS: &[(&str, usize)] = &[
    ("bind", 0),
    ("cache", 0),
    ("cache_bypass", 0),
    ("cache_key", 0),
    ("cookie_domain", 0),
    ("cookie_flags", 0),
    ("cookie_path", 0),
    ("limit_rate", 0),
    ("method", 0),
    ("no_cache", 0),
    ("param", 1),
    ("redirect", 0),
    ("set_body", 0),
    ("set_header", 1),
    ("ssl_alpn", 0),
    ("ssl_certificate", 0),
    ("ssl_certificate_key", 0),
    ("ssl_name", 0),
    ("store", 0),
];

/// Gateways' directives whose first argument may be a regular expression, after a `~`.
const WITH_PATTERN: &[&str] = &["cookie_domain", "cookie_flags", "cookie_path", "redirect"];

/// Other directives, all of whose arguments are values.
const OTHERS: &[&str] =
    &["auth_basic", "auth_basic_user_file", "early_hints", "secure_link", "secure_link_md5"];

/// A value as written.
pub(crate) struct DirectiveValue {
    pub word: Word,
    pub may_be_regex: bool,
    pub stream: bool,
}

/// Returns the values of a directive in `context`.
pub(crate) fn of(statement: &Statement, context: Contexts) -> impl Iterator<Item = DirectiveValue> {
    let stream = Contexts::STREAM_AND_SERVER.intersects(context);
    let (first, pattern) =
        value_arguments(&statement.name.display()).unwrap_or((usize::MAX, false));
    let words = statement.args.iter().enumerate().skip(first);
    words.map(move |(index, word)| {
        let may_be_regex = pattern && index == 0;
        DirectiveValue { word: word.clone(), may_be_regex, stream }
    })
}

/// Returns the index of a directive's first argument that is a value, and whether argument 0 may be a regular
/// expression.
fn value_arguments(name: &str) -> Option<(usize, bool)> {
    if OTHERS.contains(&name) {
        return Some((0, false));
    }
    let name = GATEWAYS.iter().find_map(|gateway| name.strip_prefix(gateway))?;
    let (_, first) = OF_GATEWAYS.iter().find(|(known, _)| *known == name)?;
    Some((*first, WITH_PATTERN.contains(&name)))
}
