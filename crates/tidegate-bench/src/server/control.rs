//! Operations of the steady suite on a running server: reload, end of its worker, list of its processes.

use std::fs;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

use super::{POLL_INTERVAL, Server, write_config};
use crate::procfs;

/// The end of a worker process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Death {
    pub worker: i32,
    /// Just before the signal was sent.
    pub begin: Instant,
    /// When the end of the process was detected.
    pub end: Instant,
}

impl Server {
    /// The process that was started.
    pub(crate) fn master(&self) -> i32 {
        self.child.id() as i32
    }

    /// Returns the process of the pid file; `None` when it does not run.
    pub(crate) fn master_by_pid_file(&self) -> Option<i32> {
        let text = fs::read_to_string(self.directory.path().join("server.pid")).ok()?;
        text.trim().parse().ok().filter(|id| procfs::is_running(*id))
    }

    /// Children of the master that serve clients, in the order of their ids.
    ///
    /// # Errors
    /// When /proc cannot be read.
    pub(crate) fn workers(&self) -> io::Result<Vec<i32>> {
        let children = procfs::children(self.master())?;
        let mut workers: Vec<i32> =
            children.iter().filter(|(_, title)| serves(title)).map(|(id, _)| *id).collect();
        workers.sort_unstable();
        Ok(workers)
    }

    /// The worker, once there is exactly one: after a reload an old one may still be leaving.
    ///
    /// # Errors
    /// When there is none or several for [`SETTLE_TIMEOUT`].
    pub(crate) fn only_worker(&self) -> Result<i32, String> {
        let end = Instant::now() + SETTLE_TIMEOUT;
        loop {
            let workers = self.workers().map_err(|error| format!("workers: {error}"))?;
            match workers[..] {
                [worker] => return Ok(worker),
                _ if Instant::now() < end => thread::sleep(POLL_INTERVAL),
                _ => return Err(format!("{} worker processes instead of one", workers.len())),
            }
        }
    }

    /// Proportional set size of the workers, in bytes.
    ///
    /// # Errors
    /// When it cannot be read, although none was about to leave.
    pub(crate) fn worker_memory(&self) -> io::Result<u64> {
        let mut result = procfs::proportional_memory(&self.workers()?);
        // One may end between the listing and the reading.
        for _ in 0..MEMORY_RETRIES {
            if result.is_ok() {
                break;
            }
            result = procfs::proportional_memory(&self.workers()?);
        }
        result
    }

    /// Writes the configuration with another generation number and signals the master.
    ///
    /// # Errors
    /// When the file cannot be written or the master has ended.
    pub(crate) fn reload(&self, generation: u32) -> io::Result<()> {
        write_config(self.directory.path(), self.job, self.address, generation)?;
        Ok(kill_process(Pid::from_child(&self.child), Signal::HUP)?)
    }

    /// Ends the only worker with SIGKILL and waits for its end.
    ///
    /// # Errors
    /// When there is not exactly one child that is a worker, or it does not end.
    pub(crate) fn kill_worker(&self) -> Result<Death, String> {
        let worker = self.only_worker()?;
        let pid = Pid::from_raw(worker).ok_or("no process id")?;
        // Through a descriptor: the id cannot be given to another process in between.
        let handle = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| error.to_string())?;
        if !self.workers().is_ok_and(|workers| workers.contains(&worker)) {
            return Err("the worker ended by itself".to_owned());
        }
        let begin = Instant::now();
        pidfd_send_signal(&handle, Signal::KILL).map_err(|error| error.to_string())?;
        while procfs::is_running(worker) {
            if begin.elapsed() > SETTLE_TIMEOUT {
                return Err("the worker outlived SIGKILL".to_owned());
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(Death { worker, begin, end: Instant::now() })
    }
}

/// nginx's other children manage the cache.
pub(crate) fn serves(title: &str) -> bool {
    !title.contains("cache manager") && !title.contains("cache loader")
}

const SETTLE_TIMEOUT: Duration = Duration::from_secs(5);
const MEMORY_RETRIES: usize = 5;
