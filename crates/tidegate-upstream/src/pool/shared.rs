//! Connections of a thread that several requests share (HTTP/2).
//!
//! A request takes the fullest connection that has room: so no more are open than are needed, and those that are not
//! needed become idle. Where all are full, or there is none, another one is opened; requests wait for it together.
//! The connections belong to the thread: a stream cannot be given to another one.
//!
//! | limit | what happens |
//! |---|---|
//! | [`STREAMS_MAX`](crate::h2::STREAMS_MAX), SETTINGS_MAX_CONCURRENT_STREAMS | another connection |
//! | `keepalive` | the connection that has been idle longest is closed |
//! | `keepalive_requests`, `keepalive_time` | no new streams; closed when the last one ends |
//! | `keepalive_timeout` | closed after this idle time |
//!
//! Invariant: a connection is in the list from its making until its driver ends, unless it is for one request alone.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use tidegate_core::error_log::ErrorLog;

use super::fit::Fit;
use crate::h2::{ConnectionLimits, HEAD_BYTES_MIN, OpenRequest, Seat, SharedConnection, start};
use crate::peers::{Group, Peer};
use crate::request::{ConnectionReuse, OriginRequest};
use crate::settings::FetchSettings;

/// A connection, and who may use it.
struct Entry {
    fit: Fit,
    connection: Rc<SharedConnection>,
}

thread_local! {
    /// By the group's number.
    static CONNECTIONS: RefCell<HashMap<u64, Vec<Entry>>> = RefCell::default();
}

/// Takes a place on a connection to a server: an open one but `avoid`, or a new one, whose own errors go to `log`.
pub(crate) fn take(
    request: &OriginRequest,
    settings: &Arc<FetchSettings>,
    log: &ErrorLog,
    peer: &Peer,
    now: Instant,
    avoid: Option<&Rc<SharedConnection>>,
) -> Seat {
    let group = &request.group;
    let head_bytes_max = settings.head_bytes_max.max(HEAD_BYTES_MIN);
    let is_shared =
        request.reuse == ConnectionReuse::AsGroup && group.id != 0 && group.keepalive.idle_max > 0;
    let fit = request.fit(peer);
    if is_shared && let Some(connection) = find(group, &fit, head_bytes_max, now, avoid) {
        return Seat::new(connection);
    }
    let keepalive = is_shared.then_some(group.keepalive);
    let connection = SharedConnection::new(ConnectionLimits { keepalive, head_bytes_max });
    let seat = Seat::new(connection.clone());
    if is_shared {
        CONNECTIONS.with_borrow_mut(|groups| {
            let entry = Entry { fit, connection: connection.clone() };
            groups.entry(group.id).or_default().push(entry);
        });
    }
    let open = OpenRequest {
        address: peer.address.clone(),
        local: request.local.clone(),
        tls: request.tls.clone(),
        settings: settings.clone(),
        handshakes: request.tls.is_some().then(|| peer.statistics.handshakes().clone()),
        log: log.clone(),
        server: peer.text.clone(),
        group: group.id,
    };
    start(connection, open);
    seat
}

/// Returns the fullest connection with room.
fn find(
    group: &Group,
    fit: &Fit,
    head_bytes_max: usize,
    now: Instant,
    avoid: Option<&Rc<SharedConnection>>,
) -> Option<Rc<SharedConnection>> {
    CONNECTIONS.with_borrow(|groups| {
        let usable = groups.get(&group.id)?.iter().filter(|entry| {
            entry.fit == *fit
                && entry.connection.head_bytes_max() >= head_bytes_max
                && avoid.is_none_or(|avoid| !Rc::ptr_eq(avoid, &entry.connection))
        });
        let with_room = usable.filter_map(|entry| Some((entry.connection.room(now)?, entry)));
        let fullest = with_room.max_by_key(|(seats, _)| *seats)?;
        Some(fullest.1.connection.clone())
    })
}

/// Removes a connection that is over.
pub(crate) fn forget(group: u64, connection: &Rc<SharedConnection>) {
    CONNECTIONS.with_borrow_mut(|groups| {
        let Some(entries) = groups.get_mut(&group) else { return };
        entries.retain(|entry| !Rc::ptr_eq(&entry.connection, connection));
        if entries.is_empty() {
            groups.remove(&group);
        }
    });
}

/// Closes the connection that has been idle longest, where a group has more than `keepalive` of them.
pub(crate) fn trim(group: u64, idle_max: usize) {
    let longest = CONNECTIONS.with_borrow(|groups| {
        let idle = groups.get(&group)?.iter();
        let mut idle: Vec<_> =
            idle.filter_map(|entry| Some((entry.connection.idle_since()?, entry))).collect();
        if idle.len() <= idle_max {
            return None;
        }
        idle.sort_by_key(|(since, _)| *since);
        idle.first().map(|(_, entry)| entry.connection.clone())
    });
    if let Some(connection) = longest {
        connection.retire();
    }
}
