//! The interface of a gateway for the cache: requests that own all they need, and responses to the client.

use std::sync::Arc;

use tidegate_codec::Known;
use tidegate_codec::response::ResponseHead;
use tidegate_core::{Body, Exchange, LocalFuture, Step};
use tidegate_upstream::{FetchError, FetchSettings, OriginRequest, OriginResponse, SharedReport};

/// Options of the request that fetches a complete object: it has no `Range`, and no conditions but those that the
/// exchange's `CacheNote` holds (`If-Modified-Since`, `If-None-Match`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FillRequestOptions {
    /// Sends GET in place of HEAD.
    pub convert_head: bool,
    /// The client waits for the response's head, so interim responses may be sent to it (`early_hints`).
    pub client_waits: bool,
}

/// A gateway in one location.
pub(crate) trait Gateway: Send + Sync {
    /// Makes the request, reading the client's body first if one is to be sent. The request holds nothing of the
    /// exchange afterwards.
    fn request<'a>(
        &'a self,
        x: &'a mut Exchange,
        options: FillRequestOptions,
    ) -> LocalFuture<'a, Result<OriginRequest, Step<'static>>>;

    fn fetch_settings(&self) -> Arc<FetchSettings>;

    /// Returns the list of attempts behind the `$upstream_*` variables.
    fn report(&self, x: &mut Exchange) -> SharedReport;

    /// Writes the default key: the target and the origin of the request.
    fn write_key(&self, x: &mut Exchange, out: &mut Vec<u8>);

    /// Makes an origin's head visible to the variables (`$upstream_http_*`).
    fn show_head(&self, x: &mut Exchange, head: ResponseHead);

    /// Responds with the origin's response, as without a cache.
    fn respond(&self, x: &mut Exchange, response: OriginResponse) -> Step<'static>;

    /// Responds with a stored head and a body from elsewhere. The head is processed as by `respond`.
    fn respond_stored(&self, x: &mut Exchange, stored: StoredResponse<'_>) -> Step<'static>;

    /// Responds when no origin did.
    fn fail(&self, x: &mut Exchange, error: FetchError) -> Step<'static>;

    /// Returns the step for a client that has closed its connection.
    fn client_left(&self, x: &mut Exchange) -> Step<'static>;

    /// Passes the request as without a cache, from request to response.
    fn pass<'a>(&'a self, x: &'a mut Exchange) -> LocalFuture<'a, Step<'static>>;
}

/// A response from the cache.
pub(crate) struct StoredResponse<'a> {
    /// As the origin sent it, without the fields of its connection and without a length.
    pub head: &'a ResponseHead,
    pub body: Body,
    /// Length of the body in bytes, for bodies that do not carry their own.
    pub content_length: Option<u64>,
}

/// Returns whether a request asks to switch to another protocol (RFC 9110 section 7.8). Such a request is passed on a
/// cache miss, since a tunnel belongs to one client. `h2c` is ignored: clients offer it with every request, and no
/// origin behind a proxy grants it.
pub(crate) fn switches(x: &Exchange) -> bool {
    let asked = x.request.header(Known::Upgrade);
    !x.is_subrequest() && asked.is_some_and(|protocol| !protocol.eq_ignore_ascii_case(b"h2c"))
}
