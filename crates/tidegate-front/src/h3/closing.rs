//! How a connection ends: time limits, the graceful end, errors.

use std::any::Any;
use std::time::{Duration, Instant};

use tidegate_core::error_log::Level;
use tidegate_h3::ErrorCode;
use tidegate_rt::{clock, timer};

use super::connection::{Ending, QuicLink};
use crate::parking::SWEEP_EVERY;
use crate::task;

/// The round trips that a client has to receive a GOAWAY and to send what was on its way.
const ROUND_TRIPS: u32 = 3;
/// The longest time by which an acknowledgment is delayed (RFC 9000 section 18.2).
const ACK_DELAY_MAX: Duration = Duration::from_millis(25);
/// A client is reached by a PING this number of times within its idle timeout while a request waits.
const PINGS: u32 = 3;

/// The time for which a client that has flooded is not listened to. It learns of the end behind it: else the next
/// connection begins at once, and a handshake costs as much as many requests.
const HOLD: Duration = Duration::from_secs(1);
/// nginx's phrase for the end of a connection by an error.
pub(super) const REASON: &str = "stream error";

impl QuicLink {
    /// Ends the connection gracefully (RFC 9114 section 5.2): requests that are on their way are served until the client
    /// has had time to receive the announcement.
    pub(crate) fn drain(&self) {
        if self.ending.get() != Ending::Open {
            return;
        }
        if self.core.get().is_none() {
            return match self.is_hq.get() {
                true => self.go_away(),
                false => self.close(ErrorCode::NO_ERROR, ""),
            };
        }
        self.ending.set(Ending::Announced);
        self.with_core(tidegate_h3::Connection::announce_end);
        self.send_own();
        self.later(|link| link.go_away());
    }

    /// Takes no more requests, and closes behind those in progress.
    pub(super) fn go_away(&self) {
        if matches!(self.ending.get(), Ending::Open | Ending::Announced) {
            self.ending.set(Ending::Final);
            self.with_core(tidegate_h3::Connection::go_away);
            self.send_own();
            self.rest();
        }
    }

    /// Runs something once what was sent has had time to arrive.
    fn later(&self, work: impl FnOnce(&QuicLink) + 'static) {
        let time = self.quic.round_trip() * ROUND_TRIPS + ACK_DELAY_MAX;
        let me = self.me.clone();
        tidegate_rt::spawn_local(async move {
            timer::sleep(time).await;
            if let Some(link) = me.upgrade() {
                work(&link);
            }
        });
    }

    /// Announces the end of a connection that has served its number of requests or its time (`keepalive_requests`,
    /// `keepalive_time`). At once, as nginx does: a request that is on its way may be sent again elsewhere.
    pub(super) fn end_if_worn(&self) {
        if self.ending.get() != Ending::Open {
            return;
        }
        let Some(limits) = self.limits() else { return };
        let life = clock::now().saturating_duration_since(self.accepted);
        let is_worn = self.info().requests.get() >= limits.requests || life >= limits.time;
        if is_worn || limits.keepalive_timeout.is_zero() {
            self.ending.set(Ending::Final);
            self.with_core(tidegate_h3::Connection::go_away);
        }
    }

    /// A request or a stream has ended: the connection is idle, or ends behind its last response.
    pub(super) fn rest(&self) {
        self.leave();
        if self.is_busy() || self.with_core(|core| core.streams()).unwrap_or(0) > 0 {
            return;
        }
        if self.idle_since().is_none() {
            self.set_idle();
        }
        if self.ending.get() == Ending::Final && self.unacknowledged.borrow().is_empty() {
            // GOAWAY may still be on its way.
            self.later(|link| {
                if link.ending.get() == Ending::Final && !link.is_busy() {
                    link.close(ErrorCode::NO_ERROR, "");
                }
            });
        }
    }

    /// Ends the connection and all of its streams at once.
    pub(super) fn close(&self, code: ErrorCode, reason: &'static str) {
        if self.ending.get() != Ending::Gone {
            self.quic.close(code.0, reason);
            self.end_streams();
        } else if let Some(code) = self.held_code.take() {
            self.quic.close(code.0, REASON);
        }
    }

    /// Ends all streams of a client that has flooded. The connection is closed with `code` once its time is over; until
    /// then nothing is received on it.
    pub(super) fn hold(&self, code: ErrorCode) {
        if self.ending.get() == Ending::Gone {
            return;
        }
        let now = clock::now();
        self.quic.ignore_until(now + HOLD);
        self.held_code.set(Some(code));
        self.end_streams();
        let me = self.me.clone();
        tidegate_rt::spawn_local(async move {
            timer::sleep(HOLD).await;
            if let Some(link) = me.upgrade() {
                link.close(code, REASON);
            }
        });
    }

    fn end_streams(&self) {
        self.ending.set(Ending::Gone);
        self.with_core(|core| core.abort(ErrorCode::NO_ERROR));
        self.held.take();
        self.incomplete.take();
        self.unacknowledged.take();
        self.all_streams().iter().for_each(|stream| stream.leave());
    }

    /// The connection has ended: what QUIC knew of it is forgotten.
    pub(super) fn gone(&self) {
        self.handshaking.take();
        self.end_streams();
        self.is_closed.set(true);
        self.leave();
    }

    /// Leaves the thread's list, once the connection has ended and its requests have, so that each is logged.
    fn leave(&self) {
        if self.is_closed.get() && !self.is_busy() && self.open.take().is_some() {
            self.front.taskless.remove(self.key.get());
            self.front.left();
        }
    }

    /// Enforces the time limits, and gives memory back; it is called about once per second.
    ///
    /// | waits for | limit |
    /// |---|---|
    /// | the first head, the rest of a head | `client_header_timeout` |
    /// | a request | `keepalive_timeout` |
    /// | requests in progress | their own |
    pub(crate) fn sweep(&self, now: Instant) {
        if self.ending.get() == Ending::Gone {
            return;
        }
        let Some(limits) = self.limits() else { return self.drain() };
        let has_served = self.info().requests.get() > 0;
        self.end_late_heads(now, limits.header_timeout);
        if let Some(since) = self.idle_since() {
            let idle = now.saturating_duration_since(since);
            let limit = if has_served { limits.keepalive_timeout } else { limits.header_timeout };
            if !limit.is_zero() && idle >= limit {
                return self.go_away();
            }
            if idle >= SWEEP_EVERY && self.is_warm.replace(false) {
                self.release_memory();
            }
        } else if self.is_ping_due(now, self.idle_timeout / PINGS) {
            self.quic.ping();
        }
    }

    /// Ends the streams whose head has not arrived in time, alone.
    fn end_late_heads(&self, now: Instant, header_timeout: Duration) {
        let is_late = |since: Instant| now.saturating_duration_since(since) >= header_timeout;
        let late: Vec<u64> = {
            let incomplete = self.incomplete.borrow();
            let late = incomplete.iter().filter(|(_, since)| is_late(*since));
            late.map(|(id, _)| *id).collect()
        };
        for id in late {
            self.log(Level::Info, "client timed out (110: Connection timed out)");
            self.complete_head(id);
            self.quic.stop(tidegate_quic::StreamId(id), ErrorCode::REQUEST_INCOMPLETE.0);
            self.quic.reset(tidegate_quic::StreamId(id), ErrorCode::REQUEST_INCOMPLETE.0);
            self.close_stream(id, ErrorCode::REQUEST_INCOMPLETE);
        }
    }

    fn is_ping_due(&self, now: Instant, every: Duration) -> bool {
        let is_due = now.saturating_duration_since(self.pinged.get()) >= every;
        if is_due {
            self.pinged.set(now);
        }
        is_due
    }

    /// A request has panicked: its stream ends alone.
    pub(super) fn panicked(&self, id: u64, panic: &(dyn Any + Send)) {
        let log = self.front.plan().main.error_log.clone();
        task::log_panic_of(&log, self.info().number, panic);
        self.close_stream(id, ErrorCode::INTERNAL_ERROR);
    }

    pub(super) fn log(&self, level: Level, text: &str) {
        let log = self.front.plan().main.error_log.clone();
        if log.enabled(level) {
            let info = self.info();
            let client = info.peer_text();
            let text = format!("{text} while processing HTTP/3 connection, client: {client}");
            log.write(level, info.number, &text);
        }
    }
}
