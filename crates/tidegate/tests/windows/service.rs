//! The server as a service, from its installation to its removal.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use super::server::binary;

const CONFIGURATION: &str = "
error_log logs/error.log info;
events { }
http { access_log off; server { listen 127.0.0.1:{port}; return 200 served; } }
";

#[test]
fn a_service_is_installed_started_stopped_and_removed() {
    // What an earlier run may have left.
    let _ = Command::new(binary()).args(["service", "remove"]).status();
    let directory = tempfile::tempdir().unwrap();
    for name in ["conf", "logs"] {
        std::fs::create_dir(directory.path().join(name)).unwrap();
    }
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let text = CONFIGURATION.replace("{port}", &address.port().to_string());
    std::fs::write(directory.path().join("conf/nginx.conf"), text).unwrap();
    let run = |command: &mut Command| assert!(command.status().unwrap().success(), "{command:?}");
    let prefix = directory.path();
    run(Command::new(binary())
        .args(["service", "install", "-p"])
        .arg(prefix)
        .args(["-c", "conf/nginx.conf"]));
    run(Command::new("net").args(["start", "tidegate"]));
    // Wine's manager does not wait for the start.
    let begun = Instant::now();
    let mut stream = loop {
        match TcpStream::connect(address) {
            Ok(stream) => break stream,
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(60), "{error}"),
        }
    };
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.ends_with("served"), "{response}");
    run(Command::new("net").args(["stop", "tidegate"]));
    // Nor for the end of the process, which closes what listens.
    let stopped = Instant::now();
    while TcpStream::connect(address).is_ok() {
        assert!(stopped.elapsed() < Duration::from_secs(60), "it still listens");
    }
    run(Command::new(binary()).args(["service", "remove"]));
    let again = Command::new("net").args(["start", "tidegate"]).status().unwrap();
    assert!(!again.success(), "it is still there");
}
