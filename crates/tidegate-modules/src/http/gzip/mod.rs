//! `gzip`: compresses answers for clients that take it.
//!
//! ```nginx
//! gzip            on;
//! gzip_comp_level 5;
//! gzip_types      text/css application/javascript application/json;
//! gzip_proxied    any;
//! ```
//! A compressed answer has no length and no ranges, and its entity tag is a weak one. What an origin
//! sends slowly reaches the client as it comes: the compressor is flushed whenever nothing more is there.

pub mod accept;
mod conf;
mod filter;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tidegate_conf::{Arity, Contexts, Diagnostic, Directive, once};
use tidegate_core::Exchange;
use tidegate_core::builder::LocationBuilder;
use tidegate_core::module::{BlockInfo, Module};
use tidegate_core::variables::Variable;

use super::media_types::MediaTypes;
use super::row;
use accept::Rules;
use conf::Conf;
use filter::{GzipFilter, Sizes};
pub use filter::{body_of_unknown_length, weaken_etag};

/// `ngx_http_gzip_filter_module`, and the core's directives that modules with compressed answers share.
pub struct Gzip;

impl Module for Gzip {
    type Conf = Conf;
    const NAME: &'static str = "gzip";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS, SHARED_ROWS];
    const VARIABLES: &'static [Variable] = &[Variable::fixed("gzip_ratio", ratio)];

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        child.inherit(parent);
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        let rules = Arc::new(Rules::compile(conf, location.plan)?);
        location.location.extensions.insert(rules.clone());
        if conf.enabled == Some(true) {
            let filter = GzipFilter::new(conf, rules);
            location.filter(Box::new(move |x, body| filter.apply(x, body)));
        }
        Ok(())
    }
}

const CONTEXTS: Contexts = Contexts::HTTP_SERVER_LOCATION;

const ROWS: &[Directive<Conf>] = &[
    row(
        "gzip",
        Contexts::HTTP_SERVER_LOCATION_IF,
        Arity::FLAG,
        "off",
        "Compress answers for clients that accept it.",
        |conf, args| once(&mut conf.enabled, args.flag(0)?, args),
    ),
    row(
        "gzip_comp_level",
        CONTEXTS,
        Arity::ONE,
        "1",
        "Effort from 1, fast, to 9, small.",
        |conf, args| once(&mut conf.level, args.number(0, 1..=9)? as u32, args),
    ),
    row(
        "gzip_types",
        CONTEXTS,
        Arity::AT_LEAST_ONE,
        "text/html",
        "Media types to compress beside text/html; `*` for all.",
        |conf, args| MediaTypes::read(&mut conf.types, args),
    ),
    row(
        "gzip_min_length",
        CONTEXTS,
        Arity::ONE,
        "20",
        "Answers announced to be shorter stay as they are.",
        |conf, args| once(&mut conf.length_min, args.size(0)?, args),
    ),
    row(
        "gzip_buffers",
        CONTEXTS,
        Arity::TWO,
        "32 4k",
        "Accepted for nginx's sake: output is made piece by piece as the client takes it.",
        conf::buffers,
    ),
    row(
        "gzip_window",
        CONTEXTS,
        Arity::ONE,
        "32k",
        "How far back repetitions are looked for: a power of two from 512 to 32k.",
        |conf, args| {
            let bits = conf::power(args, 9..=15, "must be 512, 1k, 2k, 4k, 8k, 16k, or 32k")?;
            once(&mut conf.window_bits, bits, args)
        },
    ),
    row(
        "gzip_hash",
        CONTEXTS,
        Arity::ONE,
        "128k",
        "Accepted for nginx's sake: the compressor chooses its table itself.",
        |conf, args| {
            let bits =
                conf::power(args, 9..=17, "must be 512, 1k, 2k, 4k, 8k, 16k, 32k, 64k, or 128k")?;
            once(&mut conf.hash_bits, bits, args)
        },
    ),
    row(
        "postpone_gzipping",
        CONTEXTS,
        Arity::ONE,
        "0",
        "Accepted for nginx's sake: nothing is held back for it.",
        |conf, args| once(&mut conf.postponed, args.size(0)?, args),
    ),
    row(
        "gzip_no_buffer",
        CONTEXTS,
        Arity::FLAG,
        "off",
        "Accepted for nginx's sake: output is never held back.",
        |conf, args| once(&mut conf.unbuffered, args.flag(0)?, args),
    ),
];

/// Directives of nginx's core that `gzip_static` and `gunzip` go by as well.
const SHARED_ROWS: &[Directive<Conf>] = &[
    row(
        "gzip_http_version",
        CONTEXTS,
        Arity::ONE,
        "1.1",
        "Lowest version of requests whose answers are compressed: 1.0 or 1.1.",
        conf::http_version,
    ),
    row(
        "gzip_proxied",
        CONTEXTS,
        Arity::AT_LEAST_ONE,
        "off",
        "Which answers to compress for requests that came through a proxy (with `Via`).",
        conf::proxied,
    ),
    row(
        "gzip_disable",
        CONTEXTS,
        Arity::AT_LEAST_ONE,
        "",
        "Regular expressions of user agents that get nothing compressed; `msie6` for old Internet Explorers.",
        conf::disable,
    ),
    row(
        "gzip_vary",
        CONTEXTS,
        Arity::FLAG,
        "off",
        "Add `Vary: Accept-Encoding` where compression depends on the client.",
        |conf, args| once(&mut conf.vary, args.flag(0)?, args),
    ),
];

/// `$gzip_ratio`: original size by compressed size, rounded to hundredths.
fn ratio(x: &mut Exchange, out: &mut Vec<u8>) -> bool {
    let Some(ratio) = x.extensions.of::<Sizes>().and_then(Sizes::ratio_hundredths) else {
        return false;
    };
    out.extend_from_slice(format!("{}.{:02}", ratio / 100, ratio % 100).as_bytes());
    true
}
