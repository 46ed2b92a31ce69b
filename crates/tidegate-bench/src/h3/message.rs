//! Requests as bytes, and responses from bytes, in any pieces; without I/O.

use bytes::Bytes;
use tidegate_fields::Known;
use tidegate_h3::frame::parse::{self, Frame};
use tidegate_h3::frame::{CONTROL_FRAME_BYTES_MAX, Kind, PartialHeader, StreamKind, write};
use tidegate_h3::qpack::{Decoded, Decoder, Encoder, Indexing};
use tidegate_h3::varint;

use crate::h2::client::Ask;

/// The name of the protocol in ALPN (RFC 9114 section 3.1).
pub(crate) const ALPN: &[u8] = b"h3";
/// H3_NO_ERROR.
pub(crate) const NO_ERROR: u64 = 0x100;
/// H3_REQUEST_REJECTED: the request may be sent again (RFC 9114 section 4.1.1).
pub(crate) const REQUEST_REJECTED: u64 = 0x10b;
/// H3_REQUEST_CANCELLED.
pub(crate) const REQUEST_CANCELLED: u64 = 0x10c;
/// The largest field section of a response, bytes.
const SECTION_BYTES_MAX: u64 = 64 << 10;

/// Returns a HEADERS frame with the request. It uses the static table alone, so it is the same on each stream.
pub(crate) fn request(ask: &Ask, authority: &str) -> Bytes {
    let (mut encoder, mut lines, mut prefix) = (Encoder::new(0, true), Vec::new(), Vec::new());
    encoder.begin(0);
    for (name, value) in [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", authority),
        (":path", ask.target.as_str()),
    ] {
        let (name, value) = (name.as_bytes(), value.as_bytes());
        encoder.field(Known::of(name), name, value, Indexing::Without, &mut lines);
    }
    encoder.finish(&mut prefix);
    let mut frame = Vec::new();
    write::headers(&mut frame, &prefix, &lines);
    frame.into()
}

/// Returns the begin of the client's control stream: its type, and SETTINGS without a table of QPACK.
pub(crate) fn control_stream() -> Bytes {
    let mut bytes = Vec::new();
    varint::encode(&mut bytes, 0);
    write::settings(&mut bytes, &[]);
    bytes.into()
}

/// Returns a frame of a reserved type, which has no meaning (RFC 9114 section 7.2.8).
pub(crate) fn reserved_frame(out: &mut Vec<u8>) {
    write::header(out, 0x21, 1);
    out.push(0);
}

/// Returns PRIORITY_UPDATE of a request stream.
pub(crate) fn priority_update(out: &mut Vec<u8>, stream: u64) {
    write::priority_update(out, stream, b"u=1");
}

/// A response as far as it has arrived.
#[derive(Debug, Default)]
pub(crate) struct Response {
    /// The status; that of the last interim response before the final one.
    pub status: u16,
    pub body_bytes: u64,
    header: PartialHeader,
    part: Part,
    section: Vec<u8>,
}

/// The place in a stream of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    /// Type and length of a frame.
    #[default]
    Header,
    /// A field section, with the bytes that are missing.
    Section(u64),
    Data(u64),
    /// A frame without meaning here.
    Skipped(u64),
}

impl Response {
    /// Takes the next bytes of the stream.
    ///
    /// # Errors
    /// In words: the response is malformed.
    pub(crate) fn feed(
        &mut self,
        stream: u64,
        mut bytes: &[u8],
        decoder: &mut Decoder,
    ) -> Result<(), String> {
        // A frame may have no payload: then its part ends without another byte.
        while !bytes.is_empty() || matches!(self.part, Part::Section(0)) {
            match self.part {
                Part::Header => {
                    let Some(header) = self.header.frame(&mut bytes) else { return Ok(()) };
                    self.part = match header.kind {
                        Kind::Headers if header.length > SECTION_BYTES_MAX => {
                            return Err(format!("a field section of {} bytes", header.length));
                        }
                        Kind::Headers => Part::Section(header.length),
                        Kind::Data if self.status < 200 => {
                            return Err("DATA before the final HEADERS".to_owned());
                        }
                        Kind::Data => Part::Data(header.length),
                        Kind::Unknown(_) => Part::Skipped(header.length),
                        other => return Err(format!("a frame {other:?}")),
                    };
                }
                Part::Section(missing) => {
                    let (taken, rest) = divide(bytes, missing);
                    self.section.extend_from_slice(taken);
                    bytes = rest;
                    self.part = Part::Section(missing - taken.len() as u64);
                    if self.part == Part::Section(0) {
                        self.decode(stream, decoder)?;
                        self.part = Part::Header;
                    }
                }
                Part::Data(missing) | Part::Skipped(missing) => {
                    let (taken, rest) = divide(bytes, missing);
                    let left = missing - taken.len() as u64;
                    bytes = rest;
                    if matches!(self.part, Part::Data(_)) {
                        self.body_bytes += taken.len() as u64;
                    }
                    self.part = match (self.part, left) {
                        (_, 0) => Part::Header,
                        (Part::Data(_), left) => Part::Data(left),
                        (_, left) => Part::Skipped(left),
                    };
                }
            }
        }
        Ok(())
    }

    fn decode(&mut self, stream: u64, decoder: &mut Decoder) -> Result<(), String> {
        let mut status = None;
        let decoded = decoder.decode(stream, &self.section, &mut |field| {
            if field.name == b":status" {
                status = std::str::from_utf8(field.value).ok().and_then(|text| text.parse().ok());
            }
        });
        self.section.clear();
        match decoded {
            Ok(Decoded::Done) => {}
            Ok(Decoded::Blocked) => return Err("a field section that needs a table".to_owned()),
            Err(error) => return Err(format!("field section: {error:?}")),
        }
        match (status, self.status) {
            (Some(status), 0..200) => self.status = status,
            // Trailers.
            (None, 200..) => {}
            _ => return Err("a field section without or with a second status".to_owned()),
        }
        Ok(())
    }

    /// Whether this is the complete and correct response, when the stream has ended.
    pub(crate) fn suits(&self, ask: &Ask) -> bool {
        let is_at_end = matches!(self.part, Part::Header | Part::Data(0) | Part::Skipped(0))
            && self.header.is_empty();
        is_at_end && self.status == ask.status && self.body_bytes == ask.body_bytes
    }
}

/// One of the server's unidirectional streams.
#[derive(Debug, Default)]
pub(crate) struct ServerStream {
    kind: Option<StreamKind>,
    header: PartialHeader,
    /// A frame of the control stream, with its payload as far as it is here.
    frame: Option<(tidegate_h3::frame::FrameHeader, Vec<u8>)>,
}

impl ServerStream {
    /// Takes the next bytes; returns the identifier of a GOAWAY in them, the last one.
    ///
    /// # Errors
    /// In words: a frame is malformed.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) -> Result<Option<u64>, String> {
        let mut goaway = None;
        loop {
            let kind = match self.kind {
                Some(kind) => kind,
                None => match self.header.stream_kind(&mut bytes) {
                    Some(kind) => *self.kind.insert(kind),
                    None => return Ok(goaway),
                },
            };
            if kind != StreamKind::Control {
                // Without a table, the streams of QPACK have nothing of interest.
                return Ok(goaway);
            }
            let Some((header, payload)) = &mut self.frame else {
                let Some(header) = self.header.frame(&mut bytes) else { return Ok(goaway) };
                if header.length > CONTROL_FRAME_BYTES_MAX {
                    return Err(format!("a control frame of {} bytes", header.length));
                }
                self.frame = Some((header, Vec::new()));
                continue;
            };
            let (taken, rest) = divide(bytes, header.length - payload.len() as u64);
            payload.extend_from_slice(taken);
            bytes = rest;
            if payload.len() as u64 != header.length {
                return Ok(goaway);
            }
            match parse::parse(*header, payload) {
                Ok(Frame::GoAway(id)) => goaway = Some(id),
                Ok(_) => {}
                Err(_) => return Err(format!("a malformed frame {:?}", header.kind)),
            }
            self.frame = None;
        }
    }
}

/// Divides at most `most` bytes from the rest.
fn divide(bytes: &[u8], most: u64) -> (&[u8], &[u8]) {
    bytes.split_at(bytes.len().min(usize::try_from(most).unwrap_or(usize::MAX)))
}
