//! The settings of a configuration's main context: processes, threads, connections.

use std::ops::Deref;
use std::path::PathBuf;
use std::time::Duration;

use tidegate_conf::{
    Args, Arity, Contexts, Diagnostic, NoEffect, Span, no_effect, optional, setting, settings,
};

use crate::blocking::PoolSettings;
use crate::client::Address;
use crate::debug_log::DebugClients;
use crate::error_log::ErrorLog;
use crate::machine::Machine;

/// The value of `worker_processes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// One for each CPU.
    Auto,
    /// This number of threads.
    Number(usize),
}

/// The value of `worker_cpu_affinity`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Affinity {
    /// One CPU per thread in order, of those in the mask if there is one.
    Auto(Option<u64>),
    /// A mask for each worker thread; the last one repeats.
    Masks(Vec<u64>),
}

/// The value of `admin_socket`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminSocket {
    /// The file of the socket, as written behind `unix:`.
    pub path: String,
    /// Its permissions.
    pub mode: u32,
    /// Position of the address in the configuration.
    pub span: Span,
}

impl AdminSocket {
    /// Permissions that are not written: its owner alone.
    const MODE_DEFAULT: u32 = 0o600;

    /// Computes the value; `None` for `off`.
    ///
    /// # Errors
    /// For another address than one of a Unix socket, and for other permissions than those of users.
    fn parse(args: &Args<'_>) -> Result<Option<AdminSocket>, Diagnostic> {
        let text = args.text(0)?;
        if text == "off" && args.len() == 1 {
            return Ok(None);
        }
        let path = text.strip_prefix("unix:").filter(|path| !path.is_empty());
        let path = path.ok_or_else(|| {
            args.invalid(0).label("expected `unix:` and the path of a socket, or `off`")
        })?;
        let mut mode = AdminSocket::MODE_DEFAULT;
        if args.len() > 1 {
            let ("mode", Some(digits)) = args.parameter(1)? else {
                return Err(args.invalid_parameter(1));
            };
            let parsed = u32::from_str_radix(digits, 8).ok().filter(|mode| *mode <= 0o777);
            mode = parsed.ok_or_else(|| {
                args.invalid_parameter(1).label("expected octal permissions, such as `mode=0660`")
            })?;
        }
        Ok(Some(AdminSocket { path: path.to_owned(), mode, span: args.word(0).span }))
    }
}

/// The settings of the main context and of `events`, with defaults applied. Plain directives are in a list of their own.
/// Fields without a description are the directive of the same name; `None` is "not set".
#[derive(Clone, Debug)]
pub struct MainSettings {
    /// The plain directives, also reached through `MainSettings` itself.
    pub plain: PlainMainSettings,
    /// The directory that relative paths are below (`-p`), with a final slash.
    pub prefix: String,
    /// The machine that the configuration is for.
    pub machine: Machine,
    /// `working_directory`.
    pub working_directory: Option<PathBuf>,
    /// User and group of the worker; `None` for the built-in ones.
    pub user: Option<(String, Option<String>)>,
    /// Positions of user and group in the configuration, for diagnostics.
    pub user_spans: Option<(Span, Span)>,
    /// The file of `pid`, or the built-in one.
    pub pid: PathBuf,
    /// `env`: variables that the worker keeps, with `=value` where one is set.
    pub env: Vec<String>,
    /// `thread_pool`s.
    pub thread_pools: Vec<PoolSettings>,
    /// `error_log` of the main context.
    pub error_log: ErrorLog,
}

impl MainSettings {
    /// Returns whether lines about a client are written at all levels (`debug_connection`).
    #[inline]
    pub fn debugs(&self, peer: &Address) -> bool {
        self.debug_connection.as_ref().is_some_and(|clients| clients.contains(peer))
    }
}

impl Deref for MainSettings {
    type Target = PlainMainSettings;

    #[inline]
    fn deref(&self) -> &PlainMainSettings {
        &self.plain
    }
}

const MAIN: Contexts = Contexts::MAIN;
const EVENTS: Contexts = Contexts::EVENTS;

settings! {
    /// Settings of the main context and of `events` that are one plain directive each.
    pub struct PlainMainSettings;
    /// The same as written in one of the two blocks.
    pub struct PlainMainConf;

    // Processes.

    /// Whether to run in the background.
    daemon: bool = setting("daemon", MAIN, "on", |args| args.flag(0)),
    /// Whether to start a worker process.
    master_process: bool = setting("master_process", MAIN, "on", |args| args.flag(0)),
    /// Number of worker threads, or `auto`.
    worker_processes: Count = setting("worker_processes", MAIN, "1", |args| {
        Ok(match args.bytes(0) {
            b"auto" => Count::Auto,
            bytes => match tidegate_conf::parse_number(bytes) {
                None => return Err(args.invalid(0).label("expected a number or `auto`")),
                Some(_) => Count::Number(args.number(0, 1..=1024)? as usize),
            },
        })
    }),
    /// CPU masks of the worker threads, or `auto` with a mask of allowed CPUs.
    worker_cpu_affinity: Option<Affinity> =
        optional("worker_cpu_affinity", MAIN, |args| affinity(args).map(Some))
            .arguments(Arity::AT_LEAST_ONE),
    /// Scheduling priority, -20 to 20.
    // 0 leaves the priority that the process was started with.
    worker_priority: Option<i32> = setting("worker_priority", MAIN, "0", |args| {
        let value = args.text(0)?.parse().map_err(|_| args.invalid(0))?;
        Ok(Some(value).filter(|value| *value != 0))
    }),
    /// Most open files of the worker.
    worker_rlimit_nofile: Option<u64> = optional("worker_rlimit_nofile", MAIN, |args| {
        args.number(0, 1..=u32::MAX.into()).map(Some)
    }),
    /// Largest core file of the worker.
    worker_rlimit_core: Option<u64> =
        optional("worker_rlimit_core", MAIN, |args| args.offset(0).map(Some)),
    /// How long old connections may go on after a graceful stop or a reload.
    worker_shutdown_timeout: Option<Duration> =
        optional("worker_shutdown_timeout", MAIN, time_or_none),
    /// Logs iterations of a worker thread's event loop that take longer than this time, with the processor time and the
    /// longest part of each, and counts all iterations for `metrics`.
    loop_watchdog: Option<Duration> = setting("loop_watchdog", MAIN, "off", |args| {
        if args.bytes(0) == b"off" { Ok(None) } else { time_or_none(args) }
    }),

    /// Certificates, keys and lists of revoked certificates are read and parsed again by a reload only if their file has
    /// another time of modification or is another file.
    ssl_object_cache_inheritable: bool =
        setting("ssl_object_cache_inheritable", MAIN, "on", |args| args.flag(0)),

    /// A Unix socket for the programs of the administrator: it serves `/api/`, changes included, and `/metrics`, whatever
    /// the `http` block has. Who may use its file may do all that the API can: its owner alone, unless `mode` has other
    /// permissions. A file that a dead server left is replaced. `tidegate status` and the other subcommands use it.
    admin_socket: Option<AdminSocket> =
        setting("admin_socket", MAIN, "off", AdminSocket::parse).arguments(Arity::ONE_OR_TWO),

    // Connections.

    /// Most open connections of a worker thread, those to origins included.
    worker_connections: u64 = setting("worker_connections", EVENTS, "512", |args| {
        args.number(0, 1..=u32::MAX.into())
    }),
    /// Worker threads accept in turn.
    accept_mutex: bool = setting("accept_mutex", EVENTS, "off", |args| args.flag(0)),
    /// Longest wait of a thread for its turn to accept.
    accept_mutex_delay: Duration =
        setting("accept_mutex_delay", EVENTS, "500ms", |args| args.milliseconds(0)),
    /// Accept all waiting connections at once.
    multi_accept: bool = setting("multi_accept", EVENTS, "off", |args| args.flag(0)),

    /// Clients whose connections are logged at all levels, `debug` included, whatever the level of `error_log`:
    /// addresses, networks, names, or `unix:`.
    debug_connection: Option<DebugClients> =
        optional("debug_connection", EVENTS, |args| DebugClients::parse(args).map(Some))
            .adding_up(DebugClients::joined),

    // Accepted without effect.

    /// Lock file of other servers; worker threads need none.
    lock_file: NoEffect =
        no_effect("lock_file", MAIN, "logs/nginx.lock", |args| NoEffect::of(args.text(0))),
    /// No effect: packets of QUIC reach the thread of their connection by a classic BPF program in any case.
    quic_bpf: NoEffect = no_effect("quic_bpf", MAIN, "off", |args| NoEffect::of(args.flag(0))),
    /// Regular expressions as machine code; always on, for the first 4,096 of a configuration.
    pcre_jit: NoEffect = no_effect("pcre_jit", MAIN, "off", |args| NoEffect::of(args.flag(0))),
    /// Interval of clock reads; not needed.
    timer_resolution: NoEffect =
        no_effect("timer_resolution", MAIN, "", |args| NoEffect::of(args.milliseconds(0))),
    /// Event method; epoll is used on Linux.
    r#use: NoEffect = no_effect("use", EVENTS, "", |args| match args.text(0)? {
        "epoll" | "poll" | "select" | "kqueue" | "eventport" | "/dev/poll" => Ok(NoEffect),
        method => Err(args.error(0, format!("invalid event type \"{method}\""))),
    }),
    /// Most pending asynchronous reads.
    worker_aio_requests: NoEffect = no_effect("worker_aio_requests", EVENTS, "32", |args| {
        NoEffect::of(args.number(0, 1..=65536))
    }),
}

/// Computes a time; `None` for zero.
fn time_or_none(args: &Args<'_>) -> Result<Option<Duration>, Diagnostic> {
    Ok(Some(args.milliseconds(0)?).filter(|time| !time.is_zero()))
}

/// Computes the value of `worker_cpu_affinity`.
fn affinity(args: &Args<'_>) -> Result<Affinity, Diagnostic> {
    let mask = |index: usize| {
        // Spaces count for nothing, so an empty mask is one of no processor, as in nginx.
        let digits: String = args.text(index)?.chars().filter(|digit| *digit != ' ').collect();
        if let Some(other) = digits.chars().rev().find(|digit| !matches!(digit, '0' | '1')) {
            let message = format!("invalid character \"{other}\" in \"worker_cpu_affinity\"");
            return Err(args.error(index, message));
        }
        if digits.is_empty() {
            return Ok(0);
        }
        let too_many = |_| args.error(index, "\"worker_cpu_affinity\" supports up to 64 CPUs only");
        u64::from_str_radix(&digits, 2).map_err(too_many)
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
