//! A peer that writes frames by hand, and events as text.

use std::time::Duration;

use tidegate_codec::Known;

use crate::connection::{Client, Connection, Event, Role, Server};
use crate::frame::parse::{Frame, parse};
use crate::frame::{FrameHeader, PREFACE, StreamId, write};
use crate::hpack::{Decoder, Encoder, Indexing};
use crate::{Config, ConnectionError, ErrorCode, RequestLine};

/// The bytes of frames that a peer sends.
pub(crate) struct Peer {
    pub(crate) out: Vec<u8>,
    encoder: Encoder,
}

impl Peer {
    /// A client, whose preface and SETTINGS are written.
    pub(crate) fn client() -> Peer {
        let mut peer = Peer::server();
        peer.out.splice(0..0, *PREFACE);
        peer
    }

    /// A server, whose SETTINGS are written.
    pub(crate) fn server() -> Peer {
        let mut peer = Peer { out: Vec::new(), encoder: Encoder::new(4096, true) };
        write::settings(&mut peer.out, &[]);
        peer
    }

    pub(crate) fn block(&mut self, list: &[(&str, &str)]) -> Vec<u8> {
        let mut block = Vec::new();
        self.encoder.begin(&mut block);
        for (name, value) in list {
            let known = Known::of(name.as_bytes());
            // As they are: a test may want upper case.
            let indexing = Indexing::Incremental;
            self.encoder.field(known, name.as_bytes(), value.as_bytes(), indexing, &mut block);
        }
        block
    }

    pub(crate) fn head(&mut self, stream: u32, list: &[(&str, &str)], end: bool) -> &mut Peer {
        let block = self.block(list);
        write::header_block(&mut self.out, StreamId::new(stream), &block, end, 16_384);
        self
    }

    /// A request whose pseudo-header fields are right.
    pub(crate) fn get(&mut self, stream: u32, more: &[(&str, &str)], end: bool) -> &mut Peer {
        let method = if end { "GET" } else { "POST" };
        let line =
            [(":method", method), (":scheme", "http"), (":path", "/"), (":authority", "a.test")];
        self.head(stream, &[&line[..], more].concat(), end)
    }

    pub(crate) fn data(&mut self, stream: u32, bytes: &[u8], end: bool) -> &mut Peer {
        write::data(&mut self.out, StreamId::new(stream), bytes, end);
        self
    }

    pub(crate) fn reset(&mut self, stream: u32) -> &mut Peer {
        write::reset_stream(&mut self.out, StreamId::new(stream), ErrorCode::CANCEL);
        self
    }

    pub(crate) fn window(&mut self, stream: u32, bytes: u32) -> &mut Peer {
        write::window_update(&mut self.out, StreamId::new(stream), bytes);
        self
    }

    pub(crate) fn settings(&mut self, entries: &[(u16, u32)]) -> &mut Peer {
        write::settings(&mut self.out, entries);
        self
    }

    pub(crate) fn raw(&mut self, header: FrameHeader, payload: &[u8]) -> &mut Peer {
        self.out.extend_from_slice(&header.to_bytes());
        self.out.extend_from_slice(payload);
        self
    }

    /// Ends a chain of calls.
    pub(crate) fn done(&mut self) {}

    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }
}

pub(crate) fn server(config: Config) -> Connection<Server> {
    let mut connection = Connection::<Server>::new(config.shared());
    connection.take_output(&mut Vec::new());
    connection
}

/// A client that has received SETTINGS and has sent this many requests.
pub(crate) fn client(config: Config, requests: usize) -> Connection<Client> {
    let mut connection = Connection::<Client>::new(config.shared());
    let line = RequestLine {
        method: b"GET",
        scheme: b"http",
        authority: b"a.test",
        path: b"/",
        protocol: None,
    };
    for _ in 0..requests {
        connection.request(&line, true, |_| {}).expect("a request can be sent");
    }
    connection.take_output(&mut Vec::new());
    connection
}

/// Feeds all bytes at time zero; each event as text.
pub(crate) fn feed<R: Role>(
    connection: &mut Connection<R>,
    bytes: &[u8],
) -> Result<Vec<String>, ConnectionError> {
    feed_at(connection, bytes, Duration::ZERO)
}

pub(crate) fn feed_at<R: Role>(
    connection: &mut Connection<R>,
    bytes: &[u8],
    now: Duration,
) -> Result<Vec<String>, ConnectionError> {
    let (mut input, mut events) = (bytes, Vec::new());
    while let Some(event) = connection.receive(&mut input, now)? {
        events.push(text_of(event));
    }
    assert!(input.is_empty());
    Ok(events)
}

fn text_of(event: Event<'_>) -> String {
    let ends = |end: bool| if end { " end" } else { "" };
    match event {
        Event::Head { stream, end } => format!("head {stream}{}", ends(end)),
        Event::Interim { stream } => format!("interim {stream}"),
        Event::Data { stream, bytes, end } => {
            format!("data {stream} {}{}", String::from_utf8_lossy(bytes), ends(end))
        }
        Event::Trailers { stream } => format!("trailers {stream}"),
        Event::Malformed { stream, fault } => format!("malformed {stream} {fault:?}"),
        Event::Reset { stream, code, by_peer } => {
            format!("reset {stream} {code}{}", if by_peer { " by peer" } else { "" })
        }
        Event::Window { stream } => format!("window {stream}"),
        Event::Settings => "settings".to_owned(),
        Event::Acknowledged => "acknowledged".to_owned(),
        Event::Pong { data } => format!("pong {}", String::from_utf8_lossy(&data)),
        Event::GoAway { last, code } => format!("goaway {last} {code}"),
    }
}

/// The frames of an output as text; heads are decoded.
pub(crate) fn sent(output: &[u8]) -> Vec<String> {
    sent_with(&mut Decoder::new(), output)
}

pub(crate) fn sent_with(decoder: &mut Decoder, output: &[u8]) -> Vec<String> {
    let mut rest = output.strip_prefix(PREFACE).unwrap_or(output);
    let mut frames = Vec::new();
    while let Some((header, behind)) = rest.split_first_chunk() {
        let header = FrameHeader::parse(header);
        let (payload, behind) = behind.split_at(header.length as usize);
        rest = behind;
        let id = header.stream;
        let ends = |end: bool| if end { " end" } else { "" };
        frames.push(match parse(header, payload).expect("what is sent is right") {
            Frame::Data { data, end_stream } => {
                format!("data {id} {}{}", String::from_utf8_lossy(data), ends(end_stream))
            }
            Frame::Headers { fragment, end_stream, end_headers, .. } => {
                assert!(end_headers, "tests send small heads");
                format!("head {id} {}{}", fields(decoder, fragment), ends(end_stream))
            }
            Frame::ResetStream(code) => format!("reset {id} {code}"),
            Frame::Settings { ack: true, .. } => "settings ack".to_owned(),
            Frame::Settings { entries, .. } => {
                format!("settings {:?}", entries.collect::<Vec<_>>())
            }
            Frame::Ping { ack, data } => {
                format!("{} {}", if ack { "pong" } else { "ping" }, String::from_utf8_lossy(&data))
            }
            Frame::GoAway { last, code, .. } => format!("goaway {last} {code}"),
            Frame::WindowUpdate(increment) => format!("window {id} {increment}"),
            other => panic!("{other:?}"),
        });
    }
    assert!(rest.is_empty());
    frames
}

fn fields(decoder: &mut Decoder, block: &[u8]) -> String {
    let mut list = Vec::new();
    let decoded = decoder.decode(block, &mut |field| {
        let part = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        list.push(format!("{}={}", part(field.name), part(field.value)));
    });
    assert_eq!(decoded, Ok(()));
    list.join(" ")
}

/// What a connection has sent since the last call.
pub(crate) fn output<R: Role>(connection: &mut Connection<R>) -> Vec<String> {
    let mut bytes = Vec::new();
    connection.take_output(&mut bytes);
    sent(&bytes)
}
