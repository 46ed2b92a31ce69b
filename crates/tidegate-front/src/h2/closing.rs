//! How a connection ends: time limits, the graceful end, and what follows a run of the driver.

use std::task::Context;
use std::time::{Duration, Instant};

use tidegate_core::error_log::Level;
use tidegate_core::exchange::LocationRef;
use tidegate_h2::ErrorCode;
use tidegate_rt::clock;

use super::driver::{Condition, Driver};
use super::events::GOODBYE;
use crate::action::{ConnectionAction, Linger};
use crate::link::Order;
use crate::serve::begin;

impl Driver {
    /// Returns the settings of the connection: those of the server of its handshake, or of the default server. `None`
    /// if the plan no longer has the listener.
    fn settings(&self) -> Option<LocationRef> {
        let plan = self.front.plan();
        let server = begin::base_server(&self.link.info, self.link.servers_now(&plan)?);
        let location = plan.server(server).location;
        Some(LocationRef::new(plan, location))
    }

    /// Sets TCP_NODELAY where that is configured (`tcp_nodelay`).
    pub(super) fn configure(&self) {
        if !self.link.has_nodelay()
            && self.settings().is_some_and(|location| location.settings.tcp_nodelay)
        {
            self.link.set_nodelay();
        }
    }

    /// Ends all streams where the connection is aborted; announces the graceful end where the connection is to close (RFC 9113 section 6.8): requests that are on their
    /// way are served until the client has replied to a PING.
    pub(super) fn obey(&mut self) {
        if self.link.order() == Order::Abort && self.condition == Condition::Open {
            self.client_left(ConnectionAction::Close);
        }
        if !self.is_announced && (self.front.is_draining() || self.link.is_closing()) {
            self.announce();
        }
    }

    fn announce(&mut self) {
        self.is_announced = true;
        let mut core = self.multiplexer.core();
        core.announce_end();
        core.ping(GOODBYE);
    }

    /// Announces the end of a connection that has served its number of requests or its time (`keepalive_requests`,
    /// `keepalive_time`).
    pub(super) fn end_if_worn(&mut self) {
        if self.is_announced {
            return;
        }
        let Some(location) = self.settings() else { return };
        let settings = &location.settings;
        let life = clock::now().saturating_duration_since(self.link.accepted);
        let requests = self.link.info.requests.get();
        if requests >= settings.keepalive_requests || life >= settings.keepalive_time {
            // At once, as nginx does: a request that is on its way may be sent again elsewhere (RFC 9113 section 8.7).
            self.is_announced = true;
            self.multiplexer.core().go_away(ErrorCode::NO_ERROR);
        }
    }

    /// The client has closed, its socket is broken, or it takes nothing: all streams see that.
    pub(super) fn client_left(&mut self, action: ConnectionAction) {
        self.condition = Condition::Gone(action);
        self.multiplexer.discard();
        self.link.received.borrow_mut().clear();
        self.table.streams().for_each(|stream| stream.leave());
    }

    /// Returns how the connection continues where this run of the driver is its last one.
    pub(super) fn conclude(&mut self) -> Option<ConnectionAction> {
        if self.table.len() > 0 {
            return None;
        }
        let is_sent = self.blocked_since.is_none() && self.multiplexer.is_sent();
        match self.condition {
            Condition::Gone(action) => Some(action),
            Condition::Failed if is_sent => Some(self.linger()),
            Condition::Failed => None,
            Condition::Open if self.slow_until.is_some() => None,
            Condition::Open if !is_sent || !self.link.received.borrow().is_empty() => None,
            Condition::Open => self.rest(),
        }
    }

    /// Returns what follows once no request is in progress and all is sent.
    fn rest(&mut self) -> Option<ConnectionAction> {
        if self.multiplexer.core().is_drained() {
            return Some(self.linger());
        }
        if !self.multiplexer.is_quiet() {
            return None;
        }
        let has_served = self.link.info.requests.get() > 0;
        let location = self.settings();
        let (timeout, min_timeout) =
            location.map_or((Duration::ZERO, Duration::ZERO), |location| {
                (location.settings.keepalive_timeout.idle, location.settings.keepalive_min_timeout)
            });
        if self.is_announced || (has_served && timeout.is_zero()) {
            // Requests that are still on their way get no response; GOAWAY says so.
            self.multiplexer.core().go_away(ErrorCode::NO_ERROR);
            self.condition = Condition::Failed;
            return None;
        }
        if !timeout.is_zero() {
            let limits = self.link.limits().renewed(clock::now(), timeout, min_timeout);
            self.link.set_limits(limits);
        }
        Some(ConnectionAction::Idle)
    }

    fn linger(&self) -> ConnectionAction {
        match self.settings() {
            Some(_) if self.is_flooded => ConnectionAction::Linger(Linger::DEAF),
            Some(location) => ConnectionAction::Linger(Linger::of(&location.settings)),
            None => ConnectionAction::Close,
        }
    }

    /// Waits within the connection's time limits. Returns `true` where one is exceeded, and the driver goes on.
    ///
    /// | waits for | limit |
    /// |---|---|
    /// | the socket to take output | `send_timeout`, renewed by each write |
    /// | the preface, the first head, the rest of a head | `client_header_timeout` |
    /// | the rest of another frame, without streams | `keepalive_timeout` |
    /// | streams | their own |
    /// | the end of the pause of a suspect client | `SUSPECT_PAUSE` |
    pub(super) fn wait(&mut self, context: &mut Context<'_>) -> bool {
        let is_in_block = self.multiplexer.core().is_in_block();
        let is_incomplete =
            self.condition == Condition::Open && (self.table.len() == 0 || is_in_block);
        self.gave_up_head &= is_in_block;
        let is_head = !self.gave_up_head && (is_in_block || self.link.info.requests.get() == 0);
        match is_incomplete {
            true => drop(self.incomplete_since.get_or_insert_with(clock::now)),
            false => self.incomplete_since = None,
        }
        let (send, header, idle) = self.timeouts();
        let until = match (self.blocked_since, self.incomplete_since) {
            _ if matches!(self.condition, Condition::Gone(_)) => None,
            (Some(since), _) => Some(since + send),
            (None, Some(since)) => Some(since + if is_head { header } else { idle }),
            (None, None) => None,
        };
        match self.slow_until {
            Some(pause) if until.is_none_or(|until| pause <= until) => {
                let is_over = self.poll_until(Some(pause), context);
                if is_over {
                    self.slow_until = None;
                }
                is_over
            }
            _ => {
                let is_over = self.poll_until(until, context);
                if is_over {
                    self.time_out();
                }
                is_over
            }
        }
    }

    /// Returns `send_timeout`, `client_header_timeout` and `keepalive_timeout`; nothing is waited for where the listener
    /// is gone.
    fn timeouts(&self) -> (Duration, Duration, Duration) {
        let plan = self.front.plan();
        let Some(servers) = self.link.servers_now(&plan) else { return Default::default() };
        let server = plan.server(begin::base_server(&self.link.info, servers));
        let settings = &plan.location(server.location).settings;
        (
            settings.send_timeout,
            server.settings.client_header_timeout,
            settings.keepalive_timeout.idle,
        )
    }

    /// Whether a time has come; else the task is woken then.
    fn poll_until(&self, until: Option<Instant>, context: &mut Context<'_>) -> bool {
        let waits = self.link.waits();
        let Some(until) = until else {
            waits.deadline.clear();
            return false;
        };
        waits.deadline.set(until);
        waits.deadline.poll_elapsed(context).is_ready()
    }

    fn time_out(&mut self) {
        let log = self.front.plan().main.error_log.clone();
        if log.enabled(Level::Info) {
            let client = self.link.info.peer_text();
            let text = format!(
                "client timed out (110: Connection timed out) while processing HTTP/2 connection, \
                 client: {client}"
            );
            log.write(Level::Info, self.link.info.number, &text);
        }
        let resets =
            self.settings().is_some_and(|location| location.settings.reset_timedout_connection);
        if self.blocked_since.is_some() {
            if resets {
                let _ = self.link.io.stream().set_linger_reset();
            }
            let action = if resets { ConnectionAction::Reset } else { ConnectionAction::Close };
            return self.client_left(action);
        }
        self.incomplete_since = None;
        // A head that takes too long ends its stream alone.
        if !self.gave_up_head && self.multiplexer.core().give_up_block() {
            self.gave_up_head = true;
            return;
        }
        self.multiplexer.core().abort(ErrorCode::PROTOCOL_ERROR);
        self.condition = Condition::Failed;
        self.table.streams().for_each(|stream| stream.leave());
    }
}
