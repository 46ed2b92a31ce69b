//! Reads /proc: processor time and memory of a server's processes, and the machine's name.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::SocketAddr;

/// The needed fields of a line of /proc/PID/stat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub parent: i32,
    /// The process is a zombie.
    pub ended: bool,
    /// Clock ticks in user mode, of all threads, ended ones included.
    pub user_ticks: u64,
    /// Clock ticks in the kernel, likewise.
    pub system_ticks: u64,
}

/// Processor time in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CpuTime {
    pub user: f64,
    pub system: f64,
}

impl CpuTime {
    /// User and system time together.
    pub(crate) fn total(self) -> f64 {
        self.user + self.system
    }

    /// Returns the time used since `earlier`; a process that ended in between counts as zero.
    pub(crate) fn since(self, earlier: CpuTime) -> CpuTime {
        CpuTime {
            user: (self.user - earlier.user).max(0.0),
            system: (self.system - earlier.system).max(0.0),
        }
    }
}

/// The process and everything below it, the process first. Ended processes are left out.
pub(crate) fn family(root: i32) -> io::Result<Vec<i32>> {
    // A process may end between the listing and the reading.
    let parents = processes()?.into_iter().filter_map(|id| Some((id, stat(id).ok()?.parent)));
    let parents: Vec<(i32, i32)> = parents.collect();
    Ok(descendants(root, &parents))
}

/// The processes directly below one that have not ended, each with its command line (titles
/// that servers give themselves included).
pub(crate) fn children(parent: i32) -> io::Result<Vec<(i32, String)>> {
    let mut children = Vec::new();
    for id in processes()? {
        if stat(id).is_ok_and(|stat| stat.parent == parent && !stat.ended)
            && let Ok(bytes) = fs::read(format!("/proc/{id}/cmdline"))
        {
            let words: Vec<_> =
                bytes.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
            children.push((id, words.join(" ").trim_end().to_owned()));
        }
    }
    Ok(children)
}

/// Whether a process exists and has not ended.
pub(crate) fn is_running(id: i32) -> bool {
    stat(id).is_ok_and(|stat| !stat.ended)
}

/// Processor time of the processes given, from /proc/PID/stat.
pub(crate) fn cpu_time(processes: &[i32]) -> CpuTime {
    let tick = microseconds_per_tick();
    let mut time = CpuTime::default();
    for stat in processes.iter().filter_map(|id| stat(*id).ok()) {
        time.user += stat.user_ticks as f64 * tick;
        time.system += stat.system_ticks as f64 * tick;
    }
    time
}

/// Proportional set size of the processes together, in bytes. One that has ended has none.
///
/// # Errors
/// When a process may not be read (another user's) or the kernel lacks smaps_rollup.
pub(crate) fn proportional_memory(processes: &[i32]) -> io::Result<u64> {
    let mut total = 0;
    for id in processes {
        let text = match fs::read_to_string(format!("/proc/{id}/smaps_rollup")) {
            Err(_) if !is_running(*id) => continue,
            text => text?,
        };
        total += parse_pss(&text).ok_or_else(|| malformed("smaps_rollup"))?;
    }
    Ok(total)
}

/// Busy time of one processor since boot, from /proc/stat; zero if unknown.
pub(crate) fn processor_busy(cpu: usize) -> CpuTime {
    busy(Some(cpu))
}

/// The same for all processors together.
pub(crate) fn machine_busy() -> CpuTime {
    busy(None)
}

fn busy(cpu: Option<usize>) -> CpuTime {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let (user, system) = parse_busy(&text, cpu).unwrap_or_default();
    let tick = microseconds_per_tick();
    CpuTime { user: user as f64 * tick, system: system as f64 * tick }
}

/// Returns the open descriptors of a process with their targets, such as `socket:[4711]`.
pub(crate) fn descriptors(process: i32) -> Vec<(i32, String)> {
    let entries = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let opened = entries.filter_map(|entry| {
        let descriptor = entry.file_name().to_str()?.parse().ok()?;
        // It may be closed meanwhile.
        let target = fs::read_link(entry.path()).ok()?;
        Some((descriptor, target.to_str()?.to_owned()))
    });
    opened.collect()
}

/// The server's ends of established connections to an address, as [`descriptors`] names them.
pub(crate) fn connections_to(address: SocketAddr) -> BTreeSet<String> {
    parse_sockets(&sockets(), address.port(), ESTABLISHED)
}

/// Whether a socket listens at the port. A connection as a trial would not do: without a listener, one to a port of the
/// range that clients get may get that port itself, and is then connected to itself.
pub(crate) fn listens(address: SocketAddr) -> bool {
    !parse_sockets(&sockets(), address.port(), LISTEN).is_empty()
}

fn sockets() -> String {
    fs::read_to_string("/proc/net/tcp").unwrap_or_default()
}

/// States of /proc/net/tcp.
pub(crate) const ESTABLISHED: &str = "01";
const LISTEN: &str = "0A";

/// Lines of /proc/net/tcp with a local port and a state: fields 1, 3 and 9 of proc(5).
pub(crate) fn parse_sockets(text: &str, port: u16, state: &str) -> BTreeSet<String> {
    let local = format!(":{port:04X}");
    let sockets = text.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, here, _, found, _, _, _, _, _, inode, ..] = fields[..] else { return None };
        (here.ends_with(&local) && found == state).then(|| format!("socket:[{inode}]"))
    });
    sockets.collect()
}

/// Descriptors that an epoll instance watches: the lines `tfd:` of its file in fdinfo (proc(5)).
pub(crate) fn parse_watched(text: &str) -> Vec<i32> {
    let numbers = text.lines().filter_map(|line| {
        line.strip_prefix("tfd:")?.split_ascii_whitespace().next()?.parse().ok()
    });
    numbers.collect()
}

/// The kernel's release and the processor's model, for the head of a report.
pub(crate) fn machine() -> (String, String) {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    (kernel.trim().to_owned(), parse_processor(&processors))
}

/// Reads a stat line. The name in parentheses may itself hold blanks and parentheses, so that
/// fields are counted from the last `)`.
pub(crate) fn parse_stat(text: &str) -> Option<Stat> {
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
    // Fields as numbered in proc(5): 3 is the state, 4 the parent, 14 and 15 the times.
    let ended = matches!(fields.next()?, "Z" | "X");
    let parent = fields.next()?.parse().ok()?;
    let user_ticks = fields.nth(9)?.parse().ok()?;
    let system_ticks = fields.next()?.parse().ok()?;
    Some(Stat { parent, ended, user_ticks, system_ticks })
}

/// Ticks in user mode (nice included) and in the kernel (interrupts and what a hypervisor
/// took included) of one processor or of all: fields 1, 2 and 3, 6, 7, 8 of the line in /proc/stat (proc(5)).
pub(crate) fn parse_busy(text: &str, cpu: Option<usize>) -> Option<(u64, u64)> {
    let name = cpu.map_or("cpu ".to_owned(), |cpu| format!("cpu{cpu} "));
    let line = text.lines().find_map(|line| line.strip_prefix(&name))?;
    let ticks: Vec<u64> = line.split_ascii_whitespace().map_while(|t| t.parse().ok()).collect();
    let [user, nice, system, _idle, _wait, hard, soft, stolen, ..] = ticks[..] else { return None };
    Some((user + nice, system + hard + soft + stolen))
}

/// The `Pss:` line of smaps or smaps_rollup, in bytes.
pub(crate) fn parse_pss(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// `Model name × count` of /proc/cpuinfo.
pub(crate) fn parse_processor(text: &str) -> String {
    let models: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .filter(|(name, _)| name.trim() == "model name")
        .map(|(_, model)| model.trim())
        .collect();
    match models.first() {
        Some(model) => format!("{model} × {}", models.len()),
        None => "unknown processor".to_owned(),
    }
}

/// The root and all below it among (process, parent) pairs.
pub(crate) fn descendants(root: i32, parents: &[(i32, i32)]) -> Vec<i32> {
    let mut found = vec![root];
    let mut index = 0;
    while let Some(&parent) = found.get(index) {
        for &(id, its_parent) in parents {
            if its_parent == parent && !found.contains(&id) {
                found.push(id);
            }
        }
        index += 1;
    }
    found
}

fn processes() -> io::Result<Vec<i32>> {
    let mut ids = Vec::new();
    for entry in fs::read_dir("/proc")? {
        ids.extend(entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    Ok(ids)
}

fn microseconds_per_tick() -> f64 {
    1e6 / rustix::param::clock_ticks_per_second().max(1) as f64
}

fn stat(id: i32) -> io::Result<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{id}/stat"))?).ok_or_else(|| malformed("stat"))
}

fn malformed(file: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("cannot read /proc/PID/{file}"))
}
