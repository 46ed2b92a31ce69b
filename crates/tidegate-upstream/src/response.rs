//! The result of a fetch: an origin's response, or the reason why there is none.

use std::fmt;

use tidegate_codec::response::ResponseHead;
use tidegate_core::request_body::RequestBody;

use crate::h1::body::OriginBody;

/// An origin's response. Dropping the body gives the connection up.
pub struct OriginResponse {
    /// The final head.
    pub head: ResponseHead,
    /// The body behind it.
    pub body: OriginBody,
    /// The client's body that was being streamed, to be given back to the exchange. `None` when there was none, or
    /// when it is still being sent: then the client's connection cannot be kept.
    pub request_body: Option<Box<RequestBody>>,
}

/// A fetch without a response. The reason was logged.
pub struct FetchError {
    /// Status to respond with: 502, 504; 400, 408, 413 for a client's body that could not be read; 500.
    pub status: u16,
    /// The last server sent an invalid HTTP head.
    pub invalid_header: bool,
    /// The client's body that was to be streamed, as far as it is left.
    pub request_body: Option<Box<RequestBody>>,
}

impl fmt::Debug for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FetchError { status, invalid_header, request_body } = self;
        f.debug_struct("FetchError")
            .field("status", status)
            .field("invalid_header", invalid_header)
            .field("request_body", &request_body.is_some())
            .finish()
    }
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no response from any server: {}", self.status)
    }
}

impl std::error::Error for FetchError {}
