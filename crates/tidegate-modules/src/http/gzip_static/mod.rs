//! `gzip_static`, `brotli_static`, `zstd_static`: files that have been compressed beforehand.
//!
//! ```nginx
//! location /assets/ {
//!     brotli_static on;
//!     gzip_static   on;
//!     gzip_vary     on;
//! }
//! ```
//! `style.css` is answered with `style.css.br`, `style.css.zst` or `style.css.gz` where that exists and the
//! client takes it, in this order. `gzip_http_version`, `gzip_proxied`, `gzip_disable` and `gzip_vary` hold for
//! all of them. The last two directives are Tidegate's, named after modules that many add to nginx.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use tidegate_codec::Known;
use tidegate_codec::request::Method;
use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, once, row};
use tidegate_core::{Exchange, Level, Phase, Step, file_path};
use tidegate_os::os_error;
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::{BlockInfo, Module};

use super::files::{self, Cold, Looks};
use super::gzip::accept::Rules;
use super::static_files::{What, head, is_absent, is_refused, whole};

/// `ngx_http_gzip_static_module`, and the same for two more codings.
pub(crate) struct GzipStatic;

/// Directives as written.
#[derive(Default)]
pub(crate) struct Conf {
    brotli: Option<Mode>,
    zstd: Option<Mode>,
    gzip: Option<Mode>,
}

/// When the compressed file is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Off,
    /// To clients that take it.
    On,
    /// To all.
    Always,
}

impl Module for GzipStatic {
    type Conf = Conf;
    const NAME: &'static str = "gzip_static";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        child.brotli = child.brotli.or(parent.brotli);
        child.zstd = child.zstd.or(parent.zstd);
        child.gzip = child.gzip.or(parent.gzip);
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        let sibling = |mode: Option<Mode>, coding, extension| match mode {
            None | Some(Mode::Off) => None,
            Some(mode) => Some(Sibling { coding, extension, always: mode == Mode::Always }),
        };
        // The smallest first.
        let siblings = [
            sibling(conf.brotli, "br", ".br"),
            sibling(conf.zstd, "zstd", ".zst"),
            sibling(conf.gzip, "gzip", ".gz"),
        ];
        let siblings: Vec<Sibling> = siblings.into_iter().flatten().collect();
        if !siblings.is_empty() {
            let handler = files::handler(move |x, looks| answer(&siblings, x, looks));
            location.handler(Phase::Content, handler);
        }
        Ok(())
    }
}

const ALL: Contexts = Contexts::HTTP_SERVER_LOCATION;

const ROWS: &[Directive<Conf>] = &[
    row(
        "gzip_static",
        ALL,
        Arity::ONE,
        "off",
        "Whether `file.gz` is sent for `file`: off, on (to clients that take it), always.",
        |conf, args| set(&mut conf.gzip, args),
    ),
    row(
        "brotli_static",
        ALL,
        Arity::ONE,
        "off",
        "Whether `file.br` is sent for `file`: off, on (to clients that take it), always.",
        |conf, args| set(&mut conf.brotli, args),
    ),
    row(
        "zstd_static",
        ALL,
        Arity::ONE,
        "off",
        "Whether `file.zst` is sent for `file`: off, on (to clients that take it), always.",
        |conf, args| set(&mut conf.zstd, args),
    ),
];

fn set(slot: &mut Option<Mode>, args: &Args<'_>) -> Result<(), Diagnostic> {
    let modes = [("off", Mode::Off), ("on", Mode::On), ("always", Mode::Always)];
    once(slot, args.choice(0, &modes)?, args)
}

/// A kind of compressed files.
struct Sibling {
    coding: &'static str,
    extension: &'static str,
    always: bool,
}

/// Sends the first of a file's compressed siblings that is there and that the client takes.
///
/// Run again from the sibling that it has reached, where the disk has to be asked first ([`Looks`]): headers are
/// therefore only set where a sibling was found. `Vary` is added where a client that takes it would get another one,
/// and not under `always`. A sibling that cannot be read is logged and passed over. Sources: `gzip_static`,
/// `gzip_vary`, RFC 9110 section 12.5.3.
fn answer(
    siblings: &[Sibling],
    x: &mut Exchange,
    looks: &mut Looks,
) -> Result<Step<'static>, Cold> {
    if !matches!(x.request.method, Method::Get | Method::Head) || x.request.path.ends_with(b"/") {
        return Ok(Step::Decline);
    }
    let location = x.hold_location();
    let rules = location.extensions.of::<Arc<Rules>>();
    let mut path = None;
    for (index, sibling) in siblings.iter().enumerate().skip(looks.from()) {
        looks.reach(index);
        let taken =
            sibling.always || rules.is_some_and(|rules| rules.allow(x, sibling.coding.as_bytes()));
        // What others get tells caches that this file may come as another.
        if !taken && !rules.is_some_and(|rules| rules.vary()) {
            continue;
        }
        let path = path.get_or_insert_with(|| file_path::map(x));
        let Some(path) = path else { return Ok(Step::Status(500)) };
        let file_end = path.len();
        path.extend_from_slice(sibling.extension.as_bytes());
        let entry = looks.open(x, path)?;
        match &entry.what {
            What::File(file) => {
                if let Some(rules) = rules.filter(|_| !sibling.always) {
                    rules.add_vary(&x.routing, &mut x.response);
                }
                if taken {
                    x.progress.action = "sending response to client";
                    head(x, file);
                    let coding = sibling.coding.as_bytes();
                    x.response.headers.set_known(Known::ContentEncoding, coding);
                    return Ok(Step::Respond(whole(x, sibling.extension, file)));
                }
            }
            What::Failed(errno) if !is_absent(*errno) => complain(x, path, *errno),
            What::Failed(_) | What::Directory | What::Other => {}
        }
        path.truncate(file_end);
    }
    Ok(Step::Decline)
}

/// A file that cannot be read is passed over, and said so.
fn complain(x: &Exchange, path: &[u8], errno: i32) {
    let level = if is_refused(errno) { Level::Error } else { Level::Crit };
    let path = String::from_utf8_lossy(path);
    let error = os_error(&std::io::Error::from_raw_os_error(errno));
    x.log(level, format_args!("open() \"{path}\" failed ({error})"));
}
