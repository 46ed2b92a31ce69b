//! SETTINGS (RFC 9113 section 6.5): what a peer allows and expects.

use crate::error::Fault;
use crate::flow::WINDOW_LIMIT;
use crate::frame::{FRAME_BYTES_DEFAULT, FRAME_BYTES_LIMIT};
use crate::hpack::TABLE_BYTES_DEFAULT;

/// Identifiers of settings (RFC 9113 section 6.5.2, RFC 8441 section 3, RFC 9218 section 2.1).
pub mod id {
    /// SETTINGS_HEADER_TABLE_SIZE.
    pub const HEADER_TABLE_SIZE: u16 = 0x1;
    /// SETTINGS_ENABLE_PUSH.
    pub const ENABLE_PUSH: u16 = 0x2;
    /// SETTINGS_MAX_CONCURRENT_STREAMS.
    pub const MAX_CONCURRENT_STREAMS: u16 = 0x3;
    /// SETTINGS_INITIAL_WINDOW_SIZE.
    pub const INITIAL_WINDOW_SIZE: u16 = 0x4;
    /// SETTINGS_MAX_FRAME_SIZE.
    pub const MAX_FRAME_SIZE: u16 = 0x5;
    /// SETTINGS_MAX_HEADER_LIST_SIZE.
    pub const MAX_HEADER_LIST_SIZE: u16 = 0x6;
    /// SETTINGS_ENABLE_CONNECT_PROTOCOL.
    pub const ENABLE_CONNECT_PROTOCOL: u16 = 0x8;
    /// SETTINGS_NO_RFC7540_PRIORITIES.
    pub const NO_RFC7540_PRIORITIES: u16 = 0x9;
}

/// The window of a new stream and of a connection before anything else is said, bytes (RFC 9113 section 6.9.2).
pub const WINDOW_DEFAULT: u32 = 65_535;

/// The settings of one side. The default is what holds before its first SETTINGS frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The largest dynamic table that its decoder keeps, bytes.
    pub header_table_bytes: u32,
    /// It takes pushed requests. This crate never pushes.
    pub push: bool,
    /// Streams that it allows its peer at once; `None` for any number.
    pub streams_max: Option<u32>,
    /// The window of a new stream, bytes.
    pub window: u32,
    /// The largest payload of a frame, bytes.
    pub frame_bytes_max: u32,
    /// The largest header list that it takes, bytes; advice. `None` for any size.
    pub list_bytes_max: Option<u32>,
    /// It takes extended CONNECT (RFC 8441).
    pub connect_protocol: bool,
    /// It does not use the priorities of RFC 7540.
    pub no_rfc7540_priorities: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            header_table_bytes: TABLE_BYTES_DEFAULT,
            push: true,
            streams_max: None,
            window: WINDOW_DEFAULT,
            frame_bytes_max: FRAME_BYTES_DEFAULT,
            list_bytes_max: None,
            connect_protocol: false,
            no_rfc7540_priorities: false,
        }
    }
}

impl Settings {
    /// Takes one entry of a frame; an unknown one is ignored.
    ///
    /// # Errors
    /// The value is outside of the setting's range.
    pub fn apply(&mut self, id: u16, value: u32) -> Result<(), Fault> {
        match id {
            id::HEADER_TABLE_SIZE => self.header_table_bytes = value,
            id::ENABLE_PUSH => self.push = flag(value)?,
            id::MAX_CONCURRENT_STREAMS => self.streams_max = Some(value),
            id::INITIAL_WINDOW_SIZE if value > WINDOW_LIMIT => return Err(Fault::WindowOverflow),
            id::INITIAL_WINDOW_SIZE => self.window = value,
            id::MAX_FRAME_SIZE => match value {
                FRAME_BYTES_DEFAULT..=FRAME_BYTES_LIMIT => self.frame_bytes_max = value,
                _ => return Err(Fault::Setting),
            },
            id::MAX_HEADER_LIST_SIZE => self.list_bytes_max = Some(value),
            id::ENABLE_CONNECT_PROTOCOL => match (self.connect_protocol, flag(value)?) {
                // Once on, it stays so (RFC 8441 section 3).
                (true, false) => return Err(Fault::Setting),
                (_, on) => self.connect_protocol = on,
            },
            id::NO_RFC7540_PRIORITIES => self.no_rfc7540_priorities = flag(value)?,
            _ => {}
        }
        Ok(())
    }
}

fn flag(value: u32) -> Result<bool, Fault> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Fault::Setting),
    }
}

#[cfg(test)]
mod tests {
    use super::{Settings, id};
    use crate::error::ErrorCode;

    #[test]
    fn values_have_ranges() {
        let mut settings = Settings::default();
        for (id, value, expected) in [
            (id::HEADER_TABLE_SIZE, u32::MAX, None),
            (id::ENABLE_PUSH, 0, None),
            (id::ENABLE_PUSH, 1, None),
            (id::ENABLE_PUSH, 2, Some(ErrorCode::PROTOCOL_ERROR)),
            (id::MAX_CONCURRENT_STREAMS, 0, None),
            (id::INITIAL_WINDOW_SIZE, 0x7fff_ffff, None),
            (id::INITIAL_WINDOW_SIZE, 0x8000_0000, Some(ErrorCode::FLOW_CONTROL_ERROR)),
            (id::MAX_FRAME_SIZE, 16_383, Some(ErrorCode::PROTOCOL_ERROR)),
            (id::MAX_FRAME_SIZE, 16_384, None),
            (id::MAX_FRAME_SIZE, 16_777_215, None),
            (id::MAX_FRAME_SIZE, 16_777_216, Some(ErrorCode::PROTOCOL_ERROR)),
            (id::MAX_HEADER_LIST_SIZE, 0, None),
            (id::ENABLE_CONNECT_PROTOCOL, 2, Some(ErrorCode::PROTOCOL_ERROR)),
            (id::ENABLE_CONNECT_PROTOCOL, 1, None),
            (id::ENABLE_CONNECT_PROTOCOL, 0, Some(ErrorCode::PROTOCOL_ERROR)),
            (id::NO_RFC7540_PRIORITIES, 7, Some(ErrorCode::PROTOCOL_ERROR)),
            (0x7777, u32::MAX, None),
        ] {
            let code = settings.apply(id, value).err().map(|fault| fault.code());
            assert_eq!(code, expected, "{id} {value}");
        }
        assert_eq!(settings.window, 0x7fff_ffff);
        assert_eq!(settings.frame_bytes_max, 16_777_215);
    }
}
