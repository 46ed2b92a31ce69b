//! Why a request or session goes no further: the status that it ends with.

use std::{error, fmt};

use crate::step::Step;

/// A request or session ends with a status, since it cannot be served; the error log has the reason already.
///
/// As a [`Step`] it is [`Step::Status`], so that `error_page` applies to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused(u16);

impl Refused {
    /// The method is not one that the protocol has (RFC 9110 section 15.5.6).
    pub const METHOD_NOT_ALLOWED: Refused = Refused(405);
    /// The body is larger than `client_max_body_size` (RFC 9110 section 15.5.14).
    pub const CONTENT_TOO_LARGE: Refused = Refused(413);
    /// Nothing is there that the request is about.
    pub const NOT_FOUND: Refused = Refused(404);
    /// The settings make no request of it.
    pub const INTERNAL: Refused = Refused(500);
    /// No origin is found for it.
    pub const BAD_GATEWAY: Refused = Refused(502);
    /// There is too much to do already.
    pub const UNAVAILABLE: Refused = Refused(503);

    /// The status, as the client gets it and as the logs have it.
    pub fn status(self) -> u16 {
        self.0
    }
}

impl From<Refused> for Step<'_> {
    fn from(refused: Refused) -> Self {
        Step::Status(refused.0)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "refused with status {}", self.0)
    }
}

impl error::Error for Refused {}
