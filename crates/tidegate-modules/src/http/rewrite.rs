//! `rewrite`, `return`, `set`, `if`, `break`: small programs that servers and locations run in the rewrite phases.
//!
//! ```nginx
//! location /old/ {
//!     if ($arg_debug = on) { return 200 "$uri"; }
//!     set $tail "";
//!     rewrite ^/old/(.*)$ /new/$1?from=old last;
//! }
//! ```
//! A block's statements are compiled into one program when the plan is built. An `if` has its own program inside of
//! its block's, and switches the request to the settings of its braces.

pub(crate) mod assignment;
mod compile;
mod condition;
pub(crate) mod conf;
mod run;
#[cfg(test)]
mod tests;

use tidegate_conf::{Arity, Contexts, Diagnostic, Directive, Kind, once, row};
use tidegate_core::Phase;
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::{BlockInfo, BlockRow, Module};

use super::{files, set_misc};
use assignment::SetConf;
use conf::{Conf, Statement};

/// `ngx_http_rewrite_module`.
pub(crate) struct Rewrite;

const EVERYWHERE: Contexts = Contexts::HTTP_SERVER_LOCATION_IF.union(Contexts::SERVER_IF);

impl Module for Rewrite {
    type Conf = Conf;
    const NAME: &'static str = "rewrite";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS, set_misc::ROWS];
    const BLOCKS: &'static [BlockRow] = &[
        BlockRow { name: "if", within: Contexts::SERVER, opens: Contexts::SERVER_IF },
        BlockRow { name: "if", within: Contexts::LOCATION, opens: Contexts::LOCATION_IF },
    ];

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        child.log = child.log.or(parent.log);
        child.warn_uninitialized = child.warn_uninitialized.or(parent.warn_uninitialized);
        child.misc.inherit(&parent.misc);
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        location.location.warn_uninitialized = conf.warn_uninitialized.unwrap_or(true);
        let phase = match location.context() {
            context if context.intersects(Contexts::SERVER) => Phase::ServerRewrite,
            context if context.intersects(Contexts::LOCATION) => Phase::Rewrite,
            // An `if` runs as a part of its block's program.
            _ => return Ok(()),
        };
        let program = compile::program(conf, location)?;
        if !program.is_empty() {
            location.plan.show(&program);
            location.handler(phase, files::handler(move |x, probe| run::run(&program, x, probe)));
        }
        Ok(())
    }
}

const ROWS: &[Directive<Conf>] = &[
    row(
        "rewrite",
        Contexts::REWRITE,
        Arity::TWO_OR_THREE,
        "",
        "Replace a path that matches a regular expression; flags last, break, redirect, permanent.",
        |conf, args| push(conf, conf::rewrite(args)?),
    ),
    row(
        "return",
        Contexts::REWRITE,
        Arity::ONE_OR_TWO,
        "",
        "Ends the processing with a status, a text or a redirect; 444 closes the connection without a response.",
        |conf, args| push(conf, conf::read_return(args)?),
    ),
    row("set", Contexts::REWRITE, Arity::TWO, "", "Sets a variable to a value.", |conf, args| {
        push(conf, Statement::Set(SetConf::read(args)?))
    }),
    row(
        "break",
        Contexts::REWRITE,
        Arity::NONE,
        "",
        "Stop processing rewrite directives.",
        |conf, _| push(conf, Statement::Break),
    ),
    Directive {
        name: "if",
        contexts: Contexts::SERVER_LOCATION,
        args: Arity::AT_LEAST_ONE,
        kind: Kind::Block,
        default: "",
        doc: "Directives for requests that fulfil a condition.",
        has_effect: true,
        set: |conf, args| push(conf, Statement::If(condition::read(args)?)),
    },
    row(
        "rewrite_log",
        EVERYWHERE,
        Arity::FLAG,
        "off",
        "Log what rewrite directives do, at the level notice.",
        |conf, args| once(&mut conf.log, args.flag(0)?, args),
    ),
    row(
        "uninitialized_variable_warn",
        EVERYWHERE,
        Arity::FLAG,
        "on",
        "Whether the use of variables without a value is logged.",
        |conf, args| once(&mut conf.warn_uninitialized, args.flag(0)?, args),
    ),
];

fn push(conf: &mut Conf, statement: Statement) -> Result<(), Diagnostic> {
    conf.statements.push(statement);
    Ok(())
}
