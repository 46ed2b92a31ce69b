//! Handover of idle connections from a thread that has them to spare to one that has none.
//!
//! A thread without a connection reads the summaries of the other threads' pools. One that has had a fitting
//! connection idle for a while is asked for it by mail; it deregisters the socket from its loop and sends it. While a
//! thread finds connections in its own pool, this costs only the summary.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use tidegate_rt::mail::MailSender;
use tidegate_rt::sync::oneshot;
use tidegate_rt::timer::timeout;

use super::fit::Fit;
use super::packed::PackedConnection;
use super::shelf::{SPARE_AFTER, Shelf, server_bit};
use crate::connection::OriginConnection;
use crate::moment;
use crate::peers::Group;

/// The summary of a thread's idle connections of a group, for other threads. Only that thread writes it.
pub(crate) struct PoolSummary {
    idle: AtomicUsize,
    /// When the longest idle one became idle, as [`moment::nanos`]; [`NEVER`] where there is none.
    oldest: AtomicU64,
    /// [`Shelf::servers`], perhaps with removed ones.
    servers: AtomicU64,
    inbox: MailSender<HandoverRequest>,
}

/// A thread's request for a connection.
pub(crate) struct HandoverRequest {
    pub group: u64,
    pub fit: Fit,
    pub(super) reply: oneshot::Sender<Option<Box<PackedConnection>>>,
}

/// By the group's number: the summaries of all threads.
static SUMMARIES: Mutex<BTreeMap<u64, Vec<Weak<PoolSummary>>>> = Mutex::new(BTreeMap::new());

/// The longest wait for a reply: a loop in a long iteration is not worth waiting for, as a connection can be opened
/// in the meantime.
const REPLY_WAIT: Duration = match cfg!(test) {
    false => Duration::from_millis(5),
    // Tests wait for the reply, however busy the machine is.
    true => Duration::from_secs(60),
};
const NEVER: u64 = u64::MAX;

impl PoolSummary {
    /// Makes a summary, which the other threads see while it exists. They send their requests to `inbox`.
    pub(crate) fn new(group: u64, inbox: MailSender<HandoverRequest>) -> Arc<PoolSummary> {
        let summary = Arc::new(PoolSummary {
            idle: AtomicUsize::new(0),
            oldest: AtomicU64::new(NEVER),
            servers: AtomicU64::new(0),
            inbox,
        });
        let mut summaries = SUMMARIES.lock().unwrap_or_else(PoisonError::into_inner);
        let known = summaries.entry(group).or_default();
        known.retain(|summary| summary.strong_count() > 0);
        known.push(Arc::downgrade(&summary));
        summary
    }

    /// Updates the summary after a shelf has changed; servers without connections are removed later by
    /// [`PoolSummary::set_servers`].
    pub(crate) fn update<T>(&self, shelf: &Shelf<T>) {
        self.idle.store(shelf.len(), Ordering::Relaxed);
        self.oldest.store(shelf.oldest().map_or(NEVER, moment::nanos), Ordering::Relaxed);
    }

    /// Adds a server.
    pub(crate) fn add_server(&self, server: u64) {
        let servers = self.servers.load(Ordering::Relaxed);
        if servers & server_bit(server) == 0 {
            self.servers.store(servers | server_bit(server), Ordering::Relaxed);
        }
    }

    /// Sets the servers.
    pub(crate) fn set_servers<T>(&self, shelf: &Shelf<T>) {
        self.servers.store(shelf.servers(), Ordering::Relaxed);
    }

    fn may_spare(&self, server: u64, now: u64) -> bool {
        let spare_after = SPARE_AFTER.as_nanos() as u64;
        self.servers.load(Ordering::Relaxed) & server_bit(server) != 0
            && self.oldest.load(Ordering::Relaxed).saturating_add(spare_after) <= now
    }
}

/// Returns the number of idle connections of a group on all threads.
pub fn idle_of(group: &Group) -> usize {
    let summaries = SUMMARIES.lock().unwrap_or_else(PoisonError::into_inner);
    let known = summaries.get(&group.id).into_iter().flatten().filter_map(Weak::upgrade);
    known.map(|summary| summary.idle.load(Ordering::Relaxed)).sum()
}

/// Returns the thread that has had a connection to spare longest, if any.
pub(crate) fn owner(group: &Group, fit: &Fit, now: Instant) -> Option<Arc<PoolSummary>> {
    // TLS state that the library keeps with its socket does not move to another thread.
    if group.keepalive.idle_max == 0 || fit.brief || fit.tls.is_some() {
        return None;
    }
    let now = moment::nanos(now);
    let summaries = SUMMARIES.lock().unwrap_or_else(PoisonError::into_inner);
    let known = summaries.get(&group.id)?.iter().filter_map(Weak::upgrade);
    known
        .filter(|summary| summary.may_spare(fit.peer, now))
        .min_by_key(|summary| summary.oldest.load(Ordering::Relaxed))
}

/// Asks a thread for a connection. `None`: it has none after all, or does not reply in time.
///
/// Dropped while it waits, or too late, the handover request remains in the mailbox: the other thread sees that it is
/// closed and keeps the connection, or takes it back if it was packed by then ([`PackedConnection::unpack`]). A
/// connection that was sent and not received yet is closed with the request.
pub(crate) async fn ask(
    owner: Arc<PoolSummary>,
    group: u64,
    fit: Fit,
) -> Option<Box<OriginConnection>> {
    let (reply, received) = oneshot::channel();
    owner.inbox.send(HandoverRequest { group, fit, reply }).ok()?;
    let parcel = timeout(REPLY_WAIT, received).await.ok()?.ok()??;
    Some(parcel.open())
}
