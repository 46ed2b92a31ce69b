//! A connection for an attempt: one that this thread keeps, one that another thread has to spare, or a new one.

use std::time::Instant;

use tidegate_rt::clock;

use crate::connection::{ConnectError, OriginConnection};
use crate::peers::Peer;
use crate::pool::{self, handover};
use crate::request::{Keeping, OriginRequest};
use crate::settings::FetchSettings;

/// A connection for an attempt.
pub(super) struct Connected {
    pub connection: Box<OriginConnection>,
    /// It has served other requests.
    pub reused: bool,
    /// When it was had.
    pub at: Instant,
}

/// Which connection will do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// The request cannot be sent twice: a kept connection is looked at before it is used.
    pub careful: bool,
    /// A kept one has just failed: only a new one will do.
    pub fresh: bool,
}

/// A kept connection to a server or a new one.
///
/// # Errors
/// None could be opened within `connect_timeout`.
pub(super) async fn connect(
    request: &OriginRequest,
    settings: &FetchSettings,
    Wanted { careful, fresh }: Wanted,
    peer: &Peer,
    now: Instant,
) -> Result<Connected, ConnectError> {
    let group = &request.group;
    let is_brief = request.keeping == Keeping::Briefly;
    let is_late = is_brief && peer.line().is_closing();
    if is_late {
        pool::close_idle(group, &request.fit(peer));
    }
    if !(fresh || is_late || (careful && is_brief)) {
        let fit = request.fit(peer);
        while let Some(connection) = pool::take(group, &fit, now) {
            if !careful || connection.is_quiet_now() {
                return Ok(Connected { connection, reused: true, at: now });
            }
        }
        if let Some(owner) = handover::owner(group, &fit, now) {
            // Boxed: few requests need room for it.
            let connection = Box::pin(handover::ask(owner, group.id, fit)).await;
            if let Some(connection) = connection.filter(|other| other.is_quiet_now()) {
                return Ok(Connected { connection, reused: true, at: clock::now() });
            }
        }
    }
    let OriginRequest { local, tls, .. } = request;
    // Boxed: most requests find an open connection and need no room for opening one.
    let opening = OriginConnection::open(&peer.address, *local, tls.as_ref(), settings);
    let connection = Box::pin(opening).await?;
    let at = connection.opened;
    Ok(Connected { connection, reused: false, at })
}
