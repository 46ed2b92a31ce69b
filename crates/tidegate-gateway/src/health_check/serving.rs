//! The two messages of the gRPC health checking protocol, with no I/O.
//!
//! `HealthCheckRequest { string service = 1; }` and `HealthCheckResponse { ServingStatus status = 1; }`, each in one
//! frame: a byte of flags, the length in four bytes, the message.

/// The state of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServingState {
    Unknown,
    Serving,
    NotServing,
    ServiceUnknown,
}

/// Bytes in front of a message.
const PREFIX_BYTES: usize = 5;

/// Field 1 as a varint, which is the status, and as bytes, which is the service.
const STATUS_KEY: u64 = 0x08;
const SERVICE_KEY: u8 = 0x0a;

/// Returns the frame that asks for the state of a service; an empty name is the whole server.
pub(super) fn encode_request(service: &str) -> Vec<u8> {
    let mut message = Vec::with_capacity(service.len() + 12);
    if !service.is_empty() {
        message.push(SERVICE_KEY);
        write_varint(service.len() as u64, &mut message);
        message.extend_from_slice(service.as_bytes());
    }
    // cannot fail: a word of a configuration is shorter than 4 GB
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    let mut frame = Vec::with_capacity(PREFIX_BYTES + message.len());
    frame.push(0);
    frame.extend_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(&message);
    frame
}

impl ServingState {
    /// Reads a response's body, which is one uncompressed frame. `None`: it is anything else.
    pub(super) fn of(body: &[u8]) -> Option<ServingState> {
        let (prefix, message) = body.split_first_chunk::<PREFIX_BYTES>()?;
        let [0, length @ ..] = *prefix else { return None };
        if u32::from_be_bytes(length) as usize != message.len() {
            return None;
        }
        // The last value counts; a message without one has the first state.
        let mut status = 0;
        let mut rest = message;
        while !rest.is_empty() {
            let (key, after) = read_varint(rest)?;
            rest = match key & 7 {
                0 => {
                    let (value, after) = read_varint(after)?;
                    if key == STATUS_KEY {
                        status = value;
                    }
                    after
                }
                1 => after.get(8..)?,
                2 => {
                    let (length, after) = read_varint(after)?;
                    after.get(usize::try_from(length).ok()?..)?
                }
                5 => after.get(4..)?,
                _ => return None,
            };
        }
        Some(match status {
            1 => ServingState::Serving,
            2 => ServingState::NotServing,
            3 => ServingState::ServiceUnknown,
            _ => ServingState::Unknown,
        })
    }

    /// Returns the name in the protocol's definition.
    pub(super) fn name(self) -> &'static str {
        match self {
            ServingState::Unknown => "UNKNOWN",
            ServingState::Serving => "SERVING",
            ServingState::NotServing => "NOT_SERVING",
            ServingState::ServiceUnknown => "SERVICE_UNKNOWN",
        }
    }
}

fn write_varint(mut value: u64, out: &mut Vec<u8>) {
    while value > 0x7f {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads a number of at most ten bytes; returns it and the bytes behind it.
fn read_varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    for (index, byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[index + 1..]));
        }
    }
    None
}
