//! Memory of requests that is reused: a request that follows another allocates none of its own.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use tidegate_core::Exchange;
use tidegate_core::client::{Address, Client, Connection};
use tidegate_core::exchange::PlanRef;
use tidegate_core::timeline::Timeline;
use tidegate_h2::{Buffers, StreamId};

use crate::client::ClientStream;
use crate::h2::connection::Multiplexer;
use crate::h2::stream::Stream;
use crate::link::Link;

/// Spare requests that a thread keeps: enough for bursts, little when idle.
pub(crate) const SPARES_MAX: usize = 64;
/// Spare buffers that grew larger than this are freed.
const SPARE_BYTES_MAX: usize = 64 * 1024;
/// References to the client of a request that has ended: one of the memory itself, one of the exchange in it.
const IN_SCRATCH: usize = 2;
/// Bytes read from a socket for a request head at once.
pub(crate) const READ_BYTES: usize = 4096;

/// Memory for one request in progress.
pub(crate) struct Scratch {
    pub exchange: Exchange,
    /// The response's head, and small pieces of its body that are collected behind it.
    pub output: Vec<u8>,
    /// The exchange's client on a connection that serves one request at a time, see [`Scratch::attach`].
    pub client: Rc<ClientStream>,
    /// The exchange's timeline.
    pub timeline: Rc<Timeline>,
    /// Its client where requests are streams, from the first such request on: see [`Scratch::attach_stream`].
    pub stream: Option<Rc<Stream>>,
    /// Its last request had a client of its own: see [`Scratch::attach_client`].
    has_own_client: bool,
}

impl Scratch {
    /// Attaches its requests to a connection that serves one at a time.
    #[inline]
    pub(crate) fn attach(&mut self, link: &Rc<Link>) {
        self.client.attach(link.clone());
        self.exchange.connection = link.info.clone();
    }

    /// Attaches its next request to a stream.
    pub(crate) fn attach_stream(
        &mut self,
        link: &Rc<Link>,
        multiplexer: &Rc<Multiplexer>,
        id: StreamId,
    ) -> Rc<Stream> {
        let stream = self.stream.get_or_insert_default();
        stream.attach(link.clone(), multiplexer.clone(), id);
        self.exchange.client = stream.clone();
        self.exchange.connection = link.info.clone();
        stream.clone()
    }

    /// Gives its next request a client of its own.
    pub(crate) fn attach_client(&mut self, client: Rc<dyn Client>, connection: Rc<Connection>) {
        self.has_own_client = true;
        self.exchange.client = client;
        self.exchange.connection = connection;
    }

    /// Makes the client spare that its last request had; one that is still referenced elsewhere stays there.
    fn detach_stream(&mut self) {
        if self.stream.is_none() && !std::mem::take(&mut self.has_own_client) {
            return;
        }
        self.exchange.client = self.client.clone();
        if let Some(stream) = &self.stream {
            match Rc::strong_count(stream) {
                1 => stream.detach(),
                _ => self.stream = None,
            }
        }
    }
}

/// The spare memory of a thread.
pub(crate) struct Spares {
    // Boxed: they are moved with every request and are large.
    #[allow(clippy::vec_box)]
    requests: RefCell<Vec<Box<Scratch>>>,
    inputs: RefCell<Vec<Vec<u8>>>,
    /// For busy connections of HTTP/2.
    #[allow(clippy::vec_box)]
    h2_buffers: RefCell<Vec<Box<Buffers>>>,
    no_connection: Rc<Connection>,
}

impl Spares {
    pub(crate) fn new() -> Spares {
        Spares {
            requests: RefCell::default(),
            inputs: RefCell::default(),
            h2_buffers: RefCell::default(),
            no_connection: Rc::new(no_connection()),
        }
    }

    /// Takes memory for requests under `plan`: the current one, for which spare memory has been reset. It has no client
    /// yet.
    #[inline]
    pub(crate) fn take(&self, plan: impl FnOnce() -> PlanRef) -> Box<Scratch> {
        let spare = self.requests.borrow_mut().pop();
        spare.unwrap_or_else(|| {
            let client = Rc::<ClientStream>::default();
            let timeline = Rc::<Timeline>::default();
            let mut exchange = Exchange::new(plan(), self.no_connection.clone(), client.clone());
            exchange.timeline = Some(timeline.clone());
            Box::new(Scratch {
                exchange,
                output: Vec::with_capacity(READ_BYTES),
                client,
                timeline,
                stream: None,
                has_own_client: false,
            })
        })
    }

    /// Takes memory back, for the next request under the current plan.
    pub(crate) fn give_back(&self, mut scratch: Box<Scratch>, plan: impl FnOnce() -> PlanRef) {
        let mut requests = self.requests.borrow_mut();
        if requests.len() >= SPARES_MAX || scratch.output.capacity() > SPARE_BYTES_MAX {
            return;
        }
        scratch.exchange.reset(plan());
        scratch.detach_stream();
        scratch.exchange.connection = self.no_connection.clone();
        scratch.output.clear();
        match Rc::strong_count(&scratch.client) {
            IN_SCRATCH => scratch.client.detach(),
            // The request's client is still referenced elsewhere: it stays there.
            _ => {
                scratch.client = Rc::default();
                scratch.exchange.client = scratch.client.clone();
            }
        }
        requests.push(scratch);
    }

    /// Drops the memory of requests: the plan has changed.
    pub(crate) fn clear(&self) {
        self.requests.borrow_mut().clear();
    }

    /// Takes a buffer for the bytes of a client.
    pub(crate) fn input(&self) -> Vec<u8> {
        let spare = self.inputs.borrow_mut().pop();
        spare.unwrap_or_else(|| Vec::with_capacity(READ_BYTES))
    }

    /// Takes buffers for a busy connection of HTTP/2.
    pub(crate) fn h2_buffers(&self) -> Box<Buffers> {
        self.h2_buffers.borrow_mut().pop().unwrap_or_default()
    }

    /// Takes them back.
    pub(crate) fn give_back_h2_buffers(&self, buffers: Box<Buffers>) {
        let mut spare = self.h2_buffers.borrow_mut();
        if spare.len() < SPARES_MAX {
            spare.push(buffers);
        }
    }

    /// Takes a buffer back.
    pub(crate) fn give_back_input(&self, mut input: Vec<u8>) {
        let mut inputs = self.inputs.borrow_mut();
        if inputs.len() < SPARES_MAX && (1..=SPARE_BYTES_MAX).contains(&input.capacity()) {
            input.clear();
            inputs.push(input);
        }
    }
}

/// Makes the placeholder connection of exchanges that have none.
pub(crate) fn no_connection() -> Connection {
    Connection {
        number: 0,
        debug: false,
        peer: Address::Unix(String::new()),
        local: Address::Unix(String::new()),
        peer_text: Default::default(),
        protocol: Cell::new(""),
        proxy_protocol: None,
        tls: None,
        requests: Cell::new(0),
        accepted_unix_millis: 0,
    }
}
