//! SETTINGS (RFC 9114 section 7.2.4): what a peer allows and expects. They are sent once.

use crate::error::Fault;

/// Identifiers of settings.
pub mod id {
    /// SETTINGS_QPACK_MAX_TABLE_CAPACITY (RFC 9204 section 5).
    pub const QPACK_MAX_TABLE_CAPACITY: u64 = 0x1;
    /// SETTINGS_MAX_FIELD_SECTION_SIZE (RFC 9114 section 7.2.4.1).
    pub const MAX_FIELD_SECTION_SIZE: u64 = 0x6;
    /// SETTINGS_QPACK_BLOCKED_STREAMS (RFC 9204 section 5).
    pub const QPACK_BLOCKED_STREAMS: u64 = 0x7;
    /// SETTINGS_ENABLE_CONNECT_PROTOCOL (RFC 9220 section 3).
    pub const ENABLE_CONNECT_PROTOCOL: u64 = 0x8;
    /// SETTINGS_H3_DATAGRAM (RFC 9297 section 2.1.1).
    pub const H3_DATAGRAM: u64 = 0x33;
}

/// The settings of one side. The default is what holds before its SETTINGS frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The largest dynamic table that its decoder keeps, bytes.
    pub qpack_table_bytes: u64,
    /// Streams that its decoder lets wait for insertions.
    pub qpack_blocked_streams: u64,
    /// The largest field section that it takes, bytes; advice. `None` for any size.
    pub section_bytes_max: Option<u64>,
    /// It takes extended CONNECT.
    pub connect_protocol: bool,
    /// It takes datagrams. This crate sends none and never announces them, so that the peer may not either.
    pub datagrams: bool,
    /// The settings that were in the frame, one bit each.
    seen: u8,
}

impl Settings {
    /// Takes one entry of a frame; an unknown one is ignored.
    ///
    /// # Errors
    /// The value is outside of the setting's range, the setting was there before, or it is one of HTTP/2.
    pub fn apply(&mut self, id: u64, value: u64) -> Result<(), Fault> {
        match id {
            id::QPACK_MAX_TABLE_CAPACITY => {
                self.once(0)?;
                self.qpack_table_bytes = value;
            }
            id::MAX_FIELD_SECTION_SIZE => {
                self.once(1)?;
                self.section_bytes_max = Some(value);
            }
            id::QPACK_BLOCKED_STREAMS => {
                self.once(2)?;
                self.qpack_blocked_streams = value;
            }
            id::ENABLE_CONNECT_PROTOCOL => {
                self.once(3)?;
                self.connect_protocol = flag(value)?;
            }
            id::H3_DATAGRAM => {
                self.once(4)?;
                self.datagrams = flag(value)?;
            }
            // Settings of HTTP/2 without a meaning here (RFC 9114 section 7.2.4.1).
            0x0 | 0x2..=0x5 => return Err(Fault::Setting),
            _ => {}
        }
        Ok(())
    }

    fn once(&mut self, bit: u8) -> Result<(), Fault> {
        match self.seen & 1 << bit {
            0 => {
                self.seen |= 1 << bit;
                Ok(())
            }
            _ => Err(Fault::Setting),
        }
    }
}

fn flag(value: u64) -> Result<bool, Fault> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Fault::Setting),
    }
}

#[cfg(test)]
mod tests {
    use super::{Settings, id};

    #[test]
    fn values_have_ranges() {
        for (id, value, is_valid) in [
            (id::QPACK_MAX_TABLE_CAPACITY, u64::MAX >> 2, true),
            (id::MAX_FIELD_SECTION_SIZE, 0, true),
            (id::QPACK_BLOCKED_STREAMS, 100, true),
            (id::ENABLE_CONNECT_PROTOCOL, 1, true),
            (id::ENABLE_CONNECT_PROTOCOL, 0, true),
            (id::ENABLE_CONNECT_PROTOCOL, 2, false),
            (id::H3_DATAGRAM, 1, true),
            (id::H3_DATAGRAM, 2, false),
            (0x0, 0, false),
            (0x2, 0, false),
            (0x3, 0, false),
            (0x4, 0, false),
            (0x5, 0, false),
            (0x21, 7, true),
        ] {
            let mut settings = Settings::default();
            assert_eq!(settings.apply(id, value).is_ok(), is_valid, "{id:x} {value}");
            // The second of the same is one too many, unless it is unknown.
            assert_eq!(settings.apply(id, value).is_ok(), id == 0x21, "{id:x} {value}");
        }
    }
}
