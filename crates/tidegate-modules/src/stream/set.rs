//! `set`: assigns a variable, before limits and access are checked.
//!
//! ```nginx
//! server { listen 12345; set $true 1; return $true; }
//! ```

use tidegate_conf::{Arity, Contexts, Diagnostic, Directive, row};
use tidegate_core::{Phase, Step};
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::Module;

use crate::http::rewrite::assignment::{Assignment, SetConf, TooLong};

/// `ngx_stream_set_module`.
pub(crate) struct SessionSet;

/// The directives of one server.
#[derive(Default)]
pub(crate) struct Conf {
    sets: Vec<SetConf>,
}

impl Module for SessionSet {
    type Conf = Conf;
    const NAME: &'static str = "stream_set";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[&[row(
        "set",
        Contexts::STREAM_SERVER,
        Arity::TWO,
        "",
        "Sets a variable to a value.",
        |conf: &mut Conf, args| {
            conf.sets.push(SetConf::read(args)?);
            Ok(())
        },
    )]];

    fn prepare_session(
        conf: &Conf,
        server: &mut LocationBuilder<'_, '_>,
    ) -> Result<(), Diagnostic> {
        let assignments = conf.sets.iter().map(|set| set.compile(server.plan));
        let assignments: Vec<Assignment> = assignments.collect::<Result<_, _>>()?;
        if !assignments.is_empty() {
            server.handler(
                Phase::Preaccess,
                Box::new(move |x| {
                    match assignments.iter().try_for_each(|assignment| assignment.apply(x)) {
                        Ok(()) => Step::Decline,
                        Err(TooLong) => Step::Status(500),
                    }
                }),
            );
        }
        Ok(())
    }
}
