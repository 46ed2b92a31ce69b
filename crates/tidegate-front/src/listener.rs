//! The listener that a connection was accepted by, and how it is found in the plans of later generations.

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tidegate_core::client::Address;
use tidegate_core::counters::OpenConnection;
use tidegate_core::listen::{ListenerPlan, VirtualServers};
use tidegate_core::plan::{Plan, ServerId};

use crate::h2::directives::Http2Server;

/// A listener of one plan, and the servers there of the local address alone, if it has any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListenerRef {
    pub listener: u32,
    pub local: Option<u32>,
}

impl ListenerRef {
    /// Finds where a connection to `local`, accepted at `address`, belongs in a plan.
    pub(crate) fn find(plan: &Plan, address: &Address, local: &Address) -> Option<ListenerRef> {
        ListenerRef::find_for(plan, address, local, false)
    }

    /// As [`ListenerRef::find`], for UDP if `datagram`.
    pub(crate) fn find_for(
        plan: &Plan,
        address: &Address,
        local: &Address,
        datagram: bool,
    ) -> Option<ListenerRef> {
        let same =
            |listener: &ListenerPlan| listener.address == *address && listener.datagram == datagram;
        let index = plan.listeners.iter().position(same)?;
        let place = match local {
            Address::Inet(local) => plan.listeners[index].local(local.ip()),
            Address::Unix(_) => None,
        };
        Some(ListenerRef { listener: index as u32, local: place.map(|place| place as u32) })
    }

    /// Returns whether TLS and whether the PROXY protocol are spoken there.
    pub(crate) fn transport(self, plan: &Plan) -> Option<(bool, bool)> {
        let listener = plan.listeners.get(self.listener as usize)?;
        match self.local {
            None => Some((listener.tls, listener.proxy_protocol)),
            Some(local) => {
                let local = listener.by_local.get(local as usize)?;
                Some((local.tls, local.proxy_protocol))
            }
        }
    }

    /// Whether HTTP/2 is spoken there with the server of the handshake, or with the default server without TLS.
    pub(crate) fn serves_http2(self, plan: &Plan, server: ServerId) -> bool {
        let Some(listener) = plan.listeners.get(self.listener as usize) else { return false };
        let by_listener = match self.local {
            None => listener.http2,
            Some(local) => listener.by_local.get(local as usize).is_some_and(|local| local.http2),
        };
        by_listener || Http2Server::of(plan, server).enabled
    }

    /// Returns the servers that can be meant, in the plan that it belongs to.
    pub(crate) fn servers(self, plan: &Plan) -> Option<&VirtualServers> {
        let listener = plan.listeners.get(self.listener as usize)?;
        match self.local {
            None => Some(&listener.servers),
            Some(local) => listener.by_local.get(local as usize).map(|local| &local.servers),
        }
    }
}

/// A connection's listener in the plan under which its requests run.
///
/// Invariant: `listener_ref` belongs to the plan of `generation`, the last that was asked about.
pub(crate) struct Binding {
    /// The listener's address, by which it is found in a newer plan.
    address: Rc<Address>,
    generation: Cell<u64>,
    listener_ref: Cell<ListenerRef>,
    /// How many generations the last request is behind that one. Two bytes: a connection is small.
    behind: Cell<u16>,
    /// Whether it is UDP.
    datagram: bool,
}

impl Binding {
    /// Binds a connection accepted at `address`, which is `listener_ref` in `plan`.
    pub(crate) fn new(address: Rc<Address>, plan: &Plan, listener_ref: ListenerRef) -> Binding {
        let (generation, listener_ref) = (Cell::new(plan.generation), Cell::new(listener_ref));
        Binding { address, generation, listener_ref, behind: Cell::new(0), datagram: false }
    }

    /// As [`Binding::new`], for UDP.
    pub(crate) fn of_datagrams(
        address: Rc<Address>,
        plan: &Plan,
        listener_ref: ListenerRef,
    ) -> Binding {
        Binding { datagram: true, ..Binding::new(address, plan, listener_ref) }
    }

    /// Returns the generation of its last request; before the first one, the generation in which it was accepted.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.get().saturating_sub(u64::from(self.behind.get()))
    }

    /// Returns the servers that a request to `local` can mean under `plan`, which may be newer than the connection.
    /// `None` when the plan no longer has the listener.
    #[inline]
    pub(crate) fn servers<'p>(
        &self,
        plan: &'p Plan,
        local: &Address,
    ) -> Option<&'p VirtualServers> {
        let servers = self.servers_now(plan, local);
        if servers.is_some() {
            self.behind.set(0);
        }
        servers
    }

    /// As [`Binding::servers`], for the connection's own settings: its requests stay with their plan.
    #[inline]
    pub(crate) fn servers_now<'p>(
        &self,
        plan: &'p Plan,
        local: &Address,
    ) -> Option<&'p VirtualServers> {
        if self.generation.get() != plan.generation {
            let found = ListenerRef::find_for(plan, &self.address, local, self.datagram);
            self.listener_ref.set(found?);
            let newer = plan.generation.saturating_sub(self.generation.replace(plan.generation));
            let behind = u64::from(self.behind.get()).saturating_add(newer);
            self.behind.set(u16::try_from(behind).unwrap_or(u16::MAX));
        }
        self.listener_ref.get().servers(plan)
    }

    /// Whether `server` serves HTTP/2 there under `plan`, the plan of the last call of [`Binding::servers`].
    pub(crate) fn serves_http2(&self, plan: &Plan, server: ServerId) -> bool {
        self.listener_ref.get().serves_http2(plan, server)
    }

    /// Whether TLS is spoken there under `plan`, the plan of the last call of [`Binding::servers`].
    pub(crate) fn expects_tls(&self, plan: &Plan) -> bool {
        self.listener_ref.get().transport(plan).is_some_and(|(tls, _)| tls)
    }
}

/// How a connection was accepted.
pub(crate) struct AcceptInfo {
    pub binding: Binding,
    pub accepted: Instant,
    /// `client_header_timeout` of its default server.
    pub patience: Duration,
    /// Counts the connection as open.
    pub open: OpenConnection,
}
