//! The life of the processes: signals, reload, crashes, change of the binary.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use crate::signals::until;
use crate::support::{Site, connect, opened_to_write};
use tidegate_os::process::{Signal, exists, kill};

const SERVER: &str = "server { listen 127.0.0.1:{port}; return 200 old; }";

#[test]
fn reload_keeps_worker_and_connections() {
    let site = Site::new();
    site.configure("worker_processes 2;", SERVER);
    let server = site.start();
    let worker = server.wait_number("start worker process ");
    let mut connection = site.connect();
    assert_eq!(connection.get("/"), "old");

    site.configure(
        "worker_processes 3;",
        "server { listen 127.0.0.1:{port}; return 200 new; }
         server { listen 127.0.0.1:{second}; return 200 second; }",
    );
    let sent = site.run(&["-s", "reload"]);
    assert!(sent.status.success());
    server.wait_log(&format!("generation 1 of worker process {worker} exited"));
    assert!(exists(worker));
    assert_eq!(site.get(site.port), "new");
    assert_eq!(site.get(site.second_port), "second");
    assert_eq!(connection.get("/"), "new", "on the connection from before");

    site.configure("", "server { listen 127.0.0.1:{second}; return 200 second; }");
    server.signal(Signal::Hangup);
    server.wait_log("generation 2 of worker process");
    assert!(connect(site.port).is_err(), "no socket listens there any more");
    drop(connection);
    server.quit();
    assert!(!site.path("nginx.pid").exists());
}

#[test]
fn a_broken_configuration_changes_nothing() {
    let site = Site::new();
    site.configure("", SERVER);
    let server = site.start();
    server.wait_log("start worker process ");
    site.configure("", "server { lisen 80; }");
    server.signal(Signal::Hangup);
    let line = server.wait_log("[emerg]");
    assert!(line.contains("unknown directive \"lisen\" in "), "{line}");
    assert_eq!(site.get(site.port), "old");
    server.quit();
}

#[test]
fn a_killed_worker_is_replaced() {
    let site = Site::new();
    site.configure("", SERVER);
    let server = site.start();
    let worker = server.wait_number("start worker process ");
    assert_eq!(site.get(site.port), "old");
    kill(worker, Signal::Kill).unwrap();
    server.wait_log(&format!("worker process {worker} exited on signal 9"));
    let next = server.wait_number("start worker process ");
    assert_ne!(worker, next);
    assert_eq!(site.get(site.port), "old");
    server.quit();
}

/// The first worker is a copy of the master, its replacement a program of its own: neither has files of the master.
#[test]
fn workers_have_the_same_descriptors() {
    let site = Site::new();
    let cache = site.path("cache");
    let caches = format!("proxy_cache_path {} keys_zone=z:1m;", cache.display());
    site.configure("", &format!("{caches} {SERVER}"));
    let server = site.start();
    let descriptors = || {
        let worker = server.wait_number("start worker process ");
        assert_eq!(site.get(site.port), "old");
        let of = |number: fs::DirEntry| fs::read_link(number.path()).ok();
        let all = fs::read_dir(format!("/proc/{worker}/fd")).unwrap();
        let files = all.flatten().filter_map(of).map(|path| path.display().to_string());
        // The client's connection may be closing, and the journal and the index are open while the cache begins.
        let passes = |name: &String| {
            let is_of_begin = name.contains("/.journal.") || name.ends_with("/.index.new");
            name.starts_with("socket:") || is_of_begin
        };
        let mut files: Vec<String> = files.filter(|name| !passes(name)).collect();
        files.sort();
        (worker, files)
    };
    let (worker, first) = descriptors();
    kill(worker, Signal::Kill).unwrap();
    server.wait_log(&format!("worker process {worker} exited on signal 9"));
    assert_eq!(first, descriptors().1);
    server.quit();
}

/// Returns what a descriptor of the socket that listens on a port shows (proc_net(5)).
fn listening_socket(port: u16) -> PathBuf {
    let all = fs::read_to_string("/proc/net/tcp").unwrap();
    let fields = all.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let is_it =
        |fields: &Vec<&str>| fields[1].ends_with(&format!(":{port:04X}")) && fields[3] == "0A";
    let inode = fields.skip(1).find(is_it).expect("a listening socket")[9];
    PathBuf::from(format!("socket:[{inode}]"))
}

/// A socket has one descriptor for each generation that has it, however many threads accept from it.
#[test]
fn threads_share_the_descriptors_of_listening_sockets() {
    let site = Site::new();
    site.configure("worker_processes 16;", SERVER);
    let server = site.start();
    let worker = server.wait_number("start worker process ");
    let socket = listening_socket(site.port);
    for generation in 1..=3 {
        // Threads that have a descriptor of their own have it before they accept.
        for _ in 0..16 {
            assert_eq!(site.get(site.port), "old");
        }
        let descriptors = fs::read_dir(format!("/proc/{worker}/fd")).unwrap().flatten();
        let files = descriptors.filter_map(|number| fs::read_link(number.path()).ok());
        let count = files.filter(|file| *file == socket).count();
        assert!((1..=2).contains(&count), "{count} in generation {generation}");
        server.signal(Signal::Hangup);
        server.wait_log(&format!("generation {generation} of worker process {worker} exited"));
    }
    server.quit();
}

#[test]
fn quit_lets_a_request_in_progress_finish() {
    let site = Site::new();
    site.configure("", SERVER);
    let mut server = site.start();
    server.wait_log("start worker process ");
    let mut idle = site.connect();
    assert_eq!(idle.get("/"), "old");
    let mut busy = site.connect();
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
    let site = Site::new();
    site.configure("", SERVER);
    let mut server = site.start();
    server.wait_log("start worker process ");
    let mut busy = site.connect();
    busy.send("GET / HTTP/1.1\r\nHo");
    server.signal(Signal::Terminate);
    assert!(server.wait().success());
    assert!(busy.is_closed());
    assert!(!site.path("nginx.pid").exists());
}

#[test]
fn a_worker_does_not_outlive_its_master() {
    let site = Site::new();
    site.configure("", SERVER);
    let mut server = site.start();
    let _worker = server.wait_number("start worker process ");
    let mut connection = site.connect();
    assert_eq!(connection.get("/"), "old");
    server.signal(Signal::Kill);
    server.wait();
    assert!(connection.is_closed());
}

#[test]
fn usr1_opens_logs_anew() {
    let site = Site::new();
    let http = "access_log {dir}/access.log; server { listen 127.0.0.1:{port}; return 200 old; }";
    let text = format!(
        "daemon off; error_log stderr notice; pid {{dir}}/nginx.pid;\nevents {{ }}\nhttp {{ {http} }}"
    );
    site.write(&text);
    let server = site.start();
    let worker = server.wait_number("start worker process ");
    let mut connection = site.connect();
    assert_eq!(connection.get("/first"), "old");
    // The response follows the log line of the first request.
    assert_eq!(connection.get("/second"), "old");
    fs::rename(site.path("access.log"), site.path("access.1")).unwrap();
    server.signal(Signal::User1);
    server.wait_log(&format!("{worker}#{worker}: reopening logs"));
    assert!(site.path("access.log").exists());
    drop(connection);
    server.quit();
    let moved = fs::read_to_string(site.path("access.1")).unwrap();
    assert!(moved.contains("GET /first"), "{moved}");
}

#[test]
fn the_binary_changes_under_a_connection() {
    let site = Site::new();
    let unix = "server { listen 127.0.0.1:{port}; listen unix:{dir}/socket; return 200 old; }";
    site.configure("", unix);
    let mut server = site.start();
    let old_worker = server.wait_number("start worker process ");
    let mut connection = site.connect();
    assert_eq!(connection.get("/"), "old");
    let pid_of = |name: &str| fs::read_to_string(site.path(name)).unwrap().trim().to_owned();

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
    assert!(site.path("socket").exists());
    assert_eq!(site.get(site.port), "old");

    // And finally.
    server.signal(Signal::User2);
    let newer = server.wait_number("start new binary process ");
    server.also_end(newer);
    server.wait_log(&format!("{newer}#{newer}: start worker process "));
    drop(connection);
    server.signal(Signal::Quit);
    assert!(server.wait().success());
    assert!(!exists(old_worker));
    assert!(site.path("socket").exists());
    assert_eq!(site.get(site.port), "old");
    kill(newer, Signal::Quit).unwrap();
    server.wait_log(&format!("{newer}#{newer}: exit"));
}

/// nginx's "Upgrading Executable on the Fly": the old binary reads nothing, so it can always serve as before.
#[test]
fn the_old_binary_serves_again_whatever_is_written() {
    let site = Site::new();
    site.configure("", SERVER);
    let mut server = site.start();
    let worker = server.wait_number("start worker process ");
    server.signal(Signal::User2);
    let newer = server.wait_number("start new binary process ");
    server.also_end(newer);
    server.wait_log(&format!("{newer}#{newer}: start worker process "));
    server.signal(Signal::WindowChange);
    server.wait_log(&format!("worker process {worker} exited"));
    site.write("a_directive_of_the_new_binary;");
    server.signal(Signal::Hangup);
    server.wait_log("start worker process ");
    kill(newer, Signal::Quit).unwrap();
    server.wait_log(&format!("new binary process {newer} exited"));
    assert_eq!(site.get(site.port), "old");
    server.quit();
}

#[test]
fn winch_ends_the_worker_only() {
    let site = Site::new();
    site.configure("", SERVER);
    let server = site.start();
    let worker = server.wait_number("start worker process ");
    assert_eq!(site.get(site.port), "old");
    server.signal(Signal::WindowChange);
    server.wait_log(&format!("worker process {worker} exited with code 0"));
    server.signal(Signal::Hangup);
    server.wait_log("start worker process ");
    assert_eq!(site.get(site.port), "old");
    server.quit();
}

/// Stops a process until it is killed.
fn suspend(pid: u32) {
    let stopped = Command::new("kill").arg("-STOP").arg(pid.to_string()).status().unwrap();
    assert!(stopped.success());
}

/// A worker that ends by WINCH before it has replied to a reload blocks no later one.
#[test]
fn a_worker_that_leaves_without_a_reply_gives_up_the_reload() {
    let site = Site::new();
    site.configure("", SERVER);
    let server = site.start();
    let worker = server.wait_number("start worker process ");
    assert_eq!(site.get(site.port), "old");
    suspend(worker);
    server.signal(Signal::Hangup);
    server.wait_log("reconfiguring");
    // The rest of the reload is done before the next signal is handled.
    server.signal(Signal::WindowChange);
    server.wait_log("gracefully shutting down workers");
    kill(worker, Signal::Kill).unwrap();
    server.wait_log("reload given up: the worker ended");
    site.configure("", &SERVER.replace("old", "new"));
    server.signal(Signal::Hangup);
    server.wait_log("start worker process ");
    assert_eq!(site.get(site.port), "new");
    server.quit();
}

/// Descriptors run out after the sockets were opened: the next start finds no file that is in its way.
#[test]
fn a_start_that_fails_leaves_no_socket_files() {
    let site = Site::new();
    let unix = "server { listen unix:{dir}/socket; listen 127.0.0.1:{port}; return 200 old; }";
    let single = "master_process off;\nworker_processes 100;";
    for (main, limit) in [("", 7), ("", 8), (single, 24), (single, 40), (single, 64)] {
        site.configure(main, unix);
        let own = site.command();
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -n {limit}; exec \"$0\" \"$@\"")]);
        let output = command.arg(own.get_program()).args(own.get_args()).output().unwrap();
        let messages = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && messages.contains("[emerg]"), "{limit}: {messages}");
        assert!(!messages.contains("bind()"), "{limit}: {messages}");
        assert!(!site.path("socket").exists(), "{limit}: {messages}");
        assert!(!site.path("nginx.pid").exists(), "{limit}: {messages}");
    }
    site.configure("", unix);
    let server = site.start();
    server.wait_log("start worker process ");
    assert_eq!(site.get(site.port), "old");
    server.quit();
}

/// The next start finds no file that is in its way.
#[test]
fn a_reload_that_the_end_overtakes_leaves_no_socket_files() {
    let site = Site::new();
    site.configure("", SERVER);
    let mut server = site.start();
    let worker = server.wait_number("start worker process ");
    assert_eq!(site.get(site.port), "old");
    suspend(worker);
    site.configure("", &SERVER.replace("return", "listen unix:{dir}/socket; return"));
    server.signal(Signal::Hangup);
    server.wait_log("reconfiguring");
    // The rest of the reload is done before the next signal is handled.
    server.signal(Signal::Quit);
    server.wait_log("shutting down");
    kill(worker, Signal::Kill).unwrap();
    assert!(server.wait().success());
    assert!(!site.path("socket").exists());
}

#[test]
fn a_reload_of_one_process_that_fails_leaves_no_socket_files() {
    let site = Site::new();
    site.configure("master_process off;", SERVER);
    let server = site.start();
    server.wait_log("using the \"epoll\" event method");
    until(|| site.try_get(site.port));
    let _taken = std::net::TcpListener::bind(("127.0.0.1", site.second_port)).unwrap();
    let more = "listen unix:{dir}/socket; listen 127.0.0.1:{second}; return";
    site.configure("master_process off;", &SERVER.replace("return", more));
    server.signal(Signal::Hangup);
    server.wait_log("still could not bind()");
    assert_eq!(site.get(site.port), "old");
    assert!(!site.path("socket").exists());
    server.quit();
}

/// A server that runs does not stop for a log.
#[test]
fn a_worker_is_replaced_though_a_log_has_no_reader() {
    let site = Site::new();
    let pipe = site.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = std::fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    site.configure("", &SERVER.replace("return", "access_log {dir}/pipe; return"));
    let server = site.start();
    let worker = server.wait_number("start worker process ");
    assert_eq!(site.get(site.port), "old");
    drop(reader);
    kill(worker, Signal::Kill).unwrap();
    server.wait_log(&format!("worker process {worker} exited on signal 9"));
    server.wait_log("start worker process ");
    assert_eq!(site.get(site.port), "old");
    server.quit();
}

#[test]
fn one_process_serves_and_reloads() {
    let site = Site::new();
    site.configure("master_process off;", SERVER);
    let server = site.start();
    server.wait_log("using the \"epoll\" event method");
    let mut connection = site.connect();
    assert_eq!(connection.get("/"), "old");
    site.configure("master_process off;", &SERVER.replace("old", "new"));
    server.signal(Signal::Hangup);
    server.wait_log("gracefully shutting down generation 1");
    assert_eq!(connection.get("/"), "new");
    drop(connection);
    server.quit();
    assert!(!site.path("nginx.pid").exists());
}

#[test]
fn the_pid_file_follows_the_configuration() {
    let site = Site::new();
    site.configure("master_process off;", "include {dir}/servers;");
    let servers = site.path("servers");
    let made = Command::new("mkfifo").arg(&servers).status().unwrap();
    assert!(made.success());
    let server = site.start();
    // It is read once, from a pipe that is written once.
    let mut pipe = opened_to_write(&servers);
    assert!(!site.path("nginx.pid").exists());
    let text = SERVER.replace("{port}", &site.port.to_string());
    pipe.write_all(text.as_bytes()).unwrap();
    drop(pipe);
    server.wait_log("using the \"epoll\" event method");
    let pid = fs::read_to_string(site.path("nginx.pid")).unwrap();
    assert_eq!(pid.trim(), server.pid().to_string());
    assert_eq!(site.get(site.port), "old");
    server.quit();
}

#[test]
fn reuseport_gives_each_thread_its_socket() {
    let site = Site::new();
    site.configure(
        "worker_processes 3;",
        "server { listen 127.0.0.1:{port} reuseport; return 200 old; }",
    );
    let server = site.start();
    server.wait_log("start worker process ");
    for _ in 0..32 {
        assert_eq!(site.get(site.port), "old");
    }
    site.configure("worker_processes 1;", SERVER);
    server.signal(Signal::Hangup);
    server.wait_log("generation 1 of worker process");
    for _ in 0..32 {
        assert_eq!(site.get(site.port), "old");
    }
    server.quit();
}

#[test]
fn old_requests_end_with_the_shutdown_timeout() {
    let site = Site::new();
    let main = "worker_shutdown_timeout 50ms;";
    site.configure(main, SERVER);
    let server = site.start();
    server.wait_log("start worker process ");
    let mut idle = site.connect();
    assert_eq!(idle.get("/"), "old");
    let mut busy = site.connect();
    busy.send("GET / HTTP/1.1\r\nHo");
    for _ in 0..3 {
        assert_eq!(idle.get("/"), "old");
    }
    site.configure(main, &SERVER.replace("old", "new"));
    server.signal(Signal::Hangup);
    assert!(busy.is_closed());
    assert_eq!(idle.get("/"), "new", "a connection without a request goes on");
    drop(idle);
    server.quit();
}

#[test]
fn frequent_reloads_do_not_extend_the_shutdown_timeout() {
    let site = Site::new();
    let main = "worker_shutdown_timeout 500ms;";
    site.configure(main, SERVER);
    let server = site.start();
    server.wait_log("start worker process ");
    let mut busy = site.connect();
    busy.send("GET / HTTP/1.1\r\nHo");
    for _ in 0..3 {
        assert_eq!(site.get(site.port), "old");
    }
    let ended = std::thread::spawn(move || busy.is_closed());
    // Each of them takes less than the limit.
    let mut reloads = 0;
    while !ended.is_finished() {
        reloads += 1;
        assert!(reloads < 500, "it outlives all reloads");
        site.configure(main, &SERVER.replace("old", &format!("new{reloads}")));
        server.signal(Signal::Hangup);
        while site.get(site.port) != format!("new{reloads}") {}
    }
    assert!(ended.join().expect("no panic"));
    server.quit();
}
