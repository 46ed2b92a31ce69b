//! `gzip`, `brotli`, `zstd`: compresses responses for clients that accept it.
//!
//! ```nginx
//! gzip            on;
//! gzip_comp_level 5;
//! gzip_types      text/css application/javascript application/json;
//! gzip_proxied    any;
//! brotli          on;
//! brotli_types    text/css application/javascript application/json;
//! ```
//! Of the codings that are on for a response the one with the largest weight in `Accept-Encoding` is used; of equal
//! ones brotli before zstd before gzip. The directives of brotli and zstd are those of the common third-party
//! modules of nginx; `gzip_vary`, `gzip_proxied`, `gzip_http_version` and `gzip_disable` apply to all codings.
//!
//! A compressed response has no length and no ranges, and its entity tag is weak. A slow origin's bytes reach the
//! client as they arrive: the compressor is flushed whenever its source is pending.

pub(crate) mod accept;
mod codec;
mod conf;
mod filter;
mod rows;
#[cfg(test)]
mod tests;

use tidegate_conf::{Diagnostic, Directive};
use tidegate_core::Exchange;
use tidegate_core::variables::Variable;
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::{BlockInfo, Module};

use accept::CompressionRules;
use codec::Coding;
use conf::Conf;
pub(crate) use filter::weaken_etag;
use filter::{CompressionFilter, Sizes};

/// `ngx_http_gzip_filter_module`, the same for other codings, and the core directives that modules with compressed
/// responses share.
pub(crate) struct Gzip;

impl Module for Gzip {
    type Conf = Conf;
    const NAME: &'static str = "gzip";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] =
        &[rows::GZIP, rows::GZIP_ONLY, rows::BROTLI, rows::BROTLI_ONLY, rows::ZSTD, rows::SHARED];
    const VARIABLES: &'static [Variable] = &[
        Variable::fixed(
            "gzip_ratio",
            "Size of the response before gzip compression divided by its size after it.",
            |x, out| ratio(x, Coding::Gzip, out),
        ),
        Variable::fixed(
            "brotli_ratio",
            "Size of the response before Brotli compression divided by its size after it.",
            |x, out| ratio(x, Coding::Brotli, out),
        ),
        Variable::fixed(
            "zstd_ratio",
            "Size of the response before Zstandard compression divided by its size after \
            it.",
            |x, out| ratio(x, Coding::Zstd, out),
        ),
    ];

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        child.inherit(parent);
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        let compile = |plan: &mut _| CompressionRules::compile(conf, plan);
        let rules = location.plan.made_of(conf, compile)?;
        location.plan.show(&rules);
        location.location.extensions.insert(rules.clone());
        if let Some(filter) = CompressionFilter::new(conf, rules) {
            location.plan.show(&filter);
            location.filter(Box::new(move |x, body| filter.apply(x, body)));
        }
        Ok(())
    }
}

/// Writes `$gzip_ratio` or the like: original size by compressed size, rounded to hundredths.
fn ratio(x: &mut Exchange, coding: Coding, out: &mut Vec<u8>) -> bool {
    let sizes = x.modules.extensions.of::<Sizes>().filter(|sizes| sizes.coding == coding);
    let Some(ratio) = sizes.and_then(Sizes::ratio_hundredths) else { return false };
    out.extend_from_slice(format!("{}.{:02}", ratio / 100, ratio % 100).as_bytes());
    true
}
