//! Where a request is on its way: who serves it, and what became of its path there.

use super::recycle::recycled;
use crate::ids::{LocationId, ServerId};

/// Server and location of a request, and how it came there.
#[derive(Default)]
pub struct Routing {
    pub server: ServerId,
    pub location: LocationId,
    pub(crate) kind: Kind,
    directed_by: DirectedBy,
    pub(crate) path: PathState,
    /// Rewrites and internal redirects so far.
    redirects: u8,
}

/// Whether a client or another request gets the response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    #[default]
    Main,
    /// The parent gets the response; nothing is logged unless `log_subrequest`.
    Subrequest,
}

/// Who has chosen the present path. `internal` locations are for paths of the server alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum DirectedBy {
    #[default]
    Client,
    /// A rewrite, an internal redirect or a subrequest.
    Server,
}

/// What became of the path since the location was chosen by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PathState {
    /// The location is the path's.
    #[default]
    Matched,
    /// Another path, for which a location is looked up behind the rewrite phase.
    Changed,
    /// Another path in the same location (`rewrite … break`): `alias` has no prefix to cut off.
    Replaced,
    /// The whole path is appended to `alias` (`try_files` in a location of a regular expression).
    Appended,
}

recycled!(Routing:
    keeps { }
    renews { server, location, kind, directed_by, path, redirects }
);

impl Routing {
    pub fn is_subrequest(&self) -> bool {
        self.kind == Kind::Subrequest
    }

    /// From now on `internal` locations may be entered.
    pub fn make_internal(&mut self) {
        self.directed_by = DirectedBy::Server;
    }

    pub fn is_internal(&self) -> bool {
        self.directed_by == DirectedBy::Server
    }

    /// The path was replaced inside the location (`rewrite … break`): its prefix is not the location's name.
    pub fn path_was_replaced(&self) -> bool {
        self.path == PathState::Replaced
    }

    /// `alias` takes the whole path, as nothing of it belongs to the location's name.
    pub fn append_path_to_alias(&mut self) {
        self.path = PathState::Appended;
    }

    /// The location of a changed path is not looked up: it stays in the present one.
    pub fn stay_in_location(&mut self) {
        if self.path == PathState::Changed {
            self.path = PathState::Replaced;
        }
    }

    /// Counts a rewrite or an internal redirect; `false` when there were [`REDIRECTS_MAX`] before it.
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

    /// The same place, for another exchange of the same request.
    pub(crate) fn fork(&self) -> Routing {
        let Routing { server, location, kind, directed_by, path: _, redirects: _ } = *self;
        Routing { server, location, kind, directed_by, path: PathState::Matched, redirects: 0 }
    }
}

/// nginx's documentation of `internal`: "There is a limit of 10 internal redirects per request".
pub const REDIRECTS_MAX: u8 = 10;
