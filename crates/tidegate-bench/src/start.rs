//! Measures how long a server with many virtual servers needs until its first response, beside nginx, and a reload until
//! the first response by the new configuration, with the longest wait of a request meanwhile.
//!
//! The two programs take turns, so that a slow drift of the machine affects both alike. A row shows the least and the
//! median of all rounds: a busy neighbour makes single rounds longer, never shorter.

mod config;
#[cfg(test)]
mod tests;

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::procfs;
use crate::server::{Binary, Kind};

/// The longest wait for a response.
const PATIENCE: Duration = Duration::from_secs(120);
/// The pause between two readings of the memory. It has settled where they differ by less than one in a hundred.
const SETTLING: Duration = Duration::from_millis(300);
/// The pause between two attempts: a fraction of what is measured.
const PAUSE: Duration = Duration::from_micros(300);

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
struct Arguments {
    tidegate: Option<PathBuf>,
    nginx: Option<PathBuf>,
    servers: Vec<usize>,
    rounds: usize,
}

/// One start and one reload.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// From the start of the program to its first response.
    start: Duration,
    /// Processor time of all processes until then.
    cpu: Duration,
    /// From the signal to the first response by the new configuration.
    reload: Duration,
    /// The longest that a request took meanwhile, from its connection on: requests follow each other.
    longest: Duration,
    /// Proportional memory of all processes at the first response, bytes.
    memory: u64,
    /// The same once what the start needed is given back.
    settled: u64,
}

/// Runs `tidegate-bench start …`; `None` for any other command line.
///
/// # Errors
/// In words: a wrong argument, a program that does not serve.
pub(crate) fn run(
    arguments: impl IntoIterator<Item = std::ffi::OsString>,
) -> Option<Result<(), String>> {
    let parser = crate::options::subcommand("start", arguments)?;
    Some(parse(parser).map_err(|error| error.to_string()).and_then(|arguments| measure(&arguments)))
}

fn parse(mut parser: lexopt::Parser) -> Result<Arguments, lexopt::Error> {
    use lexopt::prelude::*;
    let mut arguments = Arguments { tidegate: None, nginx: None, servers: Vec::new(), rounds: 9 };
    while let Some(argument) = parser.next()? {
        match argument {
            Long("tidegate") => arguments.tidegate = Some(parser.value()?.into()),
            Long("nginx") => arguments.nginx = Some(parser.value()?.into()),
            Long("servers") => arguments.servers.push(parser.value()?.parse()?),
            Long("rounds") => arguments.rounds = parser.value()?.parse()?,
            other => return Err(other.unexpected()),
        }
    }
    if arguments.servers.is_empty() {
        arguments.servers.push(1000);
    }
    if arguments.rounds == 0 || arguments.servers.contains(&0) {
        return Err("--servers and --rounds are at least 1".into());
    }
    Ok(arguments)
}

fn measure(arguments: &Arguments) -> Result<(), String> {
    let tidegate = arguments.tidegate.clone();
    let tidegate = tidegate.unwrap_or_else(|| crate::beside_this_program("tidegate"));
    let tidegate = crate::named(&tidegate, Binary::probe(Kind::Nginx, &tidegate))?;
    let nginx = crate::given_or_found(Kind::Nginx, arguments.nginx.as_deref())?;
    println!(
        "{:<10} {:<9} {:>22} {:>8} {:>22} {:>22} {:>20}",
        "servers",
        "program",
        "start ms least/median",
        "CPU ms",
        "reload ms least/median",
        "request ms least/median",
        "PSS MB first/settled"
    );
    for servers in &arguments.servers {
        let programs = [("tidegate", Some(&tidegate)), ("nginx", nginx.as_ref())];
        let mut rounds: [Vec<Round>; 2] = Default::default();
        for _ in 0..arguments.rounds {
            for ((_, program), rounds) in programs.iter().zip(&mut rounds) {
                if let Some(program) = program {
                    rounds.push(round(&program.path, *servers)?);
                }
            }
        }
        for ((name, _), rounds) in programs.iter().zip(&rounds).filter(|(_, all)| !all.is_empty()) {
            println!("{}", row(*servers, name, rounds));
        }
    }
    Ok(())
}

fn row(servers: usize, name: &str, rounds: &[Round]) -> String {
    let sorted = |of: fn(&Round) -> Duration| {
        let mut all: Vec<Duration> = rounds.iter().map(of).collect();
        all.sort();
        all
    };
    let millis = |time: Duration| time.as_secs_f64() * 1000.0;
    let pair = |of, digits: usize| {
        let all = sorted(of);
        format!("{:.digits$} / {:.digits$}", millis(all[0]), millis(all[all.len() / 2]))
    };
    let cpu = sorted(|round| round.cpu);
    let least =
        |of: fn(&Round) -> u64| rounds.iter().map(of).min().unwrap_or_default() as f64 / 1e6;
    let memory =
        format!("{:.1} / {:.1}", least(|round| round.memory), least(|round| round.settled));
    format!(
        "{servers:<10} {name:<9} {:>22} {:>8.0} {:>22} {:>22} {memory:>20}",
        pair(|round| round.start, 0),
        millis(cpu[cpu.len() / 2]),
        pair(|round| round.reload, 0),
        pair(|round| round.longest, 1),
    )
}

/// A started server, ended when it is dropped.
pub(crate) struct Started(pub(crate) Child);

impl Drop for Started {
    fn drop(&mut self) {
        self.signal(Signal::TERM);
        let _ = self.0.wait();
    }
}

impl Started {
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(id) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            // It may have ended.
            let _ = kill_process(id, signal);
        }
    }

    pub(crate) fn processes(&self) -> Vec<i32> {
        let root = self.0.id() as i32;
        procfs::family(root).unwrap_or_else(|_| vec![root])
    }
}

fn round(program: &Path, servers: usize) -> Result<Round, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", program.display());
    let directory = tempfile::Builder::new().prefix("tidegate-bench-").tempdir().map_err(failed)?;
    let address = free_address().map_err(failed)?;
    let file = directory.path().join("nginx.conf");
    let write =
        |text: &str| fs::write(&file, config::write(servers, address, directory.path(), text));
    write("one").map_err(failed)?;
    let begun = Instant::now();
    let mut command = Command::new(program);
    command.arg("-c").arg(&file).arg("-p").arg(directory.path()).arg("-e").arg("error.log");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let server = Started(command.spawn().map_err(failed)?);
    let wait =
        |text| until(address, text).ok_or_else(|| format!("{}: no response", program.display()));
    wait("one")?;
    let start = begun.elapsed();
    let cpu = procfs::cpu_time(&server.processes()).total();
    let memory = procfs::proportional_memory(&server.processes()).map_err(failed)?;
    let settled = settled_memory(&server, memory).map_err(failed)?;
    write("two").map_err(failed)?;
    let begun = Instant::now();
    server.signal(Signal::HUP);
    let longest = wait("two")?;
    let reload = begun.elapsed();
    Ok(Round { start, cpu: Duration::from_secs_f64(cpu / 1e6), reload, longest, memory, settled })
}

/// Reads the memory until it has settled; `last` is the reading before.
fn settled_memory(server: &Started, mut last: u64) -> std::io::Result<u64> {
    let end = Instant::now() + PATIENCE;
    loop {
        thread::sleep(SETTLING);
        let memory = procfs::proportional_memory(&server.processes())?;
        if memory.abs_diff(last) <= last / 100 || Instant::now() > end {
            return Ok(memory);
        }
        last = memory;
    }
}

/// Requests the last server until it responds with a text; returns the longest that a request took, or `None` after
/// [`PATIENCE`].
fn until(address: SocketAddr, text: &str) -> Option<Duration> {
    let end = Instant::now() + PATIENCE;
    let mut longest = Duration::ZERO;
    while Instant::now() < end {
        let begun = Instant::now();
        let response = respond(address);
        longest = longest.max(begun.elapsed());
        if response.is_ok_and(|response| response.ends_with(text)) {
            return Some(longest);
        }
        thread::sleep(PAUSE);
    }
    None
}

fn respond(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET / HTTP/1.0\r\nHost: site0.example.com\r\n\r\n")?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    Ok(response)
}

/// Returns an address of the loopback interface that nothing listens at.
pub(crate) fn free_address() -> std::io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}
