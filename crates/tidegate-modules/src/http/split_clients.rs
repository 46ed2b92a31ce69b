//! `split_clients`: a variable that splits requests into shares by a hash of a text, for A/B tests.
//!
//! ```nginx
//! split_clients "${remote_addr}AAA" $variant {
//!     0.5% .one;
//!     2.0% .two;
//!     *    "";
//! }
//! ```
//! The hash is MurmurHash2 as nginx documents it, so that a text has the same share as in nginx.

mod murmur;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Kind, Span, Statement, Word};
use tidegate_core::Exchange;
use tidegate_plan::module::Module;
use tidegate_plan::{PlanBuilder, made_variable};

/// `ngx_http_split_clients_module`.
pub(crate) struct SplitClients;

/// All blocks as written.
#[derive(Default)]
pub(crate) struct Conf {
    blocks: Vec<Block>,
}

struct Block {
    text: Word,
    name: String,
    span: Span,
    entries: Arc<Vec<Statement>>,
}

impl Module for SplitClients {
    type Conf = Conf;
    const NAME: &'static str = "split_clients";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];

    fn prepare_http(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        made_variable::define_all(&conf.blocks, plan, define)
    }

    fn prepare_stream(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        SplitClients::prepare_http(conf, plan)
    }
}

const ROWS: &[Directive<Conf>] = &[Directive {
    name: "split_clients",
    contexts: Contexts::HTTP_STREAM,
    args: Arity::TWO,
    kind: Kind::Block,
    default: "",
    doc: "Define a variable by the shares of a text's hash: percentages with values, `*` for the rest.",
    has_effect: true,
    set: |conf: &mut Conf, args: &Args<'_>| {
        conf.blocks.push(Block {
            text: args.word(0).clone(),
            name: made_variable::name(args, 1)?,
            span: args.word(1).span,
            entries: args.shared_entries()?,
        });
        Ok(())
    },
}];

/// Hundredths of a percent in 100 %.
const WHOLE: u64 = 10_000;

/// A share: hashes below `end` that are in no earlier share.
struct Share {
    end: u64,
    value: Box<[u8]>,
}

fn define(block: &Block, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
    made_variable::check_free(plan, &block.name, block.span)?;
    let text = plan.template(&block.text)?;
    let shares = shares(&block.entries)?;
    let compute = move |x: &mut Exchange, out: &mut Vec<u8>| {
        let hash = u64::from(murmur::hash(&text.value(x)));
        let Some(share) = shares.iter().find(|share| hash < share.end) else { return false };
        out.extend_from_slice(&share.value);
        true
    };
    plan.variables.define_computed(&block.name, Arc::new(compute), true);
    Ok(())
}

fn shares(entries: &[Statement]) -> Result<Vec<Share>, Diagnostic> {
    let mut shares = Vec::with_capacity(entries.len());
    // Sum of the shares so far, in hundredths of a percent; after `*` it is all.
    let (mut taken, mut total) = (0, 0);
    for entry in entries {
        let error = |message: String| {
            Err(Diagnostic::emerg(message).at(entry.name.span).line_at(entry.terminator()))
        };
        let Some(value) = entry.args.first() else {
            return error("invalid number of parameters".to_owned());
        };
        let end = if entry.name.bytes == b"*" {
            total = WHOLE;
            u64::MAX
        } else {
            let Some(percent) = parse_percent(&entry.name.bytes) else {
                return error(format!("invalid percent value \"{}\"", entry.name.display()));
            };
            (taken, total) = (taken + percent, total + percent);
            if total > WHOLE {
                return error("percent total is greater than 100%".to_owned());
            }
            taken * u64::from(u32::MAX) / WHOLE
        };
        shares.push(Share { end, value: value.bytes[..].into() });
    }
    Ok(shares)
}

/// Parses `12.34%` as hundredths of a percent; zero is invalid.
fn parse_percent(text: &[u8]) -> Option<u64> {
    let text = text.strip_suffix(b"%")?;
    let (whole, part) = match text.iter().position(|byte| *byte == b'.') {
        Some(dot) => (&text[..dot], &text[dot + 1..]),
        None => (text, &b""[..]),
    };
    let digits = |text: &[u8]| text.iter().all(u8::is_ascii_digit);
    if whole.len() > 3 || part.len() > 2 || !digits(whole) || !digits(part) {
        return None;
    }
    let number = whole.iter().chain(part).fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    let percent = if part.len() == 2 { number } else { number * [100, 10][part.len()] };
    (percent > 0 && percent <= WHOLE).then_some(percent)
}
