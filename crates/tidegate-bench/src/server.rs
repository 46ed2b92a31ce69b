//! Starts, observes and stops one measured server.
//!
//! A server gets its own directory, port and configuration, and is bound to one processor by being
//! started from a thread that is: every process and thread below it inherits that.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::config::{self, Scenario, Setup};
use crate::machine::Place;
use crate::pattern;
use crate::procfs::{self, CpuTime};
use crate::suites::depth::DEPTHS;

mod apache;
mod control;
mod haproxy;
mod others;
pub(crate) mod watchdog;
pub(crate) use control::Death;
#[cfg(test)]
pub(crate) use control::serves;
pub(crate) use others::Kind;
#[cfg(test)]
pub(crate) use others::write_config as write_other_config;

/// An installed server program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Binary {
    pub kind: Kind,
    pub path: PathBuf,
    /// First line of its version output.
    pub version: String,
}

impl Binary {
    /// Reads the version of a program.
    ///
    /// # Errors
    /// When it cannot be run.
    pub(crate) fn probe(kind: Kind, path: &Path) -> io::Result<Binary> {
        let path = &in_path(path);
        let output = Command::new(path).arg(kind.version_option()).stdin(Stdio::null()).output()?;
        let text = [output.stderr, output.stdout].concat();
        let text = String::from_utf8_lossy(&text);
        let mut lines = text.lines().map(str::trim);
        let version = lines.find(|line| line.contains(|c: char| c.is_ascii_digit()));
        let version = version.unwrap_or("unknown version").to_owned();
        Ok(Binary { kind, path: path.to_owned(), version })
    }

    /// Whether it has directives that nginx does not have.
    fn is_tidegate(&self) -> bool {
        self.kind == Kind::Nginx && self.version.contains("tidegate")
    }

    /// The program where distributions put it.
    pub(crate) fn find(kind: Kind) -> Option<Binary> {
        kind.places().iter().find_map(|path| Binary::probe(kind, Path::new(path)).ok())
    }
}

/// The file that a bare name means, looked up in PATH as starting it would.
fn in_path(name: &Path) -> PathBuf {
    if name.components().count() > 1 {
        return name.to_owned();
    }
    let directories = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&directories).map(|directory| directory.join(name));
    found.into_iter().find(|path| path.is_file()).unwrap_or_else(|| name.to_owned())
}

/// The purpose of a server, with its settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub scenario: Scenario,
    pub origin: SocketAddr,
    pub worker_connections: u64,
    /// Configure `proxy_cache_tempfile` if the server has it.
    pub tempfile_directive: bool,
    /// Run a copy of the program: another process of the same file takes a share of the pages
    /// that it maps, so that proportional sizes would change as such processes start and end.
    pub private_copy: bool,
    /// Run under valgrind's callgrind, without a master process; see [`crate::instructions`].
    pub counted: bool,
    /// Let Tidegate log long event-loop iterations; see [`watchdog`].
    pub watchdog: bool,
    /// Processors to run on.
    pub place: Place,
}

/// A running server; dropping it stops it.
pub(crate) struct Server {
    child: Child,
    kind: Kind,
    job: Job,
    address: SocketAddr,
    /// Processes seen at the start, to end a worker that outlives its master.
    workers: Vec<i32>,
    /// Whether `proxy_cache_tempfile` was refused and left out.
    pub without_tempfile: bool,
    directory: tempfile::TempDir,
}

impl Server {
    /// Starts the server and waits until it accepts connections.
    ///
    /// # Errors
    /// The output of the server when it ended instead.
    pub(crate) fn start(binary: &Binary, job: Job) -> Result<Server, String> {
        let mut job = Job { watchdog: job.watchdog && binary.is_tidegate(), ..job };
        let mut without_tempfile = false;
        let mut failure = String::new();
        // Another process may take the free port before the server binds it.
        for _ in 0..START_ATTEMPTS {
            match Server::try_start(binary, job, without_tempfile) {
                Ok(server) => return Ok(server),
                Err(reason) => failure = reason,
            }
            if failure.contains("unknown directive \"proxy_cache_tempfile\"") {
                job.tempfile_directive = false;
                without_tempfile = true;
            } else if !failure.contains("bind()") {
                break;
            }
        }
        Err(failure)
    }

    fn try_start(binary: &Binary, job: Job, without_tempfile: bool) -> Result<Server, String> {
        let directory = tempfile::Builder::new()
            .prefix("tidegate-bench-")
            .tempdir()
            .map_err(|error| format!("no temporary directory: {error}"))?;
        let address = prepare(directory.path(), job).map_err(|error| error.to_string())?;
        others::write_config(binary.kind, directory.path(), address, job.origin, job.scenario)
            .map_err(|error| error.to_string())?;
        let child = spawn_pinned(binary, directory.path(), job, address)
            .map_err(|error| format!("{}: {error}", binary.path.display()))?;
        let (kind, workers) = (binary.kind, Vec::new());
        let mut server = Server { child, kind, job, address, workers, without_tempfile, directory };
        server.wait_ready()?;
        server.workers = server.processes();
        Ok(server)
    }

    /// The prefix directory.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// User and system time of all the server's processes since they began.
    pub(crate) fn cpu_time(&self) -> CpuTime {
        procfs::cpu_time(&self.processes())
    }

    /// Proportional set size of all the server's processes, in bytes.
    pub(crate) fn memory(&self) -> io::Result<u64> {
        procfs::proportional_memory(&self.processes())
    }

    /// Numbers of all threads.
    ///
    /// # Errors
    /// A process ends meanwhile.
    pub(crate) fn threads(&self) -> io::Result<BTreeSet<i32>> {
        let mut all = BTreeSet::new();
        for id in self.processes() {
            for entry in fs::read_dir(format!("/proc/{id}/task"))? {
                all.extend(entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()));
            }
        }
        Ok(all)
    }

    /// The process that was started.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Master and workers.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let root = self.child.id() as i32;
        procfs::family(root).unwrap_or_else(|_| vec![root])
    }

    fn wait_ready(&mut self) -> Result<(), String> {
        let limit = if self.job.counted { COUNTED_READY_TIMEOUT } else { READY_TIMEOUT };
        let end = Instant::now() + limit;
        while Instant::now() < end {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("ended at start ({status}): {}", self.printed()));
            }
            if procfs::listens(self.address) {
                return Ok(());
            }
            thread::sleep(POLL_INTERVAL);
        }
        Err(format!("not ready after {} s: {}", limit.as_secs(), self.printed()))
    }

    /// The last lines that the server printed or logged.
    fn printed(&self) -> String {
        let read = |name| fs::read(self.directory.path().join(name)).unwrap_or_default();
        let text = [read(OUTPUT_FILE), read(LOG_FILE)].concat();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(4)..].join(" / ")
    }

    /// Ends the process that was started: gracefully, then fast, then for good.
    fn stop(&mut self) {
        // Reloads and crashes start new ones.
        self.workers.extend(self.processes());
        // QUIT is graceful to nginx alone.
        let signals = [Signal::QUIT, Signal::TERM];
        for signal in signals.into_iter().skip(usize::from(self.kind != Kind::Nginx)) {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            let _ = kill_process(Pid::from_child(&self.child), signal);
            if self.wait_end() {
                return;
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Only after a killed master may workers be left: those that are still its own.
        for id in std::mem::take(&mut self.workers) {
            if let Some(pid) = Pid::from_raw(id).filter(|_| is_server(id, self.directory.path())) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }

    fn wait_end(&mut self) -> bool {
        let end = Instant::now() + STOP_TIMEOUT;
        while Instant::now() < end {
            match self.child.try_wait() {
                Ok(Some(_)) => return true,
                Ok(None) => thread::sleep(POLL_INTERVAL),
                Err(_) => return false,
            }
        }
        false
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
        if self.job.watchdog {
            watchdog::collect(&self.directory.path().join(LOG_FILE));
        }
    }
}

/// The example component, where `scripts/wasm.sh` has built it: in the directory `wasm` beside one of those that
/// this program is in.
pub(crate) fn component() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    program
        .ancestors()
        .map(|directory| directory.join("wasm/example.wasm"))
        .find(|file| file.is_file())
}

/// Writes files and configuration; the port is one that was free a moment ago.
fn prepare(directory: &Path, job: Job) -> io::Result<SocketAddr> {
    for name in config::DIRECTORIES {
        fs::create_dir(directory.join(name))?;
    }
    for (name, bytes) in [config::SMALL_FILE, config::LARGE_FILE] {
        let body = pattern::body(format!("/{name}").as_bytes(), bytes);
        fs::write(directory.join("html").join(name), body)?;
    }
    if matches!(job.scenario, Scenario::Handlers | Scenario::Php | Scenario::PhpKept) {
        let (name, bytes) = config::COLD_FILE;
        let file = fs::File::create(directory.join("html").join(name))?;
        // Pages that were never written are not read from the disk either.
        io::copy(&mut io::Read::take(io::repeat(b'c'), bytes), &mut &file)?;
        file.sync_all()?;
    }
    if job.scenario == Scenario::Component {
        let component = component().ok_or(io::ErrorKind::NotFound)?;
        fs::copy(component, directory.join(config::COMPONENT_FILE))?;
    }
    if matches!(job.scenario, Scenario::Depth(_)) {
        make_deep_files(&directory.join("html"))?;
    }
    if let Scenario::Fairness(places) = job.scenario {
        config::fairness::prepare(directory, places)?;
    }
    if let Scenario::Protocols(_) = job.scenario {
        config::protocols::prepare(directory)?;
    }
    let address = free_address(job.scenario)?;
    write_config(directory, job, address, 0)?;
    Ok(address)
}

/// Returns a free address that no further listener of the scenario has: those are free as well.
fn free_address(scenario: Scenario) -> io::Result<SocketAddr> {
    let further = match scenario {
        Scenario::Fairness(places) => vec![places.tls, places.stream],
        Scenario::Protocols(places) => vec![places.plain, places.ecdsa, places.rsa],
        _ => Vec::new(),
    };
    // Held meanwhile, so that none is returned twice.
    let mut taken = Vec::new();
    loop {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        if further.iter().all(|port| port.address() != address) {
            return Ok(address);
        }
        taken.push(listener);
    }
}

/// The small file again below as many directories as each depth has.
fn make_deep_files(root: &Path) -> io::Result<()> {
    let (name, _) = config::SMALL_FILE;
    for depth in DEPTHS {
        let directory = root.join(config::directories(depth).trim_start_matches('/'));
        fs::create_dir_all(&directory)?;
        fs::copy(root.join(name), directory.join(name))?;
    }
    Ok(())
}

/// Replaces the configuration atomically: a server never reads half of it.
fn write_config(directory: &Path, job: Job, listen: SocketAddr, generation: u32) -> io::Result<()> {
    let setup = Setup {
        scenario: job.scenario,
        directory,
        listen,
        origin: job.origin,
        worker_connections: job.worker_connections,
        privileged: rustix::process::geteuid().is_root(),
        tempfile_directive: job.tempfile_directive,
        watchdog: job.watchdog,
        generation,
    };
    let new = directory.join(CONFIG_FILE).with_extension("new");
    fs::write(&new, config::generate(&setup))?;
    fs::rename(new, directory.join(CONFIG_FILE))
}

/// Starts the program from a thread bound to its place, as affinity is inherited from a thread.
fn spawn_pinned(
    binary: &Binary,
    directory: &Path,
    job: Job,
    listen: SocketAddr,
) -> io::Result<Child> {
    let output = fs::File::create(directory.join(OUTPUT_FILE))?;
    let mut program = binary.path.clone();
    if job.private_copy {
        program = directory.join(PROGRAM_FILE);
        fs::copy(&binary.path, &program)?;
    }
    let mut command = match job.counted {
        true => crate::instructions::counting(&program, directory),
        false => Command::new(program),
    };
    if binary.kind == Kind::Nginx {
        command.arg("-p").arg(directory).arg("-c").arg(directory.join(CONFIG_FILE));
        command.arg("-e").arg(directory.join(LOG_FILE));
    }
    if job.counted {
        command.args(["-g", "master_process off;"]);
    }
    others::add_arguments(binary.kind, &mut command, directory, listen, job.origin);
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
    thread::scope(|scope| {
        let starter = scope.spawn(|| {
            crate::machine::pin_current_thread(job.place)?;
            command.spawn()
        });
        starter.join().unwrap_or_else(|_| Err(io::Error::other("starting thread panicked")))
    })
}

/// Whether a process id still belongs to a server of this directory, and was not given to another
/// process since: its standard output is the directory's file, as inherited from the master.
fn is_server(id: i32, directory: &Path) -> bool {
    fs::read_link(format!("/proc/{id}/fd/1")).is_ok_and(|path| path.starts_with(directory))
}

const CONFIG_FILE: &str = "nginx.conf";
const PROGRAM_FILE: &str = "program";
const LOG_FILE: &str = "error.log";
const OUTPUT_FILE: &str = "output.txt";
const START_ATTEMPTS: usize = 4;
const READY_TIMEOUT: Duration = Duration::from_secs(10);
/// Under valgrind, on a machine that builds beside it.
const COUNTED_READY_TIMEOUT: Duration = Duration::from_secs(120);
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
