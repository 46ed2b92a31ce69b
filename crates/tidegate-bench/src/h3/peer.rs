//! One connection of the load: events to progress of its requests.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;
use tidegate_h3::qpack::Decoder;
use tidegate_quic::{Closed, Connection, Direction, Event, Read, Served, StreamEnded, StreamId};

use super::load::{Mode, Shared};
use super::message::{
    NO_ERROR, REQUEST_CANCELLED, REQUEST_REJECTED, Response, ServerStream, control_stream,
};
use crate::load::Loss;

/// A connection, and the requests that are under way on it.
pub(super) struct Peer {
    shared: Rc<Shared>,
    index: usize,
    opened_at: Instant,
    connection: OnceCell<Rc<Connection>>,
    state: RefCell<State>,
}

struct State {
    is_connected: bool,
    /// It is one of the open connections.
    is_counted: bool,
    /// The server takes no more streams, or we have closed.
    is_leaving: bool,
    /// Requests that were begun.
    begun: u64,
    flights: Vec<Flight>,
    decoder: Decoder,
    streams: Vec<(StreamId, ServerStream)>,
}

/// A request without its whole response.
struct Flight {
    stream: StreamId,
    ask: usize,
    begun: Instant,
    unsent: Bytes,
    response: Response,
}

impl Peer {
    pub(super) fn new(shared: Rc<Shared>, index: usize) -> Rc<Peer> {
        Rc::new(Peer {
            shared,
            index,
            opened_at: Instant::now(),
            connection: OnceCell::new(),
            state: RefCell::new(State {
                is_connected: false,
                is_counted: false,
                is_leaving: false,
                begun: 0,
                flights: Vec::new(),
                decoder: Decoder::new(0, 0),
                streams: Vec::new(),
            }),
        })
    }

    pub(super) fn set_connection(&self, connection: &Rc<Connection>) {
        let _ = self.connection.set(connection.clone());
    }

    /// Whether a response is outstanding.
    pub(super) fn is_busy(&self) -> bool {
        !self.state.borrow().flights.is_empty()
    }

    /// Gives up the requests that are under way; returns their number.
    pub(super) fn give_up(&self) -> usize {
        let flights = std::mem::take(&mut self.state.borrow_mut().flights);
        if let Some(connection) = self.connection.get() {
            flights.iter().for_each(|flight| cancel(connection, flight.stream));
        }
        flights.len()
    }

    pub(super) fn close(&self) {
        self.state.borrow_mut().is_leaving = true;
        if let Some(connection) = self.connection.get() {
            connection.close(NO_ERROR, "");
        }
    }

    /// Begins requests, as many as fit.
    pub(super) fn begin_requests(&self, shared: &Rc<Shared>, now: Instant) {
        let Some(connection) = self.connection.get() else { return };
        let mut state = self.state.borrow_mut();
        while state.is_connected
            && !state.is_leaving
            && state.flights.len() < shared.plan.streams
            && (shared.plan.mode == Mode::Kept || state.begun == 0)
        {
            let Some((ask, begun)) = shared.next_request(self.index, now) else { return };
            let Some(stream) = connection.open(Direction::Both) else {
                // The server allows no more now; an event says when it does.
                return shared.keep(self.index, (ask, begun));
            };
            state.begun += 1;
            let (unsent, response) = (shared.requests[ask].clone(), Response::default());
            let mut flight = Flight { stream, ask, begun, unsent, response };
            send(connection, &mut flight);
            state.flights.push(flight);
        }
    }

    fn connected(&self, connection: &Connection) {
        let mut state = self.state.borrow_mut();
        (state.is_connected, state.is_counted) = (true, true);
        drop(state);
        if let Some(stream) = connection.open(Direction::One) {
            // Far smaller than any window.
            let _ = connection.write(stream, &mut control_stream());
        }
        self.shared.opened();
        self.shared.fill(self.index);
    }

    fn readable(&self, connection: &Connection, stream: StreamId) {
        if stream.direction() == Direction::One {
            return self.read_server_stream(connection, stream);
        }
        let mut state = self.state.borrow_mut();
        let State { flights, decoder, .. } = &mut *state;
        let place = flights.iter().position(|flight| flight.stream == stream);
        let Some(place) = place else { return };
        let ended = loop {
            let (bytes, is_last) = match connection.read(stream, READ_BYTES) {
                Ok(Read::Bytes(bytes)) => (bytes, false),
                Ok(Read::Last(bytes)) => (bytes, true),
                Ok(Read::Blocked) => return,
                Ok(Read::End) => break End::Complete,
                Err(StreamEnded::ByPeer(code)) => break End::Reset(code),
                Err(StreamEnded::Closed) => break End::Malformed("stream closed".to_owned()),
            };
            if let Err(reason) = flights[place].response.feed(stream.0, &bytes, decoder) {
                cancel(connection, stream);
                break End::Malformed(reason);
            }
            if is_last {
                break End::Complete;
            }
        };
        let flight = flights.swap_remove(place);
        drop(state);
        self.finish(connection, &flight, ended);
    }

    /// Counts a response that is complete, or never will be, and begins the next request.
    fn finish(&self, connection: &Connection, flight: &Flight, ended: End) {
        let shared = &self.shared;
        let Response { status, body_bytes, .. } = flight.response;
        match ended {
            End::Complete if flight.response.suits(&shared.plan.asks[flight.ask]) => {
                shared.done(body_bytes, flight.begun);
            }
            End::Complete => {
                shared.lose(Loss::Wrong, &format!("status {status}, {body_bytes} body bytes"));
            }
            End::Reset(REQUEST_REJECTED) => {
                shared.repeat(self.index, vec![(flight.ask, flight.begun)]);
            }
            End::Reset(code) => shared.lose(Loss::Wrong, &format!("stream reset: {code:#x}")),
            End::Malformed(reason) => shared.lose(Loss::Wrong, &reason),
        }
        self.after_response(connection);
    }

    fn after_response(&self, connection: &Connection) {
        let closes = {
            let mut state = self.state.borrow_mut();
            let is_last = self.shared.plan.mode == Mode::Close || state.is_leaving;
            let closes = is_last && state.flights.is_empty();
            state.is_leaving |= closes;
            closes
        };
        if closes {
            connection.close(NO_ERROR, "");
            self.count_end();
            self.shared.forget(self.index, self);
        }
        self.shared.fill(self.index);
        self.shared.ring_at_end();
    }

    fn read_server_stream(&self, connection: &Connection, stream: StreamId) {
        let goaway = {
            let mut state = self.state.borrow_mut();
            let Some((_, reader)) = state.streams.iter_mut().find(|(id, _)| *id == stream) else {
                return;
            };
            let mut goaway = None;
            // The end of such a stream is an error of the server, whose connection then ends anyway.
            while let Ok(Read::Bytes(bytes)) = connection.read(stream, READ_BYTES) {
                match reader.feed(&bytes) {
                    Ok(found) => goaway = found.or(goaway),
                    Err(reason) => {
                        drop(state);
                        self.shared.lose(Loss::Wrong, &reason);
                        return connection.close(NO_ERROR, "");
                    }
                }
            }
            goaway
        };
        if let Some(first) = goaway {
            self.leave(connection, first);
        }
    }

    /// GOAWAY: the streams from `first` on are not processed (RFC 9114 section 5.2).
    fn leave(&self, connection: &Connection, first: u64) {
        let lost: Vec<Flight> = {
            let mut state = self.state.borrow_mut();
            state.is_leaving = true;
            state.flights.extract_if(.., |flight| flight.stream.0 >= first).collect()
        };
        lost.iter().for_each(|flight| cancel(connection, flight.stream));
        let lost = lost.iter().map(|flight| (flight.ask, flight.begun)).collect();
        self.shared.repeat(self.index, lost);
        self.after_response(connection);
    }

    fn closed(&self, closed: &Closed) {
        let (was_connected, lost) = {
            let mut state = self.state.borrow_mut();
            let lost = std::mem::take(&mut state.flights).len();
            (state.is_connected, lost)
        };
        self.count_end();
        self.shared.forget(self.index, self);
        if !was_connected {
            self.shared.fail(
                self.index,
                Loss::Refused,
                &format!("handshake: {}", closed.reason),
                0,
            );
            return self.shared.open_next();
        }
        if lost > 0 {
            let loss = Loss::Broken { opened_at: self.opened_at };
            let reason = format!("connection ended: {}", closed.reason);
            return self.shared.fail(self.index, loss, &reason, lost);
        }
        self.shared.fill(self.index);
        self.shared.ring_at_end();
    }

    fn count_end(&self) {
        if std::mem::take(&mut self.state.borrow_mut().is_counted) {
            self.shared.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Served for Peer {
    fn event(&self, connection: &Rc<Connection>, event: Event) {
        match event {
            Event::Connected => self.connected(connection),
            Event::Opened(Direction::One) => {
                while let Some(stream) = connection.accept(Direction::One) {
                    self.state.borrow_mut().streams.push((stream, ServerStream::default()));
                    self.read_server_stream(connection, stream);
                }
            }
            Event::Readable(stream) => self.readable(connection, stream),
            Event::Available(Direction::Both) => self.shared.fill(self.index),
            Event::Writable(stream) => {
                let mut state = self.state.borrow_mut();
                let flight = state.flights.iter_mut().find(|flight| flight.stream == stream);
                if let Some(flight) = flight {
                    send(connection, flight);
                }
            }
            Event::Closed(closed) => self.closed(&closed),
            Event::Handshake
            | Event::Opened(Direction::Both)
            | Event::Available(Direction::One)
            | Event::Stopped(..)
            | Event::Finished(_) => {}
        }
    }
}

/// The end of a stream.
enum End {
    Complete,
    Reset(u64),
    Malformed(String),
}

fn send(connection: &Connection, flight: &mut Flight) {
    while !flight.unsent.is_empty() {
        match connection.write(flight.stream, &mut flight.unsent) {
            Ok(0) => return,
            Ok(_) => {}
            // Its end is read.
            Err(_) => return,
        }
    }
    let _ = connection.finish(flight.stream);
}

fn cancel(connection: &Connection, stream: StreamId) {
    connection.stop(stream, REQUEST_CANCELLED);
    connection.reset(stream, REQUEST_CANCELLED);
}

const READ_BYTES: usize = 64 << 10;
