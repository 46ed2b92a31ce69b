//! HTTP/0.9 over QUIC (`http3_hq`): a line in, a body out. Tests of transports use it.

use std::rc::Rc;

use bytes::Bytes;
use tidegate_codec::request::{Parse, parse_request};
use tidegate_core::error_log::Level;
use tidegate_h3::{Closing, ErrorCode};
use tidegate_quic::{Read, StreamId};
use tidegate_rt::clock;

use super::connection::{Ending, QuicLink};
use super::exchange::{self, Request};
use super::stream::Stream;
use crate::serve::begin;
use crate::serve::streams::Begun;

/// Most bytes of a request's line.
const LINE_BYTES_MAX: usize = 8 * 1024;

impl QuicLink {
    /// Reads a request's line. Nothing is kept of streams in the client's direction.
    pub(super) fn read_line(&self, id: u64) {
        let stream = StreamId(id);
        if id & 2 != 0 || self.ending.get() != Ending::Open {
            self.quic.stop(stream, ErrorCode::NO_ERROR.0);
            return;
        }
        if !self.incomplete.borrow().iter().any(|(known, _)| *known == id) {
            return;
        }
        let mut line = {
            let mut held = self.held.borrow_mut();
            let at = held.iter().position(|(held, ..)| *held == id);
            at.map(|at| held.swap_remove(at).1.to_vec()).unwrap_or_default()
        };
        loop {
            match self.quic.read(stream, LINE_BYTES_MAX) {
                Ok(Read::Bytes(bytes)) => line.extend_from_slice(&bytes),
                Ok(Read::Last(bytes)) => {
                    line.extend_from_slice(&bytes);
                    break;
                }
                Ok(Read::End) => break,
                Ok(Read::Blocked) => {
                    if line.contains(&b'\n') || line.len() > LINE_BYTES_MAX {
                        break;
                    }
                    self.held.borrow_mut().push((id, Bytes::from(line), false));
                    return;
                }
                Err(_) => return self.complete_head(id),
            }
        }
        self.complete_head(id);
        let Some(me) = self.me.upgrade() else { return };
        line.extend_from_slice(b"\r\n");
        let begun = self.request_of_line(&me, id, &line);
        self.start(&me, id, begun);
    }

    fn request_of_line(
        &self,
        me: &Rc<QuicLink>,
        id: u64,
        line: &[u8],
    ) -> Option<(Rc<Stream>, Request)> {
        let mut scratch = self.front.scratch();
        let stream = Stream::new(me.clone(), id);
        scratch.attach_client(stream.clone(), self.info());
        let x = &mut scratch.exchange;
        let plan = x.plan.clone();
        let binding = &self.binding;
        let servers = begin::at_base_server(binding, &x.connection, &plan, &mut x.routing);
        let Some(servers) = servers else {
            self.front.give_back(scratch);
            return None;
        };
        begin::first_byte(&self.front, x, clock::batch_now());
        x.outcome.request_length = line.len() as u64;
        let options = plan.server(x.routing.server).settings.parse;
        let begun = match parse_request(line, &options, &mut x.request.head) {
            Ok(Parse::Complete(_)) => match begin::request(binding, servers, x) {
                Ok(_) => Begun::Request,
                Err(refusal) => Begun::Refused(refusal.status()),
            },
            Ok(Parse::Partial) | Err(_) => {
                x.log(Level::Info, format_args!("client sent invalid request"));
                Begun::Refused(400)
            }
        };
        let request = exchange::run(self.front.clone(), me.clone(), stream.clone(), scratch, begun);
        Some((stream, Box::pin(request)))
    }

    /// Returns what is to be done with the stream of an exchange that is over.
    pub(super) fn closing_of_hq(&self, id: u64, code: ErrorCode) -> Closing {
        let has_ended = self.unacknowledged.borrow().contains(&id);
        let stop = Some(ErrorCode::NO_ERROR);
        Closing { stop, reset: (!has_ended).then_some(code) }
    }
}
