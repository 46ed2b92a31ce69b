//! All worker threads accept from the listening sockets that they share.

use std::collections::HashMap;

use super::server::Server;

const CONFIGURATION: &str = "
worker_processes 3;
error_log logs/error.log info;
events { }
http {
    access_log off;
    server { listen 127.0.0.1:{port}; location / { return 200 ok; } location /log { return 404; } location /f { root html; } }
}
";

#[test]
fn every_thread_serves() {
    let server = Server::start(CONFIGURATION, |_| {});
    let log = server.directory.path().join("logs/error.log");
    // The log line of a missing file names the thread that served the request.
    let mut served: HashMap<String, usize> = HashMap::new();
    for round in 0..200 {
        let clients: Vec<_> = (0..8)
            .map(|_| {
                let address = server.address;
                std::thread::spawn(move || {
                    use std::io::{Read, Write};
                    let mut stream = std::net::TcpStream::connect(address).unwrap();
                    stream.write_all(b"GET /f/none HTTP/1.0\r\n\r\n").unwrap();
                    let mut response = Vec::new();
                    let _ = stream.read_to_end(&mut response);
                    assert!(response.starts_with(b"HTTP/1.1 404"));
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
        served.clear();
        for line in std::fs::read_to_string(&log).unwrap().lines() {
            // `2026/11/21 04:00:00 [error] PROCESS#THREAD: …`
            let thread = line.split_once('#').and_then(|(_, rest)| rest.split_once(':'));
            if let Some((thread, _)) = thread.filter(|_| line.contains("[error]")) {
                *served.entry(thread.to_owned()).or_default() += 1;
            }
        }
        if served.len() == 3 {
            println!("three threads served after {} requests: {served:?}", (round + 1) * 8);
            return server.quit();
        }
    }
    panic!("not every thread has served: {served:?}");
}

#[test]
fn orders_are_obeyed() {
    let server = Server::start(CONFIGURATION, |_| {});
    let directory = server.directory.path().to_owned();
    assert_eq!(server.request(b"GET / HTTP/1.0\r\n\r\n").0, 200);
    let text = std::fs::read_to_string(directory.join("conf/nginx.conf")).unwrap();
    std::fs::write(directory.join("conf/nginx.conf"), text.replace("200 ok", "203 new")).unwrap();
    server.order("reload");
    while server.request(b"GET / HTTP/1.0\r\n\r\n").0 != 203 {}
    std::fs::rename(directory.join("logs/error.log"), directory.join("logs/old.log")).unwrap();
    server.order("reopen");
    while !directory.join("logs/error.log").exists() {}
    server.quit();
}
