//! The server under test as processes: start, readiness, signals, stop.

use crate::World;
use crate::bell::{Deadline, Failure, locked};
use crate::failing::{Failing, fail_here};
use crate::guard;
use crate::origin::Shared;
use crate::syntax::{Receiver, Signal};
use rustix::process::{self, Pid};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

/// Its path on Debian.
const WINE: &str = "/usr/lib/wine/wine64";

/// Interval of readiness checks without events.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The most time a server gets to end after TERM before it is killed.
const STOP_MAX: Duration = Duration::from_secs(10);

/// A program and its kind.
#[derive(Debug, Clone)]
pub struct Program {
    /// Which of the two.
    pub world: World,
    /// Its binary.
    pub binary: PathBuf,
}

/// A started server.
#[derive(Debug)]
pub struct Server {
    program: Program,
    group: Pid,
    directory: PathBuf,
    shared: Arc<Shared>,
    /// Exit code, or 128 + signal, once the process that was started has ended.
    exit: Arc<Mutex<Option<i64>>>,
}

impl Program {
    fn command(&self, directory: &Path) -> Command {
        let mut command = match self.world {
            World::Windows => {
                let wine = std::env::var_os("WINE").unwrap_or_else(|| WINE.into());
                let mut command = Command::new(wine);
                command.arg(&self.binary);
                command
            }
            World::Tidegate | World::Nginx => Command::new(&self.binary),
        };
        command
            .arg("-p")
            .arg(self.path(directory))
            .arg("-c")
            .arg(self.path(&directory.join("nginx.conf")))
            // The log that is used before the configuration's own is known.
            .arg("-e")
            .arg(self.path(&directory.join("start.log")))
            .env("LC_ALL", if self.world == World::Windows { "C.UTF-8" } else { "C" })
            .env("TZ", "UTC")
            .stdin(Stdio::null());
        command
    }

    /// Returns a path in the form of the program.
    pub fn path(&self, path: &Path) -> String {
        // Wine's name of this system's root directory.
        let drive = if self.world == World::Windows { "Z:" } else { "" };
        format!("{drive}{}", path.display())
    }

    /// Starts the server, some of whose calls may fail; its output is in `output.log`.
    pub fn start(
        &self,
        directory: &Path,
        shared: Arc<Shared>,
        failing: &[Failing],
    ) -> Result<Server, Failure> {
        let failed = |error: std::io::Error| {
            Failure::new(format!("cannot start {}: {error}", self.binary.display()))
        };
        let output = std::fs::File::create(directory.join("output.log")).map_err(failed)?;
        let errors = output.try_clone().map_err(failed)?;
        let mut command = self.command(directory);
        command.stdout(output).stderr(errors).process_group(0);
        let mut child = match failing {
            [] => command.spawn().map_err(failed)?,
            _ => spawn_failing(&mut command, failing)?.map_err(failed)?,
        };
        let group = Pid::from_child(&child);
        guard::watch(child.id()).map_err(failed)?;
        let exit = Arc::new(Mutex::new(None));
        let (shared_exit, watcher) = (Arc::clone(&exit), Arc::clone(&shared));
        std::thread::spawn(move || {
            let status = child.wait();
            let code = status.map_or(-1, |status| match status.code() {
                Some(code) => i64::from(code),
                None => 128 + i64::from(status.signal().unwrap_or_default()),
            });
            *locked(&shared_exit) = Some(code);
            watcher.bell.ring();
        });
        Ok(Server { program: self.clone(), group, directory: directory.to_owned(), shared, exit })
    }

    /// Runs the binary with further arguments to its end: exit code and both outputs. A server that keeps
    /// running gets TERM at the deadline of the case.
    pub fn run(
        &self,
        directory: &Path,
        arguments: &[String],
        deadline: Deadline,
    ) -> Result<(i64, Vec<u8>), Failure> {
        let failed = |error: std::io::Error| {
            Failure::new(format!("cannot run {}: {error}", self.binary.display()))
        };
        let mut command = self.command(directory);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(failed)?;
        let pid = Pid::from_child(&child);
        let (ended, end) = mpsc::channel();
        std::thread::spawn(move || ended.send(child.wait_with_output()));
        let Ok(output) = end.recv_timeout(deadline.remaining()?) else {
            let _ = process::kill_process(pid, process::Signal::TERM);
            return Err(Failure::new("the command did not end"));
        };
        let output = output.map_err(failed)?;
        let code = i64::from(output.status.code().unwrap_or(-1));
        Ok((code, [output.stdout, output.stderr].concat()))
    }
}

impl Server {
    /// Exit code of the process that was started, if it has ended.
    pub fn exit(&self) -> Option<i64> {
        *locked(&self.exit)
    }

    /// Waits until the pid file names a process, that process has a worker unless it works
    /// `alone`, and all `fronts` accept connections. Without the worker a signal could come
    /// before the master's loop begins, where nginx forgets it until the next one.
    pub fn wait_ready(&self, fronts: &[SocketAddr], alone: bool) -> Result<(), Failure> {
        self.shared.bell.wait_until(self.shared.deadline, Some(LOOK_AGAIN), || {
            if let Some(code) = self.exit() {
                return Err(Failure::new(format!("the server ended at its start with {code}")));
            }
            let alone = alone || self.program.world == World::Windows;
            let works = |master| alone || !children(master).is_empty();
            Ok(self.pid("nginx.pid").is_some_and(works)
                && fronts.iter().all(|front| accepts(*front)))
        })
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal, receiver: Receiver) -> Result<(), Failure> {
        if self.program.world == World::Windows {
            return self.order(signal);
        }
        process::kill_process(self.process(receiver)?, number(signal))
            .map_err(|error| Failure::new(format!("cannot signal: {error}")))
    }

    fn process(&self, receiver: Receiver) -> Result<Pid, Failure> {
        let master = self.pid("nginx.pid").ok_or_else(|| Failure::new("no pid file"));
        match receiver {
            Receiver::Master => master,
            Receiver::Old => {
                self.pid("nginx.pid.oldbin").ok_or_else(|| Failure::new("no old pid file"))
            }
            Receiver::Worker => {
                let children = children(master?);
                children.first().copied().ok_or_else(|| Failure::new("no worker"))
            }
        }
    }

    /// Returns the output of `ps` for a process: its short name, and on a second line its command line.
    pub fn names(&self, receiver: Receiver) -> Option<Vec<u8>> {
        let pid = self.process(receiver).ok()?.as_raw_nonzero();
        let mut names = std::fs::read(format!("/proc/{pid}/comm")).ok()?;
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        names.extend(line.split(|byte| *byte == 0).collect::<Vec<_>>().join(&b' ').trim_ascii());
        Some(names)
    }

    /// Returns the system's data about a process: its id, `/proc/PID/status` and `limits`, the processors of each thread, its
    /// directory and priority, each on lines of their own.
    pub fn state(&self, receiver: Receiver) -> Option<Vec<u8>> {
        let process = self.process(receiver).ok()?;
        let pid = process.as_raw_nonzero();
        let mut state = format!("Id: {pid}\n").into_bytes();
        for part in ["status", "limits"] {
            state.extend(std::fs::read(format!("/proc/{pid}/{part}")).ok()?);
        }
        for thread in std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
            let status = std::fs::read_to_string(thread.path().join("status")).unwrap_or_default();
            let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:\t"));
            state.extend(format!("Cpus: {}\n", cpus.unwrap_or_default()).into_bytes());
        }
        let directory = std::fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
        let nice = process::getpriority_process(Some(process)).ok()?;
        state.extend(format!("Directory: {}\nNice: {nice}\n", directory.display()).into_bytes());
        Some(state)
    }

    /// Lets the program itself send the command that corresponds to a signal.
    fn order(&self, signal: Signal) -> Result<(), Failure> {
        let order = match signal {
            Signal::Hup => "reload",
            Signal::Quit => "quit",
            Signal::Term | Signal::Int => "stop",
            Signal::Usr1 => "reopen",
            Signal::Kill => {
                return process::kill_process_group(self.group, process::Signal::KILL)
                    .map_err(|error| Failure::new(format!("cannot kill: {error}")));
            }
            Signal::Usr2
            | Signal::Winch
            | Signal::Alarm
            | Signal::Io
            | Signal::Pipe
            | Signal::Sys => return Err(Failure::new("no such order")),
        };
        let arguments = ["-s".to_owned(), order.to_owned()];
        match self.program.run(&self.directory, &arguments, Deadline::after(STOP_MAX))? {
            (0, _) => Ok(()),
            (_, output) => Err(Failure::new(String::from_utf8_lossy(&output).into_owned())),
        }
    }

    /// Waits for the exit of the process that was started.
    pub fn wait_exit(&self) -> Result<i64, Failure> {
        let exit = || Ok(self.exit().is_some());
        self.shared.bell.wait_until(self.shared.deadline, None, exit)?;
        Ok(self.exit().unwrap_or_default())
    }

    /// Ends everything that was started, in any state.
    pub fn finish(self) -> Result<(), Failure> {
        let mut stopped = Ok(());
        if self.exit().is_none() {
            let _ = process::kill_process(self.group, process::Signal::TERM);
            let deadline = Deadline::after(STOP_MAX);
            let gone = self.shared.bell.wait_until(deadline, None, || Ok(self.exit().is_some()));
            stopped = gone.map_err(|_| Failure::new("the server did not end after TERM"));
        }
        if let Some(upgraded) = self.pid("nginx.pid")
            && self.program.world != World::Windows
        {
            let _ = process::getpgid(Some(upgraded))
                .ok()
                .filter(|group| *group == self.group)
                .map(|_| process::kill_process(upgraded, process::Signal::TERM));
        }
        // Workers of a master that died, and all other processes of the group.
        let _ = process::kill_process_group(self.group, process::Signal::KILL);
        let _ = guard::forget(self.group.as_raw_nonzero().get().unsigned_abs());
        stopped
    }

    fn pid(&self, file: &str) -> Option<Pid> {
        let text = std::fs::read_to_string(self.directory.join(file)).ok()?;
        Pid::from_raw(text.trim().parse().ok()?)
    }
}

/// Runs on a thread that ends then: its failing calls cannot be restored.
fn spawn_failing(
    command: &mut Command,
    failing: &[Failing],
) -> Result<std::io::Result<Child>, Failure> {
    std::thread::scope(|scope| {
        let spawned = scope.spawn(|| fail_here(failing).map(|()| command.spawn()));
        spawned.join().unwrap_or_else(|_| Err(Failure::new("the thread that starts it panicked")))
    })
}

fn accepts(address: SocketAddr) -> bool {
    TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok()
}

fn children(master: Pid) -> Vec<Pid> {
    let raw = master.as_raw_nonzero();
    let list = std::fs::read_to_string(format!("/proc/{raw}/task/{raw}/children"));
    let list = list.unwrap_or_default();
    list.split_ascii_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

fn number(signal: Signal) -> process::Signal {
    match signal {
        Signal::Hup => process::Signal::HUP,
        Signal::Quit => process::Signal::QUIT,
        Signal::Term => process::Signal::TERM,
        Signal::Int => process::Signal::INT,
        Signal::Usr1 => process::Signal::USR1,
        Signal::Usr2 => process::Signal::USR2,
        Signal::Winch => process::Signal::WINCH,
        Signal::Kill => process::Signal::KILL,
        Signal::Alarm => process::Signal::ALARM,
        Signal::Io => process::Signal::IO,
        Signal::Pipe => process::Signal::PIPE,
        Signal::Sys => process::Signal::SYS,
    }
}
