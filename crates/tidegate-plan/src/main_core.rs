//! The main context and the `events` block: processes, threads, connections.

#[cfg(test)]
mod tests;

use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Kind, Span, Word, once, row};
use tidegate_core::blocking::{PoolSettings, QUEUE_DEFAULT};
use tidegate_core::main_settings::{MainSettings, PlainMainConf};
use tidegate_core::settings::full_path;

use crate::http_core::HttpCore;
use crate::loaded_modules;
use crate::module::{BlockRow, Module};
use crate::outline::Outline;
use crate::plan_builder::Environment;
use crate::tools::error_log;

/// The directives of both as written; `None` is "not set".
#[derive(Default)]
pub struct Conf {
    plain: PlainMainConf,
    working_directory: Option<String>,
    user: Option<(String, Option<String>)>,
    user_spans: Option<(Span, Span)>,
    pid: Option<String>,
    env: Vec<String>,
    load_modules: Vec<Word>,
    thread_pools: Vec<PoolSettings>,
    events_seen: Option<()>,
}

impl AsMut<PlainMainConf> for Conf {
    fn as_mut(&mut self) -> &mut PlainMainConf {
        &mut self.plain
    }
}

/// Most threads of a pool: a larger number is more likely a typing error.
const THREADS_MAX: usize = 4096;

/// `ngx_core_module` and `ngx_event_core_module`.
pub struct MainCore;

impl Module for MainCore {
    type Conf = Conf;
    const NAME: &'static str = "core";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] =
        &[&PlainMainConf::rows(), MAIN_ROWS, EVENTS_ROWS];
    const BLOCKS: &'static [BlockRow] =
        &[BlockRow { name: "events", within: Contexts::MAIN, opens: Contexts::EVENTS }];
}

const MAIN: Contexts = Contexts::MAIN;

const MAIN_ROWS: &[Directive<Conf>] = &[
    row(
        "working_directory",
        MAIN,
        Arity::ONE,
        "",
        "Current directory of the worker.",
        |conf, args| once(&mut conf.working_directory, args.text(0)?.to_owned(), args),
    ),
    row(
        "user",
        MAIN,
        Arity::ONE_OR_TWO,
        "nobody nobody",
        "User and group of the worker.",
        |conf, args| {
            let group = if args.len() > 1 { Some(args.text(1)?.to_owned()) } else { None };
            conf.user_spans = Some((args.word(0).span, args.word(args.len() - 1).span));
            once(&mut conf.user, (args.text(0)?.to_owned(), group), args)
        },
    ),
    row(
        "pid",
        MAIN,
        Arity::ONE,
        "logs/nginx.pid",
        "File with the master's process id.",
        |conf, args| once(&mut conf.pid, args.text(0)?.to_owned(), args),
    ),
    row(
        "env",
        MAIN,
        Arity::ONE,
        "TZ",
        "Environment variable that the worker inherits, or that is set for it.",
        |conf, args| {
            conf.env.push(args.text(0)?.to_owned());
            Ok(())
        },
    ),
    row::<Conf>(
        "load_module",
        MAIN,
        Arity::ONE,
        "",
        "A module to load. Modules are built in, so nothing is loaded; directives of a module that is not built in are errors. The file may be absent when its name is that of a known module.",
        |conf, args| {
            conf.load_modules.push(args.word(0).clone());
            args.text(0).map(drop)
        },
    ).without_effect(),
    row(
        "thread_pool",
        MAIN,
        Arity::TWO_OR_THREE,
        "default threads=32 max_queue=65536",
        "A named pool of threads for blocking work.",
        thread_pool,
    ),
];

const EVENTS_ROWS: &[Directive<Conf>] = &[Directive {
    name: "events",
    contexts: MAIN,
    args: Arity::NONE,
    kind: Kind::Block,
    default: "",
    doc: "Settings of connection processing.",
    has_effect: true,
    set: |conf, args| once(&mut conf.events_seen, (), args),
}];

fn thread_pool(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let name = args.text(0)?.to_owned();
    if conf.thread_pools.iter().any(|known| known.name == name) {
        return Err(args.error(0, format!("duplicate thread pool \"{name}\"")));
    }
    let (mut threads, mut max_queue) = (None, QUEUE_DEFAULT);
    for index in 1..args.len() {
        match args.parameter(index)? {
            ("threads", Some(text)) => {
                let number = text.parse().ok().filter(|n| (1..=THREADS_MAX).contains(n));
                let invalid =
                    || args.error(index, format!("invalid threads value \"threads={text}\""));
                threads = Some(number.ok_or_else(invalid)?);
            }
            ("max_queue", Some(text)) => {
                let invalid =
                    |_| args.error(index, format!("invalid max_queue value \"max_queue={text}\""));
                max_queue = text.parse().map_err(invalid)?;
            }
            _ => return Err(args.invalid_parameter(index)),
        }
    }
    let missing = || args.error_here("\"thread_pool\" must have \"threads\" parameter");
    let threads = threads.ok_or_else(missing)?;
    conf.thread_pools.push(PoolSettings { name, threads, max_queue });
    Ok(())
}

/// Returns the settings of the main context with defaults applied.
///
/// # Errors
/// For an unknown module in `load_module`, and for an error log that cannot be opened.
pub fn prepare(environment: &Environment<'_>, root: &Outline) -> Result<MainSettings, Diagnostic> {
    let none = Conf::default();
    let main = root.conf::<MainCore>().unwrap_or(&none);
    let Some(events_block) = root.blocks("events").next() else {
        return Err(Diagnostic::emerg("no \"events\" section in configuration"));
    };
    let events = events_block.conf::<MainCore>().unwrap_or(&none);
    let logs = root.conf::<HttpCore>().map_or(&[][..], |core| &core.error_logs);
    let prefix = environment.prefix;
    // A worker may have no permission to read the directory.
    if !environment.is_checked {
        loaded_modules::check(&main.load_modules, prefix)?;
    }
    // No plain directive is allowed in both blocks.
    let mut plain = main.plain.clone();
    plain.inherit(&events.plain);
    Ok(MainSettings {
        plain: plain.settings(),
        prefix: prefix.to_owned(),
        machine: environment.resources.machine(),
        working_directory: main.working_directory.as_ref().map(|path| full_path(prefix, path)),
        user: main.user.clone(),
        user_spans: main.user_spans,
        pid: full_path(prefix, main.pid.as_deref().unwrap_or(environment.layout.pid)),
        env: main.env.clone(),
        thread_pools: main.thread_pools.clone(),
        error_log: error_log(environment, logs)?,
    })
}
