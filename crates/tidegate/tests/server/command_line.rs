//! The command line: its output and exit codes.

use std::process::Output;

use crate::support::Site;

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
    let site = Site::new();
    site.configure("", SERVER);
    let file = site.path("nginx.conf").display().to_string();
    let ok = [
        format!("nginx: the configuration file {file} syntax is ok\n"),
        format!("nginx: configuration file {file} test is successful\n"),
    ];
    let ok: Vec<&str> = ok.iter().map(String::as_str).collect();
    check(&site.run(&["-t"]), 0, &ok);
    assert!(site.run(&["-tq"]).stderr.is_empty());
    let dump = site.run(&["-T"]);
    check(&dump, 0, &ok);
    let head = format!("# configuration file {file}:\ndaemon off;\n");
    assert!(dump.stdout.starts_with(head.as_bytes()));

    site.configure("", "server { lisen 80; retrun 200; }");
    let failed = format!("nginx: configuration file {file} test failed\n");
    let text = std::fs::read_to_string(&file).unwrap();
    let line = 1 + text.lines().position(|line| line.contains("lisen")).unwrap();
    let unknown = format!("nginx: [emerg] unknown directive \"lisen\" in {file}:{line}\n");
    let second = "unknown directive \"retrun\"";
    check(&site.run(&["-t"]), 1, &[&unknown, second, &failed]);
    check(&site.run(&["-tq"]), 1, &[&unknown]);
    check(&site.run(&[]), 1, &[&unknown]);
}

#[test]
fn a_test_beside_a_running_server_succeeds() {
    let site = Site::new();
    site.configure("", SERVER);
    let server = site.start();
    server.wait_log("start worker process ");
    check(&site.run(&["-t"]), 0, &["test is successful"]);
    server.quit();
}

#[test]
fn a_taken_port_is_reported() {
    let site = Site::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    site.configure("", &format!("server {{ listen 127.0.0.1:{port}; }}"));
    let expected_line =
        format!("nginx: [emerg] bind() to 127.0.0.1:{port} failed (98: Address already in use)");
    let holder = format!(" (process {})\n", std::process::id());
    check(
        &site.run(&[]),
        1,
        &[&expected_line, ", held by \"", &holder, "nginx: [emerg] still could not bind()\n"],
    );
}

#[test]
fn files_that_cannot_be_written_are_reported() {
    let site = Site::new();
    site.configure("", SERVER);
    let pid = site.path("absent/nginx.pid").display().to_string();
    let text = std::fs::read_to_string(site.path("nginx.conf")).unwrap();
    site.write(&text.replace("nginx.pid", "absent/nginx.pid"));
    let expected_line =
        format!("nginx: [emerg] open() \"{pid}\" failed (2: No such file or directory)\n");
    check(&site.run(&[]), 1, &[&expected_line]);
    let log = site.path("absent/error.log").display().to_string();
    site.write(&text.replace("stderr notice", "absent/error.log"));
    let expected_line =
        format!("nginx: [emerg] open() \"{log}\" failed (2: No such file or directory) in ");
    check(&site.run(&["-t"]), 1, &[&expected_line]);
}

#[test]
fn versions_help_and_mistakes() {
    let site = Site::new();
    site.configure("", SERVER);
    check(&site.run(&["-v"]), 0, &["nginx version: nginx/1."]);
    check(&site.run(&["-V"]), 0, &["nginx version: nginx/1.", "\nconfigure arguments: --prefix="]);
    check(&site.run(&["-h"]), 0, &["nginx version: ", "Usage: nginx ", "-s signal"]);
    check(&site.run(&["-z"]), 1, &["nginx: invalid option: \"z\"\n"]);
    check(&site.run(&["-s", "jump"]), 1, &["nginx: invalid option: \"-s jump\"\n"]);
    check(&site.run(&["worker-process-of-a-master"]), 1, &["invalid option"]);
    let pid = site.path("nginx.pid").display().to_string();
    let expected_line =
        format!("nginx: [error] open() \"{pid}\" failed (2: No such file or directory)\n");
    check(&site.run(&["-s", "reload"]), 1, &[&expected_line]);
    std::fs::write(&pid, "x\n").unwrap();
    let expected_line = format!("nginx: [error] invalid PID number \"x\" in \"{pid}\"\n");
    check(&site.run(&["-s", "quit"]), 1, &[&expected_line]);
}

#[test]
fn directives_of_the_command_line() {
    let site = Site::new();
    site.configure("", SERVER);
    check(&site.run(&["-t", "-g", "worker_rlimit_nofile 512;"]), 0, &[]);
    let expected_line = "nginx: [emerg] unknown directive \"nonsense\" in command line";
    check(&site.run(&["-t", "-g", "nonsense on;"]), 1, &[expected_line]);
    let absent = site.path("absent.conf").display().to_string();
    let expected_line =
        format!("nginx: [emerg] open() \"{absent}\" failed (2: No such file or directory)");
    check(&site.run(&["-t", "-c", "absent.conf"]), 1, &[&expected_line]);
}
