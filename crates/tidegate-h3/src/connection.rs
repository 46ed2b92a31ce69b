//! The server's end of one connection: bytes of streams in, events out; commands in, bytes out.
//!
//! | file | what it has |
//! |---|---|
//! | `unidirectional` | types of unidirectional streams, the control stream, PRIORITY_UPDATE |
//! | `request` | request streams: frames, field sections, bodies |
//! | `send` | commands for one stream |
//! | `end` | resets, GOAWAY, errors, memory |

mod end;
mod event;
mod output;
mod request;
mod send;
#[cfg(test)]
mod tests;
mod unidirectional;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tidegate_fields::head::Scratch;
use tidegate_fields::{Head, Priority};

use crate::config::Config;
use crate::error::{ConnectionError, Fault, Flood};
use crate::flood::Budgets;
use crate::qpack::{Decoder, Encoder};
use crate::settings::Settings;
use crate::stream::{Begun, Streams};

pub use end::Closing;
use end::Ending;
pub use event::Event;
use output::Output;
pub use output::OwnStream;
use unidirectional::{Control, Unidirectional};

/// Streams whose packets are late, at least this number whatever `streams_max` is: more than any client uses before
/// it reads a limit.
const GAPS_MIN: usize = 128;

/// The state of the server's end of a connection.
#[derive(Debug)]
pub struct Connection {
    config: Arc<Config>,
    /// The reason for the end.
    failed: Option<ConnectionError>,
    streams: Streams,
    /// Unidirectional streams of the peer that are read.
    unidirectional: Vec<Unidirectional>,
    control: Control,
    decoder: Decoder,
    encoder: Encoder,
    head: Head,
    scratch: Scratch,
    /// The field lines that are being encoded, and the prefix of their section.
    encoded: (Vec<u8>, Vec<u8>),
    peer: Settings,
    /// Bytes of `section` of all streams.
    section_bytes: usize,
    /// The request streams that have begun.
    requests: Begun,
    /// The unidirectional streams that have begun.
    others: Begun,
    ending: Ending,
    /// PRIORITY_UPDATE for streams that have not begun.
    early_priorities: VecDeque<(u64, Priority)>,
    budgets: Budgets,
    /// For [`OwnStream::ALL`].
    outputs: [Output; 3],
}

impl Connection {
    /// The server's end of a new connection. SETTINGS are in the output of the control stream.
    pub fn new(config: Arc<Config>) -> Connection {
        let mut outputs: [Output; 3] = Default::default();
        let [control, ..] = &mut outputs;
        config.announce(control.bytes(OwnStream::Control));
        let gaps_max = (config.streams_max as usize).max(GAPS_MIN);
        Connection {
            failed: None,
            streams: Streams::default(),
            unidirectional: Vec::new(),
            control: Control::default(),
            decoder: Decoder::new(config.decoder_table_bytes, config.blocked_streams_max),
            encoder: Encoder::new(config.encoder_table_bytes, config.huffman),
            head: Head::default(),
            scratch: Scratch::default(),
            encoded: (Vec::new(), Vec::new()),
            peer: Settings::default(),
            section_bytes: 0,
            requests: Begun::new(0, gaps_max),
            others: Begun::new(2, GAPS_MIN),
            ending: Ending::Open,
            early_priorities: VecDeque::new(),
            budgets: Budgets::new(&config),
            outputs,
            config,
        }
    }

    /// Takes bytes of one of the client's streams from the front of `input`, up to the next event; `None` once no event is
    /// left. `end` says that nothing follows `input` on the stream (FIN). The caller repeats the call until `None`. What it
    /// passes on of a stream that is over is dropped.
    ///
    /// With `None` all of `input` is used, unless [`Connection::is_blocked`]: then the caller keeps the rest until
    /// [`Event::Unblocked`] and passes it again, with the same `end`. Apart from bodies, which are handed on as they
    /// arrive, what is incomplete is kept within the limits of [`Config`].
    ///
    /// `now` is the time since the connection began; it only refills the budgets against floods.
    ///
    /// # Errors
    /// The connection is over: the caller closes it with the error's code. All further calls return the same.
    pub fn receive<'i>(
        &mut self,
        stream: u64,
        input: &mut &'i [u8],
        end: bool,
        now: Duration,
    ) -> Result<Option<Event<'i>>, ConnectionError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.budgets.now(now);
        let received = match stream & 3 {
            0 => self.receive_request(stream, input, end),
            2 => self.receive_unidirectional(stream, input, end),
            // The streams of this end.
            _ => Err(Fault::StreamCreation),
        };
        let event = received.and_then(|event| self.confirm().map(|()| event));
        event.map_err(|fault| self.fail(fault))
    }

    /// The head or trailer section of the last event that names it. The caller may take its parts.
    pub fn head(&mut self) -> &mut Head {
        &mut self.head
    }

    /// The client's settings, or the defaults before they are received.
    pub fn peer(&self) -> &Settings {
        &self.peer
    }

    /// The number of request streams that were not closed by [`Connection::close`].
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Whether the field section of a stream waits for insertions.
    pub fn is_blocked(&self, stream: u64) -> bool {
        let found = self.streams.get(stream);
        found.is_some_and(|stream| stream.reading == crate::stream::Reading::Blocked)
    }

    /// The priority of a request, which decides the order of responses. QUIC's implementation has that order.
    pub fn priority(&self, stream: u64) -> Option<Priority> {
        self.streams.get(stream).map(|stream| stream.priority)
    }

    /// Returns the bytes that wait to be sent on a stream of this end.
    pub fn output(&self, stream: OwnStream) -> &[u8] {
        let [control, encoder, decoder] = &self.outputs;
        match stream {
            OwnStream::Control => control.unsent(),
            OwnStream::Encoder => encoder.unsent(),
            OwnStream::Decoder => decoder.unsent(),
        }
    }

    /// The first bytes of [`Connection::output`] were sent.
    pub fn output_sent(&mut self, stream: OwnStream, bytes: usize) {
        self.output_of(stream).advance(bytes);
    }

    fn output_of(&mut self, stream: OwnStream) -> &mut Output {
        let [control, encoder, decoder] = &mut self.outputs;
        match stream {
            OwnStream::Control => control,
            OwnStream::Encoder => encoder,
            OwnStream::Decoder => decoder,
        }
    }

    /// Moves instructions of QPACK to their streams. Insertions need no limit: no more are unconfirmed than the table
    /// holds.
    fn confirm(&mut self) -> Result<(), Fault> {
        let [_, encoder, decoder] = &mut self.outputs;
        if self.encoder.has_output() {
            self.encoder.take_output(encoder.bytes(OwnStream::Encoder));
        }
        if self.decoder.has_output() {
            self.decoder.take_output(decoder.bytes(OwnStream::Decoder));
            if decoder.unsent().len() > self.config.output_bytes_max {
                return Err(Fault::Flood(Flood::Output));
            }
        }
        Ok(())
    }
}
