//! `empty_gif`: a transparent image of one pixel, from memory.
//!
//! ```nginx
//! location = /_.gif { empty_gif; }
//! ```

#[cfg(test)]
mod tests;

use bytes::Bytes;
use tidegate_codec::request::Method;
use tidegate_codec::{Known, date};
use tidegate_conf::{Arity, Contexts, Diagnostic, Directive, row};
use tidegate_core::{Body, Exchange, Step};
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::Module;

/// `ngx_http_empty_gif_module`.
pub(crate) struct EmptyGif;

#[derive(Default)]
pub(crate) struct Conf {
    on: Option<()>,
}

impl Module for EmptyGif {
    type Conf = Conf;
    const NAME: &'static str = "empty_gif";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[&[row(
        "empty_gif",
        Contexts::LOCATION,
        Arity::NONE,
        "",
        "Sends a transparent GIF of one pixel.",
        |conf, _args| {
            conf.on = Some(());
            Ok(())
        },
    )]];

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        if conf.on.is_some() {
            location.content(Box::new(respond));
        }
        Ok(())
    }
}

/// 28 September 1970, 06:00: any old date would do, and this is the one that caches have from nginx.
const MODIFIED: i64 = 23_349_600;

/// GIF header, two colours, the extension that makes the second transparent, and one pixel of it.
const PICTURE: &[u8] = b"GIF89a\x01\0\x01\0\x80\x01\0\0\0\0\xff\xff\xff\
    !\xf9\x04\x01\0\0\x01\0\
    ,\0\0\0\0\x01\0\x01\0\0\x02\x02L\x01\0;";

fn respond(x: &mut Exchange) -> Step<'_> {
    if !matches!(x.request.method, Method::Get | Method::Head) {
        return Step::Status(405);
    }
    x.disposition.set_status(200);
    let response = &mut x.response;
    response.last_modified = Some(MODIFIED);
    response.headers.set_known(Known::ContentType, b"image/gif");
    response.headers.set_known(Known::LastModified, &date::format_http(MODIFIED));
    Step::Respond(Body::Bytes(Bytes::from_static(PICTURE)))
}
