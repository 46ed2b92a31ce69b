//! Clients that open connections: the decision about each, and those that wait for what their connection begins with, which
//! is made by their hello.

use std::mem;
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use quinn_proto::Incoming;
use tidegate_rt::net::Received;

use super::{Endpoint, State as Own, send};
use crate::application::{Admission, Application, Preparing};
use crate::event::Closed;
use crate::hello::{Hello, HelloReader};
use crate::settings::ServerSettings;

/// The most clients that wait. A further one takes the place of one whose hello is not whole, else it gets no response and
/// repeats its packets.
const HELD_MAX: usize = 256;
/// The time for the rest of a hello and for what the connection begins with. Clients wait no longer.
const HELD_TIME: Duration = Duration::from_secs(10);

/// A client that waits.
pub(super) struct Held {
    incoming: Incoming,
    from: SocketAddr,
    until: Instant,
    state: State,
}

enum State {
    /// The rest of its hello.
    Hello(Box<HelloReader>),
    /// What it begins with.
    Preparing(Preparing),
    /// It begins with what the endpoint has.
    Ready,
}

impl Held {
    fn received(&mut self, received: &Received<'_>, now: Instant, application: &impl Application) {
        let State::Hello(reader) = &mut self.state else { return };
        match reader.read(received, now) {
            Hello::Partial => {}
            Hello::Whole(hello) => {
                self.state = match application.prepare(self.incoming.local_ip(), hello) {
                    Some(preparing) => State::Preparing(preparing),
                    None => State::Ready,
                };
            }
            Hello::Faulty => self.state = State::Ready,
        }
    }
}

impl<A: Application> Endpoint<A> {
    /// Decides about a client's first packet.
    pub(super) fn decide(&self, incoming: Incoming, received: &Received<'_>, now: Instant) {
        let validated = incoming.remote_address_validated();
        let admission = self.application.admit(incoming.remote_address(), validated);
        let begins = match admission {
            Admission::Accept => true,
            Admission::Retry => !incoming.may_retry(),
            Admission::Refuse | Admission::Ignore => false,
        };
        match begins && self.application.needs_hello() {
            true => self.hold(incoming, received, now),
            false => self.respond(incoming, admission, None, now),
        }
    }

    /// Begins a client's connection, with `server` if there is one, or does not.
    fn respond(
        &self,
        incoming: Incoming,
        admission: Admission,
        server: Option<ServerSettings>,
        now: Instant,
    ) {
        let mut state = self.state.borrow_mut();
        let Own { library, buffer, .. } = &mut *state;
        buffer.clear();
        let local = incoming.local_ip();
        let mut failure = None;
        let response = match admission {
            Admission::Retry if incoming.may_retry() => library.retry(incoming, buffer).ok(),
            Admission::Accept | Admission::Retry => {
                let server =
                    server.or_else(|| local.and_then(|local| self.application.server_at(local)));
                match library.accept(incoming, now, buffer, server.map(|server| server.0)) {
                    Ok((handle, inner)) => {
                        let connection = self.insert(&mut state, handle, inner, None);
                        drop(state);
                        connection.serve(self.application.begin(&connection));
                        return;
                    }
                    Err(error) => {
                        failure = Some(Closed::from(error.cause));
                        error.response
                    }
                }
            }
            Admission::Refuse => Some(library.refuse(incoming, buffer)),
            Admission::Ignore => {
                library.ignore(incoming);
                None
            }
        };
        if let Some(transmit) = response {
            let _ = self.socket.try_send(&send::outgoing(&transmit, buffer));
        }
        drop(state);
        if let Some(closed) = failure {
            self.application.failed(local, &closed);
        }
    }

    /// Holds a client, whose first packet is given. It goes on in the endpoint's turn.
    fn hold(&self, incoming: Incoming, first: &Received<'_>, now: Instant) {
        let reader = self.hellos.as_ref().map(|hellos| Box::new(hellos.reader()));
        let state = reader.map_or(State::Ready, State::Hello);
        let mut held = Held { incoming, from: first.from, until: now + HELD_TIME, state };
        held.received(first, now, &self.application);
        let mut all = self.held.borrow_mut();
        if all.len() >= HELD_MAX {
            let partial = all.iter_mut().find(|held| matches!(held.state, State::Hello(..)));
            let given_up = match partial {
                Some(partial) => mem::replace(partial, held),
                None => held,
            };
            return self.state.borrow_mut().library.ignore(given_up.incoming);
        }
        all.push(held);
    }

    /// Takes a packet for clients that wait.
    pub(super) fn received_held(&self, received: &Received<'_>, now: Instant) {
        let mut all = self.held.take();
        for held in all.iter_mut().filter(|held| held.from == received.from) {
            held.received(received, now, &self.application);
        }
        self.held.replace(all);
    }

    /// Begins the connections of clients that wait no longer.
    pub(super) fn begin_held(&self, now: Instant, context: &mut Context<'_>) {
        if self.held.borrow().is_empty() {
            return;
        }
        let all = self.held.take();
        for mut held in all {
            if held.until <= now {
                self.state.borrow_mut().library.ignore(held.incoming);
                continue;
            }
            let server = match &mut held.state {
                State::Hello(..) => Poll::Pending,
                State::Preparing(preparing) => preparing.as_mut().poll(context),
                State::Ready => Poll::Ready(None),
            };
            match server {
                Poll::Ready(server) => {
                    // Much may have changed since the first decision.
                    let admission = self.application.admit(held.from, true);
                    self.respond(held.incoming, admission, server, now);
                }
                Poll::Pending => self.held.borrow_mut().push(held),
            }
        }
    }
}
