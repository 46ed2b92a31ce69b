//! `ssi`: commands in pages: includes, variables, conditions.
//!
//! ```nginx
//! location / { ssi on; }
//! ```
//! ```html
//! <!--#if expr="$arg_user" -->Hello <!--#echo var="arg_user" -->!<!--#endif -->
//! <!--#include virtual="/news.html" stub="none" -->
//! ```
//! Includes begin as soon as they are read, so that several wait for their origins at the same time, and their
//! responses are sent in the page's order. `wait="yes"` and `set` wait before the rest of the page is processed.
//! Unlike nginx's, conditions may be nested.

mod commands;
pub(crate) mod date;
mod error;
mod expression;
mod render;
mod tag;
#[cfg(test)]
mod tests;

use std::rc::Rc;
use std::sync::Arc;

use tidegate_codec::Known;
use tidegate_codec::request::Method;
use tidegate_conf::{Arity, Contexts, Diagnostic, Directive, once, row};
use tidegate_core::byte_body::ByteBody;
use tidegate_core::exchange::{HeadSending, RangeSupport};
use tidegate_core::generated::generate;
use tidegate_core::variables::Variable;
use tidegate_core::{Body, Exchange};
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::{BlockInfo, Module};

use super::media_types::MediaTypes;
use date::ZonedTime;
use render::{Page, Renderer};

/// `ngx_http_ssi_module`.
pub(crate) struct Ssi;

/// The directives of one block.
#[derive(Default)]
pub(crate) struct Conf {
    enabled: Option<bool>,
    silent_errors: Option<bool>,
    min_file_chunk: Option<u64>,
    value_length: Option<u64>,
    last_modified: Option<bool>,
    types: Option<MediaTypes>,
}

/// The settings of a location.
#[derive(Debug)]
struct Settings {
    silent_errors: bool,
    value_bytes_max: usize,
    keeps_last_modified: bool,
    types: MediaTypes,
}

impl Module for Ssi {
    type Conf = Conf;
    const NAME: &'static str = "ssi";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];
    const VARIABLES: &'static [Variable] = &[
        Variable::fixed(
            "date_local",
            "Present time in the local zone, in the format that SSI's `timefmt` sets.",
            |x, out| {
                let unix_seconds = tidegate_rt::clock::unix_seconds();
                let offset = tidegate_rt::clock::local_utc_offset();
                let zone = tidegate_os::time::local_zone_name(unix_seconds);
                write_date(x, &ZonedTime { unix_seconds, offset, zone: &zone }, out)
            },
        ),
        Variable::fixed(
            "date_gmt",
            "Present time in GMT, in the format that SSI's `timefmt` sets.",
            |x, out| {
                let unix_seconds = tidegate_rt::clock::unix_seconds();
                write_date(x, &ZonedTime { unix_seconds, offset: 0, zone: "GMT" }, out)
            },
        ),
    ];

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        child.enabled = child.enabled.or(parent.enabled);
        child.silent_errors = child.silent_errors.or(parent.silent_errors);
        child.value_length = child.value_length.or(parent.value_length);
        child.last_modified = child.last_modified.or(parent.last_modified);
        child.types = child.types.take().or_else(|| parent.types.clone());
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        if !conf.enabled.unwrap_or(false) {
            return Ok(());
        }
        let settings = Arc::new(Settings {
            silent_errors: conf.silent_errors.unwrap_or(false),
            value_bytes_max: conf.value_length.unwrap_or(256) as usize,
            keeps_last_modified: conf.last_modified.unwrap_or(false),
            types: conf.types.clone().unwrap_or_else(|| MediaTypes::of(&["text/html"])),
        });
        location.plan.show(&settings);
        location.filter(Box::new(move |x, body| apply(&settings, x, body)));
        Ok(())
    }
}

const CONTEXTS: Contexts = Contexts::HTTP_SERVER_LOCATION;

const ROWS: &[Directive<Conf>] = &[
    row(
        "ssi",
        Contexts::HTTP_SERVER_LOCATION_IF,
        Arity::FLAG,
        "off",
        "Processes SSI commands in responses.",
        |conf, args| once(&mut conf.enabled, args.flag(0)?, args),
    ),
    row(
        "ssi_silent_errors",
        CONTEXTS,
        Arity::FLAG,
        "off",
        "Whether the error text of a failed command is left out.",
        |conf, args| once(&mut conf.silent_errors, args.flag(0)?, args),
    ),
    row::<Conf>(
        "ssi_min_file_chunk",
        CONTEXTS,
        Arity::ONE,
        "1k",
        "Smallest part of a file worth sending from it; without effect, as parts are sent as they were read.",
        |conf, args| once(&mut conf.min_file_chunk, args.size(0)?, args),
    ).without_effect(),
    row(
        "ssi_value_length",
        CONTEXTS,
        Arity::ONE,
        "256",
        "Longest value of a command's parameter, in bytes.",
        |conf, args| once(&mut conf.value_length, args.size(0)?, args),
    ),
    row(
        "ssi_last_modified",
        CONTEXTS,
        Arity::FLAG,
        "off",
        "Whether `Last-Modified` and a weak `ETag` of the page are kept.",
        |conf, args| once(&mut conf.last_modified, args.flag(0)?, args),
    ),
    row(
        "ssi_types",
        CONTEXTS,
        Arity::AT_LEAST_ONE,
        "text/html",
        "Media types of pages beside text/html; `*` for all.",
        |conf, args| MediaTypes::read(&mut conf.types, args),
    ),
];

/// The present page's `config timefmt`.
struct DateFormat(Vec<u8>);

fn write_date(x: &mut Exchange, moment: &ZonedTime<'_>, out: &mut Vec<u8>) -> bool {
    let chosen = x.modules.extensions.of::<DateFormat>();
    date::format(moment, chosen.map_or(date::DEFAULT_FORMAT, |format| &format.0), out);
    true
}

fn apply(settings: &Arc<Settings>, x: &mut Exchange, body: Body) -> Body {
    let is_head = x.request.head.method == Method::Head;
    let nothing = body.is_empty() && !is_head || x.response.content_length == Some(0);
    if nothing
        || matches!(body, Body::Tunnel(_))
        || !settings.types.matches(x.response.headers.first(Known::ContentType))
    {
        return body;
    }
    change_head(settings, x);
    if is_head && !x.is_subrequest() {
        return Body::of_unknown_length();
    }
    let mut x = x.fork();
    x.progress.action = "sending response to client";
    let page = match x.lineage.inherited.of::<Page>() {
        Some(page) => page,
        None => {
            let page = Rc::<Page>::default();
            x.lineage.inherited.insert(page.clone());
            page
        }
    };
    let renderer = Renderer::new(x, page, settings.clone());
    generate(move |out| renderer.run(ByteBody::new(body), out))
}

/// Removes the length, which is not known, and ranges and validators, which are the file's and not the page's.
fn change_head(settings: &Settings, x: &mut Exchange) {
    // A page that fails before its first byte (`subrequest_output_buffer_size`) must not have sent a head.
    x.delivery.head = HeadSending::WithBody;
    let response = &mut x.response;
    response.content_length = None;
    response.headers.remove(Known::ContentLength);
    response.headers.remove(Known::AcceptRanges);
    response.ranges = RangeSupport::None;
    if !settings.keeps_last_modified {
        response.last_modified = None;
        response.headers.remove(Known::LastModified);
        response.headers.remove(Known::Etag);
    } else if let Some(tag) = response.headers.first(Known::Etag)
        && !tag.starts_with(b"W/")
    {
        let weak = [b"W/", tag].concat();
        response.headers.set_known(Known::Etag, &weak);
    }
}
