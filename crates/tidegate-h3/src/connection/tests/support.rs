//! A client made of frames, and events as text.

use std::time::Duration;

use tidegate_codec::Known;

use crate::connection::{Connection, Event, OwnStream};
use crate::frame::{kind, write};
use crate::qpack::{Decoded, Decoder, Encoder, Indexing};
use crate::{Config, ConnectionError, ErrorCode};

/// The client's unidirectional streams.
pub(super) const CONTROL: u64 = 2;
pub(super) const ENCODER: u64 = 6;
pub(super) const DECODER: u64 = 10;

pub(super) const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":path", "/"), (":authority", "a.test")];
pub(super) const POST: [(&str, &str); 4] =
    [(":method", "POST"), (":scheme", "https"), (":path", "/"), (":authority", "a.test")];

pub(super) fn server(config: Config) -> Connection {
    Connection::new(config.shared())
}

/// A frame of this type.
pub(super) fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write::header(&mut out, kind, payload.len() as u64);
    out.extend_from_slice(payload);
    out
}

/// HEADERS without a table.
pub(super) fn headers(list: &[(&str, &str)]) -> Vec<u8> {
    headers_by(&mut Encoder::new(0, true), 0, list)
}

pub(super) fn headers_by(encoder: &mut Encoder, stream: u64, list: &[(&str, &str)]) -> Vec<u8> {
    let (mut lines, mut prefix, mut out) = (Vec::new(), Vec::new(), Vec::new());
    encoder.begin(stream);
    for (name, value) in list {
        let (name, value) = (name.as_bytes(), value.as_bytes());
        encoder.field(Known::of(name), name, value, Indexing::Incremental, &mut lines);
    }
    encoder.finish(&mut prefix);
    write::headers(&mut out, &prefix, &lines);
    out
}

pub(super) fn data(bytes: &[u8]) -> Vec<u8> {
    frame(kind::DATA, bytes)
}

/// Passes bytes of a stream, and returns the events as text.
pub(super) fn feed(
    server: &mut Connection,
    stream: u64,
    bytes: &[u8],
    end: bool,
) -> Result<Vec<String>, ConnectionError> {
    let (events, rest) = feed_part(server, stream, bytes, end)?;
    assert!(rest.is_empty(), "all is used");
    Ok(events)
}

/// As [`feed`]; returns what was not used as well.
pub(super) fn feed_part<'a>(
    server: &mut Connection,
    stream: u64,
    bytes: &'a [u8],
    end: bool,
) -> Result<(Vec<String>, &'a [u8]), ConnectionError> {
    let (mut input, mut events) = (bytes, Vec::new());
    while let Some(event) = server.receive(stream, &mut input, end, Duration::ZERO)? {
        events.push(text(server, event));
    }
    Ok((events, input))
}

/// The code with which the connection ends.
pub(super) fn code_of(
    server: &mut Connection,
    stream: u64,
    bytes: &[u8],
    end: bool,
) -> Option<ErrorCode> {
    let error = feed_part(server, stream, bytes, end).err()?;
    // It is over for every stream.
    let again = server.receive(stream, &mut &[][..], false, Duration::ZERO);
    assert_eq!(again, Err(error));
    assert!(server.respond(0, 200, true, &mut Vec::new(), |_| {}).is_err());
    Some(error.code())
}

pub(super) fn text(server: &mut Connection, event: Event<'_>) -> String {
    let mark = |end: bool| if end { " end" } else { "" };
    match event {
        Event::Head { stream, end } => {
            let head = server.head();
            let line = String::from_utf8_lossy(head.text(head.line)).into_owned();
            format!("{stream} {line}{}", mark(end))
        }
        Event::Data { stream, bytes, end } => {
            format!("{stream} data {}{}", String::from_utf8_lossy(bytes), mark(end))
        }
        Event::Trailers { stream } => {
            let mut text = Vec::new();
            server.head().headers.write_to(&mut text);
            format!("{stream} trailers {}", String::from_utf8_lossy(&text).trim_end())
        }
        Event::Malformed { stream, fault } => format!("{stream} malformed: {fault}"),
        Event::Reset { stream, code } => format!("{stream} reset {code}"),
        Event::Refused { stream, code } => format!("{stream} refused {code}"),
        Event::Stop { stream, code } => format!("{stream} stop {code}"),
        Event::Unblocked { stream } => format!("{stream} unblocked"),
        Event::Settings => "settings".to_owned(),
        Event::Priority { stream, priority } => {
            format!("{stream} urgency {} {}", priority.urgency, priority.incremental)
        }
        Event::GoAway { push } => format!("goaway {push}"),
    }
}

/// Takes what waits on a stream of the server.
pub(super) fn output(server: &mut Connection, stream: OwnStream) -> Vec<u8> {
    let bytes = server.output(stream).to_vec();
    server.output_sent(stream, bytes.len());
    assert!(server.output(stream).is_empty());
    bytes
}

/// The fields of the HEADERS frame at the front.
pub(super) fn section(decoder: &mut Decoder, stream: u64, input: &mut &[u8]) -> String {
    let mut partial = crate::frame::PartialHeader::default();
    let header = partial.frame(input).expect("a frame");
    assert_eq!(header.kind, crate::frame::Kind::Headers);
    let (section, rest) = input.split_at(header.length as usize);
    *input = rest;
    let mut text = String::new();
    let decoded = decoder.decode(stream, section, &mut |field| {
        let part = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        text.push_str(&format!("{}: {}|", part(field.name), part(field.value)));
    });
    assert_eq!(decoded, Ok(Decoded::Done));
    text
}
