//! `$fastcgi_script_name` and `$fastcgi_path_info`: the script that a path names, and the path behind it.

use std::ops::Range;
use std::sync::Arc;

use tidegate_conf::{Diagnostic, Word};
use tidegate_core::Exchange;
use tidegate_core::exchange::Captures;
use tidegate_core::regex::Regex;
use tidegate_core::variables::Variable;
use tidegate_plan::LocationBuilder;

pub(super) const VARIABLES: &[Variable] = &[
    Variable::fixed(
        "fastcgi_script_name",
        "Path of the script: the first capture of `fastcgi_split_path_info`, or \
            `$uri`, with `fastcgi_index` behind a slash.",
        |x, out| {
            let (script, _) = split(x);
            let path = x.request.path.get(script).unwrap_or_default();
            out.extend_from_slice(path);
            if let (true, Some(rule)) = (path.ends_with(b"/"), rule(x)) {
                out.extend_from_slice(&rule.index);
            }
            true
        },
    ),
    Variable::fixed(
        "fastcgi_path_info",
        "Second capture of `fastcgi_split_path_info`.",
        |x, out| {
            let (_, info) = split(x);
            out.extend_from_slice(x.request.path.get(info).unwrap_or_default());
            true
        },
    ),
];

/// The script settings of a location.
struct ScriptRule {
    index: Vec<u8>,
    split: Option<Arc<Regex>>,
}

/// Compiles a block's rule, in all blocks: the variables are not only used in parameters.
pub(super) fn prepare(
    index: Option<&Word>,
    split: Option<&Word>,
    location: &mut LocationBuilder<'_, '_>,
) -> Result<(), Diagnostic> {
    if index.is_none() && split.is_none() {
        return Ok(());
    }
    let split = match split {
        None => None,
        Some(word) => {
            let regex = location.plan.regex(&word.bytes, false, word.span)?;
            if regex.group_count() < 2 {
                let message = format!("pattern \"{}\" must have 2 captures", word.display());
                return Err(Diagnostic::emerg(message).at(word.span));
            }
            Some(regex)
        }
    };
    let index = index.map(|word| word.bytes.clone()).unwrap_or_default();
    location.location.extensions.insert(ScriptRule { index, split });
    Ok(())
}

fn rule(x: &Exchange) -> Option<&ScriptRule> {
    x.plan.location(x.routing.location).extensions.of::<ScriptRule>()
}

/// Splits the path into the script and the path behind it.
fn split(x: &Exchange) -> (Range<usize>, Range<usize>) {
    let path = &x.request.path;
    let whole = (0..path.len(), 0..0);
    let Some(regex) = rule(x).and_then(|rule| rule.split.as_ref()) else { return whole };
    let mut captures = Captures::default();
    // A match that exceeds the limit of steps counts as none.
    if !matches!(regex.capture_into(&mut captures, path), Ok(true)) {
        return whole;
    }
    let group = |number: usize| {
        let (start, end) = captures.ranges.get(number).copied().flatten().unwrap_or((0, 0));
        start..end
    };
    (group(1), group(2))
}
