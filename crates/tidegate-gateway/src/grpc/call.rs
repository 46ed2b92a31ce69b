//! Calls that the server makes itself, of one message and one response: the frame of the message, and the call's status.

use tidegate_codec::Headers;

/// Bytes in front of a message.
pub const PREFIX_BYTES: usize = 5;

/// Returns a message in its frame: a byte of flags, the length in four bytes, the message.
pub fn frame(message: &[u8]) -> Vec<u8> {
    // Cannot fail: what the server sends itself is shorter than 4 GB.
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    let mut frame = Vec::with_capacity(PREFIX_BYTES + message.len());
    frame.push(0);
    frame.extend_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(message);
    frame
}

/// Returns the status of a call, if its fields have a number there.
pub fn status_of(fields: &Headers) -> Option<u32> {
    str::from_utf8(fields.first_named(b"grpc-status")?).ok()?.parse().ok()
}
