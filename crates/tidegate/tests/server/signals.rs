//! Signals at any moment: while the configuration is read, while the processes start, and faster than they can be
//! handled.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::support::{BINARY, DEADLINE, Server, Site, opened_to_write};
use tidegate_os::process::{Signal, kill};
use tidegate_rt::clock::exact_now;

const OLD: &str = "server { listen 127.0.0.1:{port}; return 200 old; }";

/// A server that reads its configuration from a pipe, until the rest is written there.
struct Reading {
    site: Site,
    server: Server,
    pipe: fs::File,
}

impl Reading {
    /// Returns once the server reads. A file with `next` has the pipe's name then.
    fn start(main: &str, next: &str) -> Reading {
        let site = Site::new();
        site.configure(main, "include {dir}/servers;");
        let servers = site.path("servers");
        assert!(Command::new("mkfifo").arg(&servers).status().unwrap().success());
        let server = site.start();
        let pipe = opened_to_write(&servers);
        fs::remove_file(&servers).unwrap();
        fs::write(&servers, next.replace("{port}", &site.port.to_string())).unwrap();
        Reading { site, server, pipe }
    }

    /// Lets the server read the rest.
    fn finish(mut self) -> (Site, Server) {
        let rest = OLD.replace("{port}", &self.site.port.to_string());
        self.pipe.write_all(rest.as_bytes()).unwrap();
        (self.site, self.server)
    }
}

#[test]
fn a_reload_waits_for_the_first_configuration() {
    for (main, end) in [
        ("", "generation 1 of worker process"),
        ("master_process off;", "gracefully shutting down generation 1"),
    ] {
        let reading = Reading::start(main, &OLD.replace("old", "new"));
        for _ in 0..3 {
            reading.server.signal(Signal::Hangup);
        }
        let (site, server) = reading.finish();
        server.wait_log(end);
        assert_eq!(site.get(site.port), "new", "{main}");
        server.quit();
    }
}

#[test]
fn orders_to_a_server_wait_for_the_first_configuration() {
    for (signal, log) in [
        (Signal::User1, "reopening logs"),
        (Signal::WindowChange, "exited with code 0"),
        (Signal::User2, "start new binary process "),
    ] {
        let reading = Reading::start("", OLD);
        reading.server.signal(signal);
        let (site, mut server) = reading.finish();
        let line = server.wait_log(log);
        match signal {
            Signal::WindowChange => {
                server.signal(Signal::Hangup);
                server.wait_log("start worker process ");
            }
            Signal::User2 => {
                let newer = line.rsplit(' ').next().unwrap().parse().unwrap();
                server.also_end(newer);
                server.wait_log(&format!("{newer}#{newer}: start worker process "));
                kill(newer, Signal::Terminate).unwrap();
                server.wait_log(&format!("new binary process {newer} exited"));
            }
            _ => {}
        }
        assert_eq!(site.get(site.port), "old", "{signal:?}");
        server.quit();
    }
}

#[test]
fn a_server_that_reads_its_configuration_ends_at_once() {
    for signal in [Signal::Terminate, Signal::Interrupt, Signal::Quit] {
        let mut reading = Reading::start("", OLD);
        reading.server.signal(signal);
        let status = reading.server.wait();
        assert!(status.success(), "{signal:?}: {status}");
        assert!(!reading.site.path("nginx.pid").exists());
    }
}

/// The process that was started ends when the server is in the background; the server has its orders.
#[test]
fn a_reload_is_passed_to_the_background() {
    let site = Site::new();
    site.configure("include {dir}/main;", OLD);
    let text = fs::read_to_string(site.path("nginx.conf")).unwrap();
    let text = text.replace("daemon off;", "daemon on;");
    site.write(&text.replace("error_log stderr", "error_log {dir}/error.log"));
    let main = site.path("main");
    assert!(Command::new("mkfifo").arg(&main).status().unwrap().success());
    let mut server = site.start();
    let pipe = opened_to_write(&main);
    fs::remove_file(&main).unwrap();
    fs::write(&main, "").unwrap();
    server.signal(Signal::Hangup);
    drop(pipe);
    assert!(server.wait().success());
    assert_eq!(site.get(site.port), "old");
    let pid = || fs::read_to_string(site.path("nginx.pid")).ok()?.trim().parse().ok();
    let pid = until(pid);
    server.also_end(pid);
    let log = || fs::read_to_string(site.path("error.log")).unwrap();
    until(|| log().contains("generation 1 of worker process").then_some(()));
    kill(pid, Signal::Quit).unwrap();
    until(|| (!tidegate_os::process::exists(pid)).then_some(()));
}

/// The next binary is a script, which ends by any order that it is not started to hold back.
#[test]
fn orders_to_the_next_binary_wait_for_its_start() {
    for (signal, log) in [
        (Signal::Hangup, "reconfiguring"),
        (Signal::User1, "reopening logs"),
        (Signal::User2, "the old binary runs still"),
        (Signal::WindowChange, "gracefully shutting down workers"),
        (Signal::Quit, "new binary process "),
        (Signal::Terminate, "new binary process "),
    ] {
        let site = Site::new();
        site.configure("", OLD);
        let (program, pipe) = (site.path("tidegate"), site.path("pipe"));
        std::os::unix::fs::symlink(BINARY, &program).unwrap();
        let mut server = Server::of(site.command_of(&program));
        server.wait_log("start worker process ");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        fs::remove_file(&program).unwrap();
        let script = format!("#!/bin/sh\nread line <{}\nexec {BINARY} \"$@\"\n", pipe.display());
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        server.signal(Signal::User2);
        let newer = server.wait_number("start new binary process ");
        server.also_end(newer);
        let started = opened_to_write(&pipe);
        kill(newer, signal).unwrap();
        drop(started);
        let line = server.wait_log(log);
        match signal {
            // It ends without an error, and the old one continues.
            Signal::Quit | Signal::Terminate => assert!(line.ends_with("exited: exit status: 0")),
            _ => {}
        }
        assert_eq!(site.get(site.port), "old", "{signal:?}");
        server.quit();
    }
}

/// From the reading of the configuration until the worker serves, whatever the processes do meanwhile.
#[test]
fn signals_while_the_processes_start_change_nothing() {
    for signal in [Signal::Hangup, Signal::User1] {
        let (site, server) = Reading::start("", OLD).finish();
        let served = until(|| {
            server.signal(signal);
            site.try_get(site.port)
        });
        assert_eq!(served, "old");
        // To the worker itself, which has no use for some of them.
        let worker = server.wait_number("start worker process ");
        for signal in [signal, Signal::User2, Signal::WindowChange] {
            kill(worker, signal).unwrap();
        }
        assert_eq!(site.get(site.port), "old");
        server.quit();
    }
}

#[test]
fn a_thousand_reloads_are_joined() {
    for main in ["", "master_process off;"] {
        let site = Site::new();
        site.configure(main, OLD);
        let server = site.start();
        until(|| site.try_get(site.port));
        for _ in 0..1000 {
            server.signal(Signal::Hangup);
            assert_eq!(site.get(site.port), "old", "{main}");
        }
        site.configure(main, &OLD.replace("old", "new"));
        server.signal(Signal::Hangup);
        until(|| (site.get(site.port) == "new").then_some(()));
        server.quit();
    }
}

/// Repeats until there is a value.
#[track_caller]
pub(crate) fn until<T>(mut value: impl FnMut() -> Option<T>) -> T {
    let started = exact_now();
    loop {
        match value() {
            Some(value) => return value,
            None => assert!(exact_now() - started < DEADLINE, "not within {DEADLINE:?}"),
        }
        std::thread::yield_now();
    }
}
