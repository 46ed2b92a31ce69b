//! Requests and responses as values: what the caller sends, and what it passes back.

#[cfg(test)]
mod tests;

use crate::limits::{LINKS_MAX, NONCE_BYTES_MAX, URL_BYTES_MAX};

/// The method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// GET: the directory, renewal information.
    Get,
    /// HEAD: a nonce.
    Head,
    /// POST: everything else.
    Post,
}

/// A request that the caller sends. It adds `Host`, `User-Agent` (RFC 8555 section 6.1 wants one) and
/// `Content-Length`, follows no redirection, accepts no more than [`BODY_BYTES_MAX`](crate::BODY_BYTES_MAX) bytes of
/// body, and limits the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The absolute URL.
    pub url: String,
    /// The value of `Content-Type`; none without a body.
    pub content_type: Option<&'static str>,
    /// The value of `Accept`, if one is needed.
    pub accept: Option<&'static str>,
    /// The body; empty but for POST.
    pub body: Vec<u8>,
}

/// A response, with the fields that the client uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
    location: Option<String>,
    nonce: Option<String>,
    retry_after: Option<String>,
    links: Vec<Link>,
}

/// One link of a `Link` field (RFC 8288).
#[derive(Clone, Debug, PartialEq, Eq)]
struct Link {
    url: String,
    relation: String,
}

impl Method {
    /// Returns the name of the method.
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
        }
    }
}

impl Request {
    pub(crate) fn plain(method: Method, url: &str) -> Request {
        Request { method, url: url.to_owned(), content_type: None, accept: None, body: Vec::new() }
    }

    pub(crate) fn signed(url: &str, body: Vec<u8>, accept: Option<&'static str>) -> Request {
        let content_type = Some("application/jose+json");
        Request { method: Method::Post, url: url.to_owned(), content_type, accept, body }
    }
}

impl Response {
    /// Makes a response of its status, its fields (names in any case) and its body. Fields that are not used, or are
    /// longer than their limit, are dropped.
    pub fn new<'a>(
        status: u16,
        fields: impl IntoIterator<Item = (&'a str, &'a str)>,
        body: Vec<u8>,
    ) -> Response {
        let mut response = Response { status, body, ..Response::default() };
        for (name, value) in fields {
            let is = |known: &str| name.eq_ignore_ascii_case(known);
            if value.len() > URL_BYTES_MAX {
                continue;
            } else if is("location") {
                response.location = Some(value.trim().to_owned());
            } else if is("replay-nonce") && value.len() <= NONCE_BYTES_MAX {
                response.nonce = Some(value.trim().to_owned());
            } else if is("retry-after") {
                response.retry_after = Some(value.to_owned());
            } else if is("link") {
                let room = LINKS_MAX - response.links.len();
                response.links.extend(links(value).take(room));
            }
        }
        response
    }

    pub(crate) fn location(&self) -> Option<&str> {
        self.location.as_deref()
    }

    /// Returns the nonce, which only has characters of base64 for URLs (RFC 8555 section 6.5.1).
    pub(crate) fn nonce(&self) -> Option<&str> {
        self.nonce.as_deref().filter(|nonce| crate::encoding::is_base64url(nonce))
    }

    pub(crate) fn retry_after(&self) -> Option<&str> {
        self.retry_after.as_deref()
    }

    /// Returns the URLs with this relation.
    pub(crate) fn links<'a>(&'a self, relation: &'a str) -> impl Iterator<Item = &'a str> {
        let has = move |link: &&Link| {
            link.relation.split_ascii_whitespace().any(|word| word.eq_ignore_ascii_case(relation))
        };
        self.links.iter().filter(has).map(|link| link.url.as_str())
    }

    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// Returns the links of one field: `<url>; rel="next", <url>; rel=index`.
fn links(value: &str) -> impl Iterator<Item = Link> {
    let mut rest = value;
    std::iter::from_fn(move || {
        let (_, after) = rest.split_once('<')?;
        let (url, after) = after.split_once('>')?;
        let end = end_of_parameters(after);
        let relation = after.get(..end).and_then(relation).unwrap_or_default();
        rest = after.get(end..).unwrap_or_default();
        Some(Link { url: url.to_owned(), relation })
    })
}

/// Returns the position of the comma that ends the parameters of a link: the first one outside of quotation marks.
fn end_of_parameters(text: &str) -> usize {
    let mut quoted = false;
    let ends = text.bytes().position(|byte| {
        quoted ^= byte == b'"';
        byte == b',' && !quoted
    });
    ends.unwrap_or(text.len())
}

fn relation(parameters: &str) -> Option<String> {
    parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let is_relation = name.trim().eq_ignore_ascii_case("rel");
        is_relation.then(|| value.trim().trim_matches('"').to_owned())
    })
}
