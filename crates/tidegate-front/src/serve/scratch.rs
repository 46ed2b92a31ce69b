//! Memory of requests, kept from one to the next: a request that follows another allocates none of its own.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use tidegate_core::Exchange;
use tidegate_core::client::{Address, Connection};
use tidegate_core::exchange::PlanRef;

use crate::client::ClientStream;
use crate::link::Link;

/// Spare request memory kept by a thread: enough for bursts, little when idle.
pub(crate) const SPARES_MAX: usize = 64;
/// Spare buffers that grew larger than this are given back to the allocator.
const SPARE_BYTES_MAX: usize = 64 * 1024;
/// Who has the client of a request that is over: the memory itself, and the exchange in it.
const IN_SCRATCH: usize = 2;
/// Bytes asked from a socket for a request head at once.
pub(crate) const READ_BYTES: usize = 4096;

/// Memory for one request in progress.
pub(crate) struct Scratch {
    pub exchange: Exchange,
    /// The response's head, and what small pieces of its body are collected behind it.
    pub output: Vec<u8>,
    /// The exchange's client, see [`Scratch::attach`].
    pub client: Rc<ClientStream>,
}

impl Scratch {
    /// Makes its requests those of a connection that serves one at a time.
    #[inline]
    pub(crate) fn attach(&mut self, link: &Rc<Link>) {
        self.client.attach(link.clone());
        self.exchange.connection = link.info.clone();
    }
}

/// The spare memory of a thread.
pub(crate) struct Spares {
    // Boxed: they go in and out with every request and are large.
    #[allow(clippy::vec_box)]
    requests: RefCell<Vec<Box<Scratch>>>,
    inputs: RefCell<Vec<Vec<u8>>>,
    nobody: Rc<Connection>,
}

impl Spares {
    pub(crate) fn new() -> Spares {
        Spares {
            requests: RefCell::default(),
            inputs: RefCell::default(),
            nobody: Rc::new(nobody()),
        }
    }

    /// Memory for requests under `plan`: the present one, for which spare memory has been reset. It has no client yet.
    #[inline]
    pub(crate) fn take(&self, plan: impl FnOnce() -> PlanRef) -> Box<Scratch> {
        let spare = self.requests.borrow_mut().pop();
        spare.unwrap_or_else(|| {
            let client = Rc::<ClientStream>::default();
            Box::new(Scratch {
                exchange: Exchange::new(plan(), self.nobody.clone(), client.clone()),
                output: Vec::with_capacity(READ_BYTES),
                client,
            })
        })
    }

    /// Takes memory back, for the next request under the present plan.
    pub(crate) fn give_back(&self, mut scratch: Box<Scratch>, plan: impl FnOnce() -> PlanRef) {
        let mut requests = self.requests.borrow_mut();
        if requests.len() >= SPARES_MAX || scratch.output.capacity() > SPARE_BYTES_MAX {
            return;
        }
        scratch.exchange.reset(plan());
        scratch.exchange.connection = self.nobody.clone();
        scratch.output.clear();
        match Rc::strong_count(&scratch.client) {
            IN_SCRATCH => scratch.client.detach(),
            // Somebody still has the request's client, and keeps it.
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

    /// A buffer for what a client sends.
    pub(crate) fn input(&self) -> Vec<u8> {
        let spare = self.inputs.borrow_mut().pop();
        spare.unwrap_or_else(|| Vec::with_capacity(READ_BYTES))
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

/// The connection of exchanges that have none.
pub(crate) fn nobody() -> Connection {
    Connection {
        number: 0,
        peer: Address::Unix(String::new()),
        local: Address::Unix(String::new()),
        peer_text: Default::default(),
        protocol: "",
        proxy_protocol: None,
        tls: None,
        requests: Cell::new(0),
        accepted_unix_millis: 0,
    }
}
