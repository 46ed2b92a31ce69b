//! `dashboard`: a live page of the server's figures, in one file.
//!
//! ```nginx
//! location /api       { api write=on; allow 127.0.0.1; deny all; }
//! location = /status  { dashboard /api; allow 127.0.0.1; deny all; }
//! ```
//! The page asks the API once in a second. It needs no other file, and the policy in its head lets it load nothing else.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest, Sha256};
use tidegate_codec::Known;
use tidegate_codec::request::Method;
use tidegate_codec::uri::escape_html;
use tidegate_conf::{Arity, Contexts, Diagnostic, Directive, once, row};
use tidegate_core::credentials::encode_base64;
use tidegate_core::{Body, Exchange, Step, counters};
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::Module;

/// The page: styles, script and all.
const PAGE: &str = include_str!("dashboard/page.html");

/// The module of `dashboard`.
pub(crate) struct Dashboard;

#[derive(Default)]
pub(crate) struct Conf {
    /// Path of the location with `api`.
    api: Option<Vec<u8>>,
}

impl Module for Dashboard {
    type Conf = Conf;
    const NAME: &'static str = "dashboard";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[&[row(
        "dashboard",
        Contexts::LOCATION,
        Arity::between(0, 1),
        "",
        "Sends a page that shows the server's figures live. It asks the location with `api` whose path is the argument, \
         `/api` without one; where that has `write=on`, servers of groups can be changed on the page.",
        |conf, args| {
            let path = match args.bytes(0) {
                b"" => b"/api".to_vec(),
                path @ [b'/', ..] => path.to_vec(),
                _ => return Err(args.invalid_parameter(0)),
            };
            once(&mut conf.api, path, args)
        },
    )]];

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        let Some(api) = &conf.api else { return Ok(()) };
        tidegate_gateway::keep_history(location.plan);
        let page = Arc::new(Page::new(api));
        location.content(Box::new(move |x| page.respond(x)));
        Ok(())
    }
}

/// The page of a location.
struct Page {
    text: String,
    policy: String,
}

impl Page {
    fn new(api: &[u8]) -> Page {
        let mut path = Vec::new();
        escape_html(api, &mut path);
        let path = String::from_utf8_lossy(&path);
        let text = PAGE.replacen(API, &format!("content=\"{path}\""), 1);
        let policy = format!(
            "default-src 'none'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'self'; \
             style-src '{}'; script-src '{}'",
            digest(between("<style>", "</style>")),
            digest(between("<script>", "</script>")),
        );
        Page { text, policy }
    }

    fn respond(&self, x: &mut Exchange) -> Step<'static> {
        if !matches!(x.request.method, Method::Get | Method::Head) {
            return Step::Status(405);
        }
        let figures = counters::figures();
        let numbers = [
            ("<!--requests-->", figures.requests),
            ("<!--active-->", figures.active.saturating_sub(figures.waiting)),
            ("<!--idle-->", figures.waiting),
            ("<!--accepted-->", figures.accepted),
        ];
        let text = numbers.iter().fold(self.text.clone(), |text, (place, number)| {
            text.replacen(place, &number.to_string(), 1)
        });
        x.disposition.set_status(200);
        let headers = &mut x.response.headers;
        headers.set_known(Known::ContentType, b"text/html; charset=utf-8");
        headers.set_known(Known::CacheControl, b"no-cache");
        headers.push(b"Content-Security-Policy", self.policy.as_bytes());
        headers.push(b"Referrer-Policy", b"no-referrer");
        headers.push(b"X-Content-Type-Options", b"nosniff");
        Step::Respond(Body::from(Bytes::from(text)))
    }
}

/// The attribute of the page with the API's path.
const API: &str = "content=\"/api\"";

/// Returns the page's text between two tags.
fn between(open: &str, close: &str) -> &'static str {
    let behind = PAGE.split_once(open).map_or("", |(_, behind)| behind);
    behind.split_once(close).map_or("", |(text, _)| text)
}

/// Returns the hash by which a policy names a style or a script. Source: Content Security Policy Level 3, section 2.3.1.
fn digest(text: &str) -> String {
    let mut encoded = Vec::new();
    encode_base64(&Sha256::digest(text.as_bytes()), &mut encoded);
    // 32 bytes: one character of padding.
    format!("sha256-{}=", String::from_utf8_lossy(&encoded))
}
