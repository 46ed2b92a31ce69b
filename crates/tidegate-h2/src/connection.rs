//! One connection: bytes in, events out; commands in, bytes out.
//!
//! | file | what it has |
//! |---|---|
//! | `buffers` | memory for bytes that are under way |
//! | `receive` | from bytes to frames |
//! | `frames` | frames without a body or a header block |
//! | `blocks` | header blocks |
//! | `data` | bodies that are received, and their windows |
//! | `priorities` | the order of streams |
//! | `send` | commands for one stream |
//! | `end` | GOAWAY, errors, memory |

mod blocks;
mod buffers;
mod data;
mod end;
mod event;
mod frames;
mod output;
mod priorities;
mod receive;
mod send;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::config::Config;
use crate::error::ErrorCode;
use crate::flood::Budgets;
use crate::flow::{ReceiveWindow, SendWindow};
use crate::frame::{PREFACE, StreamId, write};
use crate::hpack::{Decoder, Encoder};
use crate::priority::{Priority, SendOrder};
use crate::settings::{Settings, WINDOW_DEFAULT};
use crate::stream::Streams;
use crate::stream::state::State;
use tidegate_fields::Head;

use blocks::OpenBlock;
pub use buffers::Buffers;
use buffers::Lent;
use end::Ending;
pub use event::Event;
use output::Output;
use receive::Reading;

mod sealed {
    /// Closes [`super::Role`].
    pub trait Sealed {}
}

/// Which end of a connection this is: [`Server`] or [`Client`].
pub trait Role: sealed::Sealed {
    /// Whether it is the server's.
    const IS_SERVER: bool;
}

/// Receives requests.
#[derive(Debug)]
pub enum Server {}

/// Sends requests.
#[derive(Debug)]
pub enum Client {}

impl sealed::Sealed for Server {}
impl sealed::Sealed for Client {}

impl Role for Server {
    const IS_SERVER: bool = true;
}

impl Role for Client {
    const IS_SERVER: bool = false;
}

/// The state of one end of a connection.
#[derive(Debug)]
pub struct Connection<R: Role> {
    config: Arc<Config>,
    reading: Reading,
    /// The peer's first SETTINGS frame has been received.
    has_settings: bool,
    block: Option<OpenBlock>,
    buffers: Lent,
    decoder: Decoder,
    encoder: Encoder,
    peer: Settings,
    /// The peer has acknowledged our settings.
    acknowledged: bool,
    streams: Streams,
    order: SendOrder,
    send: SendWindow,
    receive: ReceiveWindow,
    /// Windows of streams were not opened, as too much is unread.
    holds_windows: bool,
    /// Bytes by which windows of streams may still grow.
    growth_left: u32,
    /// The newest stream that the peer began.
    last_received: StreamId,
    /// The number of the next stream that we begin.
    next_own: u32,
    ending: Ending,
    peer_ending: Option<(StreamId, ErrorCode)>,
    /// PRIORITY_UPDATE for streams that have not begun.
    early_priorities: VecDeque<(StreamId, Priority)>,
    budgets: Budgets,
    output: Output,
    role: PhantomData<R>,
}

impl Connection<Server> {
    /// The server's end of a new connection. SETTINGS are in the output.
    pub fn new(config: Arc<Config>) -> Connection<Server> {
        Connection::start(config, Reading::Preface { seen: 0 }, 2)
    }
}

impl Connection<Client> {
    /// The client's end of a new connection. The preface and SETTINGS are in the output.
    pub fn new(config: Arc<Config>) -> Connection<Client> {
        let mut connection = Connection::start(config, Reading::Header, 1);
        connection.output.bytes().splice(0..0, *PREFACE);
        connection
    }
}

impl<R: Role> Connection<R> {
    fn start(config: Arc<Config>, reading: Reading, next_own: u32) -> Connection<R> {
        let mut output = Output::default();
        config.announce(R::IS_SERVER, |entries| write::settings(output.bytes(), entries));
        let mut receive = ReceiveWindow::new(WINDOW_DEFAULT);
        let increment = config.connection_window.saturating_sub(WINDOW_DEFAULT);
        if increment > 0 {
            write::window_update(output.bytes(), StreamId::CONNECTION, increment);
            receive.grow(increment);
        }
        let mut encoder = Encoder::new(config.encoder_table_bytes, config.huffman);
        encoder.limit(Settings::default().header_table_bytes);
        Connection {
            reading,
            has_settings: false,
            block: None,
            buffers: Lent::default(),
            decoder: Decoder::new(),
            encoder,
            peer: Settings::default(),
            acknowledged: false,
            streams: Streams::default(),
            order: SendOrder::default(),
            send: SendWindow::new(WINDOW_DEFAULT),
            receive,
            holds_windows: false,
            growth_left: config.grown_bytes_max,
            last_received: StreamId::CONNECTION,
            next_own,
            ending: Ending::Open,
            peer_ending: None,
            early_priorities: VecDeque::new(),
            budgets: Budgets::new(&config),
            output,
            config,
            role: PhantomData,
        }
    }

    /// The head or trailer section of the last event that names it. The caller may take its parts.
    pub fn head(&mut self) -> &mut Head {
        &mut self.buffers.get().head
    }

    /// The peer's settings, or the defaults before they are received.
    pub fn peer(&self) -> &Settings {
        &self.peer
    }

    /// The state of a stream that has begun and that was not closed by [`Connection::close`].
    pub fn state(&self, stream: StreamId) -> Option<State> {
        self.streams.get(stream).map(|stream| stream.state)
    }

    /// The number of streams that were not closed by [`Connection::close`].
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Whether a stream has not begun.
    fn is_idle(&self, stream: StreamId) -> bool {
        match stream.is_of_client() == R::IS_SERVER {
            true => stream > self.last_received,
            false => stream.value() >= self.next_own,
        }
    }

    /// The window of a new stream. Until the peer has acknowledged ours it may count on the protocol's (RFC 9113
    /// section 6.9.2).
    fn stream_window(&self) -> u32 {
        match self.acknowledged {
            true => self.config.stream_window,
            false => self.config.stream_window.max(WINDOW_DEFAULT),
        }
    }
}
