//! Responses made from a bare status: `error_page`, redirects, built-in pages.

use bytes::Bytes;
use tidegate_codec::headers::one_line;
use tidegate_codec::uri::encode_where;
use tidegate_codec::{Known, pages};

use crate::body::Body;
use crate::exchange::{Exchange, FieldOwner, RangeSupport};
use crate::settings::Tokens;
use crate::step::Jump;

/// The result of resolving a status.
pub enum StatusResult {
    /// Send the response's head with this body.
    Send(Body),
    /// Go on with an internal redirect to the error page.
    Jump(Jump),
    /// Send nothing and close the connection.
    Close,
}

/// Makes the response for `status`: an `error_page` if one is set and none is being served, else the built-in page.
pub fn resolve(x: &mut Exchange, status: u16) -> StatusResult {
    // A status that occurs while an error page is made replaces the one that the page is for.
    x.disposition.refuse(status);
    // The type belongs to the body that the origin wanted to be sent (`X-Accel-Redirect`).
    x.preserved_headers.remove(Known::ContentType);
    // As in nginx, a client that was too slow with its request gets no response.
    if matches!(status, 408 | 444 | 499) {
        x.disposition.end_without_response(status);
        return StatusResult::Close;
    }
    if closes_connection(status) {
        x.disposition.close_connection();
    }
    let settings = x.settings();
    if status >= 300 && x.disposition.takes_error_page() {
        let pages = settings.error_pages.clone();
        if let Some(page) = pages.iter().find(|page| page.code == status) {
            let sent = match page.overwrite {
                None => Some(tidegate_codec::request::wire_status(status)),
                Some(0) => None,
                Some(code) => Some(code),
            };
            let is_recursive = settings.recursive_error_pages;
            x.disposition.use_error_page(status, sent, is_recursive);
            let target = page.target.value(x);
            return error_page(x, target, page.overwrite);
        }
    }
    StatusResult::Send(builtin(x, status))
}

/// Returns whether the rest of the connection cannot be trusted after this status.
fn closes_connection(status: u16) -> bool {
    matches!(status, 400 | 413 | 414 | 494..=497 | 500 | 501 | 505)
}

fn error_page(x: &mut Exchange, mut target: Vec<u8>, overwrite: Option<u16>) -> StatusResult {
    match target.first() {
        Some(b'/') => {
            x.request.become_get();
            let (path, args) = split_args(target);
            StatusResult::Jump(Jump::Path { path, args })
        }
        Some(b'@') => StatusResult::Jump(Jump::Named(target)),
        _ => {
            x.disposition.redirect_to_error_page();
            let redirect = overwrite.filter(|code| matches!(code, 301..=303 | 307 | 308));
            encode_where(&mut target, 0, |byte| byte.is_ascii_control());
            x.response.headers.set_known(Known::Location, &target);
            StatusResult::Send(builtin(x, redirect.unwrap_or(302)))
        }
    }
}

/// Splits `path?args` at the first question mark.
pub fn split_args(mut target: Vec<u8>) -> (Vec<u8>, Vec<u8>) {
    match target.iter().position(|byte| *byte == b'?') {
        None => (target, Vec::new()),
        Some(mark) => {
            let args = target.split_off(mark + 1);
            target.pop();
            (target, args)
        }
    }
}

/// Makes the built-in page of a status and its head. Fields that belong to the status (`Location`,
/// `WWW-Authenticate`, …) are already in the head.
fn builtin(x: &mut Exchange, status: u16) -> Body {
    let wire = tidegate_codec::request::wire_status(status);
    x.disposition.set_status(wire);
    x.response.reason = None;
    x.response.content_length = None;
    x.response.last_modified = None;
    x.response.ranges = RangeSupport::None;
    // The page is this server's own, even where `proxy_pass_header` passes the origin's fields.
    x.delivery.server = FieldOwner::Server;
    x.delivery.date = FieldOwner::Server;
    for known in [Known::AcceptRanges, Known::LastModified, Known::Etag, Known::ContentEncoding] {
        x.response.headers.remove(known);
    }
    x.preserved_headers.remove(Known::AcceptRanges);
    if status == 304 || status < 300 {
        x.response.headers.remove(Known::ContentType);
        return Body::Empty;
    }
    let msie = is_msie(x);
    if x.settings().msie_refresh && msie && matches!(status, 301 | 302) {
        let place = x.response.headers.first(Known::Location).unwrap_or_default().to_vec();
        x.response.headers.remove(Known::Location);
        x.response.headers.set_known(Known::ContentType, b"text/html");
        x.disposition.set_status(200);
        return Body::Bytes(refresh_page(&place));
    }
    let product = product(x);
    let padding = x.settings().msie_padding && msie && status >= 400;
    let mut page = Vec::with_capacity(512);
    if !pages::write_page(status, &product, padding, &mut page) {
        return Body::Empty;
    }
    x.response.headers.set_known(Known::ContentType, b"text/html");
    Body::Bytes(Bytes::from(page))
}

/// Makes a page that redirects Internet Explorer without a 3xx status (`msie_refresh`).
fn refresh_page(place: &[u8]) -> Bytes {
    let mut page = b"<html><head><meta http-equiv=\"Refresh\" content=\"0; URL=".to_vec();
    for byte in place {
        // Bytes that would end the attribute or the line; the rest is escaped already.
        match byte {
            b' ' | b'"' | b'\'' | b'<' | b'>' | 0..0x20 | 0x7f.. => {
                page.extend_from_slice(format!("%{byte:02X}").as_bytes());
            }
            plain => page.push(*plain),
        }
    }
    page.extend_from_slice(b"\"></head><body></body></html>\r\n");
    Bytes::from(page)
}

/// Returns whether the client is an old Internet Explorer, for which nginx pads pages.
fn is_msie(x: &Exchange) -> bool {
    let agent = x.request.header(Known::UserAgent).unwrap_or_default();
    let msie = agent.windows(5).any(|word| word == b"MSIE ");
    msie && !agent.windows(6).any(|word| word == b"Opera ")
}

/// Writes the `Server` field according to `server_tokens`; nothing where that is empty.
pub fn write_server_field(x: &mut Exchange, out: &mut Vec<u8>) {
    let mut write = |text: &[u8]| {
        if !text.is_empty() {
            out.extend_from_slice(b"Server: ");
            out.extend_from_slice(text);
            out.extend_from_slice(b"\r\n");
        }
    };
    match &x.settings().tokens {
        Tokens::Fixed(text) => write(text),
        Tokens::Dynamic(_) => write(&product(x)),
    }
}

/// Returns the value of the response's `Server` field; empty for no field (`server_tokens`).
pub fn server_value(x: &mut Exchange) -> Bytes {
    product(x)
}

/// Returns the product name for error pages and the `Server` field according to `server_tokens`.
fn product(x: &mut Exchange) -> Bytes {
    match &x.location_ref().settings.tokens {
        Tokens::Fixed(text) => text.clone(),
        Tokens::Dynamic(template) => match &template.value(x)[..] {
            b"on" => Bytes::from_static(PRODUCT_WITH_VERSION.as_bytes()),
            b"off" => Bytes::from_static(PRODUCT.as_bytes()),
            b"build" => Bytes::from_static(PRODUCT_WITH_VERSION.as_bytes()),
            text => one_line(text.to_vec()).into(),
        },
    }
}

/// The version of nginx whose directives and defaults are implemented.
pub const NGINX_VERSION: &str = "1.31.5";
/// Product name in responses.
pub const PRODUCT: &str = "tidegate";
/// Product name and version in responses.
pub const PRODUCT_WITH_VERSION: &str = concat!("tidegate/", env!("CARGO_PKG_VERSION"));

/// Starts the head of this server's own redirect with its `Location`: absolute if `absolute_redirect` is on.
/// `place` is escaped and starts with `/`.
pub fn redirect_headers(x: &mut Exchange, place: &[u8]) {
    x.clear_response();
    let url = absolute_location(x, place);
    x.response.headers.set_known(Known::Location, &url);
}

/// Clears the head and sets `Location` to a text of the configuration. A path becomes absolute if `absolute_redirect` is
/// on; anything else is not changed. Control bytes are encoded: a decoded line feed of the client's must not end the
/// field.
pub fn set_location(x: &mut Exchange, mut place: Vec<u8>) {
    encode_where(&mut place, 0, |byte| byte.is_ascii_control());
    if place.starts_with(b"/") {
        redirect_headers(x, &place);
        return;
    }
    x.clear_response();
    x.response.headers.set_known(Known::Location, &place);
}

/// Returns the `Location` for a path on this server: a whole URL if `absolute_redirect` is on, else the path.
pub fn absolute_location(x: &Exchange, place: &[u8]) -> Vec<u8> {
    let settings = x.settings();
    if !settings.absolute_redirect {
        return place.to_vec();
    }
    let tls = x.connection.tls.is_some();
    let mut url = Vec::with_capacity(place.len() + 64);
    url.extend_from_slice(if tls { b"https://" } else { b"http://" });
    if settings.server_name_in_redirect {
        url.extend_from_slice(x.server().name.as_bytes());
    } else if x.request.host.is_empty() {
        url.extend_from_slice(x.connection.local.host_text().as_bytes());
    } else {
        url.extend_from_slice(&x.request.host);
    }
    let standard = if tls { 443 } else { 80 };
    if let Some(port) = x.connection.local.port()
        && settings.port_in_redirect
        && port != standard
    {
        url.extend_from_slice(format!(":{port}").as_bytes());
    }
    url.extend_from_slice(place);
    url
}
