//! `add_before_body` and `add_after_body`: puts the responses of subrequests around a body.
//!
//! ```nginx
//! add_before_body /header.html;
//! add_after_body  /footer.html;
//! ```
//! The part behind is requested when the body has ended completely: a body that breaks off gets none.

mod filter;
#[cfg(test)]
mod tests;

use tidegate_conf::{Arity, Contexts, Diagnostic, Directive, once, row};
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::{BlockInfo, Module};

use super::media_types::MediaTypes;
use filter::AdditionFilter;

/// `ngx_http_addition_module`.
pub(crate) struct Addition;

/// The directives of one block as written. An empty path cancels the inherited one.
#[derive(Default)]
pub(crate) struct Conf {
    before: Option<Vec<u8>>,
    after: Option<Vec<u8>>,
    types: Option<MediaTypes>,
}

impl Module for Addition {
    type Conf = Conf;
    const NAME: &'static str = "addition";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        child.before = child.before.take().or_else(|| parent.before.clone());
        child.after = child.after.take().or_else(|| parent.after.clone());
        child.types = child.types.take().or_else(|| parent.types.clone());
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        let path = |path: &Option<Vec<u8>>| path.clone().filter(|path| !path.is_empty());
        let filter = AdditionFilter {
            before: path(&conf.before),
            after: path(&conf.after),
            types: conf.types.clone().unwrap_or_else(|| MediaTypes::of(&["text/html"])),
        };
        if filter.before.is_some() || filter.after.is_some() {
            location.plan.show(&filter);
            location.filter(Box::new(move |x, body| filter.apply(x, body)));
        }
        Ok(())
    }
}

const CONTEXTS: Contexts = Contexts::HTTP_SERVER_LOCATION;

const ROWS: &[Directive<Conf>] = &[
    row(
        "add_before_body",
        CONTEXTS,
        Arity::ONE,
        "",
        "Path of a subrequest whose response is sent before the body; empty for none.",
        |conf, args| once(&mut conf.before, args.bytes(0).to_vec(), args),
    ),
    row(
        "add_after_body",
        CONTEXTS,
        Arity::ONE,
        "",
        "Path of a subrequest whose response is sent after the body; empty for none.",
        |conf, args| once(&mut conf.after, args.bytes(0).to_vec(), args),
    ),
    row(
        "addition_types",
        CONTEXTS,
        Arity::AT_LEAST_ONE,
        "text/html",
        "Media types of changed responses in addition to text/html; `*` for all.",
        |conf, args| MediaTypes::read(&mut conf.types, args),
    ),
];
