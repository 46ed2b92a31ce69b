//! Payloads of frames that are handled as a whole.

use super::{FrameHeader, Kind};
use crate::varint;

/// The content of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// SETTINGS.
    Settings(SettingEntries<'a>),
    /// CANCEL_PUSH with the push.
    CancelPush(u64),
    /// GOAWAY with the first stream, or the first push, that is not processed.
    GoAway(u64),
    /// MAX_PUSH_ID with the largest push.
    MaxPushId(u64),
    /// PRIORITY_UPDATE of a request stream.
    PriorityUpdate {
        /// The stream.
        stream: u64,
        /// The value of a `priority` field.
        value: &'a [u8],
    },
    /// PRIORITY_UPDATE of a push.
    PriorityUpdatePush(u64),
    /// A frame whose payload is read in other places, or skipped.
    Other,
}

/// The payload ends within a part, or has bytes behind the last one: H3_FRAME_ERROR (RFC 9114 section 7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InvalidFrame;

/// Reads a payload.
///
/// # Errors
/// Its length does not fit its content.
pub fn parse(header: FrameHeader, payload: &[u8]) -> Result<Frame<'_>, InvalidFrame> {
    let mut rest = payload;
    match header.kind {
        Kind::Settings => {
            let entries = SettingEntries { rest };
            while !rest.is_empty() {
                varint::decode(&mut rest).and(varint::decode(&mut rest)).ok_or(InvalidFrame)?;
            }
            Ok(Frame::Settings(entries))
        }
        Kind::CancelPush => one(payload).map(Frame::CancelPush),
        Kind::GoAway => one(payload).map(Frame::GoAway),
        Kind::MaxPushId => one(payload).map(Frame::MaxPushId),
        Kind::PriorityUpdate => {
            let stream = varint::decode(&mut rest).ok_or(InvalidFrame)?;
            Ok(Frame::PriorityUpdate { stream, value: rest })
        }
        Kind::PriorityUpdatePush => {
            varint::decode(&mut rest).map(Frame::PriorityUpdatePush).ok_or(InvalidFrame)
        }
        Kind::Data | Kind::Headers | Kind::PushPromise | Kind::Http2(_) | Kind::Unknown(_) => {
            Ok(Frame::Other)
        }
    }
}

/// Identifiers and values of SETTINGS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettingEntries<'a> {
    rest: &'a [u8],
}

impl Iterator for SettingEntries<'_> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        Some((varint::decode(&mut self.rest)?, varint::decode(&mut self.rest)?))
    }
}

/// A payload that is one integer.
fn one(mut payload: &[u8]) -> Result<u64, InvalidFrame> {
    let value = varint::decode(&mut payload).ok_or(InvalidFrame)?;
    match payload.is_empty() {
        true => Ok(value),
        false => Err(InvalidFrame),
    }
}
