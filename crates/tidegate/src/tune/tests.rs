//! Which settings matter for which configuration.

use super::kernel::{dropped, limit, range};
use super::logic::{Advice, Kernel, Listener, Wanted, advise};

fn kernel() -> Kernel {
    Kernel {
        somaxconn: Some(4096),
        syn_backlog: Some(512),
        syncookies: Some(1),
        device_backlog: Some(1000),
        device_dropped: Some(0),
        ports: Some((32_768, 60_999)),
        reserved_ports: String::new(),
        fastopen: Some(1),
        rmem_max: Some(212_992),
        wmem_max: Some(212_992),
        files: Some((1024, 524_288)),
        files_per_process: Some(1 << 20),
    }
}

fn listener(port: u16) -> Listener {
    Listener {
        text: format!("*:{port}"),
        port: Some(port),
        backlog: Some(511),
        ..Listener::default()
    }
}

fn wanted() -> Wanted {
    Wanted {
        threads: 1,
        connections: 512,
        files: None,
        listeners: vec![listener(80)],
        passes: false,
    }
}

/// Checks the commands for a configuration, by subject.
fn check(wanted: &Wanted, kernel: &Kernel, expected: &[(&str, &str)]) {
    let advice = advise(wanted, kernel);
    let commands = advice.iter().filter(|one| one.matters());
    let commands: Vec<(&str, &str)> = commands
        .flat_map(|one: &Advice| one.commands.iter().map(|c| (one.subject, c.as_str())))
        .collect();
    assert_eq!(commands, expected);
}

#[test]
fn a_default_configuration_needs_nothing() {
    check(&wanted(), &kernel(), &[]);
    // No setting is known: nothing is printed.
    check(&wanted(), &Kernel::default(), &[]);
    assert_eq!(advise(&wanted(), &Kernel::default()).iter().filter(|one| one.matters()).count(), 0);
}

#[test]
fn queues() {
    let mut many = wanted();
    many.listeners[0].backlog = Some(65_535);
    let old = Kernel { somaxconn: Some(128), ..kernel() };
    check(&wanted(), &old, &[("net.core.somaxconn", "sysctl -w net.core.somaxconn=511")]);
    check(&many, &kernel(), &[("net.core.somaxconn", "sysctl -w net.core.somaxconn=65535")]);
    many.listeners[0].backlog = None;
    check(&many, &old, &[]);
    let bare = Kernel { syncookies: Some(0), syn_backlog: Some(128), ..kernel() };
    let expected = "sysctl -w net.ipv4.tcp_max_syn_backlog=511";
    check(&wanted(), &bare, &[("net.ipv4.tcp_max_syn_backlog", expected)]);
    let full = Kernel { device_dropped: Some(7), ..kernel() };
    let expected = "sysctl -w net.core.netdev_max_backlog=2000";
    check(&wanted(), &full, &[("net.core.netdev_max_backlog", expected)]);
    // UDP has no queue of connections.
    let mut datagrams = wanted();
    datagrams.listeners[0].datagram = true;
    check(&datagrams, &old, &[]);
}

#[test]
fn ports() {
    let mut taken = wanted();
    taken.listeners.extend([listener(40_000), listener(50_000), listener(40_000)]);
    let name = "net.ipv4.ip_local_reserved_ports";
    let expected = "sysctl -w net.ipv4.ip_local_reserved_ports=40000,50000";
    check(&taken, &kernel(), &[(name, expected)]);
    let reserved = Kernel { reserved_ports: "39999-40001,45000\n".to_owned(), ..kernel() };
    let expected = "sysctl -w net.ipv4.ip_local_reserved_ports=39999-40001,45000,50000";
    check(&taken, &reserved, &[(name, expected)]);
    let busy = Wanted { threads: 4, connections: 10_000, passes: true, ..wanted() };
    let busy = Wanted { files: Some(1 << 20), ..busy };
    let expected = "sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\"";
    check(&busy, &kernel(), &[("net.ipv4.ip_local_port_range", expected)]);
}

#[test]
fn files() {
    let subject = "open files";
    let more = Wanted { connections: 2000, ..wanted() };
    check(&more, &kernel(), &[(subject, "worker_rlimit_nofile 2128;   in the configuration")]);
    check(&Wanted { files: Some(4096), ..more }, &kernel(), &[]);
    let huge = Wanted { threads: 8, connections: 100_000, ..wanted() };
    let small = Kernel { files_per_process: Some(1 << 19), ..kernel() };
    check(
        &huge,
        &small,
        &[
            (subject, "worker_rlimit_nofile 800128;   in the configuration"),
            (
                subject,
                "LimitNOFILE=800128   in the systemd unit, where the master is not started as root",
            ),
            (subject, "sysctl -w fs.nr_open=800128   (now 524288)"),
        ],
    );
}

#[test]
fn options_of_sockets() {
    let mut options = wanted();
    options.listeners[0].fastopen = true;
    options.listeners[0].rcvbuf = Some(1 << 20);
    check(
        &options,
        &kernel(),
        &[
            ("net.ipv4.tcp_fastopen", "sysctl -w net.ipv4.tcp_fastopen=3"),
            ("socket buffers", "sysctl -w net.core.rmem_max=1048576"),
        ],
    );
    let on = Kernel { fastopen: Some(3), rmem_max: Some(1 << 20), ..kernel() };
    check(&options, &on, &[]);
}

#[test]
fn settings_are_read() {
    assert_eq!(dropped("00000001 0000000a 0\n00000002 00000001 0\nno\n"), 11);
    assert_eq!(range("32768\t60999\n"), Some((32_768, 60_999)));
    assert_eq!(range("32768"), None);
    let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                  Max open files            1024                 unlimited            files\n";
    assert_eq!(limit(limits), Some((1024, u64::MAX)));
    assert_eq!(limit(""), None);
}
