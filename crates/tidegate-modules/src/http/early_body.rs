//! `client_body_early_read`: a request's body is read right behind its head, so that rewrites, maps and the choice
//! of a location can use `$request_body`.
//!
//! ```nginx
//! client_body_early_read $is_api;
//! client_max_body_size   64k;
//! client_body_buffer_size 64k;
//! ```
//!
//! The body directives of the server block apply, since no location is known yet. A body above
//! `client_body_buffer_size` is written to a file as always, and `$request_body` is empty.

use tidegate_conf::{Arity, Contexts, Diagnostic, Directive, Word, row};
use tidegate_core::request_body::StoreOptions;
use tidegate_core::template::any_is_true;
use tidegate_core::{Exchange, Phase, Step, Template, location};
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::{BlockInfo, Module};

use tidegate_gateway::read_body_by;

/// `client_body_early_read` of `ngx_http_core_module`.
pub(crate) struct EarlyBody;

/// The directive of one block.
#[derive(Default)]
pub(crate) struct Conf {
    conditions: Option<Vec<Word>>,
}

impl Module for EarlyBody {
    type Conf = Conf;
    const NAME: &'static str = "early_body";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        if child.conditions.is_none() {
            child.conditions.clone_from(&parent.conditions);
        }
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        let words = conf.conditions.as_deref().unwrap_or_default();
        let conditions = location.plan.templates(words)?;
        if !conditions.is_empty() {
            location.handler(Phase::PostRead, Box::new(move |x| apply(x, &conditions)));
        }
        Ok(())
    }
}

const ROWS: &[Directive<Conf>] = &[row(
    "client_body_early_read",
    Contexts::HTTP_SERVER,
    Arity::AT_LEAST_ONE,
    "off",
    "Reads the body before a location is selected, by the server's settings for bodies except `client_body_in_file_only`, when a value is neither empty nor `0`; `off` for never.",
    |conf, args| {
        let words =
            if args.words().len() == 1 && args.bytes(0) == b"off" { &[] } else { args.words() };
        // Several lines are combined, as in nginx.
        conf.conditions.get_or_insert_default().extend_from_slice(words);
        Ok(())
    },
)];

fn apply<'a>(x: &'a mut Exchange, conditions: &[Template]) -> Step<'a> {
    if !x.request.body.is_present() || !any_is_true(conditions, x) {
        return Step::Decline;
    }
    if let Err(refused) = location::limit_body(x) {
        return refused.into();
    }
    Step::Wait(Box::pin(async move {
        let options = &x.settings().body_store;
        let in_memory = options.in_file_only.then(|| StoreOptions {
            in_file_only: false,
            clean: false,
            ..options.clone()
        });
        let read = read_body_by(x, in_memory.as_ref()).await;
        read.err().unwrap_or(Step::Decline)
    }))
}
