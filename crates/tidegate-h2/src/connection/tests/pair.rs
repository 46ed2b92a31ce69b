//! A client and a server over pipes that are cut at random places, with random commands: what one sends the other
//! receives, windows hold, and both end in the same states.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::connection::{Client, Connection, Event, Role, Server};
use crate::frame::StreamId;
use crate::settings::WINDOW_DEFAULT;
use crate::stream::state::{Closed, State};
use crate::{Config, ErrorCode, RequestLine, SendError};

/// One message as it was sent or received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Message {
    /// Heads in their order, the interim ones too, and the trailer section last.
    heads: Vec<String>,
    body: Vec<u8>,
    ended: bool,
}

/// A connection with what was sent and received on it.
struct End<R: Role> {
    connection: Connection<R>,
    sent: BTreeMap<StreamId, Message>,
    received: BTreeMap<StreamId, Message>,
    /// Body bytes received and not yet used, by stream.
    unread: BTreeMap<StreamId, u32>,
    resets: Vec<StreamId>,
    window: u32,
}

impl<R: Role> End<R> {
    fn new(connection: Connection<R>, window: u32) -> End<R> {
        End {
            connection,
            sent: BTreeMap::new(),
            received: BTreeMap::new(),
            unread: BTreeMap::new(),
            resets: Vec::new(),
            window,
        }
    }

    /// Receives all bytes in pieces of these lengths.
    fn receive(&mut self, bytes: &[u8], cuts: &mut impl Iterator<Item = usize>) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let length = cuts.next().unwrap_or(usize::MAX).clamp(1, rest.len());
            let (mut piece, behind) = rest.split_at(length);
            rest = behind;
            loop {
                let event = self.connection.receive(&mut piece, Duration::ZERO);
                match event.expect("neither end makes a mistake") {
                    Some(event) => self.note(event),
                    None => break,
                }
            }
        }
    }

    fn note(&mut self, event: Event<'_>) {
        match event {
            Event::Head { stream, end } => self.note_head(stream, end),
            Event::Interim { stream } => self.note_head(stream, false),
            Event::Trailers { stream } => self.note_head(stream, true),
            Event::Data { stream, bytes, end } => {
                let message = self.received.entry(stream).or_default();
                message.body.extend_from_slice(bytes);
                message.ended |= end;
                let unread = self.unread.entry(stream).or_default();
                *unread += bytes.len() as u32;
                assert!(*unread <= self.window, "{unread} of {}", self.window);
            }
            Event::Reset { stream, by_peer, .. } => {
                assert!(by_peer, "neither end makes a mistake");
                self.resets.push(stream);
            }
            Event::Malformed { stream, fault } => panic!("{stream} {fault}"),
            _ => {}
        }
    }

    fn note_head(&mut self, stream: StreamId, end: bool) {
        let head = self.connection.head();
        let mut text = format!("{} ", head.status);
        for (_, name, value) in head.headers.iter() {
            let part = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            text.push_str(&format!("{}={} ", part(name), part(value)));
        }
        let message = self.received.entry(stream).or_default();
        message.heads.push(text);
        message.ended |= end;
    }

    fn send_body(&mut self, stream: StreamId, length: usize, end: bool) {
        let bytes: Vec<u8> = (0..length).map(|at| at as u8 ^ stream.value() as u8).collect();
        let most = self.connection.sendable(stream) as usize;
        if let Ok(taken) = self.connection.send_data(stream, &bytes, end) {
            assert!(taken == length || taken >= most);
            let message = self.sent.entry(stream).or_default();
            message.body.extend_from_slice(&bytes[..taken]);
            message.ended |= end && taken == length;
        }
    }

    fn send_trailers(&mut self, stream: StreamId, value: &str) {
        let list = |fields: &mut crate::Fields<'_>| fields.push(b"X-Sum", value.as_bytes());
        if self.connection.send_trailers(stream, list) == Ok(0) {
            let message = self.sent.entry(stream).or_default();
            message.heads.push(format!("0 x-sum={value} "));
            message.ended = true;
        }
    }

    fn use_up(&mut self, stream: StreamId, bytes: u32) {
        if let Some(unread) = self.unread.get_mut(&stream) {
            let used = bytes.min(*unread);
            *unread -= used;
            self.connection.consumed(stream, used);
        }
    }
}

/// What happens next.
#[derive(Clone, Debug)]
enum Step {
    Request { value: String, end: bool },
    Respond { stream: usize, status: u16, value: String, end: bool },
    Body { client: bool, stream: usize, length: usize, end: bool },
    Trailers { client: bool, stream: usize, value: String },
    Use { client: bool, stream: usize, bytes: u32 },
    Reset { client: bool, stream: usize },
    Deliver { to_client: bool, cuts: Vec<usize> },
}

fn step() -> impl Strategy<Value = Step> {
    let value = "[!-~]{0,40}";
    let stream = 0usize..6;
    prop_oneof![
        2 => (value, any::<bool>()).prop_map(|(value, end)| Step::Request { value, end }),
        3 => (stream.clone(), prop_oneof![Just(103u16), 200u16..600], value, any::<bool>())
            .prop_map(|(stream, status, value, end)| Step::Respond { stream, status, value, end }),
        6 => (any::<bool>(), stream.clone(), 0usize..50_000, any::<bool>())
            .prop_map(|(client, stream, length, end)| Step::Body { client, stream, length, end }),
        1 => (any::<bool>(), stream.clone(), value)
            .prop_map(|(client, stream, value)| Step::Trailers { client, stream, value }),
        4 => (any::<bool>(), stream.clone(), 0u32..70_000)
            .prop_map(|(client, stream, bytes)| Step::Use { client, stream, bytes }),
        1 => (any::<bool>(), stream).prop_map(|(client, stream)| Step::Reset { client, stream }),
        6 => (any::<bool>(), vec(1usize..3000, 0..20))
            .prop_map(|(to_client, cuts)| Step::Deliver { to_client, cuts }),
    ]
}

struct Pair {
    client: End<Client>,
    server: End<Server>,
    streams: Vec<StreamId>,
    /// Streams that either end has reset: their messages may be cut.
    cut: Vec<StreamId>,
}

impl Pair {
    fn new(client: Config, server: Config) -> Pair {
        let window = |config: &Config| config.stream_window.max(WINDOW_DEFAULT);
        let (client_window, server_window) = (window(&client), window(&server));
        Pair {
            client: End::new(Connection::<Client>::new(client.shared()), client_window),
            server: End::new(Connection::<Server>::new(server.shared()), server_window),
            streams: Vec::new(),
            cut: Vec::new(),
        }
    }

    fn run(&mut self, step: Step) {
        let number = |index: usize| StreamId::new(2 * index as u32 + 1);
        match step {
            Step::Request { value, end } => self.request(&value, end),
            Step::Respond { stream, status, value, end } => {
                self.respond(number(stream), status, &value, end);
            }
            Step::Body { client: true, stream, length, end } => {
                self.client.send_body(number(stream), length, end);
            }
            Step::Body { stream, length, end, .. } => {
                self.server.send_body(number(stream), length, end);
            }
            Step::Trailers { client: true, stream, value } => {
                self.client.send_trailers(number(stream), &value);
            }
            Step::Trailers { stream, value, .. } => {
                self.server.send_trailers(number(stream), &value);
            }
            Step::Use { client: true, stream, bytes } => {
                self.client.use_up(number(stream), bytes);
            }
            Step::Use { stream, bytes, .. } => self.server.use_up(number(stream), bytes),
            Step::Reset { client, stream } => {
                let stream = number(stream);
                let open = |state: Option<State>| state.is_some_and(|state| !state.is_closed());
                let reset = match client {
                    true => open(self.client.connection.state(stream)),
                    false => open(self.server.connection.state(stream)),
                };
                if reset {
                    self.cut.push(stream);
                    match client {
                        true => self.client.connection.reset(stream, ErrorCode::CANCEL),
                        false => self.server.connection.reset(stream, ErrorCode::CANCEL),
                    }
                }
            }
            Step::Deliver { to_client, cuts } => self.deliver(to_client, cuts),
        }
    }

    fn request(&mut self, value: &str, end: bool) {
        let line = RequestLine {
            method: b"POST",
            scheme: b"http",
            authority: b"a.test",
            path: b"/",
            protocol: None,
        };
        let list = |fields: &mut crate::Fields<'_>| fields.push(b"x-value", value.as_bytes());
        match self.client.connection.request(&line, end, list) {
            Ok(stream) => {
                let heads = vec![format!("0 x-value={value} host=a.test ")];
                self.client.sent.insert(stream, Message { heads, body: Vec::new(), ended: end });
                self.streams.push(stream);
            }
            Err(error) => assert_eq!(error, SendError::StreamsMax),
        }
    }

    fn respond(&mut self, stream: StreamId, status: u16, value: &str, end: bool) {
        let list = |fields: &mut crate::Fields<'_>| fields.push(b"Server", value.as_bytes());
        let end = end && status >= 200;
        let connection = &mut self.server.connection;
        let sent = match status {
            200.. => connection.respond(stream, status, end, list),
            _ => connection.respond_interim(stream, status, list),
        };
        if sent == Ok(0) {
            let message = self.server.sent.entry(stream).or_default();
            message.heads.push(format!("{status} server={value} "));
            message.ended |= end;
        }
    }

    fn deliver(&mut self, to_client: bool, cuts: Vec<usize>) {
        let mut bytes = Vec::new();
        let mut cuts = cuts.into_iter();
        match to_client {
            true => {
                self.server.connection.take_output(&mut bytes);
                self.client.receive(&bytes, &mut cuts);
            }
            false => {
                self.client.connection.take_output(&mut bytes);
                self.server.receive(&bytes, &mut cuts);
            }
        }
    }

    /// Delivers until nothing is on its way.
    fn settle(&mut self) {
        while !self.client.connection.output().is_empty()
            || !self.server.connection.output().is_empty()
        {
            self.deliver(true, vec![]);
            self.deliver(false, vec![]);
        }
    }

    /// What was sent was received, in full unless the stream was reset; both know the same of each stream.
    fn check(&self) {
        for stream in &self.streams {
            let cut = self.cut.contains(stream);
            check_message(self.client.sent.get(stream), self.server.received.get(stream), cut);
            check_message(self.server.sent.get(stream), self.client.received.get(stream), cut);
            let states =
                (self.client.connection.state(*stream), self.server.connection.state(*stream));
            let mirrored = match states {
                (Some(State::HalfClosedLocal), Some(State::HalfClosedRemote))
                | (Some(State::HalfClosedRemote), Some(State::HalfClosedLocal)) => true,
                (Some(State::Closed(client)), Some(State::Closed(server))) => {
                    matches!(
                        (client, server),
                        (Closed::Ended, Closed::Ended)
                            | (Closed::ResetSent, _)
                            | (_, Closed::ResetSent)
                    )
                }
                (client, server) => client == server,
            };
            assert!(mirrored, "{stream} {states:?}");
        }
    }
}

fn check_message(sent: Option<&Message>, received: Option<&Message>, cut: bool) {
    let (sent, received) =
        (sent.cloned().unwrap_or_default(), received.cloned().unwrap_or_default());
    if cut {
        assert!(sent.heads.starts_with(&received.heads), "{sent:?} {received:?}");
        assert!(sent.body.starts_with(&received.body));
    } else {
        assert_eq!(sent, received);
    }
}

fn config() -> impl Strategy<Value = Config> {
    (0u32..100_000, 0u32..300_000, 0u32..5000, 0u32..5000, any::<bool>(), 1000u32..200_000)
        .prop_map(|(stream_window, connection_window, decoder, encoder, huffman, unread)| Config {
            stream_window,
            connection_window,
            decoder_table_bytes: decoder,
            encoder_table_bytes: encoder,
            huffman,
            unread_bytes_max: unread,
            streams_max: 5,
            resets_max: Some(1000),
            ..Config::default()
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn what_one_sends_the_other_receives(
        client in config(), server in config(), steps in vec(step(), 1..80),
    ) {
        let mut pair = Pair::new(client, server);
        for step in steps {
            pair.run(step);
        }
        pair.settle();
        pair.check();
        // Everything can be ended, and then nothing is left.
        for stream in pair.streams.clone() {
            pair.client.connection.close(stream, ErrorCode::CANCEL);
        }
        pair.settle();
        for stream in pair.streams.clone() {
            pair.server.connection.close(stream, ErrorCode::CANCEL);
        }
        pair.settle();
        prop_assert!(pair.client.connection.is_quiet() && pair.server.connection.is_quiet());
        pair.client.connection.release_memory();
        pair.server.connection.release_memory();
        prop_assert!(pair.server.connection.memory() < 20_000);
    }
}

/// The budgets are not in the way of a long life: thousands of requests with bodies one after the other.
#[test]
fn a_long_life() {
    let mut pair = Pair::new(Config::default(), Config::default());
    for _ in 0..3000 {
        pair.request("x", false);
        let stream = pair.streams.pop().expect("there is room");
        pair.client.send_body(stream, 20_000, true);
        pair.settle();
        pair.server.use_up(stream, 20_000);
        pair.respond(stream, 200, "y", false);
        pair.server.send_body(stream, 20_000, true);
        pair.settle();
        pair.client.use_up(stream, 20_000);
        let sent = pair.server.sent.remove(&stream);
        assert_eq!(sent, pair.client.received.remove(&stream));
        pair.client.connection.close(stream, ErrorCode::CANCEL);
        pair.server.connection.close(stream, ErrorCode::CANCEL);
    }
    assert_eq!(pair.client.resets.len() + pair.server.resets.len(), 0);
}

proptest! {
    /// The fuzz targets over arbitrary bytes; the last is a list of frames as well.
    #[test]
    fn nothing_that_is_received_is_too_much(bytes in vec(any::<u8>(), 0..400)) {
        crate::fuzzing::fuzz_hpack(&bytes);
        crate::fuzzing::fuzz_frames(&bytes);
        crate::fuzzing::fuzz_connection(&bytes);
    }
}
