//! Responses of the API about very many zones: read in parallel with reloads, and by clients that do not read.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;

use crate::signals::until;
use crate::support::{DEADLINE, Site};
use tidegate_os::process::Signal;

const ZONES: usize = 5000;
/// Clients that ask for everything and read nothing.
const MUTE: usize = 20;
const SCRAPERS: usize = 3;
const SCRAPES: usize = 2;

fn ask(port: u16, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).unwrap();
    stream
}

/// Returns the number of members of a response.
fn members(port: u16, path: &str) -> usize {
    let mut response = String::new();
    ask(port, path).read_to_string(&mut response).unwrap();
    let (_, body) = response.split_once("\r\n\r\n").unwrap();
    let value: serde_json::Value = serde_json::from_str(body).unwrap();
    value.as_object().unwrap().len()
}

/// Each response is whole, and those who do not read are closed by `send_timeout`; the others do not wait for them.
#[test]
fn large_responses_are_whole_over_reloads_and_beside_mute_clients() {
    let site = Site::new();
    let zone =
        |number| format!("location /l{number} {{ status_zone zone{number}; return 200; }}\n");
    let zones: String = (0..ZONES).map(zone).collect();
    let server =
        "server { listen 127.0.0.1:{port} sndbuf=64k; error_log stderr info; send_timeout 1s;
        location /api { api; }
        location /status/ { api /status/; }
        location = /metrics { metrics; }";
    site.configure("worker_processes 2;", &format!("{server}\n{zones} }}"));
    let server = site.start();
    server.wait_log("start worker process ");
    let port = site.port;
    let mute: Vec<TcpStream> = (0..MUTE).map(|_| ask(port, "/api/9/tidegate/snapshot")).collect();
    let scrape = move || {
        for _ in 0..SCRAPES {
            assert_eq!(members(port, "/api/9/http/location_zones"), ZONES);
            assert_eq!(members(port, "/status/http/location_zones"), ZONES);
        }
    };
    let scrapers: Vec<_> = (0..SCRAPERS).map(|_| thread::spawn(scrape)).collect();
    let mut timed_out = 0;
    for generation in 1..=2 {
        server.signal(Signal::Hangup);
        let end = format!("generation {generation} of worker process");
        loop {
            let line = server.wait_log("");
            timed_out += usize::from(line.contains("client timed out"));
            if line.contains(&end) {
                break;
            }
        }
    }
    scrapers.into_iter().for_each(|scraper| scraper.join().unwrap());
    (timed_out..MUTE).for_each(|_| drop(server.wait_log("client timed out")));
    drop(mute);
    // Metrics are texts in memory: some clients get them, and the others are refused.
    let mute: Vec<TcpStream> = (0..MUTE).map(|_| ask(port, "/metrics")).collect();
    server.wait_log("metrics refused");
    drop(mute);
    let is_served = || {
        let mut start = [0; 12];
        ask(port, "/metrics").read_exact(&mut start).unwrap();
        start.ends_with(b" 200").then_some(())
    };
    until(is_served);
    server.quit();
}
