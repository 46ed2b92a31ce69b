//! The settings of a configuration's main context: processes, threads, connections.

use std::path::PathBuf;
use std::time::Duration;

use tidegate_conf::Span;

use crate::blocking::PoolSettings;
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

/// The settings of the main context and of `events`, with defaults applied. Fields without a description are the
/// directive of the same name; `None` is "not set".
#[derive(Clone, Debug)]
pub struct MainSettings {
    /// The directory that relative paths are below (`-p`), with a final slash.
    pub prefix: String,
    /// The machine that the configuration is for.
    pub machine: Machine,
    /// `daemon`.
    pub daemon: bool,
    /// `master_process`.
    pub master_process: bool,
    /// `worker_processes`: the number of threads.
    pub worker_processes: Count,
    /// `worker_cpu_affinity`.
    pub worker_cpu_affinity: Option<Affinity>,
    /// `worker_priority`: the nice value.
    pub worker_priority: Option<i32>,
    /// `worker_rlimit_nofile`: most open files.
    pub worker_rlimit_nofile: Option<u64>,
    /// `worker_rlimit_core`: largest core file in bytes.
    pub worker_rlimit_core: Option<u64>,
    /// `worker_shutdown_timeout`: longest graceful end.
    pub worker_shutdown_timeout: Option<Duration>,
    /// `working_directory`.
    pub working_directory: Option<PathBuf>,
    /// `loop_watchdog`: longer event-loop iterations are logged.
    pub loop_watchdog: Option<Duration>,
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
    /// `worker_connections`.
    pub worker_connections: u64,
    /// `accept_mutex`.
    pub accept_mutex: bool,
    /// `accept_mutex_delay`.
    pub accept_mutex_delay: Duration,
    /// `multi_accept`.
    pub multi_accept: bool,
    /// `error_log` of the main context.
    pub error_log: ErrorLog,
}
