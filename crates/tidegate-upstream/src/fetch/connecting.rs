//! A connection for an attempt: one that this thread keeps, one that another thread has to spare, or a new one.

use std::sync::Arc;
use std::time::Instant;

use tidegate_core::LocalFuture;
use tidegate_core::timeline::{Cause, blame};
use tidegate_rt::clock;

use crate::connection::{ConnectError, OriginConnection, count_handshake};
use crate::peers::Peer;
use crate::peers::process_queue::QueuePlace;
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
#[derive(Debug)]
pub(super) struct ConnectionNeeds {
    /// The request cannot be sent twice: a kept connection is checked before it is used.
    pub careful: bool,
    /// A kept one has just failed: a new one is required.
    pub fresh: bool,
    /// The place that it keeps from that one.
    pub place: Option<QueuePlace>,
}

/// The wait for a connection. Boxed: most requests find an open one and need no room for waiting.
type ConnectionFuture<'a> = LocalFuture<'a, Result<AttemptConnection, ConnectError>>;

/// Returns a connection to a server that this thread has kept, or the wait for one.
pub(super) fn connect<'a>(
    request: &'a OriginRequest,
    settings: &'a FetchSettings,
    needs: ConnectionNeeds,
    peer: &'a Peer,
    now: Instant,
) -> Result<AttemptConnection, ConnectionFuture<'a>> {
    let group = &request.group;
    if request.reuse == ConnectionReuse::Briefly {
        return connect_in_order(request, settings, needs, peer, now);
    }
    let ConnectionNeeds { careful, fresh, .. } = needs;
    if fresh {
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

/// As [`connect`], where few processes serve a connection each: in the order of all requests.
fn connect_in_order<'a>(
    request: &'a OriginRequest,
    settings: &'a FetchSettings,
    ConnectionNeeds { careful, fresh, place }: ConnectionNeeds,
    peer: &'a Peer,
    now: Instant,
) -> Result<AttemptConnection, ConnectionFuture<'a>> {
    let (group, queue) = (&request.group, peer.process_queue());
    let fit = request.fit(peer);
    if queue.is_full() && !fresh {
        // Requests wait for the processes behind them.
        pool::close_idle(group, &fit);
        return Err(Box::pin(obtain_in_order(request, settings, peer, careful)));
    }
    let place = place.unwrap_or_else(|| queue.enter(clock::exact_now()));
    if !fresh
        && !careful
        && let Some(mut connection) = pool::take(group, &fit, now)
    {
        connection.place = Some(place);
        return Ok(AttemptConnection { connection, reused: true, at: now });
    }
    Err(Box::pin(async move {
        let mut opened = obtain(request, settings, peer, None).await?;
        opened.connection.place = Some(place);
        Ok(opened)
    }))
}

/// Waits for a request's turn, and opens a connection where none was handed over.
///
/// # Errors
/// As [`obtain`].
async fn obtain_in_order(
    request: &OriginRequest,
    settings: &FetchSettings,
    peer: &Peer,
    careful: bool,
) -> Result<AttemptConnection, ConnectError> {
    let waiting = peer.process_queue().wait(request.fit(peer), careful);
    let (place, parcel) = blame(Cause::Queue, waiting).await;
    let handed = parcel.map(|parcel| parcel.open()).filter(|connection| connection.is_quiet());
    let mut obtained = match handed {
        Some(connection) => AttemptConnection { connection, reused: true, at: clock::now() },
        // Boxed: most are handed over, and need no room for it.
        None => Box::pin(obtain(request, settings, peer, None)).await?,
    };
    obtained.connection.place = Some(place);
    Ok(obtained)
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
        let asked = handover::ask(owner, request.group.id, fit);
        let connection = blame(Cause::Connect, asked).await;
        if let Some(connection) = connection.filter(|other| other.is_quiet_now()) {
            return Ok(AttemptConnection { connection, reused: true, at: clock::now() });
        }
    }
    let OriginRequest { local, tls, .. } = request;
    let opened =
        OriginConnection::open(&peer.address, local.as_deref(), tls.as_ref(), settings).await;
    if tls.is_some() {
        let end = opened.as_ref().map(|connection| &connection.io);
        count_handshake(peer.statistics.handshakes(), end);
    }
    let connection = opened?;
    let at = connection.opened;
    Ok(AttemptConnection { connection, reused: false, at })
}
