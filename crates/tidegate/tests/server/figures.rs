//! Sums of figures: no request is lost and none is counted twice, by several threads and over reloads.

use std::thread;

use crate::support::{Site, connect};
use tidegate_os::process::Signal;

const CONFIG: &str = "
    server { listen 127.0.0.1:{port}; keepalive_requests 1000000; status_zone all;
        location /a { status_zone a; return 200 a; }
        location /b { status_zone b; return 404 b; }
        location / { status_zone $arg_k zone=rest:2; return 200 k; } }
    server { listen 127.0.0.1:{second}; location / { api /status/http/; } }";

/// A fifth of the requests each; the last two values of `k` share a zone.
const TARGETS: [&str; 5] = ["/a", "/b", "/?k=1", "/?k=2", "/?k=3"];
const CLIENTS: usize = 4;
const BATCHES: usize = 50;
/// Requests that are sent at once: their responses fit into the buffers of the sockets.
const BATCH: usize = 100;

fn send_all(port: u16) {
    let mut connection = connect(port).unwrap();
    let request = |number: usize| {
        format!("GET {} HTTP/1.1\r\nHost: a\r\n\r\n", TARGETS[number % TARGETS.len()])
    };
    for _ in 0..BATCHES {
        connection.send(&(0..BATCH).map(request).collect::<String>());
        (0..BATCH).for_each(|_| drop(connection.body()));
    }
}

#[test]
fn no_request_is_lost_over_threads_and_reloads() {
    let site = Site::new();
    site.configure("worker_processes 2;", CONFIG);
    let server = site.start();
    server.wait_log("start worker process ");
    let total = |path: &str| connect(site.second_port).unwrap().get(path).parse::<usize>().ok();
    // Both values have their zones, whichever thread is the first.
    for target in ["/?k=1", "/?k=2"] {
        assert_eq!(site.connect().get(target), "k");
    }
    let port = site.port;
    let clients: Vec<_> = (0..CLIENTS).map(|_| thread::spawn(move || send_all(port))).collect();
    for generation in 1..=3 {
        server.signal(Signal::Hangup);
        server.wait_log(&format!("generation {generation} of worker process"));
    }
    clients.into_iter().for_each(|client| client.join().unwrap());
    let sent = CLIENTS * BATCHES * BATCH;
    // A request ends behind the last byte of its response; until then it is one of the total that is in progress.
    let ended = (0..1000).any(|_| total("/server_zones/all/requests/processing") == Some(0));
    assert!(ended, "{:?}", total("/server_zones/all/requests/processing"));
    let part = sent / TARGETS.len();
    for (path, expected) in [
        ("/server_zones/all/requests/total", sent + 2),
        ("/server_zones/all/requests/discarded", 0),
        ("/server_zones/all/responses/200", 4 * part + 2),
        ("/server_zones/all/responses/404", part),
        ("/location_zones/a/requests/total", part),
        ("/location_zones/b/responses/404", part),
        ("/location_zones/1/requests/total", part + 1),
        ("/location_zones/2/requests/total", part + 1),
        ("/location_zones/rest/requests/total", part),
    ] {
        assert_eq!(total(path), Some(expected), "{path}");
    }
    server.quit();
}
