//! The context of a trace: `traceparent` and `tracestate` (W3C Trace Context), and the identifiers of a request's span.
//!
//! A request has one context, which is made when it is used first and which its subrequests share. Fields that are
//! invalid are as good as none: a new trace begins.

use std::fmt::Write as _;
use std::rc::Rc;

use tidegate_codec::Headers;
use tidegate_codec::uri::hex_digit;
use tidegate_core::Exchange;
use tidegate_rt::random;

use super::conf::Propagation;

pub(super) const PARENT: &[u8] = b"traceparent";
pub(super) const STATE: &[u8] = b"tracestate";

/// Bytes of `tracestate` that are passed on: what the standard asks for at least. Of a longer one the last entries are
/// left out.
const STATE_BYTES_MAX: usize = 512;

/// The identifiers of a request's span.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) trace: [u8; 16],
    pub(super) span: [u8; 8],
    pub(super) parent: Option<Parent>,
    /// `tracestate` of the parent, empty for none.
    pub(super) state: String,
}

/// The span that a request belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parent {
    pub(super) trace: [u8; 16],
    pub(super) span: [u8; 8],
    pub(super) sampled: bool,
}

/// Returns the request's context.
pub(super) fn of(x: &mut Exchange, propagation: Propagation) -> Rc<Context> {
    if let Some(context) = x.lineage.inherited.of::<Context>() {
        return context;
    }
    let headers = &x.request.head.headers;
    let parent = if propagation.extract { parent(headers) } else { None };
    let state = if parent.is_some() { state(headers) } else { String::new() };
    let mut bytes = [0; 24];
    random::unpredictable(&mut bytes);
    let ([trace @ .., _, _, _, _, _, _, _, _], [.., a, b, c, d, e, f, g, h]) = (bytes, bytes);
    let span = valid([a, b, c, d, e, f, g, h]);
    let trace = parent.map_or(trace, |parent| parent.trace);
    let context = Rc::new(Context { trace, span, parent, state });
    x.lineage.inherited.insert(context.clone());
    context
}

/// Returns the identifier of a further span.
pub(super) fn new_span() -> [u8; 8] {
    let mut bytes = [0; 8];
    random::unpredictable(&mut bytes);
    valid(bytes)
}

/// A number of zeros only would be none; one in 2⁶⁴ is.
fn valid(mut span: [u8; 8]) -> [u8; 8] {
    span[7] |= u8::from(span == [0; 8]);
    span
}

impl Context {
    /// Returns `traceparent` for origins.
    pub(super) fn parent_field(&self, sampled: bool) -> String {
        let flags = u8::from(sampled);
        format!("00-{}-{}-{flags:02x}", hex(&self.trace), hex(&self.span))
    }
}

/// Returns bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Returns the parent of a request's fields, if there is one and only one.
fn parent(headers: &Headers) -> Option<Parent> {
    let mut values = headers.all_named(PARENT);
    let value = values.next()?;
    if values.next().is_some() {
        return None;
    }
    Parent::parse(value)
}

impl Parent {
    /// Parses `traceparent` (W3C Trace Context section 3.2.2): of a version that is not known, the parts that all have.
    pub(super) fn parse(value: &[u8]) -> Option<Parent> {
        let (known, rest) = value.split_at_checked(55)?;
        let &[v0, v1, b'-', ref middle @ .., b'-', f0, f1] = known else { return None };
        let [version] = bytes::<1>(&[v0, v1])?;
        let is_end = match version {
            0 => rest.is_empty(),
            0xff => false,
            _ => rest.is_empty() || rest.starts_with(b"-"),
        };
        let (trace, rest) = middle.split_at_checked(32)?;
        let (trace, span) = (bytes::<16>(trace)?, bytes::<8>(rest.strip_prefix(b"-")?)?);
        let [flags] = bytes::<1>(&[f0, f1])?;
        let is_valid = is_end && trace != [0; 16] && span != [0; 8];
        is_valid.then_some(Parent { trace, span, sampled: flags & 1 == 1 })
    }
}

/// Reads lowercase hexadecimal digits.
fn bytes<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    if digits.len() != 2 * N || digits.iter().any(u8::is_ascii_uppercase) {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let &[high, low] = pair else { return None };
        *byte = hex_digit(high)? << 4 | hex_digit(low)?;
    }
    Some(bytes)
}

/// Returns the state of a request's fields, which together are one list.
fn state(headers: &Headers) -> String {
    let mut state = String::new();
    for value in headers.all_named(STATE) {
        for entry in value.split(|byte| *byte == b',') {
            let entry = entry.trim_ascii();
            let text = str::from_utf8(entry).ok().filter(|text| text.is_ascii());
            let Some(text) = text.filter(|text| !text.is_empty()) else { continue };
            let comma = if state.is_empty() { "" } else { "," };
            if state.len() + comma.len() + text.len() > STATE_BYTES_MAX {
                return state;
            }
            state.push_str(comma);
            state.push_str(text);
        }
    }
    state
}
