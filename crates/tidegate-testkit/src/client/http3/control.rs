//! The unidirectional streams of both ends: settings, GOAWAY, and those of QPACK.

use std::collections::{BTreeMap, BTreeSet};

use quinn_proto::{Dir, StreamId, VarInt};
use tidegate_fields::Budget;
use tidegate_h3::frame::parse::{Frame, parse};
use tidegate_h3::frame::{PartialHeader, StreamKind, kind, write};
use tidegate_h3::qpack::{Decoder, Encoder};
use tidegate_h3::varint;

use super::session::{Piece, State};
use super::words::Options;

/// SETTINGS_QPACK_MAX_TABLE_CAPACITY and SETTINGS_QPACK_BLOCKED_STREAMS of both ends.
const QPACK_CAPACITY: (u64, u32) = (0x1, 4096);
const QPACK_BLOCKED: (u64, u32) = (0x7, 16);
/// Instructions that a server may send in a case.
const INSTRUCTIONS_MAX: u32 = 1 << 20;

/// The state of these streams.
#[derive(Debug)]
pub(super) struct Control {
    alpn: String,
    is_bare: bool,
    uses_table: bool,
    pub(super) decoder: Decoder,
    pub(super) encoder: Encoder,
    budget: Budget,
    /// Own streams of QPACK.
    pub(super) encoder_stream: Option<StreamId>,
    decoder_stream: Option<StreamId>,
    /// Streams of the server: what was received and not used, and their type.
    streams: BTreeMap<StreamId, (Vec<u8>, Option<StreamKind>)>,
    /// Settings of the server.
    pub(super) settings: Option<BTreeMap<u64, u64>>,
    /// The number in its latest GOAWAY.
    pub(super) goaway: Option<u64>,
    /// Streams whose field section can be decoded now.
    pub(super) unblocked: BTreeSet<u64>,
}

impl Control {
    pub(super) fn new(options: &Options) -> Self {
        let table = if options.uses_table { QPACK_CAPACITY.1 } else { 0 };
        Self {
            alpn: options.alpn.clone(),
            is_bare: options.is_bare,
            uses_table: options.uses_table,
            decoder: Decoder::new(QPACK_CAPACITY.1, QPACK_BLOCKED.1),
            encoder: Encoder::new(table, true),
            budget: Budget::new(INSTRUCTIONS_MAX),
            encoder_stream: None,
            decoder_stream: None,
            streams: BTreeMap::new(),
            settings: None,
            goaway: None,
            unblocked: BTreeSet::new(),
        }
    }

    /// The server has opened a stream.
    pub(super) fn opened(&mut self, stream: StreamId) {
        self.streams.insert(stream, (Vec::new(), None));
    }

    /// Whether it is one of these streams of the server.
    pub(super) fn has(&self, stream: StreamId) -> bool {
        self.streams.contains_key(&stream)
    }

    /// Reads what a stream of the server has received.
    fn read(&mut self, stream: StreamId) -> Result<(), String> {
        let Some((received, found)) = self.streams.get_mut(&stream) else { return Ok(()) };
        let mut rest = received.as_slice();
        if found.is_none() {
            let mut ahead = rest;
            let Some(number) = varint::decode(&mut ahead) else { return Ok(()) };
            (rest, *found) = (ahead, Some(StreamKind::of(number)));
        }
        match *found {
            Some(StreamKind::Control) => loop {
                let mut ahead = rest;
                let Some(header) = PartialHeader::default().frame(&mut ahead) else { break };
                let Some((payload, behind)) = ahead.split_at_checked(header.length as usize) else {
                    break;
                };
                let frame = parse(header, payload).map_err(|_| "a frame of the control stream")?;
                match (frame, &self.settings) {
                    (Frame::Settings(entries), None) => self.settings = Some(entries.collect()),
                    (Frame::Settings(_), Some(_)) => return Err("a second SETTINGS".to_owned()),
                    (_, None) => return Err("no SETTINGS first".to_owned()),
                    (Frame::GoAway(id), Some(_)) => self.goaway = Some(id),
                    _ => {}
                }
                rest = behind;
            },
            Some(StreamKind::Encoder) => {
                let taken = self.decoder.receive(rest, &mut self.budget);
                taken.map_err(|error| format!("the encoder stream: {error:?}"))?;
                rest = &[];
                while let Some(stream) = self.decoder.unblocked() {
                    self.unblocked.insert(stream);
                }
            }
            // Instructions by hand have confirmations that the encoder knows nothing of.
            Some(StreamKind::Decoder) if !self.uses_table => rest = &[],
            Some(StreamKind::Decoder) => {
                let taken = self.encoder.receive(rest);
                taken.map_err(|error| format!("the decoder stream: {error:?}"))?;
                rest = &[];
            }
            Some(StreamKind::Push) => return Err("a push stream".to_owned()),
            Some(StreamKind::Unknown(_)) | None => rest = &[],
        }
        *received = rest.to_vec();
        Ok(())
    }
}

impl State {
    /// Opens the streams that a client has, with its settings.
    pub(super) fn begin_streams(&mut self) {
        let is_begun = self.control.encoder_stream.is_some();
        let is_refused = self.is_connected && !self.quic.accepted_0rtt();
        if self.control.is_bare || self.control.alpn != "h3" || (is_begun && !is_refused) {
            return;
        }
        let mut settings = Vec::new();
        varint::encode(&mut settings, 0x0);
        let entries = [QPACK_CAPACITY, QPACK_BLOCKED].map(|(id, value)| (id, u64::from(value)));
        write::settings(&mut settings, &entries);
        let mut streams = Vec::new();
        for (name, bytes) in [("control", settings), ("encoder", vec![0x2]), ("decoder", vec![0x3])]
        {
            let Some(stream) = self.quic.streams().open(Dir::Uni) else {
                self.fault = Some("it allows less than three unidirectional streams".to_owned());
                return;
            };
            self.write_now(stream, &bytes);
            self.names.insert(name.to_owned(), stream);
            streams.push(stream);
        }
        (self.control.encoder_stream, self.control.decoder_stream) =
            (streams.get(1).copied(), streams.get(2).copied());
    }

    /// Sends bytes for which a window always has room.
    pub(super) fn write_now(&mut self, stream: StreamId, bytes: &[u8]) {
        let _ = self.quic.send_stream(stream).write(bytes);
    }

    /// Sends the confirmations of QPACK.
    pub(super) fn send_confirmations(&mut self) {
        let Some(stream) = self.control.decoder_stream else { return };
        let mut bytes = Vec::new();
        self.control.decoder.take_output(&mut bytes);
        if !bytes.is_empty() {
            self.write_now(stream, &bytes);
        }
    }

    /// Reads a unidirectional stream of the server.
    pub(super) fn read_control(&mut self, stream: StreamId) {
        loop {
            match self.read(stream) {
                Piece::Bytes(bytes) => {
                    if let Some((received, _)) = self.control.streams.get_mut(&stream) {
                        received.extend(bytes);
                    }
                    let had_settings = self.control.settings.is_some();
                    if let Err(fault) = self.control.read(stream) {
                        self.fault = Some(fault);
                    }
                    if !had_settings {
                        self.limit_table();
                    }
                }
                Piece::None => return,
                Piece::End | Piece::Over => {
                    let of = self.control.streams.remove(&stream).and_then(|(_, kind)| kind);
                    if !matches!(of, Some(StreamKind::Unknown(_)) | None) && !self.is_over() {
                        self.fault = Some(format!("it ended its stream of the type {of:?}"));
                    }
                    return;
                }
            }
        }
    }

    /// Gives the encoder the limits of the server.
    fn limit_table(&mut self) {
        let Some(settings) = &self.control.settings else { return };
        if self.control.uses_table {
            let of = |id: u64| settings.get(&id).copied().unwrap_or_default();
            self.control.encoder.limit(of(QPACK_CAPACITY.0), of(QPACK_BLOCKED.0));
        }
    }
}

/// A stream's number on the wire.
pub(super) fn number(stream: StreamId) -> u64 {
    VarInt::from(stream).into_inner()
}

/// The type of DATA, for its header.
pub(super) const DATA: u64 = kind::DATA;
