//! `autoindex`: listings of directories that have no index file.
//!
//! ```nginx
//! location /pub/ {
//!     autoindex            on;
//!     autoindex_exact_size off;
//!     autoindex_format     html;
//! }
//! ```
//! The directory is read, sorted and rendered (`page.rs`) on a pool thread; hidden files are left out.

mod page;
mod read;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use tidegate_codec::Known;
use tidegate_codec::request::Method;
use tidegate_conf::{Arity, Contexts, Diagnostic, Directive, once, row};
use tidegate_core::{Body, Exchange, Level, Phase, Step, blocking, file_path};
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::{BlockInfo, Module};

use super::{charset, files};
use page::ListFormat;

/// `ngx_http_autoindex_module`.
pub(crate) struct Autoindex;

/// The directives of one block as written.
#[derive(Default)]
pub(crate) struct Conf {
    on: Option<bool>,
    exact_size: Option<bool>,
    localtime: Option<bool>,
    format: Option<Format>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Html,
    Xml,
    Json,
    Jsonp,
}

impl Module for Autoindex {
    type Conf = Conf;
    const NAME: &'static str = "autoindex";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        child.on = child.on.or(parent.on);
        child.exact_size = child.exact_size.or(parent.exact_size);
        child.localtime = child.localtime.or(parent.localtime);
        child.format = child.format.or(parent.format);
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        if conf.on == Some(true) {
            let listing = Listing {
                exact_size: conf.exact_size.unwrap_or(true),
                localtime: conf.localtime.unwrap_or(false),
                format: conf.format.unwrap_or(Format::Html),
            };
            location.plan.show(&listing);
            location.handler(Phase::Content, Box::new(move |x| listing.respond(x)));
        }
        Ok(())
    }
}

const ALL: Contexts = Contexts::HTTP_SERVER_LOCATION;

const ROWS: &[Directive<Conf>] = &[
    row(
        "autoindex",
        ALL,
        Arity::FLAG,
        "off",
        "Whether a list of its files is sent for a directory without an index file.",
        |conf, args| once(&mut conf.on, args.flag(0)?, args),
    ),
    row(
        "autoindex_exact_size",
        ALL,
        Arity::FLAG,
        "on",
        "Whether sizes are shown in bytes, or rounded to kilobytes, megabytes and gigabytes (HTML only).",
        |conf, args| once(&mut conf.exact_size, args.flag(0)?, args),
    ),
    row(
        "autoindex_localtime",
        ALL,
        Arity::FLAG,
        "off",
        "Whether times are local ones or UTC (HTML only).",
        |conf, args| once(&mut conf.localtime, args.flag(0)?, args),
    ),
    row(
        "autoindex_format",
        ALL,
        Arity::ONE,
        "html",
        "Form of the list: html, xml, json, or jsonp, whose function the `callback` argument names.",
        |conf, args| {
            let formats = [
                ("html", Format::Html),
                ("xml", Format::Xml),
                ("json", Format::Json),
                ("jsonp", Format::Jsonp),
            ];
            once(&mut conf.format, args.choice(0, &formats)?, args)
        },
    ),
];

/// The listing settings of a location.
#[derive(Debug, Clone, Copy)]
struct Listing {
    exact_size: bool,
    localtime: bool,
    format: Format,
}

impl Listing {
    fn respond<'x>(&self, x: &'x mut Exchange) -> Step<'x> {
        if !x.request.path.ends_with(b"/")
            || !matches!(x.request.method, Method::Get | Method::Head)
        {
            return Step::Decline;
        }
        let Some(directory) = file_path::map(x) else { return Step::Status(500) };
        let Ok(form) = self.form(x) else { return Step::Status(400) };
        let from = file_path::root_length(x, &directory);
        Step::Wait(Box::pin(async move {
            let (content_type, path) = (form.content_type(), directory.clone());
            let made = blocking::run(move || {
                let entries = read::entries(files::read_directory(&path, from)?)?;
                Ok(page::write(&entries, &form))
            });
            let made = made.await;
            match made {
                Ok(page) => {
                    x.disposition.set_status(200);
                    x.response.headers.set_known(Known::ContentType, content_type);
                    Step::Respond(Body::from(Bytes::from(page)))
                }
                Err(error) => files::directory_failed(x, &directory, &error),
            }
        }))
    }

    /// Returns the format of this request's listing.
    fn form(&self, x: &mut Exchange) -> Result<ListFormat, BadCallback> {
        Ok(match self.format {
            Format::Html => ListFormat::Html {
                path: x.request.path.clone(),
                exact_size: self.exact_size,
                localtime: self.localtime,
                utf8: is_utf8(x),
            },
            Format::Xml => ListFormat::Xml,
            Format::Json => ListFormat::Json { callback: None },
            Format::Jsonp => ListFormat::Json { callback: callback(x)? },
        })
    }
}

/// Returns whether the page will be in UTF-8, where the width of a name is its number of characters.
fn is_utf8(x: &mut Exchange) -> bool {
    x.response.headers.set_known(Known::ContentType, b"text/html");
    charset::of_response(x).is_some_and(|charset| charset.eq_ignore_ascii_case(b"utf-8"))
}

/// The `callback` argument of the client is not a valid function name.
struct BadCallback;

/// Returns the function name in the `callback` argument.
fn callback(x: &mut Exchange) -> Result<Option<Vec<u8>>, BadCallback> {
    let mut name = Vec::new();
    if !x.variable_named(b"arg_callback", &mut name) || name.is_empty() {
        return Ok(None);
    }
    let is_good = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
    if name.len() > CALLBACK_BYTES_MAX || !name.iter().all(is_good) {
        let name = String::from_utf8_lossy(&name);
        x.log(Level::Info, format_args!("client sent invalid callback name: \"{name}\""));
        return Err(BadCallback);
    }
    Ok(Some(name))
}

/// Bytes of the longest function name, as in nginx.
const CALLBACK_BYTES_MAX: usize = 128;
