//! Changes to the head of a response.

use std::task::{Context, Poll};

use tidegate_codec::headers::one_line;
use tidegate_codec::request::Method;
use tidegate_codec::{Headers, Known, date};
use tidegate_core::body::{BodyError, BodyStream, Chunk};
use tidegate_core::exchange::{FieldOwner, RangeSupport};
use tidegate_core::{Body, Exchange};

use super::{Change, Name, Rule};

/// Applies the rules of a location.
pub(super) fn apply(rules: &[Rule], x: &mut Exchange, mut body: Body) -> Body {
    for rule in rules {
        let media_type = x.response.headers.first(Known::ContentType);
        if !rule.options.fit_type(media_type) || !rule.options.fit_status(x.disposition.status()) {
            continue;
        }
        for change in &rule.changes {
            match change {
                Change::Set { name, value } => {
                    let value = one_line(value.value(x));
                    match value.is_empty() {
                        true if rule.options.append => {}
                        true => body = clear(name, x, body),
                        false => set(name, &value, rule.options.append, x),
                    }
                }
                Change::Clear(name) => body = clear(name, x, body),
                Change::ClearPrefix(prefix) => {
                    clear_prefix(prefix, &mut x.response.headers, BUILT_IN)
                }
            }
        }
    }
    body
}

fn set(name: &Name, value: &[u8], append: bool, x: &mut Exchange) {
    if !append {
        remove(name, &mut x.response.headers);
    }
    match name.known {
        // Beside the server's own, which says what happens to the connection.
        Known::Connection => return x.response.headers.push_opaque(&name.text, value),
        Known::LastModified => x.response.last_modified = date::parse_http(value),
        // `bytes` keeps them: the filter of ranges writes the field itself.
        Known::AcceptRanges if !value.eq_ignore_ascii_case(b"bytes") => {
            x.response.ranges = RangeSupport::None;
        }
        _ => {}
    }
    x.response.headers.push_as(name.known, &name.text, value);
}

fn clear(name: &Name, x: &mut Exchange, body: Body) -> Body {
    remove(name, &mut x.response.headers);
    match name.known {
        Known::Server => x.delivery.server = FieldOwner::Origin,
        Known::Date => x.delivery.date = FieldOwner::Origin,
        Known::LastModified => x.response.last_modified = None,
        Known::AcceptRanges => x.response.ranges = RangeSupport::None,
        Known::ContentLength => {
            x.response.content_length = None;
            return without_length(x, body);
        }
        _ => {}
    }
    body
}

/// Removes all fields of a name, those included that are only written.
pub(super) fn remove(name: &Name, headers: &mut Headers) {
    headers.retain(|_, other, _| !other.eq_ignore_ascii_case(&name.text));
}

/// Removes all fields whose names begin so, except these.
pub(super) fn clear_prefix(prefix: &[u8], headers: &mut Headers, except: &[Known]) {
    headers.retain(|known, name, _| {
        let start = name.get(..prefix.len());
        !start.is_some_and(|start| start.eq_ignore_ascii_case(prefix)) || except.contains(&known)
    });
}

/// Fields that nginx keeps apart from a response's other fields: a pattern does not apply to them.
const BUILT_IN: &[Known] = &[Known::ContentType, Known::Server, Known::Date];

/// Returns the body as one of unknown length, which is sent in chunks.
fn without_length(x: &Exchange, body: Body) -> Body {
    let has_body = !matches!(x.disposition.status(), 100..200 | 204 | 304);
    match body {
        Body::Empty if !has_body => body,
        Body::Empty if x.request.method == Method::Head => Body::of_unknown_length(),
        Body::Stream(_) | Body::Tunnel(_) => body,
        body => Body::Stream(Box::new(Unmeasured(body))),
    }
}

/// A body whose length is not announced.
struct Unmeasured(Body);

impl BodyStream for Unmeasured {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        self.0.poll_chunk(context)
    }
}
