//! The file level of a configuration, decided: processes, threads, connections.

use std::path::PathBuf;
use std::time::Duration;

use tidegate_conf::Span;

use crate::blocking::PoolSettings;
use crate::error_log::ErrorLog;
use crate::machine::Machine;

/// `worker_processes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    Auto,
    Number(usize),
}

/// `worker_cpu_affinity`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Affinity {
    /// One CPU after the other, of those in the mask if there is one.
    Auto(Option<u64>),
    /// A mask for each worker thread; the last one repeats.
    Masks(Vec<u64>),
}

/// The file level, decided.
#[derive(Clone)]
pub struct MainSettings {
    pub prefix: String,
    pub machine: Machine,
    pub daemon: bool,
    pub master_process: bool,
    pub worker_processes: Count,
    pub worker_cpu_affinity: Option<Affinity>,
    pub worker_priority: Option<i32>,
    pub worker_rlimit_nofile: Option<u64>,
    pub worker_rlimit_core: Option<u64>,
    pub worker_shutdown_timeout: Option<Duration>,
    pub working_directory: Option<PathBuf>,
    /// Turns of a loop that take longer are logged.
    pub loop_watchdog: Option<Duration>,
    /// User and group of the worker; `None`: those that are built in.
    pub user: Option<(String, Option<String>)>,
    /// Where the user and the group are written.
    pub user_spans: Option<(Span, Span)>,
    /// The directive's file, or the place that is built in.
    pub pid: PathBuf,
    pub env: Vec<String>,
    pub thread_pools: Vec<PoolSettings>,
    pub worker_connections: u64,
    pub accept_mutex: bool,
    pub accept_mutex_delay: Duration,
    pub multi_accept: bool,
    pub error_log: ErrorLog,
}
