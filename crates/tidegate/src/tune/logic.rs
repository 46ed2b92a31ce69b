//! Which of the kernel's settings matter for a configuration: numbers in, plain text out.

/// A listening socket of the configuration.
#[derive(Clone, Debug, Default)]
pub(super) struct Listener {
    pub text: String,
    pub port: Option<u16>,
    pub datagram: bool,
    /// `None`: as long as the system allows.
    pub backlog: Option<u64>,
    pub fastopen: bool,
    pub rcvbuf: Option<u64>,
    pub sndbuf: Option<u64>,
}

/// What a configuration requires.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    pub threads: u64,
    /// `worker_connections`: of each thread.
    pub connections: u64,
    /// `worker_rlimit_nofile`.
    pub files: Option<u64>,
    pub listeners: Vec<Listener>,
    /// Whether connections to origins are opened.
    pub passes: bool,
}

/// The kernel's settings.
#[derive(Clone, Debug, Default)]
pub(super) struct Kernel {
    pub somaxconn: Option<u64>,
    pub syn_backlog: Option<u64>,
    pub syncookies: Option<u64>,
    pub device_backlog: Option<u64>,
    /// Packets dropped since boot because its queue was full.
    pub device_dropped: Option<u64>,
    /// First and last local port of outgoing connections.
    pub ports: Option<(u64, u64)>,
    pub reserved_ports: String,
    pub fastopen: Option<u64>,
    pub rmem_max: Option<u64>,
    pub wmem_max: Option<u64>,
    /// Soft and hard limit of open files.
    pub files: Option<(u64, u64)>,
    pub files_per_process: Option<u64>,
}

/// The result for one setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Advice {
    pub subject: &'static str,
    pub text: String,
    /// Commands that change it; empty where no change is needed.
    pub commands: Vec<String>,
}

impl Advice {
    pub(super) fn matters(&self) -> bool {
        !self.commands.is_empty()
    }
}

/// Descriptors besides those of connections: logs, listening sockets, the event loops' own, files being served.
const FILES_BESIDE: u64 = 128;
/// tcp(7): the bit of servers in tcp_fastopen.
const FASTOPEN_SERVER: u64 = 2;

/// Checks each setting.
pub(super) fn advise(wanted: &Wanted, kernel: &Kernel) -> Vec<Advice> {
    let all = [
        accept_queue(wanted, kernel),
        syn_queue(wanted, kernel),
        device_queue(kernel),
        local_ports(wanted, kernel),
        reserved_ports(wanted, kernel),
        open_files(wanted, kernel),
        fastopen(wanted, kernel),
        socket_buffers(wanted, kernel),
    ];
    all.into_iter().flatten().collect()
}

fn fine(subject: &'static str, text: String) -> Option<Advice> {
    Some(Advice { subject, text, commands: Vec::new() })
}

fn change(subject: &'static str, text: String, command: String) -> Option<Advice> {
    Some(Advice { subject, text, commands: vec![command] })
}

/// Returns the longest queue that a TCP socket requests.
fn longest_queue(wanted: &Wanted) -> Option<u64> {
    wanted.listeners.iter().filter(|one| !one.datagram).filter_map(|one| one.backlog).max()
}

fn accept_queue(wanted: &Wanted, kernel: &Kernel) -> Option<Advice> {
    let subject = "net.core.somaxconn";
    let (limit, asked) = (kernel.somaxconn?, longest_queue(wanted)?);
    if asked <= limit {
        let text = format!("{limit}; the longest queue that a `listen` asks for is {asked}.");
        return fine(subject, text);
    }
    let text = format!(
        "{limit}, but a `listen` asks for a queue of {asked} connections. The kernel cuts it; what comes in a \
         burst beyond it is dropped and tried again by the client after a second."
    );
    change(subject, text, format!("sysctl -w {subject}={asked}"))
}

fn syn_queue(wanted: &Wanted, kernel: &Kernel) -> Option<Advice> {
    let subject = "net.ipv4.tcp_max_syn_backlog";
    let (limit, cookies) = (kernel.syn_backlog?, kernel.syncookies?);
    if cookies > 0 {
        let text = format!("{limit}; it has no effect while net.ipv4.tcp_syncookies is {cookies}.");
        return fine(subject, text);
    }
    let queue = longest_queue(wanted)?.min(kernel.somaxconn.unwrap_or(u64::MAX));
    if queue <= limit {
        return fine(subject, format!("{limit}; the longest queue of a `listen` is {queue}."));
    }
    let text = format!(
        "{limit}, and SYN cookies are off: new connections are dropped when that number of handshakes is in progress, \
         although the queue has room for {queue}."
    );
    change(subject, text, format!("sysctl -w {subject}={queue}"))
}

fn device_queue(kernel: &Kernel) -> Option<Advice> {
    let subject = "net.core.netdev_max_backlog";
    let (limit, dropped) = (kernel.device_backlog?, kernel.device_dropped?);
    if dropped == 0 {
        return fine(subject, format!("{limit}; no packet has been dropped for it since boot."));
    }
    let text = format!(
        "{limit}, and {dropped} packets have been dropped since boot because a processor's queue was full."
    );
    change(subject, text, format!("sysctl -w {subject}={}", limit.saturating_mul(2).max(1000)))
}

fn local_ports(wanted: &Wanted, kernel: &Kernel) -> Option<Advice> {
    let subject = "net.ipv4.ip_local_port_range";
    let (first, last) = kernel.ports?;
    let count = last.checked_sub(first)?.saturating_add(1);
    if !wanted.passes {
        let text = format!("{first} {last}; nothing connects to origins here.");
        return fine(subject, text);
    }
    let most = wanted.threads.saturating_mul(wanted.connections);
    if most <= count {
        let text = format!(
            "{first} {last}: {count} connections to one origin's address; the workers open at most {most}."
        );
        return fine(subject, text);
    }
    let text = format!(
        "{first} {last}: at most {count} connections to one origin's address, while the workers may open \
         {most}. Beyond it connections fail (99: Cannot assign requested address). `keepalive` in the \
         `upstream`, a second address of the origin or `proxy_bind` help as well."
    );
    change(subject, text, format!("sysctl -w {subject}=\"1024 {}\"", last.max(65_535)))
}

/// Finds a port that outgoing connections may take while the server does not listen.
fn reserved_ports(wanted: &Wanted, kernel: &Kernel) -> Option<Advice> {
    let subject = "net.ipv4.ip_local_reserved_ports";
    let (first, last) = kernel.ports?;
    let is_reserved = |port: u16| {
        kernel.reserved_ports.trim().split(',').any(|part| {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            matches!((from.parse::<u16>(), to.parse::<u16>()), (Ok(from), Ok(to))
                if (from..=to).contains(&port))
        })
    };
    let ports = wanted.listeners.iter().filter_map(|listener| listener.port);
    let mut ports: Vec<u16> = ports
        .filter(|port| (first..=last).contains(&u64::from(*port)) && !is_reserved(*port))
        .collect();
    ports.sort_unstable();
    ports.dedup();
    if ports.is_empty() {
        let text = "no port that is listened on can be taken by an outgoing connection.".to_owned();
        return fine(subject, text);
    }
    let list = ports.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
    let before = kernel.reserved_ports.trim();
    let all = if before.is_empty() { list.clone() } else { format!("{before},{list}") };
    let text = format!(
        "outgoing connections may take the port(s) {list} while the server is down, so that it cannot start."
    );
    change(subject, text, format!("sysctl -w {subject}={all}"))
}

fn open_files(wanted: &Wanted, kernel: &Kernel) -> Option<Advice> {
    let subject = "open files";
    let (soft, hard) = kernel.files?;
    let each = if wanted.passes { 2 } else { 1 };
    let connections = wanted.threads.saturating_mul(wanted.connections);
    let needed = connections.saturating_mul(each).saturating_add(FILES_BESIDE);
    let limit = wanted.files.unwrap_or(soft);
    if needed <= limit {
        let text = format!("{limit}; the workers need at most about {needed}.");
        return fine(subject, text);
    }
    let origins = if wanted.passes { ", and as many to origins" } else { "" };
    let text = format!(
        "{limit}, but {connections} connections{origins} need about {needed}. Beyond the limit connections \
         wait unaccepted or fail (24: Too many open files)."
    );
    let mut commands = vec![format!("worker_rlimit_nofile {needed};   in the configuration")];
    if needed > hard {
        commands.push(format!(
            "LimitNOFILE={needed}   in the systemd unit, where the master is not started as root"
        ));
    }
    if let Some(most) = kernel.files_per_process.filter(|most| *most < needed) {
        commands.push(format!("sysctl -w fs.nr_open={needed}   (now {most})"));
    }
    Some(Advice { subject, text, commands })
}

fn fastopen(wanted: &Wanted, kernel: &Kernel) -> Option<Advice> {
    let subject = "net.ipv4.tcp_fastopen";
    let bits = kernel.fastopen?;
    let asks = wanted.listeners.iter().find(|listener| listener.fastopen && !listener.datagram);
    match asks {
        None => fine(subject, format!("{bits}; no `listen` has `fastopen`.")),
        Some(_) if bits & FASTOPEN_SERVER != 0 => {
            fine(subject, format!("{bits}: on for servers, as `fastopen` needs it."))
        }
        Some(listener) => {
            let text = format!(
                "{bits}: off for servers, so `fastopen` of `listen {}` does nothing.",
                listener.text
            );
            change(subject, text, format!("sysctl -w {subject}={}", bits | FASTOPEN_SERVER))
        }
    }
}

fn socket_buffers(wanted: &Wanted, kernel: &Kernel) -> Option<Advice> {
    let most = |of: fn(&Listener) -> Option<u64>| wanted.listeners.iter().filter_map(of).max();
    let buffers = [
        ("net.core.rmem_max", "rcvbuf", most(|one| one.rcvbuf), kernel.rmem_max),
        ("net.core.wmem_max", "sndbuf", most(|one| one.sndbuf), kernel.wmem_max),
    ];
    let cut = buffers.iter().filter_map(|(name, parameter, asked, limit)| {
        let (asked, limit) = ((*asked)?, (*limit)?);
        (asked > limit).then_some((*name, *parameter, asked, limit))
    });
    let cut: Vec<_> = cut.collect();
    let subject = "socket buffers";
    if cut.is_empty() {
        let text = "no `listen` asks for more than the system gives.".to_owned();
        return fine(subject, text);
    }
    let texts = cut.iter().map(|(_, parameter, asked, limit)| {
        format!("`{parameter}={asked}` is cut to {limit} bytes")
    });
    let text = format!("{}.", texts.collect::<Vec<_>>().join(", "));
    let commands = cut.iter().map(|(name, _, asked, _)| format!("sysctl -w {name}={asked}"));
    Some(Advice { subject, text, commands: commands.collect() })
}
