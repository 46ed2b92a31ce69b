//! Started by others: systemd's notices and passed sockets, signals that were blocked.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::process::{Command, Output, Stdio};

use tidegate_os::process::{Signal, exists, kill};

use crate::signals::until;
use crate::support::{BINARY, DEADLINE, Server, Site};

const SERVER: &str = "server { listen 127.0.0.1:{port}; return 200 old; }";

/// The supervisor's end.
struct Notices(UnixDatagram);

impl Notices {
    fn new(site: &Site) -> Notices {
        let socket = UnixDatagram::bind(site.path("notify")).unwrap();
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        Notices(socket)
    }

    /// Waits for the next notice that is no sign of life.
    fn next(&self) -> String {
        loop {
            let notice = self.receive();
            if notice != "WATCHDOG=1\n" {
                return notice;
            }
        }
    }

    fn receive(&self) -> String {
        let mut buffer = [0; 4096];
        let length = self.0.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    /// Waits for the next notice, which begins a reload.
    fn expect_reloading(&self) {
        let notice = self.next();
        let mut lines = notice.lines();
        assert_eq!(lines.next(), Some("RELOADING=1"));
        let time = lines.next().and_then(|line| line.strip_prefix("MONOTONIC_USEC="));
        assert!(time.unwrap().parse::<u64>().unwrap() > 0, "{notice}");
    }
}

fn start(site: &Site, variables: &[(&str, String)]) -> Server {
    let mut command = site.command();
    command.env("NOTIFY_SOCKET", site.path("notify"));
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    Server::of(command)
}

#[test]
fn the_supervisor_hears_of_reloads_and_the_end() {
    for mode in ["", "master_process off;"] {
        let site = Site::new();
        let notices = Notices::new(&site);
        site.configure(mode, SERVER);
        let server = start(&site, &[]);
        assert_eq!(notices.next(), "READY=1\nSTATUS=serving generation 1\n");
        // Ready means served: nothing is waited for.
        assert_eq!(site.get(site.port), "old");
        server.signal(Signal::Hangup);
        notices.expect_reloading();
        assert_eq!(notices.next(), "READY=1\nSTATUS=serving generation 2\n");
        site.configure(mode, "server { lisen 80; }");
        server.signal(Signal::Hangup);
        notices.expect_reloading();
        let refused = "READY=1\nSTATUS=the last reload was refused: serving generation 2\n";
        assert_eq!(notices.next(), refused);
        assert_eq!(site.get(site.port), "old");
        server.signal(Signal::Quit);
        assert_eq!(notices.next(), "STOPPING=1\nSTATUS=ending\n");
    }
}

#[test]
fn the_watchdog_hears_of_event_loops() {
    for mode in ["worker_processes 2;", "master_process off;"] {
        let site = Site::new();
        let notices = Notices::new(&site);
        site.configure(mode, SERVER);
        let server = start(&site, &[("WATCHDOG_USEC", "30000".to_owned())]);
        for _ in 0..8 {
            while notices.receive() != "WATCHDOG=1\n" {}
        }
        // Reading may take longer than the time of the watchdog, which applies again afterwards.
        server.signal(Signal::Hangup);
        let of_next = || loop {
            let notice = notices.next();
            if !notice.contains("generation 1\n") {
                return notice;
            }
        };
        let (begins, ends) = (of_next(), of_next());
        let longer =
            begins.starts_with("RELOADING=1\n") && begins.ends_with("\nWATCHDOG_USEC=600000000\n");
        assert!(longer, "{begins}");
        assert_eq!(ends, "READY=1\nSTATUS=serving generation 2\nWATCHDOG_USEC=30000\n");
        if mode.starts_with("worker") {
            // A dead worker cannot respond, and the next one can.
            let worker = server.wait_number("start worker process ");
            kill(worker, Signal::Kill).unwrap();
            server.wait_number("start worker process ");
            for _ in 0..8 {
                while notices.receive() != "WATCHDOG=1\n" {}
            }
        }
        server.quit();
    }
}

#[test]
fn the_supervisor_hears_of_the_next_binary() {
    let site = Site::new();
    let notices = Notices::new(&site);
    site.configure("", SERVER);
    let mut server = start(&site, &[]);
    assert_eq!(notices.next(), "READY=1\nSTATUS=serving generation 1\n");
    server.signal(Signal::User2);
    let newer = server.wait_number("start new binary process ");
    server.also_end(newer);
    // The new one's, which systemd drops: it is not the main process yet.
    assert_eq!(notices.next(), "READY=1\nSTATUS=serving generation 1\n");
    server.signal(Signal::Quit);
    assert_eq!(notices.next(), format!("MAINPID={newer}\nSTATUS=continued by another binary\n"));
    assert!(server.wait().success());
    kill(newer, Signal::Hangup).unwrap();
    notices.expect_reloading();
    assert_eq!(notices.next(), "READY=1\nSTATUS=serving generation 2\n");
    kill(newer, Signal::Quit).unwrap();
    assert_eq!(notices.next(), "STOPPING=1\nSTATUS=ending\n");
}

#[test]
fn a_supervisor_that_is_gone_stops_nothing() {
    let site = Site::new();
    site.configure("", SERVER);
    let server = start(&site, &[]);
    server.wait_log("cannot notify the supervisor at ");
    assert_eq!(site.get(site.port), "old");
    server.quit();
}

#[test]
fn signals_that_another_program_blocked_arrive() {
    let site = Site::new();
    site.configure("", SERVER);
    let own = site.command();
    // As nginx leaves them to a new binary.
    let mut command = Command::new("env");
    command.arg("--block-signal").arg(own.get_program()).args(own.get_args());
    let server = Server::of(command);
    server.wait_log("start worker process ");
    site.configure("", &SERVER.replace("old", "new"));
    server.signal(Signal::Hangup);
    server.wait_log("generation 1 of worker process");
    assert_eq!(site.get(site.port), "new");
    server.quit();
}

/// Makes a command whose program gets `sockets` (at most two) as systemd passes them, and the number in `LISTEN_FDS`.
fn passing(site: &Site, number: &str, sockets: Vec<OwnedFd>) -> Command {
    let mut command = Command::new("sh");
    let script = "exec 3<&0 4<&1 </dev/null >/dev/null; LISTEN_PID=$$ exec \"$0\" \"$@\"";
    command.args(["-c", script, BINARY]).arg("-p").arg(site.path(""));
    command.args(["-c", "nginx.conf", "-e", "stderr"]);
    command.envs([("LISTEN_FDS", number), ("LISTEN_FDNAMES", "web:other")]);
    let mut sockets = sockets.into_iter().map(Stdio::from);
    command.stdin(sockets.next().unwrap_or(Stdio::null()));
    command.stdout(sockets.next().unwrap_or(Stdio::null()));
    command
}

fn listener(port: u16) -> TcpListener {
    TcpListener::bind(("127.0.0.1", port)).unwrap()
}

#[test]
fn passed_sockets_are_served() {
    let site = Site::new();
    let unix = UnixListener::bind(site.path("socket")).unwrap();
    let http = "server { listen 127.0.0.1:{port}; listen unix:{dir}/socket; listen 127.0.0.1:{second}; return 200 old; }";
    site.configure("", http);
    // Both stay open here: a socket of the server's own would be refused ("Address already in use").
    let held = listener(site.port);
    let passed = vec![held.try_clone().unwrap().into(), unix.try_clone().unwrap().into()];
    let server = Server::of(passing(&site, "2", passed));
    server.wait_log("start worker process ");
    assert_eq!(site.get(site.port), "old");
    assert_eq!(site.get(site.second_port), "old");
    site.configure("", &http.replace("old", "new"));
    server.signal(Signal::Hangup);
    server.wait_log("generation 1 of worker process");
    assert_eq!(site.get(site.port), "new");
    server.quit();
    assert!(site.path("socket").exists(), "its file is the supervisor's");
    drop((held, unix));
}

/// Whichever binary ends last.
#[test]
fn the_next_binary_leaves_files_of_passed_sockets() {
    let site = Site::new();
    let unix = UnixListener::bind(site.path("socket")).unwrap();
    let http = "server { listen 127.0.0.1:{port}; listen unix:{dir}/socket; listen unix:{dir}/own; return 200 old; }";
    site.configure("", http);
    let held = listener(site.port);
    let passed = vec![held.try_clone().unwrap().into(), unix.try_clone().unwrap().into()];
    let mut server = Server::of(passing(&site, "2", passed));
    server.wait_log("start worker process ");
    server.signal(Signal::User2);
    let newer = server.wait_number("start new binary process ");
    server.also_end(newer);
    server.wait_log(&format!("{newer}#{newer}: start worker process "));
    server.signal(Signal::Quit);
    assert!(server.wait().success());
    kill(newer, Signal::User2).unwrap();
    let newest = server.wait_number("start new binary process ");
    server.also_end(newest);
    server.wait_log(&format!("{newest}#{newest}: start worker process "));
    kill(newer, Signal::Quit).unwrap();
    until(|| (!exists(newer)).then_some(()));
    assert_eq!(site.get(site.port), "old");
    assert!(site.path("own").exists());
    kill(newest, Signal::Quit).unwrap();
    until(|| (!exists(newest)).then_some(()));
    assert!(!site.path("own").exists());
    assert!(site.path("socket").exists(), "its file is the supervisor's");
    drop((held, unix));
}

#[test]
fn sockets_without_a_listen_are_refused() {
    let site = Site::new();
    site.configure("", SERVER);
    let refused = |number: &str, sockets: Vec<OwnedFd>, message: &str| {
        let Output { status, stderr, .. } = passing(&site, number, sockets).output().unwrap();
        let stderr = String::from_utf8(stderr).unwrap();
        assert!(!status.success() && stderr.contains(message), "{stderr}");
        assert!(!site.path("nginx.pid").exists());
    };
    let second = site.second_port;
    let surplus = format!(
        "socket 4 of LISTEN_FDS (\"other\") is bound to 127.0.0.1:{second}, which no \"listen\" of the configuration has"
    );
    refused("2", vec![listener(site.port).into(), listener(second).into()], &surplus);
    refused("1", vec![], "socket 3 of LISTEN_FDS (\"web\") is not an open socket");
    refused(
        "3",
        vec![listener(site.port).into()],
        "socket 4 of LISTEN_FDS (\"other\") is not an open socket",
    );
    let (one, _other) = UnixDatagram::pair().unwrap();
    refused(
        "1",
        vec![one.into()],
        "socket 3 of LISTEN_FDS (\"web\") is bound to unix: udp, which no",
    );
    let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
    refused("1", vec![one.into()], "(\"web\") does not listen: its unit must have \"Accept=no\"");
    refused("many", vec![], "invalid environment variable LISTEN_FDS=many");
}
