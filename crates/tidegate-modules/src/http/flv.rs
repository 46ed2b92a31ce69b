//! `flv`: Flash video from a byte offset on (`?start=N`), with the format's header in front so that players accept
//! it as a complete file.

#[cfg(test)]
mod tests;

use bytes::Bytes;
use tidegate_codec::range::ByteRange;
use tidegate_conf::{Arity, Contexts, Diagnostic, Directive, row};
use tidegate_core::{Body, Exchange};
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::Module;

use super::static_files::{OpenFile, part, serve, whole};

/// `ngx_http_flv_module`.
pub(crate) struct Flv;

#[derive(Default)]
pub(crate) struct Conf {
    on: Option<()>,
}

/// Signature, version 1, audio and video flags, header length 9, and the first back pointer.
const HEADER: &[u8] = b"FLV\x01\x05\0\0\0\x09\0\0\0\0";

impl Module for Flv {
    type Conf = Conf;
    const NAME: &'static str = "flv";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[&[row(
        "flv",
        Contexts::LOCATION,
        Arity::NONE,
        "",
        "Serves Flash video files from the byte that the `start` argument names.",
        |conf, _args| {
            conf.on = Some(());
            Ok(())
        },
    )]];

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        if conf.on.is_some() {
            location.content(Box::new(|x| serve(x, body)));
        }
        Ok(())
    }
}

/// Makes a body of the header and the file from `start` on; the whole file if `start` is absent or behind its end.
fn body(x: &mut Exchange, file: &OpenFile) -> Body {
    match start(&x.request.args).filter(|start| *start > 0 && *start < file.size) {
        None => whole(x, "", file),
        Some(start) => {
            part(x, file, Bytes::from_static(HEADER), ByteRange { start, end: file.size })
        }
    }
}

/// Parses the `start` argument.
fn start(args: &[u8]) -> Option<u64> {
    let value = args.split(|byte| *byte == b'&').find_map(|arg| arg.strip_prefix(b"start="))?;
    std::str::from_utf8(value).ok()?.parse().ok()
}
