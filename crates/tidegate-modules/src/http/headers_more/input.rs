//! Changes to the fields of a request, at the end of the rewrite phase.

use std::sync::Arc;

use tidegate_codec::Known;
use tidegate_codec::headers::one_line;
use tidegate_codec::request::parse_authority;
use tidegate_core::{Exchange, Level, Step};

use super::output::{clear_prefix, remove};
use super::{Change, InputRules, Name};

/// Bytes of the longest value. One that contains itself (`X: $http_x$http_x`) doubles with each internal redirect and
/// each subrequest.
const VALUE_BYTES_MAX: usize = 64 << 10;

/// Applies the rules of the current location, which may be an `if` block.
pub(super) fn apply(x: &mut Exchange) -> Step<'_> {
    let Some(rules) = x.location().extensions.of::<Arc<InputRules>>().cloned() else {
        return Step::Decline;
    };
    for rule in &rules.0 {
        if !rule.options.fit_type(x.request.header(Known::ContentType)) {
            continue;
        }
        for change in &rule.changes {
            let (name, value) = match change {
                Change::Set { name, .. } if rule.options.replace && !has(name, x) => continue,
                Change::Set { name, value } => (name, one_line(value.value(x))),
                Change::Clear(name) => (name, Vec::new()),
                Change::ClearPrefix(prefix) => {
                    let headers = &mut x.request.head.headers;
                    let had_host = headers.contains(Known::Host);
                    clear_prefix(prefix, headers, &[]);
                    if had_host && !headers.contains(Known::Host) {
                        x.request.host.clear();
                    }
                    continue;
                }
            };
            if value.len() > VALUE_BYTES_MAX {
                let field = String::from_utf8_lossy(&name.text);
                let message =
                    format_args!("a value for \"{field}\" is longer than {VALUE_BYTES_MAX} bytes");
                x.log(Level::Error, message);
                return Step::Status(500);
            }
            set(name, &value, x);
        }
    }
    Step::Decline
}

fn has(name: &Name, x: &Exchange) -> bool {
    x.request.head.headers.first_named(&name.text).is_some()
}

/// Sets a field, or removes it where the value is empty.
fn set(name: &Name, value: &[u8], x: &mut Exchange) {
    let headers = &mut x.request.head.headers;
    remove(name, headers);
    if !value.is_empty() {
        headers.push_as(name.known, &name.text, value);
    }
    if name.known == Known::Host {
        // `$host`; the server and its certificate have been chosen.
        let host = parse_authority(value);
        x.request.host = host.map(|(host, _)| host.as_bytes().to_vec()).unwrap_or_default();
    }
}
