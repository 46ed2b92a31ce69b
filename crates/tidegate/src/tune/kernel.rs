//! The kernel's current settings, read from /proc.

use super::logic::Kernel;

/// Reads the settings; one that cannot be read is `None`.
pub(super) fn read() -> Kernel {
    let number = |name: &str| file(name)?.trim().parse().ok();
    Kernel {
        somaxconn: number("net/core/somaxconn"),
        syn_backlog: number("net/ipv4/tcp_max_syn_backlog"),
        syncookies: number("net/ipv4/tcp_syncookies"),
        device_backlog: number("net/core/netdev_max_backlog"),
        device_dropped: std::fs::read_to_string("/proc/net/softnet_stat")
            .ok()
            .map(|text| dropped(&text)),
        ports: file("net/ipv4/ip_local_port_range").as_deref().and_then(range),
        reserved_ports: file("net/ipv4/ip_local_reserved_ports").unwrap_or_default(),
        fastopen: number("net/ipv4/tcp_fastopen"),
        rmem_max: number("net/core/rmem_max"),
        wmem_max: number("net/core/wmem_max"),
        files: limit(&std::fs::read_to_string("/proc/self/limits").unwrap_or_default()),
        files_per_process: number("fs/nr_open"),
    }
}

fn file(name: &str) -> Option<String> {
    std::fs::read_to_string(format!("/proc/sys/{name}")).ok()
}

/// Returns the packets dropped because a processor's queue was full: the second column, in hexadecimal.
pub(super) fn dropped(text: &str) -> u64 {
    let column = |line: &str| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok();
    text.lines().filter_map(column).sum()
}

/// Parses the first and the last number, both included.
pub(super) fn range(text: &str) -> Option<(u64, u64)> {
    let mut words = text.split_whitespace().map(str::parse);
    match (words.next()?, words.next()?) {
        (Ok(first), Ok(last)) => Some((first, last)),
        _ => None,
    }
}

/// Returns the soft and the hard limit of open files; `u64::MAX` for none.
pub(super) fn limit(text: &str) -> Option<(u64, u64)> {
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let number = |word: &str| match word {
        "unlimited" => Some(u64::MAX),
        word => word.parse().ok(),
    };
    let mut words = line.split_whitespace();
    Some((number(words.next()?)?, number(words.next()?)?))
}
