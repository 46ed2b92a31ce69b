//! What `limit_req` and `limit_conn` have in common: zones named with a size, keys, levels of log lines.

use std::collections::HashSet;

use tidegate_conf::{Args, Diagnostic, Span, parse_size};
use tidegate_core::builder::PlanBuilder;
use tidegate_core::{Exchange, Level, Template};

/// Longer keys are logged and not limited, as in nginx.
pub const KEY_BYTES_MAX: usize = 65_535;
/// The smallest zone: nginx asks for eight pages.
const ZONE_BYTES_MIN: u64 = 8 * 4096;

/// Levels that `limit_*_log_level` takes.
pub const LEVELS: &[(&str, Level)] = &[
    ("info", Level::Info),
    ("notice", Level::Notice),
    ("warn", Level::Warn),
    ("error", Level::Error),
];

/// A zone as written.
#[derive(Clone, Debug)]
pub struct ZoneText {
    /// The key with its variables.
    pub key: Vec<u8>,
    pub name: String,
    pub bytes: usize,
    pub span: Span,
}

/// Names of all zones of a configuration, whoever declared them.
#[derive(Default)]
pub struct ZoneNames(HashSet<String>);

/// Reads the value of a `zone=name:size` argument: name and size in bytes.
pub fn parse_zone(
    args: &Args<'_>,
    index: usize,
    value: &str,
) -> Result<(String, usize), Diagnostic> {
    let shown = args.word(index).display();
    let size =
        value.rsplit_once(':').and_then(|(name, size)| Some((name, parse_size(size.as_bytes())?)));
    let Some((name, size)) = size else {
        return Err(args.error(index, format!("invalid zone size \"{shown}\"")));
    };
    if size < ZONE_BYTES_MIN {
        return Err(args.error(index, format!("zone \"{shown}\" is too small")));
    }
    Ok((name.to_owned(), usize::try_from(size).unwrap_or(usize::MAX)))
}

/// Records the name of a zone that is there.
pub fn declare(plan: &mut PlanBuilder<'_>, name: &str) {
    plan.shared::<ZoneNames>().0.insert(name.to_owned());
}

/// The error for a zone that a directive uses and its module has not.
pub fn no_zone(plan: &mut PlanBuilder<'_>, name: &str, span: Span) -> Diagnostic {
    let message = match plan.shared::<ZoneNames>().0.contains(name) {
        true => {
            format!("the shared memory zone \"{name}\" is already declared for a different use")
        }
        false => format!("zero size shared memory zone \"{name}\""),
    };
    Diagnostic::emerg(message).at(span)
}

/// Writes a request's key behind `out`; `false`, with nothing written, if the request is not limited by it.
pub fn write_key(key: &Template, x: &mut Exchange, out: &mut Vec<u8>) -> bool {
    let start = out.len();
    key.write(x, out);
    let length = out.len() - start;
    if length > KEY_BYTES_MAX {
        out.truncate(start);
        x.log(
            Level::Error,
            format_args!("the value of the key is more than {KEY_BYTES_MAX} bytes: {length} bytes"),
        );
        return false;
    }
    length > 0
}
