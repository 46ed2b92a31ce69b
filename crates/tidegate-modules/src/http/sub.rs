//! `sub_filter`: replaces strings in responses.
//!
//! ```nginx
//! sub_filter 'href="http://127.0.0.1:8080/' 'href="https://$host/';
//! sub_filter_once off;
//! ```
//! Strings are matched without regard to case, also where they are spread over several chunks of the body. Of
//! several that begin at the same offset the first in the configuration is taken.

mod filter;
mod search;
#[cfg(test)]
mod tests;

use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Word, once, row};
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::{BlockInfo, Module};

use super::media_types::MediaTypes;
use filter::SubFilter;

/// `ngx_http_sub_module`.
pub(crate) struct Sub;

/// The directives of one block as written.
#[derive(Default)]
pub(crate) struct Conf {
    /// Strings and their replacements.
    pairs: Option<Vec<(Word, Word)>>,
    types: Option<MediaTypes>,
    once: Option<bool>,
    keep_last_modified: Option<bool>,
}

impl Module for Sub {
    type Conf = Conf;
    const NAME: &'static str = "sub";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        child.pairs = child.pairs.take().or_else(|| parent.pairs.clone());
        child.types = child.types.take().or_else(|| parent.types.clone());
        child.once = child.once.or(parent.once);
        child.keep_last_modified = child.keep_last_modified.or(parent.keep_last_modified);
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        let Some(pairs) = &conf.pairs else { return Ok(()) };
        let mut compiled = Vec::with_capacity(pairs.len());
        for (pattern, replacement) in pairs {
            let pattern = location.plan.template(pattern)?;
            compiled.push((pattern, location.plan.template(replacement)?));
        }
        let filter = SubFilter {
            pairs: compiled,
            types: conf.types.clone().unwrap_or_else(|| MediaTypes::of(&["text/html"])),
            once: conf.once.unwrap_or(true),
            keep_last_modified: conf.keep_last_modified.unwrap_or(false),
        };
        location.plan.show(&filter);
        location.filter(Box::new(move |x, body| filter.apply(x, body)));
        Ok(())
    }
}

const CONTEXTS: Contexts = Contexts::HTTP_SERVER_LOCATION;

const ROWS: &[Directive<Conf>] = &[
    row(
        "sub_filter",
        CONTEXTS,
        Arity::TWO,
        "",
        "String to replace, and its replacement; both may have variables.",
        add_pair,
    ),
    row(
        "sub_filter_types",
        CONTEXTS,
        Arity::AT_LEAST_ONE,
        "text/html",
        "Media types to replace in beside text/html; `*` for all.",
        |conf, args| MediaTypes::read(&mut conf.types, args),
    ),
    row(
        "sub_filter_once",
        CONTEXTS,
        Arity::FLAG,
        "on",
        "Replace each string once, not wherever it is.",
        |conf, args| once(&mut conf.once, args.flag(0)?, args),
    ),
    row(
        "sub_filter_last_modified",
        CONTEXTS,
        Arity::FLAG,
        "off",
        "Whether `Last-Modified` and a weak entity tag of the original are kept.",
        |conf, args| once(&mut conf.keep_last_modified, args.flag(0)?, args),
    ),
];

fn add_pair(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    if args.bytes(0).is_empty() {
        return Err(args.error(0, "empty search pattern"));
    }
    let pair = (args.word(0).clone(), args.word(1).clone());
    conf.pairs.get_or_insert_default().push(pair);
    Ok(())
}
