//! The directives: a set for each content coding, those of single codings, and the shared ones.

use tidegate_conf::{Arity, Contexts, Directive, once, row, with_prefix};

use super::conf::{self, Conf};
use crate::http::media_types::MediaTypes;

const CONTEXTS: Contexts = Contexts::HTTP_SERVER_LOCATION;

/// The rows that each coding has, under its prefix.
macro_rules! coding_rows {
    ($prefix:literal, $field:ident, $levels:expr, $level:literal, $effort:literal) => {
        &[
            row(
                $prefix,
                Contexts::HTTP_SERVER_LOCATION_IF,
                Arity::FLAG,
                "off",
                "Compresses responses for clients that accept it.",
                |conf: &mut Conf, args| once(&mut conf.$field.enabled, args.flag(0)?, args),
            ),
            row(
                with_prefix($prefix, ["gzip_comp_level", "brotli_comp_level", "zstd_comp_level"]),
                CONTEXTS,
                Arity::ONE,
                $level,
                $effort,
                |conf, args| once(&mut conf.$field.level, args.number(0, $levels)? as u32, args),
            ),
            row(
                with_prefix($prefix, ["gzip_types", "brotli_types", "zstd_types"]),
                CONTEXTS,
                Arity::AT_LEAST_ONE,
                "text/html",
                "Media types of compressed responses in addition to text/html; `*` for all.",
                |conf, args| MediaTypes::read(&mut conf.$field.types, args),
            ),
            row(
                with_prefix($prefix, ["gzip_min_length", "brotli_min_length", "zstd_min_length"]),
                CONTEXTS,
                Arity::ONE,
                "20",
                "Responses with a shorter `Content-Length` are not compressed.",
                |conf, args| once(&mut conf.$field.length_min, args.size(0)?, args),
            ),
            row::<Conf>(
                with_prefix($prefix, ["gzip_buffers", "brotli_buffers", "zstd_buffers"]),
                CONTEXTS,
                Arity::TWO,
                "32 4k",
                "Accepted for nginx's sake: output is made piece by piece as the client takes it.",
                |conf, args| conf::buffers(&mut conf.$field, args),
            )
            .without_effect(),
        ]
    };
}

pub(super) const GZIP: &[Directive<Conf>] =
    coding_rows!("gzip", gzip, 1..=9, "1", "Effort from 1, fast, to 9, small.");

pub(super) const BROTLI: &[Directive<Conf>] =
    coding_rows!("brotli", brotli, 0..=11, "6", "Effort from 0, fast, to 11, small and very slow.");

pub(super) const ZSTD: &[Directive<Conf>] =
    coding_rows!("zstd", zstd, 1..=22, "1", "Effort from 1, fast, to 22, small and very slow.");

pub(super) const BROTLI_ONLY: &[Directive<Conf>] = &[row(
    "brotli_window",
    CONTEXTS,
    Arity::ONE,
    "512k",
    "How far back repetitions are looked for: a power of two from 1k to 16m.",
    |conf, args| {
        let bits = conf::power(args, 10..=24, "must be a power of two from 1k to 16m")?;
        once(&mut conf.brotli.window_bits, bits, args)
    },
)];

pub(super) const GZIP_ONLY: &[Directive<Conf>] = &[
    row(
        "gzip_window",
        CONTEXTS,
        Arity::ONE,
        "32k",
        "How far back repetitions are looked for: a power of two from 512 to 32k.",
        |conf, args| {
            let bits = conf::power(args, 9..=15, "must be 512, 1k, 2k, 4k, 8k, 16k, or 32k")?;
            once(&mut conf.gzip.window_bits, bits, args)
        },
    ),
    row::<Conf>(
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
    )
    .without_effect(),
    row::<Conf>(
        "postpone_gzipping",
        CONTEXTS,
        Arity::ONE,
        "0",
        "Accepted for nginx's sake: nothing is held back for it.",
        |conf, args| once(&mut conf.postponed, args.size(0)?, args),
    )
    .without_effect(),
    row::<Conf>(
        "gzip_no_buffer",
        CONTEXTS,
        Arity::FLAG,
        "off",
        "Accepted for nginx's sake: output is never held back.",
        |conf, args| once(&mut conf.unbuffered, args.flag(0)?, args),
    )
    .without_effect(),
];

/// Directives of nginx's core that `gzip_static` and `gunzip` use as well.
pub(super) const SHARED: &[Directive<Conf>] = &[
    row(
        "gzip_http_version",
        CONTEXTS,
        Arity::ONE,
        "1.1",
        "Lowest HTTP version of requests whose responses are compressed: 1.0 or 1.1.",
        conf::http_version,
    ),
    row(
        "gzip_proxied",
        CONTEXTS,
        Arity::AT_LEAST_ONE,
        "off",
        "Which responses are compressed for requests from a proxy (with `Via`).",
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
        "Whether `Vary: Accept-Encoding` is added to responses whose compression depends on the client.",
        |conf, args| once(&mut conf.vary, args.flag(0)?, args),
    ),
];
