//! `gzip_static`, `brotli_static`, `zstd_static`: precompressed files.
//!
//! ```nginx
//! location /assets/ {
//!     brotli_static on;
//!     gzip_static   on;
//!     gzip_vary     on;
//! }
//! ```
//! A request for `style.css` gets `style.css.br`, `style.css.zst` or `style.css.gz`, in this order, where that
//! exists and the client accepts it. `gzip_http_version`, `gzip_proxied`, `gzip_disable` and `gzip_vary` apply to
//! all of them. `brotli_static` and `zstd_static` are Tidegate's, named after common third-party modules of nginx.

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

use super::files::{self, PathProbe, WouldBlock};
use super::gzip::accept::CompressionRules;
use super::static_files::{EntryKind, head, is_absent, is_refused, whole};

/// `ngx_http_gzip_static_module`, and the same for two more codings.
pub(crate) struct GzipStatic;

/// The directives of one block as written.
#[derive(Default)]
pub(crate) struct Conf {
    brotli: Option<StaticMode>,
    zstd: Option<StaticMode>,
    gzip: Option<StaticMode>,
}

/// When a compressed file is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StaticMode {
    Off,
    /// To clients that accept it.
    On,
    /// To all clients.
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
        let sibling = |mode: Option<StaticMode>, coding, extension| match mode {
            None | Some(StaticMode::Off) => None,
            Some(mode) => Some(Sibling { coding, extension, always: mode == StaticMode::Always }),
        };
        // In order of expected size, the smallest first.
        let siblings = [
            sibling(conf.brotli, "br", ".br"),
            sibling(conf.zstd, "zstd", ".zst"),
            sibling(conf.gzip, "gzip", ".gz"),
        ];
        let siblings: Vec<Sibling> = siblings.into_iter().flatten().collect();
        if !siblings.is_empty() {
            let handler = files::handler(move |x, probe| respond(&siblings, x, probe));
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
        "Whether `file.gz` is sent for `file`: off, on (to clients that accept it), always.",
        |conf, args| set(&mut conf.gzip, args),
    ),
    row(
        "brotli_static",
        ALL,
        Arity::ONE,
        "off",
        "Whether `file.br` is sent for `file`: off, on (to clients that accept it), always.",
        |conf, args| set(&mut conf.brotli, args),
    ),
    row(
        "zstd_static",
        ALL,
        Arity::ONE,
        "off",
        "Whether `file.zst` is sent for `file`: off, on (to clients that accept it), always.",
        |conf, args| set(&mut conf.zstd, args),
    ),
];

fn set(slot: &mut Option<StaticMode>, args: &Args<'_>) -> Result<(), Diagnostic> {
    let modes = [("off", StaticMode::Off), ("on", StaticMode::On), ("always", StaticMode::Always)];
    once(slot, args.choice(0, &modes)?, args)
}

/// One kind of precompressed files.
struct Sibling {
    coding: &'static str,
    extension: &'static str,
    always: bool,
}

/// Sends the first of a file's compressed siblings that exists and that the client accepts.
///
/// Run again from the sibling that it has reached where a test may wait for a disk ([`PathProbe`]): header fields are
/// therefore only set where a sibling was found. `Vary` is added where a client that accepts it would get another
/// one, and not under `always`. A sibling that cannot be read is logged and skipped. Sources: `gzip_static`,
/// `gzip_vary`, RFC 9110 section 12.5.3.
fn respond(
    siblings: &[Sibling],
    x: &mut Exchange,
    probe: &mut PathProbe,
) -> Result<Step<'static>, WouldBlock> {
    if !matches!(x.request.method, Method::Get | Method::Head) || x.request.path.ends_with(b"/") {
        return Ok(Step::Decline);
    }
    let location = x.location_ref();
    let rules = location.extensions.of::<Arc<CompressionRules>>();
    let mut path = None;
    for (index, sibling) in siblings.iter().enumerate().skip(probe.from()) {
        probe.reach(index);
        let taken =
            sibling.always || rules.is_some_and(|rules| rules.allow(x, sibling.coding.as_bytes()));
        // For this client the sibling only adds `Vary`, so that caches know that the response depends on the
        // client.
        if !taken && !rules.is_some_and(|rules| rules.vary()) {
            continue;
        }
        let path = path.get_or_insert_with(|| file_path::map(x));
        let Some(path) = path else { return Ok(Step::Status(500)) };
        let file_end = path.len();
        path.extend_from_slice(sibling.extension.as_bytes());
        let entry = probe.open(x, path)?;
        match &entry.what {
            EntryKind::File(file) => {
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
            EntryKind::Failed(errno) if !is_absent(*errno) => log_failure(x, path, *errno),
            EntryKind::Failed(_) | EntryKind::Directory | EntryKind::Other => {}
        }
        path.truncate(file_end);
    }
    Ok(Step::Decline)
}

/// Logs that a file cannot be read and is skipped.
fn log_failure(x: &Exchange, path: &[u8], errno: i32) {
    let level = if is_refused(errno) { Level::Error } else { Level::Crit };
    let path = String::from_utf8_lossy(path);
    let error = os_error(&std::io::Error::from_raw_os_error(errno));
    x.log(level, format_args!("open() \"{path}\" failed ({error})"));
}
