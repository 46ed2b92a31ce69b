//! What a gateway offers to the cache: requests that own all they need, and answers to the client.

use std::sync::Arc;

use tidegate_codec::Known;
use tidegate_codec::response::ResponseHead;
use tidegate_core::{Body, Exchange, LocalFuture, Step};
use tidegate_upstream::{FetchError, FetchSettings, OriginRequest, OriginResponse, SharedReport};

/// What the request for a whole object is like: no `Range`, and no conditions but those that the
/// exchange's `CacheNote` holds (`If-Modified-Since`, `If-None-Match`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FillRequestOptions {
    /// GET in place of HEAD.
    pub convert_head: bool,
    /// The client waits for the answer's head, so it may be given interim ones (`early_hints`).
    pub client_waits: bool,
}

/// A gateway in one location.
pub(crate) trait Gateway: Send + Sync {
    /// Makes the request, reading the client's body first if there is one to be sent. The request
    /// holds nothing of the exchange afterwards.
    fn request<'a>(
        &'a self,
        x: &'a mut Exchange,
        options: FillRequestOptions,
    ) -> LocalFuture<'a, Result<OriginRequest, Step<'static>>>;

    fn fetch_settings(&self) -> Arc<FetchSettings>;

    /// The list of attempts behind the `$upstream_*` variables.
    fn report(&self, x: &mut Exchange) -> SharedReport;

    /// Writes the default key: what is asked, and of whom.
    fn write_key(&self, x: &mut Exchange, out: &mut Vec<u8>);

    /// Lets the variables see an origin's head (`$upstream_http_*`).
    fn show_head(&self, x: &mut Exchange, head: ResponseHead);

    /// Answers with what came from an origin, as without a cache.
    fn respond(&self, x: &mut Exchange, response: OriginResponse) -> Step<'static>;

    /// Answers with a head that an origin once gave, and a body from elsewhere. The same is done to
    /// the head as by `respond`.
    fn respond_stored(&self, x: &mut Exchange, stored: StoredResponse<'_>) -> Step<'static>;

    /// Answers when no origin did.
    fn fail(&self, x: &mut Exchange, error: FetchError) -> Step<'static>;

    /// The client has left.
    fn client_left(&self, x: &mut Exchange) -> Step<'static>;

    /// The answer as without a cache, from request to response.
    fn pass<'a>(&'a self, x: &'a mut Exchange) -> LocalFuture<'a, Step<'static>>;
}

/// An answer out of the cache.
pub(crate) struct StoredResponse<'a> {
    /// As the origin sent it, without the fields of its connection and without a length.
    pub head: &'a ResponseHead,
    pub body: Body,
    /// Length of the body, where the body does not tell.
    pub content_length: Option<u64>,
}

/// Whether a request asks for another protocol (RFC 9110 section 7.8): what it misses in the cache is asked for on its
/// own, since a tunnel belongs to one client. `h2c` counts as not asked for: clients offer it with every request, and
/// no origin behind a proxy grants it.
pub(crate) fn switches(x: &Exchange) -> bool {
    let asked = x.request.header(Known::Upgrade);
    !x.is_subrequest() && asked.is_some_and(|protocol| !protocol.eq_ignore_ascii_case(b"h2c"))
}
