//! Server and location of a request, and the state of its path there.

use super::recycle::recycled;
use crate::ids::{LocationId, ServerId};

/// Server and location of a request, and how they were chosen.
#[derive(Default)]
pub struct Routing {
    /// The server block.
    pub server: ServerId,
    /// The current location, or an `if` block in it.
    pub location: LocationId,
    pub(crate) kind: ExchangeKind,
    directed_by: DirectedBy,
    pub(crate) path: PathState,
    /// Rewrites and internal redirects so far.
    redirects: u8,
}

/// The receiver of an exchange's response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExchangeKind {
    /// The client.
    #[default]
    Main,
    /// The parent exchange; nothing is logged without `log_subrequest`.
    Subrequest,
}

/// The side that has chosen the current path. `internal` locations are for the server's paths alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum DirectedBy {
    #[default]
    Client,
    /// A rewrite, an internal redirect or a subrequest.
    Server,
}

/// The state of the path since the location was chosen by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PathState {
    /// The location matches the path.
    #[default]
    Matched,
    /// Another path: its location is looked up after the rewrite phase.
    Changed,
    /// Another path in the same location (`rewrite … break`): `alias` has no prefix to remove.
    Replaced,
    /// The whole path is appended to `alias` (`try_files` in a regular-expression location).
    Appended,
}

recycled!(Routing:
    keeps { }
    renews { server, location, kind, directed_by, path, redirects }
);

impl Routing {
    /// Returns whether another exchange gets the response.
    pub fn is_subrequest(&self) -> bool {
        self.kind == ExchangeKind::Subrequest
    }

    /// Allows `internal` locations from now on.
    pub fn make_internal(&mut self) {
        self.directed_by = DirectedBy::Server;
    }

    /// Returns whether the server has chosen the path, so that `internal` locations are allowed.
    pub fn is_internal(&self) -> bool {
        self.directed_by == DirectedBy::Server
    }

    /// Returns whether the path was replaced inside the location (`rewrite … break`): then the location's name is not
    /// its prefix.
    pub fn path_was_replaced(&self) -> bool {
        self.path == PathState::Replaced
    }

    /// Appends the whole path to `alias`: no part of it is the location's name.
    pub fn append_path_to_alias(&mut self) {
        self.path = PathState::Appended;
    }

    /// Keeps the current location for a changed path.
    pub fn stay_in_location(&mut self) {
        if self.path == PathState::Changed {
            self.path = PathState::Replaced;
        }
    }

    /// Counts a rewrite or an internal redirect; returns `false` when [`REDIRECTS_MAX`] were counted before.
    pub(crate) fn count_redirect(&mut self) -> bool {
        if self.path == PathState::Changed {
            self.path = PathState::Matched;
        }
        let allowed = self.redirects < REDIRECTS_MAX;
        self.redirects += u8::from(allowed);
        allowed
    }

    #[cfg(test)]
    pub(super) fn redirects_left(&self) -> u8 {
        REDIRECTS_MAX - self.redirects
    }

    /// Copies server and location for another exchange of the same request.
    pub(crate) fn fork(&self) -> Routing {
        let Routing { server, location, kind, directed_by, path: _, redirects: _ } = *self;
        Routing { server, location, kind, directed_by, path: PathState::Matched, redirects: 0 }
    }
}

/// nginx's documentation of `internal`: "There is a limit of 10 internal redirects per request".
pub const REDIRECTS_MAX: u8 = 10;
