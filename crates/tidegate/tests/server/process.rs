//! The life of the processes: signals, reload, crashes, change of the binary.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::channel;

use crate::support::{DEADLINE, Place, connect};
use tidegate_os::process::{Signal, exists, kill};

const SERVER: &str = "server { listen 127.0.0.1:{port}; return 200 old; }";

#[test]
fn reload_keeps_worker_and_connections() {
    let place = Place::new();
    place.configure("worker_processes 2;", SERVER);
    let server = place.start();
    let worker = server.wait_number("start worker process ");
    let mut connection = place.connect();
    assert_eq!(connection.get("/"), "old");

    place.configure(
        "worker_processes 3;",
        "server { listen 127.0.0.1:{port}; return 200 new; }
         server { listen 127.0.0.1:{second}; return 200 second; }",
    );
    let sent = place.run(&["-s", "reload"]);
    assert!(sent.status.success());
    server.wait_log(&format!("generation 1 of worker process {worker} exited"));
    assert!(exists(worker));
    assert_eq!(place.get(place.port), "new");
    assert_eq!(place.get(place.second_port), "second");
    assert_eq!(connection.get("/"), "new", "on the connection from before");

    place.configure("", "server { listen 127.0.0.1:{second}; return 200 second; }");
    server.signal(Signal::Hangup);
    server.wait_log("generation 2 of worker process");
    assert!(connect(place.port).is_err(), "nobody listens there any more");
    drop(connection);
    server.quit();
    assert!(!place.path("nginx.pid").exists());
}

#[test]
fn a_broken_configuration_changes_nothing() {
    let place = Place::new();
    place.configure("", SERVER);
    let server = place.start();
    server.wait_log("start worker process ");
    place.configure("", "server { lisen 80; }");
    server.signal(Signal::Hangup);
    let line = server.wait_log("[emerg]");
    assert!(line.contains("unknown directive \"lisen\" in "), "{line}");
    assert_eq!(place.get(place.port), "old");
    server.quit();
}

#[test]
fn a_killed_worker_is_replaced() {
    let place = Place::new();
    place.configure("", SERVER);
    let server = place.start();
    let worker = server.wait_number("start worker process ");
    assert_eq!(place.get(place.port), "old");
    kill(worker, Signal::Kill).unwrap();
    server.wait_log(&format!("worker process {worker} exited on signal 9"));
    let next = server.wait_number("start worker process ");
    assert_ne!(worker, next);
    assert_eq!(place.get(place.port), "old");
    server.quit();
}

#[test]
fn quit_lets_a_request_in_progress_finish() {
    let place = Place::new();
    place.configure("", SERVER);
    let mut server = place.start();
    server.wait_log("start worker process ");
    let mut idle = place.connect();
    assert_eq!(idle.get("/"), "old");
    let mut busy = place.connect();
    busy.send("GET / HTTP/1.1\r\nHo");
    // Its bytes arrived before these requests: they have been read when the last response arrives.
    for _ in 0..3 {
        assert_eq!(idle.get("/"), "old");
    }
    server.signal(Signal::Quit);
    server.wait_log("gracefully shutting down");
    assert!(idle.is_closed());
    busy.send("st: a\r\n\r\n");
    assert_eq!(busy.body(), "old");
    assert!(busy.is_closed());
    assert!(server.wait().success());
}

#[test]
fn term_ends_at_once() {
    let place = Place::new();
    place.configure("", SERVER);
    let mut server = place.start();
    server.wait_log("start worker process ");
    let mut busy = place.connect();
    busy.send("GET / HTTP/1.1\r\nHo");
    server.signal(Signal::Terminate);
    assert!(server.wait().success());
    assert!(busy.is_closed());
    assert!(!place.path("nginx.pid").exists());
}

#[test]
fn a_worker_does_not_outlive_its_master() {
    let place = Place::new();
    place.configure("", SERVER);
    let mut server = place.start();
    let _worker = server.wait_number("start worker process ");
    let mut connection = place.connect();
    assert_eq!(connection.get("/"), "old");
    server.signal(Signal::Kill);
    server.wait();
    assert!(connection.is_closed());
}

#[test]
fn usr1_opens_logs_anew() {
    let place = Place::new();
    let http = "access_log {dir}/access.log; server { listen 127.0.0.1:{port}; return 200 old; }";
    let text = format!(
        "daemon off; error_log stderr notice; pid {{dir}}/nginx.pid;\nevents {{ }}\nhttp {{ {http} }}"
    );
    place.write(&text);
    let server = place.start();
    let worker = server.wait_number("start worker process ");
    let mut connection = place.connect();
    assert_eq!(connection.get("/first"), "old");
    // The response follows the log line of the first request.
    assert_eq!(connection.get("/second"), "old");
    fs::rename(place.path("access.log"), place.path("access.1")).unwrap();
    server.signal(Signal::User1);
    server.wait_log(&format!("{worker}#{worker}: reopening logs"));
    assert!(place.path("access.log").exists());
    drop(connection);
    server.quit();
    let moved = fs::read_to_string(place.path("access.1")).unwrap();
    assert!(moved.contains("GET /first"), "{moved}");
}

#[test]
fn the_binary_changes_under_a_connection() {
    let place = Place::new();
    let unix = "server { listen 127.0.0.1:{port}; listen unix:{dir}/socket; return 200 old; }";
    place.configure("", unix);
    let mut server = place.start();
    let old_worker = server.wait_number("start worker process ");
    let mut connection = place.connect();
    assert_eq!(connection.get("/"), "old");
    let pid_of = |name: &str| fs::read_to_string(place.path(name)).unwrap().trim().to_owned();

    server.signal(Signal::User2);
    let newer = server.wait_number("start new binary process ");
    server.also_end(newer);
    server.wait_log(&format!("{newer}#{newer}: start worker process "));
    assert_eq!(pid_of("nginx.pid"), newer.to_string());
    assert_eq!(pid_of("nginx.pid.oldbin"), server.pid().to_string());
    assert_eq!(connection.get("/"), "old");

    // Back again: the old binary continues, with its pid file and its Unix socket.
    kill(newer, Signal::Terminate).unwrap();
    server.wait_log(&format!("new binary process {newer} exited"));
    assert_eq!(pid_of("nginx.pid"), server.pid().to_string());
    assert!(place.path("socket").exists());
    assert_eq!(place.get(place.port), "old");

    // And finally.
    server.signal(Signal::User2);
    let newer = server.wait_number("start new binary process ");
    server.also_end(newer);
    server.wait_log(&format!("{newer}#{newer}: start worker process "));
    drop(connection);
    server.signal(Signal::Quit);
    assert!(server.wait().success());
    assert!(!exists(old_worker));
    assert!(place.path("socket").exists());
    assert_eq!(place.get(place.port), "old");
    kill(newer, Signal::Quit).unwrap();
    server.wait_log(&format!("{newer}#{newer}: exit"));
}

#[test]
fn winch_ends_the_worker_only() {
    let place = Place::new();
    place.configure("", SERVER);
    let server = place.start();
    let worker = server.wait_number("start worker process ");
    assert_eq!(place.get(place.port), "old");
    server.signal(Signal::WindowChange);
    server.wait_log(&format!("worker process {worker} exited with code 0"));
    server.signal(Signal::Hangup);
    server.wait_log("start worker process ");
    assert_eq!(place.get(place.port), "old");
    server.quit();
}

#[test]
fn one_process_serves_and_reloads() {
    let place = Place::new();
    place.configure("master_process off;", SERVER);
    let server = place.start();
    server.wait_log("using the \"epoll\" event method");
    let mut connection = place.connect();
    assert_eq!(connection.get("/"), "old");
    place.configure("master_process off;", &SERVER.replace("old", "new"));
    server.signal(Signal::Hangup);
    server.wait_log("gracefully shutting down generation 1");
    assert_eq!(connection.get("/"), "new");
    drop(connection);
    server.quit();
    assert!(!place.path("nginx.pid").exists());
}

#[test]
fn the_pid_is_told_when_the_configuration_has_been_read() {
    let place = Place::new();
    place.configure("master_process off;", "include {dir}/servers;");
    let servers = place.path("servers");
    let made = Command::new("mkfifo").arg(&servers).status().unwrap();
    assert!(made.success());
    let server = place.start();
    // It is read once, from a pipe that is written once.
    let mut pipe = opened_to_write(&servers);
    assert!(!place.path("nginx.pid").exists());
    let text = SERVER.replace("{port}", &place.port.to_string());
    pipe.write_all(text.as_bytes()).unwrap();
    drop(pipe);
    server.wait_log("using the \"epoll\" event method");
    let pid = fs::read_to_string(place.path("nginx.pid")).unwrap();
    assert_eq!(pid.trim(), server.pid().to_string());
    assert_eq!(place.get(place.port), "old");
    server.quit();
}

/// Returns a pipe, once its reader has opened it.
fn opened_to_write(path: &Path) -> fs::File {
    let (sender, opened) = channel();
    let path = path.to_owned();
    std::thread::spawn(move || sender.send(fs::File::options().write(true).open(path)));
    opened.recv_timeout(DEADLINE).unwrap().unwrap()
}

#[test]
fn reuseport_gives_each_thread_its_socket() {
    let place = Place::new();
    place.configure(
        "worker_processes 3;",
        "server { listen 127.0.0.1:{port} reuseport; return 200 old; }",
    );
    let server = place.start();
    server.wait_log("start worker process ");
    for _ in 0..32 {
        assert_eq!(place.get(place.port), "old");
    }
    place.configure("worker_processes 1;", SERVER);
    server.signal(Signal::Hangup);
    server.wait_log("generation 1 of worker process");
    for _ in 0..32 {
        assert_eq!(place.get(place.port), "old");
    }
    server.quit();
}

#[test]
fn old_requests_end_with_the_shutdown_timeout() {
    let place = Place::new();
    let main = "worker_shutdown_timeout 50ms;";
    place.configure(main, SERVER);
    let server = place.start();
    server.wait_log("start worker process ");
    let mut idle = place.connect();
    assert_eq!(idle.get("/"), "old");
    let mut busy = place.connect();
    busy.send("GET / HTTP/1.1\r\nHo");
    for _ in 0..3 {
        assert_eq!(idle.get("/"), "old");
    }
    place.configure(main, &SERVER.replace("old", "new"));
    server.signal(Signal::Hangup);
    assert!(busy.is_closed());
    assert_eq!(idle.get("/"), "new", "a connection without a request goes on");
    drop(idle);
    server.quit();
}
