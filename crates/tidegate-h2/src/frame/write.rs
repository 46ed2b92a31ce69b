//! Frames as bytes, appended to a buffer.

use super::parse::Dependency;
use super::{FRAME_HEADER_BYTES, FrameHeader, Kind, StreamId, flags};
use crate::error::ErrorCode;

/// Appends a frame's header.
#[inline]
pub fn header(out: &mut Vec<u8>, length: usize, kind: Kind, flags: u8, stream: StreamId) {
    let header = FrameHeader { length: length as u32, kind, flags, stream };
    out.extend_from_slice(&header.to_bytes());
}

/// Returns the 9 bytes in front of `length` bytes of a body, for callers that send the body from where it is.
pub const fn data_header(
    stream: StreamId,
    length: u32,
    end_stream: bool,
) -> [u8; FRAME_HEADER_BYTES] {
    let flags = if end_stream { flags::END_STREAM } else { 0 };
    FrameHeader { length, kind: Kind::Data, flags, stream }.to_bytes()
}

/// Appends DATA.
pub fn data(out: &mut Vec<u8>, stream: StreamId, bytes: &[u8], end_stream: bool) {
    out.extend_from_slice(&data_header(stream, bytes.len() as u32, end_stream));
    out.extend_from_slice(bytes);
}

/// Appends DATA with this number of bytes of padding behind it.
pub fn data_padded(
    out: &mut Vec<u8>,
    stream: StreamId,
    bytes: &[u8],
    padding: u8,
    end_stream: bool,
) {
    let flags = flags::PADDED | if end_stream { flags::END_STREAM } else { 0 };
    header(out, 1 + bytes.len() + usize::from(padding), Kind::Data, flags, stream);
    out.push(padding);
    out.extend_from_slice(bytes);
    out.resize(out.len() + usize::from(padding), 0);
}

/// Appends a whole header block: HEADERS, and CONTINUATION where it is longer than `frame_bytes_max`.
pub fn header_block(
    out: &mut Vec<u8>,
    stream: StreamId,
    block: &[u8],
    end_stream: bool,
    frame_bytes_max: u32,
) {
    let most = (frame_bytes_max as usize).max(1);
    let end_stream = if end_stream { flags::END_STREAM } else { 0 };
    let (mut piece, mut rest) = block.split_at(block.len().min(most));
    let end_headers = |rest: &[u8]| if rest.is_empty() { flags::END_HEADERS } else { 0 };
    header(out, piece.len(), Kind::Headers, end_stream | end_headers(rest), stream);
    out.extend_from_slice(piece);
    while !rest.is_empty() {
        (piece, rest) = rest.split_at(rest.len().min(most));
        header(out, piece.len(), Kind::Continuation, end_headers(rest), stream);
        out.extend_from_slice(piece);
    }
}

/// Appends PRIORITY.
pub fn priority(out: &mut Vec<u8>, stream: StreamId, dependency: Dependency) {
    header(out, Dependency::BYTES, Kind::Priority, 0, stream);
    let exclusive = u32::from(dependency.exclusive) << 31;
    out.extend_from_slice(&(dependency.parent.value() | exclusive).to_be_bytes());
    out.push(dependency.weight);
}

/// Appends RST_STREAM.
pub fn reset_stream(out: &mut Vec<u8>, stream: StreamId, code: ErrorCode) {
    header(out, 4, Kind::ResetStream, 0, stream);
    out.extend_from_slice(&code.0.to_be_bytes());
}

/// Appends SETTINGS with these identifiers and values.
pub fn settings(out: &mut Vec<u8>, entries: &[(u16, u32)]) {
    header(out, 6 * entries.len(), Kind::Settings, 0, StreamId::CONNECTION);
    for (id, value) in entries {
        out.extend_from_slice(&id.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Appends the acknowledgement of SETTINGS.
pub fn settings_ack(out: &mut Vec<u8>) {
    header(out, 0, Kind::Settings, flags::ACK, StreamId::CONNECTION);
}

/// Appends PING or its reply.
pub fn ping(out: &mut Vec<u8>, data: [u8; 8], ack: bool) {
    let flags = if ack { flags::ACK } else { 0 };
    header(out, data.len(), Kind::Ping, flags, StreamId::CONNECTION);
    out.extend_from_slice(&data);
}

/// Appends GOAWAY.
pub fn go_away(out: &mut Vec<u8>, last: StreamId, code: ErrorCode, debug: &[u8]) {
    header(out, 8 + debug.len(), Kind::GoAway, 0, StreamId::CONNECTION);
    out.extend_from_slice(&last.value().to_be_bytes());
    out.extend_from_slice(&code.0.to_be_bytes());
    out.extend_from_slice(debug);
}

/// Appends WINDOW_UPDATE.
pub fn window_update(out: &mut Vec<u8>, stream: StreamId, increment: u32) {
    header(out, 4, Kind::WindowUpdate, 0, stream);
    out.extend_from_slice(&increment.to_be_bytes());
}

/// Appends PRIORITY_UPDATE with the value of a `priority` field.
pub fn priority_update(out: &mut Vec<u8>, stream: StreamId, value: &[u8]) {
    header(out, 4 + value.len(), Kind::PriorityUpdate, 0, StreamId::CONNECTION);
    out.extend_from_slice(&stream.value().to_be_bytes());
    out.extend_from_slice(value);
}
