//! The main context and the `events` block: processes, threads, connections.

#[cfg(test)]
mod tests;

use std::time::Duration;

use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Kind, Span, Word, once, row};
use tidegate_core::blocking::{PoolSettings, QUEUE_DEFAULT};
use tidegate_core::main_settings::{Affinity, Count, MainSettings};
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
    daemon: Option<bool>,
    master_process: Option<bool>,
    worker_processes: Option<Count>,
    worker_cpu_affinity: Option<Affinity>,
    worker_priority: Option<i32>,
    worker_rlimit_nofile: Option<u64>,
    worker_rlimit_core: Option<u64>,
    worker_shutdown_timeout: Option<Duration>,
    working_directory: Option<String>,
    user: Option<(String, Option<String>)>,
    user_spans: Option<(Span, Span)>,
    pid: Option<String>,
    lock_file: Option<String>,
    /// `Some(None)` for `off`.
    loop_watchdog: Option<Option<Duration>>,
    pcre_jit: Option<bool>,
    timer_resolution: Option<Duration>,
    env: Vec<String>,
    load_modules: Vec<Word>,
    thread_pools: Vec<PoolSettings>,
    events_seen: Option<()>,
    worker_connections: Option<u64>,
    accept_mutex: Option<bool>,
    accept_mutex_delay: Option<Duration>,
    multi_accept: Option<bool>,
    use_method: Option<String>,
    worker_aio_requests: Option<u64>,
    debug_connections: Vec<Word>,
}

/// Most threads of a pool: a larger number is more likely a typing error.
const THREADS_MAX: usize = 4096;

/// `ngx_core_module` and `ngx_event_core_module`.
pub struct MainCore;

impl Module for MainCore {
    type Conf = Conf;
    const NAME: &'static str = "core";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] =
        &[MAIN_ROWS, WATCHDOG_ROWS, EVENTS_ROWS];
    const BLOCKS: &'static [BlockRow] =
        &[BlockRow { name: "events", within: Contexts::MAIN, opens: Contexts::EVENTS }];
}

const MAIN: Contexts = Contexts::MAIN;
const EVENTS: Contexts = Contexts::EVENTS;

const MAIN_ROWS: &[Directive<Conf>] = &[
    row("daemon", MAIN, Arity::FLAG, "on", "Whether to run in the background.", |conf, args| {
        once(&mut conf.daemon, args.flag(0)?, args)
    }),
    row(
        "master_process",
        MAIN,
        Arity::FLAG,
        "on",
        "Whether to start a worker process.",
        |conf, args| once(&mut conf.master_process, args.flag(0)?, args),
    ),
    row(
        "worker_processes",
        MAIN,
        Arity::ONE,
        "1",
        "Number of worker threads, or `auto`.",
        |conf, args| {
            let count = match args.bytes(0) {
                b"auto" => Count::Auto,
                bytes => match tidegate_conf::parse_number(bytes) {
                    None => return Err(args.invalid(0).label("expected a number or `auto`")),
                    Some(_) => Count::Number(args.number(0, 1..=1024)? as usize),
                },
            };
            once(&mut conf.worker_processes, count, args)
        },
    ),
    row(
        "worker_cpu_affinity",
        MAIN,
        Arity::AT_LEAST_ONE,
        "",
        "CPU masks of the worker threads, or `auto` with a mask of allowed CPUs.",
        |conf, args| once(&mut conf.worker_cpu_affinity, affinity(args)?, args),
    ),
    row(
        "worker_priority",
        MAIN,
        Arity::ONE,
        "0",
        "Scheduling priority, -20 to 20.",
        |conf, args| {
            let value = args.text(0)?.parse().map_err(|_| args.invalid(0))?;
            once(&mut conf.worker_priority, value, args)
        },
    ),
    row(
        "worker_rlimit_nofile",
        MAIN,
        Arity::ONE,
        "",
        "Most open files of the worker.",
        |conf, args| {
            once(&mut conf.worker_rlimit_nofile, args.number(0, 1..=u32::MAX.into())?, args)
        },
    ),
    row(
        "worker_rlimit_core",
        MAIN,
        Arity::ONE,
        "",
        "Largest core file of the worker.",
        |conf, args| once(&mut conf.worker_rlimit_core, args.offset(0)?, args),
    ),
    row(
        "worker_shutdown_timeout",
        MAIN,
        Arity::ONE,
        "",
        "How long old connections may go on after a graceful stop or a reload.",
        |conf, args| once(&mut conf.worker_shutdown_timeout, args.milliseconds(0)?, args),
    ),
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
        "lock_file",
        MAIN,
        Arity::ONE,
        "logs/nginx.lock",
        "Lock file of other servers; worker threads need none.",
        |conf, args| once(&mut conf.lock_file, args.text(0)?.to_owned(), args),
    ),
    row(
        "pcre_jit",
        MAIN,
        Arity::FLAG,
        "off",
        "Compiled regular expressions; always on.",
        |conf, args| once(&mut conf.pcre_jit, args.flag(0)?, args),
    ),
    row(
        "timer_resolution",
        MAIN,
        Arity::ONE,
        "",
        "Interval of clock reads; not needed.",
        |conf, args| once(&mut conf.timer_resolution, args.milliseconds(0)?, args),
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
    row(
        "load_module",
        MAIN,
        Arity::ONE,
        "",
        "A module to load. Modules are built in, so nothing is loaded; directives of a module that is not built in are errors. The file may be absent when its name is that of a known module.",
        |conf, args| {
            conf.load_modules.push(args.word(0).clone());
            args.text(0).map(drop)
        },
    ),
    row(
        "thread_pool",
        MAIN,
        Arity::TWO_OR_THREE,
        "default threads=32 max_queue=65536",
        "A named pool of threads for blocking work.",
        thread_pool,
    ),
];

const WATCHDOG_ROWS: &[Directive<Conf>] = &[row(
    "loop_watchdog",
    MAIN,
    Arity::ONE,
    "off",
    "Logs iterations of a worker thread's event loop that take longer than this time, with the longest part of each, and counts all iterations for `metrics`.",
    |conf, args| {
        let limit = match args.bytes(0) {
            b"off" => None,
            _ => Some(args.milliseconds(0)?).filter(|limit| !limit.is_zero()),
        };
        once(&mut conf.loop_watchdog, limit, args)
    },
)];

const EVENTS_ROWS: &[Directive<Conf>] = &[
    Directive {
        name: "events",
        contexts: MAIN,
        args: Arity::NONE,
        kind: Kind::Block,
        default: "",
        doc: "Settings of connection processing.",
        set: |conf, args| once(&mut conf.events_seen, (), args),
    },
    row(
        "worker_connections",
        EVENTS,
        Arity::ONE,
        "512",
        "Most open connections of a worker thread, those to origins included.",
        |conf, args| once(&mut conf.worker_connections, args.number(0, 1..=u32::MAX.into())?, args),
    ),
    row(
        "accept_mutex",
        EVENTS,
        Arity::FLAG,
        "off",
        "Worker threads accept in turn.",
        |conf, args| once(&mut conf.accept_mutex, args.flag(0)?, args),
    ),
    row(
        "accept_mutex_delay",
        EVENTS,
        Arity::ONE,
        "500ms",
        "Longest wait of a thread for its turn to accept.",
        |conf, args| once(&mut conf.accept_mutex_delay, args.milliseconds(0)?, args),
    ),
    row(
        "multi_accept",
        EVENTS,
        Arity::FLAG,
        "off",
        "Accept all waiting connections at once.",
        |conf, args| once(&mut conf.multi_accept, args.flag(0)?, args),
    ),
    row("use", EVENTS, Arity::ONE, "", "Event method; epoll is used on Linux.", |conf, args| {
        let method = args.text(0)?;
        if !matches!(method, "epoll" | "poll" | "select" | "kqueue" | "eventport" | "/dev/poll") {
            return Err(args.error(0, format!("invalid event type \"{method}\"")));
        }
        once(&mut conf.use_method, method.to_owned(), args)
    }),
    row(
        "worker_aio_requests",
        EVENTS,
        Arity::ONE,
        "32",
        "Most pending asynchronous reads.",
        |conf, args| once(&mut conf.worker_aio_requests, args.number(0, 1..=65536)?, args),
    ),
    row(
        "debug_connection",
        EVENTS,
        Arity::ONE,
        "",
        "Addresses whose connections are logged at the debug level.",
        |conf, args| {
            conf.debug_connections.push(args.word(0).clone());
            Ok(())
        },
    ),
];

fn affinity(args: &Args<'_>) -> Result<Affinity, Diagnostic> {
    let mask = |index: usize| {
        let text = args.text(index)?;
        let digits = text.bytes().all(|byte| matches!(byte, b'0' | b'1')).then_some(text);
        digits.and_then(|text| u64::from_str_radix(text, 2).ok()).ok_or_else(|| {
            args.error(index, format!("invalid character in worker_cpu_affinity \"{text}\""))
        })
    };
    if args.bytes(0) == b"auto" {
        return match args.len() {
            1 => Ok(Affinity::Auto(None)),
            2 => Ok(Affinity::Auto(Some(mask(1)?))),
            _ => {
                Err(args
                    .error_here("invalid number of arguments in \"worker_cpu_affinity\" directive"))
            }
        };
    }
    (0..args.len()).map(mask).collect::<Result<_, _>>().map(Affinity::Masks)
}

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
    if !environment.for_use {
        loaded_modules::check(&main.load_modules, prefix)?;
    }
    Ok(MainSettings {
        prefix: prefix.to_owned(),
        machine: environment.resources.machine(),
        daemon: main.daemon.unwrap_or(true),
        master_process: main.master_process.unwrap_or(true),
        worker_processes: main.worker_processes.unwrap_or(Count::Number(1)),
        worker_cpu_affinity: main.worker_cpu_affinity.clone(),
        // The default, 0, leaves the priority that the process was started with.
        worker_priority: main.worker_priority.filter(|value| *value != 0),
        worker_rlimit_nofile: main.worker_rlimit_nofile,
        worker_rlimit_core: main.worker_rlimit_core,
        worker_shutdown_timeout: main.worker_shutdown_timeout.filter(|time| !time.is_zero()),
        working_directory: main.working_directory.as_ref().map(|path| full_path(prefix, path)),
        loop_watchdog: main.loop_watchdog.flatten(),
        user: main.user.clone(),
        user_spans: main.user_spans,
        pid: full_path(prefix, main.pid.as_deref().unwrap_or(environment.layout.pid)),
        env: main.env.clone(),
        thread_pools: main.thread_pools.clone(),
        worker_connections: events.worker_connections.unwrap_or(512),
        accept_mutex: events.accept_mutex.unwrap_or(false),
        accept_mutex_delay: events.accept_mutex_delay.unwrap_or(Duration::from_millis(500)),
        multi_accept: events.multi_accept.unwrap_or(false),
        error_log: error_log(environment, logs)?,
    })
}
