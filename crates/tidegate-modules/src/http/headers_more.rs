//! `more_set_headers`, `more_clear_headers`, `more_set_input_headers`, `more_clear_input_headers`: set and removed
//! fields of responses and requests, in the syntax of the module headers-more.
//!
//! ```nginx
//! more_set_headers       'Server: edge' 'X-Frame-Options: DENY';
//! more_set_headers       -s '404 500' -t 'text/html' 'X-Robots-Tag: noindex';
//! more_clear_headers     'X-Powered-By' 'X-Internal-*';
//! more_set_input_headers -r 'User-Agent: unknown';
//! ```
//! Rules of outer blocks run before those of inner ones, each in its order. Fields of responses are changed before
//! `add_header` adds its own, those of requests at the end of the rewrite phase.

mod conf;
mod input;
mod output;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use tidegate_codec::Known;
use tidegate_conf::{Arity, Contexts, Diagnostic, Directive, row};
use tidegate_core::{Phase, Template};
use tidegate_plan::module::{BlockInfo, Module};
use tidegate_plan::{LocationBuilder, PlanBuilder};

use conf::{Conf, FieldConf, Mode, Options, RuleConf};

/// The module headers-more.
pub(crate) struct HeadersMore;

impl Module for HeadersMore {
    type Conf = Conf;
    const NAME: &'static str = "headers_more";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        child.output.splice(0..0, parent.output.iter().cloned());
        child.input.splice(0..0, parent.input.iter().cloned());
    }

    fn prepare_http(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        plan.diagnostics.extend(conf.warnings.iter().cloned());
        Ok(())
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        location.plan.diagnostics.extend(conf.warnings.iter().cloned());
        let output = rules(&conf.output, location.plan)?;
        if !output.is_empty() {
            location.plan.show(&output);
            location.filter(Box::new(move |x, body| output::apply(&output, x, body)));
        }
        let input = rules(&conf.input, location.plan)?;
        if !input.is_empty() {
            location.plan.show(&input);
            location.location.extensions.insert(Arc::new(InputRules(input)));
        }
        // The handler is the location's own, the rules are those of the `if` block that a rewrite has entered.
        let mut of_if =
            location.outline.blocks("if").filter_map(|block| block.conf::<HeadersMore>());
        let has_input = !conf.input.is_empty() || of_if.any(|conf| !conf.input.is_empty());
        if has_input && !location.is_unnamed_block() {
            location.handler(Phase::Rewrite, Box::new(input::apply));
        }
        Ok(())
    }
}

const CONTEXTS: Contexts = Contexts::HTTP_SERVER_LOCATION_IF;

const ROWS: &[Directive<Conf>] = &[
    row(
        "more_set_headers",
        CONTEXTS,
        Arity::AT_LEAST_ONE,
        "",
        "Sets fields `Name: value` of responses, in the place of those of the same name; a field without a value is removed. `-s 'STATUS …'` and `-t 'TYPE …'` restrict it to responses of these statuses and media types, `-a` keeps existing fields.",
        |conf: &mut Conf, args| conf.add_output(args, Mode::Set),
    ),
    row(
        "more_clear_headers",
        CONTEXTS,
        Arity::AT_LEAST_ONE,
        "",
        "Removes fields of responses, also all whose names begin with `Name-*`; `-s` and `-t` as in `more_set_headers`.",
        |conf: &mut Conf, args| conf.add_output(args, Mode::Clear),
    ),
    row(
        "more_set_input_headers",
        CONTEXTS,
        Arity::AT_LEAST_ONE,
        "",
        "Sets fields `Name: value` of requests at the end of the rewrite phase; a field without a value is removed. `-r` changes existing fields only, `-t 'TYPE …'` restricts it to requests of these media types.",
        |conf: &mut Conf, args| conf.add_input(args, Mode::Set),
    ),
    row(
        "more_clear_input_headers",
        CONTEXTS,
        Arity::AT_LEAST_ONE,
        "",
        "Removes fields of requests at the end of the rewrite phase, also all whose names begin with `Name-*`; `-t` as in `more_set_input_headers`.",
        |conf: &mut Conf, args| conf.add_input(args, Mode::Clear),
    ),
];

/// One compiled directive.
#[derive(Debug)]
struct Rule {
    options: Options,
    changes: Box<[Change]>,
}

/// A change of one name.
#[derive(Debug)]
enum Change {
    Set {
        name: Name,
        value: Template,
    },
    Clear(Name),
    /// All fields whose names begin so, those excepted that the server itself makes.
    ClearPrefix(Bytes),
}

/// The name of a field.
#[derive(Clone, Debug)]
struct Name {
    text: Bytes,
    known: Known,
}

/// The rules for requests of a location.
struct InputRules(Vec<Rule>);

fn rules(rules: &[RuleConf], plan: &mut PlanBuilder<'_>) -> Result<Vec<Rule>, Diagnostic> {
    let compiled = rules.iter().map(|rule| {
        let changes = rule.fields.iter().map(|field| change(field, plan));
        let changes = changes.collect::<Result<Box<[Change]>, Diagnostic>>()?;
        Ok(Rule { options: rule.options.clone(), changes })
    });
    compiled.collect()
}

fn change(field: &FieldConf, plan: &mut PlanBuilder<'_>) -> Result<Change, Diagnostic> {
    if let Some(prefix) = field.name.strip_suffix(b"*") {
        return Ok(Change::ClearPrefix(Bytes::copy_from_slice(prefix)));
    }
    let name = Name { text: Bytes::copy_from_slice(&field.name), known: Known::of(&field.name) };
    Ok(match &field.value[..] {
        [] => Change::Clear(name),
        value => Change::Set { name, value: plan.template_text(value, field.span)? },
    })
}

impl Options {
    /// Returns whether a media type is one of `-t`. Parameters of the type do not count.
    fn fit_type(&self, media_type: Option<&[u8]>) -> bool {
        let essence = media_type.unwrap_or_default().split(|byte| *byte == b';').next();
        let essence = essence.unwrap_or_default().trim_ascii();
        self.types.is_empty() || self.types.iter().any(|one| one.eq_ignore_ascii_case(essence))
    }

    /// Returns whether a status is one of `-s`.
    fn fit_status(&self, status: u16) -> bool {
        self.statuses.is_empty() || self.statuses.contains(&status)
    }
}
