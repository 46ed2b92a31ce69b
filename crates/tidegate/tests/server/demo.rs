//! The demonstration that `make run` starts.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use tidegate_os::process::{Signal, kill};

use crate::support::{BINARY, DEADLINE};

/// Ends the demonstration, whatever the result of the test.
struct Demo(Child);

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_demonstration_serves_its_page_and_streams_from_its_origin() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let mut command = Command::new(BINARY);
    command.args(["demo", "--port", &port.to_string()]).stdout(Stdio::piped());
    let mut demo = Demo(command.spawn().unwrap());
    // Its output follows the opening of its socket, so a client waits in the queue.
    let mut lines = BufReader::new(demo.0.stdout.take().unwrap()).lines().map_while(Result::ok);
    let serves = format!("Tidegate serves http://127.0.0.1:{port}/");
    assert!(lines.any(|line| line.starts_with(&serves)));

    let ask = |path: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
        stream
    };
    let mut page = String::new();
    ask("/").read_to_string(&mut page).unwrap();
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("/slow/"), "{page}");
    // The second client joins while the object arrives, so the origin gets one request.
    let mut first = BufReader::new(ask("/slow/a"));
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(first.read_line(&mut head).unwrap() > 0, "{head}");
    }
    let mut second = String::new();
    ask("/slow/a").read_to_string(&mut second).unwrap();
    let mut body = String::new();
    first.read_to_string(&mut body).unwrap();
    assert!(head.contains("X-Cache: MISS"), "{head}");
    assert!(second.ends_with(&body) && !body.is_empty(), "{second}");

    kill(demo.0.id(), Signal::Interrupt).unwrap();
    assert!(demo.0.wait().unwrap().success());
}
