//! The error that ends a request or session with a status.

use std::{error, fmt};

use crate::step::Step;

/// The status of a request or session that cannot be served; the reason is in the error log already.
///
/// As a [`Step`] it is [`Step::Status`], so that `error_page` applies to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused(u16);

impl Refused {
    /// The method is not allowed for the target (RFC 9110 section 15.5.6).
    pub const METHOD_NOT_ALLOWED: Refused = Refused(405);
    /// The body is larger than `client_max_body_size` (RFC 9110 section 15.5.14).
    pub const CONTENT_TOO_LARGE: Refused = Refused(413);
    /// The requested object does not exist.
    pub const NOT_FOUND: Refused = Refused(404);
    /// The request cannot be processed with the settings.
    pub const INTERNAL: Refused = Refused(500);
    /// No origin is available.
    pub const BAD_GATEWAY: Refused = Refused(502);
    /// A limit of the server is reached.
    pub const UNAVAILABLE: Refused = Refused(503);

    /// Returns the status for the client and for the logs.
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
