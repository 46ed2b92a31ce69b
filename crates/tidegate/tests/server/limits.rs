//! Starts with too little of what the system gives: a server serves, or says why it does not and leaves nothing behind.

use std::process::Command;

use tidegate_os::process::Signal;

use crate::signals::until;
use crate::support::{Server, Site};

const ADDRESSES: usize = 20;

/// A command that may open this many descriptors.
fn limited(site: &Site, descriptors: usize) -> Command {
    let own = site.command();
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -n {descriptors}; exec \"$0\" \"$@\"")]);
    command.arg(own.get_program()).args(own.get_args());
    command
}

/// Connections take what a worker may open. An order of the master that needs more is refused, and ends none of them.
#[test]
fn a_worker_without_descriptors_keeps_its_connections() {
    const LOGS: usize = 30;
    let site = Site::new();
    let logs: String =
        (0..LOGS).map(|number| format!("access_log {{dir}}/access{number}.log;\n")).collect();
    let servers = format!("server {{ listen 127.0.0.1:{{port}};\n{logs} return 200 old; }}");
    let main = format!("worker_processes 1; worker_rlimit_nofile {};", 3 * LOGS);
    site.configure(&main, &servers);
    let server = site.start();
    server.wait_log("start worker process ");
    // No connection is idle, so that none is closed to make room.
    let begun = || {
        let mut connection = site.connect();
        connection.send("GET / HTTP/1.1\r\nHost: a\r\n");
        connection
    };
    let [mut first, mut second] = [begun(), begun()];
    let others: Vec<_> = (0..3 * LOGS).map(|_| begun()).collect();
    server.wait_log("(24: Too many open files)");
    server.signal(Signal::User1);
    server.wait_log("logs are not reopened: too many open files");
    first.send("\r\n");
    assert_eq!(first.body(), "old");
    site.configure(&main, &servers.replace("old", "new"));
    server.signal(Signal::Hangup);
    server.wait_log("too many open files");
    server.wait_log("reload given up");
    second.send("\r\n");
    assert_eq!(second.body(), "old");
    drop(others);
    until(|| {
        server.signal(Signal::Hangup);
        (site.try_get(site.port).as_deref() == Some("new")).then_some(())
    });
    server.quit();
}

/// Connections that wait for the header of the PROXY protocol, or for TLS, are connections.
#[test]
fn connections_before_their_first_request_count() {
    let site = Site::new();
    let servers = "server { listen 127.0.0.1:{port} proxy_protocol; return 200 old; }";
    let text = format!(
        "daemon off; error_log stderr notice; pid {{dir}}/nginx.pid; worker_processes 1;
         events {{ worker_connections 8; }} http {{ access_log off; {servers} }}"
    );
    site.write(&text);
    let mut server = site.start();
    server.wait_log("start worker process ");
    let silent: Vec<_> = (0..10).map(|_| site.connect()).collect();
    server.wait_log("8 worker_connections are not enough");
    // They are closed for those that come behind them.
    let mut whole = site.connect();
    whole.send("PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n");
    assert_eq!(whole.get("/"), "old");
    drop((silent, whole));
    // The end waits for one that has begun.
    let mut begun = site.connect();
    begun.send("PROXY TCP4 127.0.0.1 ");
    until(|| {
        let mut whole = site.connect();
        whole.send("PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n");
        (whole.get("/") == "old").then_some(())
    });
    server.signal(Signal::Quit);
    server.wait_log("gracefully shutting down");
    begun.send("127.0.0.1 1 2\r\n");
    assert_eq!(begun.get("/"), "old");
    drop(begun);
    assert!(server.wait().success());
}

#[test]
fn a_start_without_enough_descriptors_says_so() {
    let site = Site::new();
    let unix: String =
        (0..ADDRESSES).map(|number| format!("listen unix:{{dir}}/s{number};\n")).collect();
    let servers = format!("server {{ listen 127.0.0.1:{{port}};\n{unix} return 200 old; }}");
    for main in ["worker_processes 2;", "worker_processes 2; master_process off;"] {
        site.configure(main, &servers);
        // Each step of the start lacks them once: the sockets, the signals, the worker and its threads, which share sockets.
        for descriptors in (8..2 * ADDRESSES).step_by(3) {
            let output = limited(&site, descriptors).output().unwrap();
            let text = String::from_utf8(output.stderr).unwrap();
            assert!(!output.status.success(), "{descriptors}: {text}");
            assert!(text.contains("(24: Too many open files)"), "{descriptors}: {text}");
            assert!(!text.contains("panicked"), "{descriptors}: {text}");
            let left = ["nginx.pid", "s0", "s19"].map(|name| site.path(name).exists());
            assert_eq!(left, [false; 3], "{descriptors}: {text}");
        }
        let server = Server::of(limited(&site, 10 * ADDRESSES));
        assert_eq!(until(|| site.try_get(site.port)), "old");
        server.quit();
    }
}
