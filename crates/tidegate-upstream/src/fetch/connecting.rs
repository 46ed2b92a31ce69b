//! A connection for an attempt: one that this thread keeps, one that another thread has to spare, or a new one.

use std::sync::Arc;
use std::time::Instant;

use tidegate_core::LocalFuture;
use tidegate_rt::clock;

use crate::connection::{ConnectError, OriginConnection};
use crate::peers::Peer;
use crate::pool;
use crate::pool::fit::Fit;
use crate::pool::handover::{self, PoolSummary};
use crate::request::{ConnectionReuse, OriginRequest};
use crate::settings::FetchSettings;

/// A connection for an attempt.
pub(super) struct AttemptConnection {
    pub connection: Box<OriginConnection>,
    /// It has served other requests.
    pub reused: bool,
    /// When it was obtained.
    pub at: Instant,
}

/// The required properties of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionNeeds {
    /// The request cannot be sent twice: a kept connection is checked before it is used.
    pub careful: bool,
    /// A kept one has just failed: a new one is required.
    pub fresh: bool,
}

/// The wait for a connection. Boxed: most requests find an open one and need no room for waiting.
type ConnectionFuture<'a> = LocalFuture<'a, Result<AttemptConnection, ConnectError>>;

/// Returns a connection to a server that this thread has kept, or the wait for one.
pub(super) fn connect<'a>(
    request: &'a OriginRequest,
    settings: &'a FetchSettings,
    ConnectionNeeds { careful, fresh }: ConnectionNeeds,
    peer: &'a Peer,
    now: Instant,
) -> Result<AttemptConnection, ConnectionFuture<'a>> {
    let group = &request.group;
    let is_brief = request.reuse == ConnectionReuse::Briefly;
    let is_late = is_brief && peer.process_queue().is_closing();
    if is_late {
        pool::close_idle(group, &request.fit(peer));
    }
    if fresh || is_late || (careful && is_brief) {
        return Err(Box::pin(obtain(request, settings, peer, None)));
    }
    let fit = request.fit(peer);
    while let Some(connection) = pool::take(group, &fit, now) {
        if !careful || connection.is_quiet_now() {
            return Ok(AttemptConnection { connection, reused: true, at: now });
        }
    }
    let elsewhere = handover::owner(group, &fit, now).map(|owner| (owner, fit));
    Err(Box::pin(obtain(request, settings, peer, elsewhere)))
}

/// Waits for a connection: that of another thread that has one to spare, else a new one.
///
/// Dropped while it waits, it leaves only the handover request, which the other thread skips.
///
/// # Errors
/// None could be opened within `connect_timeout`.
async fn obtain(
    request: &OriginRequest,
    settings: &FetchSettings,
    peer: &Peer,
    elsewhere: Option<(Arc<PoolSummary>, Fit)>,
) -> Result<AttemptConnection, ConnectError> {
    if let Some((owner, fit)) = elsewhere {
        let connection = handover::ask(owner, request.group.id, fit).await;
        if let Some(connection) = connection.filter(|other| other.is_quiet_now()) {
            return Ok(AttemptConnection { connection, reused: true, at: clock::now() });
        }
    }
    let OriginRequest { local, tls, .. } = request;
    let opened = OriginConnection::open(&peer.address, *local, tls.as_ref(), settings).await;
    let connection = opened?;
    let at = connection.opened;
    Ok(AttemptConnection { connection, reused: false, at })
}
