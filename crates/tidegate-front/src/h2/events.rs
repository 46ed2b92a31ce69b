//! What has been received, event by event.

use std::time::Duration;

use tidegate_core::error_log::Level;
use tidegate_h2::{ConnectionError, ErrorCode, Event, Fault, HeadFault, StreamId};
use tidegate_rt::{clock, share};

use super::driver::{Condition, Driver};
use super::head;

impl Driver {
    /// Handles the bytes that were received, until they are used up, the output is full or the time share is over. The
    /// rest stays where it was.
    ///
    /// Of a suspect client little is handled at a time, and a pause follows. Whatever it floods with, it costs other
    /// clients next to nothing until the budget is spent and its connection ends.
    pub(super) fn receive(&mut self) {
        let mut input = self.link.received.take();
        let is_suspect = self.multiplexer.core().is_suspect();
        let most = if is_suspect { SUSPECT_BYTES } else { input.len() };
        let mut rest = &input[..most.min(input.len())];
        let most = rest.len();
        let age = clock::now().saturating_duration_since(self.multiplexer.began);
        let mut vain = 0;
        loop {
            let event = self.multiplexer.core().receive(&mut rest, age);
            match event {
                Ok(Some(event)) => {
                    if matches!(event, Event::Reset { .. } | Event::Malformed { .. }) {
                        vain += 1;
                    }
                    self.event(event);
                    if vain == VAIN_REQUESTS_MAX {
                        share::end();
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    self.fail(error);
                    rest = &[];
                    break;
                }
            }
            if self.multiplexer.is_full() || share::is_used_up() {
                break;
            }
        }
        let used = if self.condition == Condition::Open { most - rest.len() } else { input.len() };
        if is_suspect {
            self.slow_until = Some(clock::now() + SUSPECT_PAUSE);
        }
        match used == input.len() {
            true => input.clear(),
            false => drop(input.drain(..used)),
        }
        self.link.received.replace(input);
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Head { stream, end } => self.begin(stream, end, None),
            Event::Malformed { stream, fault } => match self.table.stream(stream) {
                Some(found) => found.inbox.borrow_mut().received_fault(fault),
                None => self.begin(stream, true, Some(fault)),
            },
            Event::Data { stream, bytes, end } => match self.table.stream(stream) {
                Some(found) => found.received(bytes, end),
                None => self.multiplexer.core().consumed(stream, bytes.len() as u32),
            },
            Event::Trailers { stream } => {
                if let Some(found) = self.table.stream(stream) {
                    let trailers = std::mem::take(&mut self.multiplexer.core().head().headers);
                    found.inbox.borrow_mut().received_trailers(trailers);
                }
            }
            Event::Reset { stream, code, .. } => match self.table.stream(stream) {
                Some(found) => {
                    found.leave();
                    // What it holds (`limit_conn`) is free for a request that is behind it in the same read.
                    self.run_woken();
                }
                None => self.multiplexer.core().close(stream, code),
            },
            Event::Pong { data } if data == GOODBYE => {
                self.multiplexer.core().go_away(ErrorCode::NO_ERROR);
            }
            // The pump looks at the windows after each read; the end is in `conclude`.
            Event::Window { .. }
            | Event::Settings
            | Event::Acknowledged
            | Event::Pong { .. }
            | Event::GoAway { .. }
            | Event::Interim { .. } => {}
        }
    }

    /// Begins a request, and polls it for the first time.
    fn begin(&mut self, id: StreamId, end: bool, fault: Option<HeadFault>) {
        let (front, link, multiplexer) = (&self.front, &self.link, &self.multiplexer);
        match head::begin(front, link, multiplexer, id, end, fault) {
            Some((stream, request)) => {
                self.end_if_worn();
                self.start(id, stream, request);
            }
            None => {
                let mut core = self.multiplexer.core();
                core.close(id, ErrorCode::REFUSED_STREAM);
                core.go_away(ErrorCode::NO_ERROR);
            }
        }
    }

    /// The client has violated the protocol: all of its streams end, and GOAWAY is sent.
    fn fail(&mut self, error: ConnectionError) {
        let log = self.front.plan().main.error_log.clone();
        if log.enabled(Level::Info) {
            let client = self.link.info.peer_text();
            let text = format!(
                "client sent invalid HTTP/2: {}, code {} while processing HTTP/2 connection, client: {client}",
                error.0,
                error.code(),
            );
            log.write(Level::Info, self.link.info.number, &text);
        }
        self.is_flooded = matches!(error.0, Fault::Flood(_));
        self.condition = Condition::Failed;
        self.table.streams().for_each(|stream| stream.leave());
    }
}

/// Requests that are reset or malformed and handled in one iteration of the event loop: they cost a client next to
/// nothing, and other clients wait for them.
const VAIN_REQUESTS_MAX: u32 = 16;
/// Bytes of a suspect client that are handled at a time: some tens of frames.
const SUSPECT_BYTES: usize = 1024;
/// The pause behind them.
const SUSPECT_PAUSE: Duration = Duration::from_millis(10);

/// What the PING behind the announcement of a graceful end carries.
pub(super) const GOODBYE: [u8; 8] = *b"goodbye!";
