//! What becomes of a request: the status that it is answered with, and how its connection goes on.

use super::recycle::recycled;

/// The one place of a request's status and of its connection's end.
#[derive(Default)]
pub struct Disposition {
    /// The response's, as whoever made the head has given it; 0 before that.
    status: u16,
    next: Next,
    /// Why no response is sent.
    unanswered: Option<u16>,
    /// The first status for which `error_page` or a built-in page was to come.
    refused_with: Option<u16>,
    error_page: ErrorPage,
    persistence: Persistence,
}

/// What happens to the response on its way out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Next {
    #[default]
    AsMade,
    /// It leaves with this status, which `error_page … =code` or its maker forces on it.
    SendAs(u16),
    /// A filter has dropped it: what stands for this status comes in its place.
    Replace(u16),
}

/// Whether an `error_page` was used for this request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ErrorPage {
    #[default]
    Unused,
    Used,
    /// None is used any more, whatever `recursive_error_pages` says: the request went round in circles.
    Spent,
}

/// Whether the connection stays behind the response, if the protocol allows (RFC 9112 section 9.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Persistence {
    #[default]
    Close,
    Keep,
}

recycled!(Disposition:
    keeps { }
    renews { status, next, unanswered, refused_with, error_page, persistence }
);

impl Disposition {
    /// Status of the response's head as far as it is made; 0 before that.
    pub fn status(&self) -> u16 {
        self.status
    }

    pub fn set_status(&mut self, status: u16) {
        self.status = status;
    }

    /// `$status`: the response's status, or what an error page's response will be given, or why there was none.
    pub fn logged_status(&self) -> u16 {
        match (self.unanswered, self.next) {
            (Some(status), _) => status,
            (None, Next::SendAs(status)) => status,
            (None, _) => self.status,
        }
    }

    /// The request is over: its status is what is logged, 400 where nothing came of it.
    pub fn settle(&mut self) {
        match self.unanswered {
            Some(status) => self.status = status,
            None if self.status == 0 => self.status = 400,
            None => {}
        }
    }

    /// Has the response leave with this status, as if it were that of an error page.
    pub fn send_as(&mut self, status: u16) {
        self.next = Next::SendAs(status);
    }

    /// Whether a 200 will be sent as an error, for which it stands in as its page.
    pub fn is_error_page(&self) -> bool {
        matches!(self.next, Next::SendAs(status) if !matches!(status, 200 | 206 | 304))
    }

    /// For filters: drops the response and answers with `status` as a handler's `Step::Status` would, by an
    /// `error_page` or the built-in page, which the later filters see.
    pub fn replace_response(&mut self, status: u16) {
        self.next = Next::Replace(status);
    }

    /// The status that is forced on the response, which has it from now on.
    pub(crate) fn take_forced(&mut self) -> Option<u16> {
        let Next::SendAs(status) = self.next else { return None };
        self.next = Next::AsMade;
        Some(status)
    }

    /// What a filter wants to have in the response's place.
    #[inline]
    pub(crate) fn take_replacement(&mut self) -> Option<u16> {
        let Next::Replace(status) = self.next else { return None };
        self.next = Next::AsMade;
        Some(status)
    }

    /// The response is made anew of `status`, whatever was to become of the one before.
    pub(crate) fn refuse(&mut self, status: u16) {
        self.refused_with.get_or_insert(status);
        self.next = Next::AsMade;
    }

    /// An `error_page` comes for `status`; its response is sent as `sent`, or as it is made.
    pub(crate) fn use_error_page(&mut self, status: u16, sent: Option<u16>) {
        self.error_page = ErrorPage::Used;
        self.status = status;
        self.next = sent.map_or(Next::AsMade, Next::SendAs);
    }

    /// The error page is somewhere else: the client is sent there.
    pub(crate) fn redirect_to_error_page(&mut self) {
        self.next = Next::AsMade;
    }

    /// Whether an `error_page` may be used, which another one may follow where that is `recursive`.
    pub(crate) fn takes_error_page(&self, recursive: bool) -> bool {
        match self.error_page {
            ErrorPage::Unused => true,
            ErrorPage::Used => recursive,
            ErrorPage::Spent => false,
        }
    }

    /// From now on errors have built-in pages.
    pub(crate) fn give_up_error_pages(&mut self) {
        self.error_page = ErrorPage::Spent;
    }

    /// The first status that was to be answered by `error_page` or a built-in page.
    pub(crate) fn refused_with(&self) -> Option<u16> {
        self.refused_with
    }

    /// No response will be sent: the status for the log (400 before a head, 408, 444, 499).
    pub fn leave_unanswered(&mut self, status: u16) {
        self.unanswered = Some(status);
    }

    /// Why no response is sent, if that is so.
    pub fn unanswered(&self) -> Option<u16> {
        self.unanswered
    }

    /// The connection stays open behind the response, if the protocol allows.
    pub fn keep_connection(&mut self) {
        self.persistence = Persistence::Keep;
    }

    /// The connection ends with the response.
    pub fn close_connection(&mut self) {
        self.persistence = Persistence::Close;
    }

    #[inline]
    pub fn keeps_connection(&self) -> bool {
        self.persistence == Persistence::Keep
    }

    /// The head's status and the connection's fate, for another exchange of the same request.
    pub(crate) fn fork(&self) -> Disposition {
        let Disposition {
            status,
            next: _,
            unanswered: _,
            refused_with: _,
            error_page: _,
            persistence,
        } = *self;
        Disposition { status, persistence, ..Disposition::default() }
    }
}
