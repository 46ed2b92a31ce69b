//! `valid_referers`: whether a request was linked from one of the valid pages.
//!
//! ```nginx
//! valid_referers none blocked server_names *.example.com example.org/galleries/ ~\.google\.;
//! if ($invalid_referer) { return 403; }
//! ```
//! `Referer` is easily forged: this works against the mass of browsers, not against a single client.

mod logic;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tidegate_codec::Known;
use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Span, Word, once, row};
use tidegate_core::host_names::AddNameError;
use tidegate_core::variables::Variable;
use tidegate_plan::module::{BlockInfo, Module};
use tidegate_plan::{LocationBuilder, PlanBuilder};

use logic::RefererRules;

/// `ngx_http_referer_module`.
pub(crate) struct Referer;

/// The directives of one block.
#[derive(Default)]
pub(crate) struct Conf {
    valid: Vec<Word>,
    hash_max_size: Option<u64>,
    hash_bucket_size: Option<u64>,
}

impl Module for Referer {
    type Conf = Conf;
    const NAME: &'static str = "referer";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];
    const VARIABLES: &'static [Variable] = &[Variable::replaceable(
        "invalid_referer",
        "`1` if the `Referer` field is not one that `valid_referers` names, else empty.",
        |x, out| {
            let Some(rules) = x.location().extensions.of::<Arc<RefererRules>>() else {
                return true;
            };
            if !rules.allow(x.request.header(Known::Referer)) {
                out.push(b'1');
            }
            true
        },
    )];

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        if child.valid.is_empty() {
            child.valid.clone_from(&parent.valid);
        }
        child.hash_max_size = child.hash_max_size.or(parent.hash_max_size);
        child.hash_bucket_size = child.hash_bucket_size.or(parent.hash_bucket_size);
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        if conf.valid.is_empty() {
            return Ok(());
        }
        let mut rules = RefererRules::default();
        for word in &conf.valid {
            add(&mut rules, word, location.plan)?;
        }
        rules.finish();
        let matches_nothing = |word: &Word| {
            matches!(&word.bytes[..], b"none" | b"blocked") || word.bytes.starts_with(b"~")
        };
        let is_general = |word: &Word| matches!(&word.bytes[..], b"none" | b"blocked");
        if let Some(word) = conf.valid.iter().find(|word| is_general(word))
            && conf.valid.iter().all(matches_nothing)
        {
            let message = "the \"none\" or \"blocked\" referers are specified in the \"valid_referers\" \
                           directive without any valid referer";
            return Err(
                error(message.to_owned(), word.span).help("name a host as well, or `server_names`")
            );
        }
        let sizes = [("max_size", conf.hash_max_size), ("bucket_size", conf.hash_bucket_size)];
        if let Some((name, _)) = sizes.iter().find(|(_, size)| *size == Some(0))
            && let Some(word) = conf.valid.iter().find(|word| !matches_nothing(word))
        {
            let message =
                format!("could not build referer_hash, you should increase referer_hash_{name}: 0");
            return Err(error(message, word.span));
        }
        location.location.extensions.insert(Arc::new(rules));
        Ok(())
    }
}

const CONTEXTS: Contexts = Contexts::SERVER.union(Contexts::LOCATION);

const ROWS: &[Directive<Conf>] = &[
    row(
        "valid_referers",
        CONTEXTS,
        Arity::AT_LEAST_ONE,
        "",
        "Valid values of `Referer`: `none` (no field), `blocked` (a value that is no address), `server_names`, hosts with or without the beginning of a path, regular expressions with `~`.",
        |conf, args| {
            conf.valid.extend_from_slice(args.words());
            Ok(())
        },
    ),
    row::<Conf>(
        "referer_hash_max_size",
        CONTEXTS,
        Arity::ONE,
        "2048",
        "Largest hash table of referers; tables grow as needed, so it has no effect.",
        |conf, args| once(&mut conf.hash_max_size, number(args)?, args),
    )
    .without_effect(),
    row::<Conf>(
        "referer_hash_bucket_size",
        CONTEXTS,
        Arity::ONE,
        "64",
        "Bucket size of the hash table of referers; without effect.",
        |conf, args| once(&mut conf.hash_bucket_size, number(args)?, args),
    )
    .without_effect(),
];

fn number(args: &Args<'_>) -> Result<u64, Diagnostic> {
    args.number(0, 0..=u64::MAX)
}

/// Adds one word of `valid_referers`.
///
/// Invariant: a host is unique, except for those of `server_names`, which may be listed explicitly as well. A path
/// behind a host is a prefix; a text behind `~` is a regular expression for what follows the scheme. Source:
/// `valid_referers`.
fn add(
    rules: &mut RefererRules,
    word: &Word,
    plan: &mut PlanBuilder<'_>,
) -> Result<(), Diagnostic> {
    match &word.bytes[..] {
        b"none" => rules.none = true,
        b"blocked" => rules.blocked = true,
        b"server_names" => {
            for name in plan.server_names.clone() {
                match &name.bytes[..] {
                    [b'~', regex @ ..] => {
                        let regex = plan.regex(regex, true, name.span)?;
                        rules.server_regexes.push(regex, ());
                    }
                    // A server name that is listed explicitly as well is already valid.
                    host => drop(rules.add_host(host, None)),
                }
            }
        }
        [b'~', regex @ ..] => {
            let regex = plan.regex(regex, true, word.span)?;
            rules.regexes.push(regex, ());
        }
        b"" => return Err(error("invalid referer \"\"".to_owned(), word.span)),
        text => {
            let (host, path) = match text.iter().position(|byte| *byte == b'/') {
                Some(slash) => (&text[..slash], Some(&text[slash..])),
                None => (text, None),
            };
            let shown = String::from_utf8_lossy(host);
            match rules.add_host(host, path) {
                Ok(()) => {}
                Err(AddNameError::Invalid) => {
                    let message = format!("invalid hostname or wildcard \"{shown}\"");
                    return Err(error(message, word.span));
                }
                Err(AddNameError::Known(_)) => {
                    return Err(error(format!("conflicting parameter \"{shown}\""), word.span));
                }
            }
        }
    }
    Ok(())
}

fn error(message: String, span: Span) -> Diagnostic {
    Diagnostic::emerg(message).at(span)
}
