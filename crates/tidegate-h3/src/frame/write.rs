//! Frames to be sent.

use super::kind;
use crate::varint;

/// Appends type and length of a frame whose payload follows.
#[inline]
pub fn header(out: &mut Vec<u8>, kind: u64, length: u64) {
    varint::encode(out, kind);
    varint::encode(out, length);
}

/// Appends HEADERS with a field section: its prefix, then its lines.
pub fn headers(out: &mut Vec<u8>, prefix: &[u8], lines: &[u8]) {
    header(out, kind::HEADERS, (prefix.len() + lines.len()) as u64);
    out.extend_from_slice(prefix);
    out.extend_from_slice(lines);
}

/// Appends SETTINGS.
pub fn settings(out: &mut Vec<u8>, entries: &[(u64, u64)]) {
    let bytes = |(id, value): &(u64, u64)| varint::encoded_len(*id) + varint::encoded_len(*value);
    header(out, kind::SETTINGS, entries.iter().map(bytes).sum::<usize>() as u64);
    for (id, value) in entries {
        varint::encode(out, *id);
        varint::encode(out, *value);
    }
}

/// Appends GOAWAY with the first stream, or the first push, that is not processed.
pub fn go_away(out: &mut Vec<u8>, id: u64) {
    one(out, kind::GOAWAY, id);
}

/// Appends MAX_PUSH_ID.
pub fn max_push_id(out: &mut Vec<u8>, id: u64) {
    one(out, kind::MAX_PUSH_ID, id);
}

/// Appends CANCEL_PUSH.
pub fn cancel_push(out: &mut Vec<u8>, id: u64) {
    one(out, kind::CANCEL_PUSH, id);
}

/// Appends PRIORITY_UPDATE of a request stream, with the value of a `priority` field.
pub fn priority_update(out: &mut Vec<u8>, stream: u64, value: &[u8]) {
    let length = varint::encoded_len(stream) + value.len();
    header(out, kind::PRIORITY_UPDATE, length as u64);
    varint::encode(out, stream);
    out.extend_from_slice(value);
}

fn one(out: &mut Vec<u8>, kind: u64, value: u64) {
    header(out, kind, varint::encoded_len(value) as u64);
    varint::encode(out, value);
}
