//! The result of a request: the status of its response, and whether its connection stays open.

use super::recycle::recycled;

/// The only place of a response's status and of whether its connection stays open.
#[derive(Default)]
pub struct Disposition {
    /// The status in the response's head; 0 before the head is made.
    status: u16,
    status_override: StatusOverride,
    /// The status for the log where no response is sent.
    without_response: Option<u16>,
    /// The first status for which an `error_page` or a built-in page was used.
    refused_with: Option<u16>,
    error_page: ErrorPageUse,
    persistence: Persistence,
}

/// A change of the status when the response is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum StatusOverride {
    #[default]
    /// The response leaves with the status of its head.
    Unchanged,
    /// The response leaves with this status, forced by `error_page … =code` or by its maker.
    SendAs(u16),
    /// A filter has dropped the response: the error page or built-in page of this status replaces it.
    Replace(u16),
}

/// Whether an `error_page` was used for this request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ErrorPageUse {
    #[default]
    Unused,
    /// By a location with `recursive_error_pages`: a further one may be used.
    Recursive,
    Used,
    /// No further one is used, even with `recursive_error_pages`: the redirects of the request formed a cycle.
    Spent,
}

/// Whether the connection stays open after the response, if the protocol allows (RFC 9112 section 9.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Persistence {
    #[default]
    Close,
    Keep,
}

recycled!(Disposition:
    keeps { }
    renews { status, status_override, without_response, refused_with, error_page, persistence }
);

impl Disposition {
    /// Returns the status of the response's head; 0 before the head is made.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Sets the status of the response's head.
    pub fn set_status(&mut self, status: u16) {
        self.status = status;
    }

    /// Returns `$status`: the response's status, the one that an error page's response will have, or the reason why
    /// there is no response.
    pub fn logged_status(&self) -> u16 {
        match (self.without_response, self.status_override) {
            (Some(status), _) => status,
            (None, StatusOverride::SendAs(status)) => status,
            (None, _) => self.status,
        }
    }

    /// Fixes the status of a finished request for its logs: 400 where no response was made.
    pub fn settle(&mut self) {
        match self.without_response {
            Some(status) => self.status = status,
            None if self.status == 0 => self.status = 400,
            None => {}
        }
    }

    /// Sends the response with this status, as with an error page's response.
    pub fn send_as(&mut self, status: u16) {
        self.status_override = StatusOverride::SendAs(status);
    }

    /// Returns whether the response is an error page: its own status is replaced by an error's.
    pub fn is_error_page(&self) -> bool {
        matches!(self.status_override, StatusOverride::SendAs(status) if !matches!(status, 200 | 206 | 304))
    }

    /// For filters: replaces the response by the `error_page` or the built-in page of `status`, as a handler's
    /// `Step::Status` would; the later filters see that page.
    pub fn replace_response(&mut self, status: u16) {
        self.status_override = StatusOverride::Replace(status);
    }

    /// Takes the status that is forced on the response; the caller sets it.
    pub(crate) fn take_forced(&mut self) -> Option<u16> {
        let StatusOverride::SendAs(status) = self.status_override else { return None };
        self.status_override = StatusOverride::Unchanged;
        Some(status)
    }

    /// Takes the status whose page replaces the response, if a filter has asked for that.
    #[inline]
    pub(crate) fn take_replacement(&mut self) -> Option<u16> {
        let StatusOverride::Replace(status) = self.status_override else { return None };
        self.status_override = StatusOverride::Unchanged;
        Some(status)
    }

    /// Starts a new response for `status`; a forced status of the response before is dropped.
    pub(crate) fn refuse(&mut self, status: u16) {
        self.refused_with.get_or_insert(status);
        self.status_override = StatusOverride::Unchanged;
    }

    /// Records that an `error_page` is used for `status`; its response is sent with the status `sent`, or with its own.
    /// `is_recursive`: the location that has it lets a further one be used (`recursive_error_pages`).
    pub(crate) fn use_error_page(&mut self, status: u16, sent: Option<u16>, is_recursive: bool) {
        self.error_page = match is_recursive {
            true => ErrorPageUse::Recursive,
            false => ErrorPageUse::Used,
        };
        self.status = status;
        self.status_override = sent.map_or(StatusOverride::Unchanged, StatusOverride::SendAs);
    }

    /// Records that the client is redirected to the error page.
    pub(crate) fn redirect_to_error_page(&mut self) {
        self.status_override = StatusOverride::Unchanged;
    }

    /// Returns whether an `error_page` is used, or was.
    pub fn has_error_page(&self) -> bool {
        self.error_page != ErrorPageUse::Unused
    }

    /// Returns whether an `error_page` may be used.
    pub(crate) fn takes_error_page(&self) -> bool {
        matches!(self.error_page, ErrorPageUse::Unused | ErrorPageUse::Recursive)
    }

    /// From now on errors get built-in pages.
    pub(crate) fn give_up_error_pages(&mut self) {
        self.error_page = ErrorPageUse::Spent;
    }

    /// Returns the first status for which an `error_page` or a built-in page was used.
    pub(crate) fn refused_with(&self) -> Option<u16> {
        self.refused_with
    }

    /// Records that no response will be sent, with the status for the log (400 before a head, 408, 444, 499).
    pub fn end_without_response(&mut self, status: u16) {
        self.without_response = Some(status);
    }

    /// Returns the status for the log where no response is sent.
    pub fn without_response(&self) -> Option<u16> {
        self.without_response
    }

    /// Keeps the connection open after the response, if the protocol allows.
    pub fn keep_connection(&mut self) {
        self.persistence = Persistence::Keep;
    }

    /// Closes the connection after the response.
    pub fn close_connection(&mut self) {
        self.persistence = Persistence::Close;
    }

    /// Returns whether the connection stays open after the response, if the protocol allows.
    #[inline]
    pub fn keeps_connection(&self) -> bool {
        self.persistence == Persistence::Keep
    }

    /// Copies status and persistence for another exchange of the same request.
    pub(crate) fn fork(&self) -> Disposition {
        let Disposition {
            status,
            status_override: _,
            without_response: _,
            refused_with: _,
            error_page: _,
            persistence,
        } = *self;
        Disposition { status, persistence, ..Disposition::default() }
    }
}
