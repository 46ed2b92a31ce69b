//! The limits and tolerances of a connection.

use std::sync::Arc;
use std::time::Duration;

use tidegate_fields::head::HeadRules;

use crate::flow::WINDOW_LIMIT;
use crate::frame::FRAME_BYTES_DEFAULT;
use crate::hpack::TABLE_BYTES_DEFAULT;
use crate::settings::id;

/// What a connection announces and allows. The table in the crate's documentation has the sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Streams that a client may have at once; as a client: streams to have at once, however many the peer allows.
    /// A stream counts until [`Connection::close`](crate::Connection::close), even after a reset.
    pub streams_max: u32,
    /// The largest payload of a frame that the peer may send, bytes, 16,384 to 2^24-1. Only DATA may be that large, which
    /// is passed on as it arrives: a header block has `block_bytes_max`, and other frames have 16,384 bytes at most.
    pub frame_bytes_max: u32,
    /// Bytes of one body that may be here unread.
    pub stream_window: u32,
    /// The window to which that of a stream grows, doubling, while its body is used as fast as it arrives, bytes;
    /// `stream_window` at least.
    pub stream_window_max: u32,
    /// Bytes by which the windows of all streams together may have grown.
    pub grown_bytes_max: u32,
    /// The window of the connection, bytes; 65,535 at least.
    pub connection_window: u32,
    /// Bytes of all bodies that may be unread before windows of streams are no longer opened.
    pub unread_bytes_max: u32,
    /// The dynamic table that is kept for the peer's header blocks, bytes.
    pub decoder_table_bytes: u32,
    /// The dynamic table for our own header blocks, bytes; 0 for none. The peer's setting limits it too.
    pub encoder_table_bytes: u32,
    /// Our strings are Huffman coded where this makes them shorter.
    pub huffman: bool,
    /// The peer's first frame has to be SETTINGS (RFC 9113 section 3.4). nginx does not require that of clients.
    pub requires_settings: bool,
    /// Announces and takes extended CONNECT (RFC 8441).
    pub extended_connect: bool,
    /// Bytes of names and values of a header list; what is beyond is refused with 431.
    pub list_bytes_max: u32,
    /// Bytes of one name or value, refused in the same way.
    pub field_bytes_max: u32,
    /// Fields of a header list, refused in the same way.
    pub fields_max: u32,
    /// Bytes of a header block before it is decoded.
    pub block_bytes_max: u32,
    /// CONTINUATION frames of one header block; an empty one counts as 8.
    pub continuations_max: u32,
    /// Fields whose names are not of lower-case letters, digits and `-` are left out, though the protocol allows them
    /// (`ignore_invalid_headers`).
    pub ignore_odd_names: bool,
    /// `_` is an ordinary letter of a name (`underscores_in_headers`).
    pub underscores: bool,
    /// Frames without content that the peer may send before useful ones.
    pub control_frames_max: u32,
    /// Streams that may be reset before others end; `None` for twice `streams_max`.
    pub resets_max: Option<u32>,
    /// Frames that only reply and wait in the output.
    pub replies_max: u32,
    /// After this time the two budgets above are full again.
    pub flood_window: Duration,
    /// Output from which on no more bodies should be added, bytes.
    pub output_bytes_max: usize,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            streams_max: 128,
            frame_bytes_max: FRAME_BYTES_DEFAULT,
            stream_window: 65_536,
            stream_window_max: 0,
            grown_bytes_max: 4 << 20,
            connection_window: WINDOW_LIMIT,
            unread_bytes_max: 1 << 20,
            decoder_table_bytes: TABLE_BYTES_DEFAULT,
            encoder_table_bytes: 0,
            huffman: false,
            requires_settings: true,
            extended_connect: false,
            list_bytes_max: 33 * 1024,
            field_bytes_max: 33 * 1024,
            fields_max: 1000,
            block_bytes_max: 64 * 1024,
            continuations_max: 64,
            ignore_odd_names: true,
            underscores: false,
            control_frames_max: 1000,
            resets_max: None,
            replies_max: 256,
            flood_window: Duration::from_secs(10),
            output_bytes_max: 64 * 1024,
        }
    }
}

/// The most entries that the first SETTINGS frame has.
const ENTRIES_MAX: usize = 6;

impl Config {
    /// Writes the entries of the first SETTINGS frame: what differs from the protocol's defaults.
    pub(crate) fn announce(&self, is_server: bool, send: impl FnOnce(&[(u16, u32)])) {
        let defaults = crate::Settings::default();
        let entries: [(u16, u32, bool); ENTRIES_MAX] = [
            (
                id::HEADER_TABLE_SIZE,
                self.decoder_table_bytes,
                self.decoder_table_bytes != defaults.header_table_bytes,
            ),
            (id::ENABLE_PUSH, 0, !is_server),
            (id::MAX_CONCURRENT_STREAMS, self.streams_max, is_server),
            (id::INITIAL_WINDOW_SIZE, self.stream_window, self.stream_window != defaults.window),
            (
                id::MAX_FRAME_SIZE,
                self.frame_bytes_max,
                self.frame_bytes_max != defaults.frame_bytes_max,
            ),
            (id::ENABLE_CONNECT_PROTOCOL, 1, is_server && self.extended_connect),
        ];
        let (mut list, mut count) = ([(0, 0); ENTRIES_MAX], 0);
        for (id, value, _) in entries.iter().filter(|(.., differs)| *differs) {
            list[count] = (*id, *value);
            count += 1;
        }
        send(&list[..count]);
    }

    /// Returns what applies to heads.
    pub(crate) fn head_rules(&self) -> HeadRules {
        HeadRules {
            version: "HTTP/2.0",
            list_bytes_max: self.list_bytes_max,
            field_bytes_max: self.field_bytes_max,
            fields_max: self.fields_max,
            ignore_odd_names: self.ignore_odd_names,
            underscores: self.underscores,
            extended_connect: self.extended_connect,
        }
    }

    /// Brings values into the ranges that the protocol allows, and makes them ready to be shared by connections.
    pub fn shared(mut self) -> Arc<Config> {
        self.frame_bytes_max =
            self.frame_bytes_max.clamp(FRAME_BYTES_DEFAULT, crate::frame::FRAME_BYTES_LIMIT);
        self.stream_window = self.stream_window.min(WINDOW_LIMIT);
        self.stream_window_max = self.stream_window_max.clamp(self.stream_window, WINDOW_LIMIT);
        self.connection_window =
            self.connection_window.clamp(crate::settings::WINDOW_DEFAULT, WINDOW_LIMIT);
        Arc::new(self)
    }
}
