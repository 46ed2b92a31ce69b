//! The two messages of the gRPC health checking protocol, with no I/O.
//!
//! `HealthCheckRequest { string service = 1; }` and `HealthCheckResponse { ServingStatus status = 1; }`, each in one
//! frame: a byte of flags, the length in four bytes, the message.

use tidegate_codec::protobuf::{self, Fields, Value};

use crate::grpc::call::{PREFIX_BYTES, frame};

/// The state of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServingState {
    Unknown,
    Serving,
    NotServing,
    ServiceUnknown,
}

/// Field 1 of both messages: the service, and the status.
const FIELD: u64 = 1;

/// Returns the frame that asks for the state of a service; an empty name is the whole server.
pub(super) fn encode_request(service: &str) -> Vec<u8> {
    let mut message = Vec::with_capacity(service.len() + 12);
    if !service.is_empty() {
        protobuf::bytes(FIELD, service.as_bytes(), &mut message);
    }
    frame(&message)
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
        let mut fields = Fields(message);
        while !fields.0.is_empty() {
            if let (FIELD, Value::Integer(value)) = fields.field()? {
                status = value;
            }
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
