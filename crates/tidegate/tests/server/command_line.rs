//! The command line: its output and exit codes.

use std::process::Output;

use crate::support::Place;

const SERVER: &str = "server { listen 127.0.0.1:{port}; return 200 old; }";

#[track_caller]
fn check(output: &Output, code: i32, expected: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr);
    for expected in expected {
        assert!(text.contains(expected), "no {expected:?} in:\n{text}");
    }
    assert_eq!(output.status.code(), Some(code), "{text}");
}

#[test]
fn tests_of_configurations() {
    let place = Place::new();
    place.configure("", SERVER);
    let file = place.path("nginx.conf").display().to_string();
    let ok = [
        format!("nginx: the configuration file {file} syntax is ok\n"),
        format!("nginx: configuration file {file} test is successful\n"),
    ];
    let ok: Vec<&str> = ok.iter().map(String::as_str).collect();
    check(&place.run(&["-t"]), 0, &ok);
    assert!(place.run(&["-tq"]).stderr.is_empty());
    let dump = place.run(&["-T"]);
    check(&dump, 0, &ok);
    let head = format!("# configuration file {file}:\ndaemon off;\n");
    assert!(dump.stdout.starts_with(head.as_bytes()));

    place.configure("", "server { lisen 80; retrun 200; }");
    let failed = format!("nginx: configuration file {file} test failed\n");
    let text = std::fs::read_to_string(&file).unwrap();
    let line = 1 + text.lines().position(|line| line.contains("lisen")).unwrap();
    let unknown = format!("nginx: [emerg] unknown directive \"lisen\" in {file}:{line}\n");
    let second = "unknown directive \"retrun\"";
    check(&place.run(&["-t"]), 1, &[&unknown, second, &failed]);
    check(&place.run(&["-tq"]), 1, &[&unknown]);
    check(&place.run(&[]), 1, &[&unknown]);
}

#[test]
fn a_test_beside_a_running_server_succeeds() {
    let place = Place::new();
    place.configure("", SERVER);
    let server = place.start();
    server.wait_log("start worker process ");
    check(&place.run(&["-t"]), 0, &["test is successful"]);
    server.quit();
}

#[test]
fn a_taken_port_is_told() {
    let place = Place::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    place.configure("", &format!("server {{ listen 127.0.0.1:{port}; }}"));
    let told =
        format!("nginx: [emerg] bind() to 127.0.0.1:{port} failed (98: Address already in use)");
    let holder = format!(" (process {})\n", std::process::id());
    check(
        &place.run(&[]),
        1,
        &[&told, ", held by \"", &holder, "nginx: [emerg] still could not bind()\n"],
    );
}

#[test]
fn what_cannot_be_written_is_told() {
    let place = Place::new();
    place.configure("", SERVER);
    let pid = place.path("absent/nginx.pid").display().to_string();
    let text = std::fs::read_to_string(place.path("nginx.conf")).unwrap();
    place.write(&text.replace("nginx.pid", "absent/nginx.pid"));
    let told = format!("nginx: [emerg] open() \"{pid}\" failed (2: No such file or directory)\n");
    check(&place.run(&[]), 1, &[&told]);
    let log = place.path("absent/error.log").display().to_string();
    place.write(&text.replace("stderr notice", "absent/error.log"));
    let told = format!("nginx: [emerg] open() \"{log}\" failed (2: No such file or directory) in ");
    check(&place.run(&["-t"]), 1, &[&told]);
}

#[test]
fn versions_help_and_mistakes() {
    let place = Place::new();
    place.configure("", SERVER);
    check(&place.run(&["-v"]), 0, &["nginx version: nginx/1."]);
    check(&place.run(&["-V"]), 0, &["nginx version: nginx/1.", "\nconfigure arguments: --prefix="]);
    check(&place.run(&["-h"]), 0, &["nginx version: ", "Usage: nginx ", "-s signal"]);
    check(&place.run(&["-z"]), 1, &["nginx: invalid option: \"z\"\n"]);
    check(&place.run(&["-s", "jump"]), 1, &["nginx: invalid option: \"-s jump\"\n"]);
    check(&place.run(&["worker-process-of-a-master"]), 1, &["invalid option"]);
    let pid = place.path("nginx.pid").display().to_string();
    let told = format!("nginx: [error] open() \"{pid}\" failed (2: No such file or directory)\n");
    check(&place.run(&["-s", "reload"]), 1, &[&told]);
    std::fs::write(&pid, "x\n").unwrap();
    let told = format!("nginx: [error] invalid PID number \"x\" in \"{pid}\"\n");
    check(&place.run(&["-s", "quit"]), 1, &[&told]);
}

#[test]
fn directives_of_the_command_line() {
    let place = Place::new();
    place.configure("", SERVER);
    check(&place.run(&["-t", "-g", "worker_rlimit_nofile 512;"]), 0, &[]);
    let told = "nginx: [emerg] unknown directive \"nonsense\" in command line";
    check(&place.run(&["-t", "-g", "nonsense on;"]), 1, &[told]);
    let absent = place.path("absent.conf").display().to_string();
    let told = format!("nginx: [emerg] open() \"{absent}\" failed (2: No such file or directory)");
    check(&place.run(&["-t", "-c", "absent.conf"]), 1, &[&told]);
}
