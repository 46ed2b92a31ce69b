//! The limits and tolerances of a connection.

use std::sync::Arc;
use std::time::Duration;

use tidegate_fields::head::HeadRules;

use crate::frame::write;
use crate::settings::id;

/// What a connection announces and allows. The table in the crate's documentation has the sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Requests that a client may have at once. A request counts until
    /// [`Connection::close`](crate::Connection::close), even after a reset. The driver announces the same number to QUIC.
    pub streams_max: u32,
    /// The dynamic table that is kept for the peer's field sections, bytes.
    pub decoder_table_bytes: u32,
    /// Streams that may wait for insertions of the peer's encoder stream.
    pub blocked_streams_max: u32,
    /// The dynamic table for our own field sections, bytes; 0 for none. The peer's setting limits it too.
    pub encoder_table_bytes: u32,
    /// Our strings are Huffman coded where this makes them shorter.
    pub huffman: bool,
    /// Announces and takes extended CONNECT (RFC 9220).
    pub extended_connect: bool,
    /// Bytes of names and values of a field list; what is beyond is refused with 431.
    pub list_bytes_max: u32,
    /// Bytes of one name or value, refused in the same way.
    pub field_bytes_max: u32,
    /// Fields of a list, refused in the same way.
    pub fields_max: u32,
    /// Bytes of a field section before it is decoded, refused in the same way.
    pub section_bytes_max: u32,
    /// Bytes of all field sections that are incomplete or blocked.
    pub sections_bytes_max: u32,
    /// Fields whose names are not of lower-case letters, digits and `-` are left out, though the protocol allows them
    /// (`ignore_invalid_headers`).
    pub ignore_odd_names: bool,
    /// `_` is an ordinary letter of a name (`underscores_in_headers`).
    pub underscores: bool,
    /// Frames without content that the peer may send before useful ones.
    pub control_frames_max: u32,
    /// Instructions of the encoder stream that the peer may send before useful frames.
    pub instructions_max: u32,
    /// Streams that may be reset before others end; `None` for twice `streams_max`.
    pub resets_max: Option<u32>,
    /// After this time the three budgets above are full again.
    pub flood_window: Duration,
    /// Bytes that wait to be sent on a stream of the connection.
    pub output_bytes_max: usize,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            streams_max: 128,
            decoder_table_bytes: 4096,
            blocked_streams_max: 16,
            encoder_table_bytes: 0,
            huffman: false,
            extended_connect: false,
            list_bytes_max: 33 * 1024,
            field_bytes_max: 33 * 1024,
            fields_max: 1000,
            section_bytes_max: 64 * 1024,
            sections_bytes_max: 1 << 20,
            ignore_odd_names: true,
            underscores: false,
            control_frames_max: 1000,
            instructions_max: 1000,
            resets_max: None,
            flood_window: Duration::from_secs(10),
            output_bytes_max: 64 * 1024,
        }
    }
}

/// The most entries that SETTINGS has.
const ENTRIES_MAX: usize = 3;

impl Config {
    /// Makes the limits ready to be shared by connections.
    pub fn shared(self) -> Arc<Config> {
        Arc::new(self)
    }

    /// Writes SETTINGS: what differs from the protocol's defaults.
    pub(crate) fn announce(&self, out: &mut Vec<u8>) {
        let entries: [(u64, u64); ENTRIES_MAX] = [
            (id::QPACK_MAX_TABLE_CAPACITY, u64::from(self.decoder_table_bytes)),
            (id::QPACK_BLOCKED_STREAMS, u64::from(self.blocked_streams_max)),
            (id::ENABLE_CONNECT_PROTOCOL, u64::from(self.extended_connect)),
        ];
        let (mut list, mut count) = ([(0, 0); ENTRIES_MAX], 0);
        for entry in entries.iter().filter(|(_, value)| *value > 0) {
            list[count] = *entry;
            count += 1;
        }
        write::settings(out, &list[..count]);
    }

    /// Returns what applies to heads.
    pub(crate) fn head_rules(&self) -> HeadRules {
        HeadRules {
            version: "HTTP/3.0",
            list_bytes_max: self.list_bytes_max,
            field_bytes_max: self.field_bytes_max,
            fields_max: self.fields_max,
            ignore_odd_names: self.ignore_odd_names,
            underscores: self.underscores,
            extended_connect: self.extended_connect,
        }
    }
}
