//! The gzip directives of a block as written.

use std::ops::RangeInclusive;

use tidegate_codec::request::Version;
use tidegate_conf::{Args, Diagnostic, Word, once};

use super::accept::Proxied;
use crate::http::media_types::MediaTypes;

/// The directives of one block.
#[derive(Default)]
pub(crate) struct Conf {
    pub gzip: CodingConf,
    pub brotli: CodingConf,
    pub zstd: CodingConf,
    pub http_version: Option<Version>,
    pub proxied: Option<Proxied>,
    pub disable: Option<Vec<Word>>,
    pub vary: Option<bool>,
    // Checked and otherwise unused.
    pub hash_bits: Option<u8>,
    pub postponed: Option<u64>,
    pub unbuffered: Option<bool>,
}

/// The directives that each content coding has.
#[derive(Default)]
pub(crate) struct CodingConf {
    pub enabled: Option<bool>,
    pub level: Option<u32>,
    pub types: Option<MediaTypes>,
    pub length_min: Option<u64>,
    pub window_bits: Option<u8>,
    /// Checked and otherwise unused.
    pub buffers: Option<()>,
}

impl Conf {
    /// Inherits what is not set here.
    pub(crate) fn inherit(&mut self, parent: &Conf) {
        self.gzip.inherit(&parent.gzip);
        self.brotli.inherit(&parent.brotli);
        self.zstd.inherit(&parent.zstd);
        self.http_version = self.http_version.or(parent.http_version);
        self.proxied = self.proxied.or(parent.proxied);
        self.disable = self.disable.take().or_else(|| parent.disable.clone());
        self.vary = self.vary.or(parent.vary);
    }
}

impl CodingConf {
    fn inherit(&mut self, parent: &CodingConf) {
        self.enabled = self.enabled.or(parent.enabled);
        self.level = self.level.or(parent.level);
        self.types = self.types.take().or_else(|| parent.types.clone());
        self.length_min = self.length_min.or(parent.length_min);
        self.window_bits = self.window_bits.or(parent.window_bits);
    }
}

/// Reads a size that is a power of two, and returns its logarithm.
pub(super) fn power(
    args: &Args<'_>,
    bits: RangeInclusive<u8>,
    rule: &str,
) -> Result<u8, Diagnostic> {
    let size = args.size(0)?;
    let exponent = size.trailing_zeros() as u8;
    if size.is_power_of_two() && bits.contains(&exponent) {
        return Ok(exponent);
    }
    Err(args.error(0, format!("\"{}\" directive {rule}", args.name())))
}

/// Reads `gzip_buffers number size` and the same of other codings.
pub(super) fn buffers(conf: &mut CodingConf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let (count, size) = (args.number(0, 0..=u64::MAX)?, args.size(1)?);
    if count == 0 || size == 0 {
        return Err(args.invalid(if count == 0 { 0 } else { 1 }));
    }
    once(&mut conf.buffers, (), args)
}

pub(super) fn http_version(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let version = args.choice(0, &[("1.0", Version::H10), ("1.1", Version::H11)])?;
    once(&mut conf.http_version, version, args)
}

pub(super) fn proxied(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let names = [
        ("off", Proxied::OFF),
        ("expired", Proxied::EXPIRED),
        ("no-cache", Proxied::NO_CACHE),
        ("no-store", Proxied::NO_STORE),
        ("private", Proxied::PRIVATE),
        ("no_last_modified", Proxied::NO_LAST_MODIFIED),
        ("no_etag", Proxied::NO_ETAG),
        ("auth", Proxied::AUTH),
        ("any", Proxied::ANY),
    ];
    let mut all = conf.proxied.unwrap_or(Proxied::NONE);
    for index in 0..args.len() {
        all = all.with(args.choice(index, &names)?);
    }
    conf.proxied = Some(all);
    Ok(())
}

pub(super) fn disable(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    conf.disable.get_or_insert_default().extend_from_slice(args.words());
    Ok(())
}
