//! What a fetch gives: an origin's response, or why there is none.

use tidegate_core::request_body::RequestBody;
use tidegate_http::response::ResponseHead;

use crate::h1::body::OriginBody;

/// An origin's answer. Dropping the body gives the connection up.
pub struct OriginResponse {
    pub head: ResponseHead,
    pub body: OriginBody,
    /// The client's body that was being streamed, to be given back to the exchange. `None` when there
    /// was none, or when it is still being sent: then the client's connection cannot be kept.
    pub request_body: Option<Box<RequestBody>>,
}

/// There is no answer.
pub struct FetchError {
    /// 502, 504; 400, 408, 413 for a client's body that could not be read; 500.
    pub status: u16,
    /// What the last server sent is no HTTP head.
    pub invalid_header: bool,
    pub request_body: Option<Box<RequestBody>>,
}
