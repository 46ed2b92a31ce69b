//! Servers that share the purges of their caches by Redis.

use std::io::{Read, Write};
use std::net::TcpStream;

use tidegate_os::process::Signal;

use crate::stores::Engine;
use crate::support::{Server, Site, connect};

/// A server with a cache, and an origin whose responses differ each time.
struct Node {
    site: Site,
    server: Server,
}

/// Status, what the cache did, and the body.
type Seen = (u16, String, String);

const CACHE: &str = r#"
    zone_sync_store redis://127.0.0.1:{engine}/0 interval=10ms timeout=5s;
    proxy_cache_path {dir}/c keys_zone=z:1m purge_sync;
    map $request_method $purge { PURGE 1; default 0; }
    server {
        listen 127.0.0.1:{port};
        location / {
            proxy_pass http://127.0.0.1:{second};
            proxy_cache z; proxy_cache_key $uri; proxy_cache_valid 1h;
            proxy_cache_purge $purge;
            proxy_cache_purge_tag $http_x_tag;
            proxy_cache_purge_soft $http_x_soft;
            add_header X-C "[$upstream_cache_status]";
        }
        location /module { proxy_pass http://127.0.0.1:{second}; proxy_cache z; proxy_cache_key $uri;
            proxy_cache_valid 1h; proxy_cache_purge DELETE from all; add_header X-C "[$upstream_cache_status]"; }
        location ~ ^/by(/.*) { proxy_cache_purge z $1; }
        location /api { api; }
        location = /metrics { metrics tidegate; }
    }
    server {
        listen 127.0.0.1:{second};
        location / { add_header Cache-Tag "t$uri"; return 200 $request_id; }
    }"#;

impl Node {
    fn start(engine: u16, http: &str) -> Node {
        let site = Site::new();
        site.configure("worker_processes 1;", &http.replace("{engine}", &engine.to_string()));
        let server = site.start();
        server.wait_log("start worker process ");
        Node { site, server }
    }

    /// Starts a server that follows.
    fn following(engine: u16) -> Node {
        let node = Node::start(engine, CACHE);
        node.until("\"state\":\"following\"");
        node
    }

    fn ask(&self, request: &str) -> Seen {
        let mut stream = TcpStream::connect(("127.0.0.1", self.site.port)).unwrap();
        let (line, fields) = request.split_once('|').unwrap_or((request, ""));
        write!(stream, "{line} HTTP/1.0\r\nHost: a\r\n{fields}\r\n").unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        let cache = head.split("X-C: [").nth(1).and_then(|rest| rest.split(']').next());
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, cache.unwrap_or_default().to_owned(), body.to_owned())
    }

    fn cache(&self, target: &str) -> String {
        self.ask(&format!("GET {target}")).1
    }

    /// Stores an object.
    fn fill(&self, target: &str) {
        while self.cache(target) != "HIT" {}
    }

    /// Waits until so many objects have their files: an object can be used before it is complete on the disk.
    fn until_stored(&self, count: usize) {
        let is_object = |entry: &std::io::Result<std::fs::DirEntry>| {
            entry.as_ref().is_ok_and(|entry| entry.file_name().len() == 32)
        };
        let directory = self.site.path("c");
        while std::fs::read_dir(&directory).unwrap().filter(is_object).count() < count {
            std::thread::yield_now();
        }
    }

    /// Asks until the cache does something.
    fn until_cache(&self, target: &str, expected: &str) {
        while self.cache(target) != expected {
            std::thread::yield_now();
        }
    }

    /// Asks until the API says something about the purges.
    fn until(&self, text: &str) {
        let path = "/api/9/http/caches/z";
        while !connect(self.site.port).unwrap().get(path).contains(text) {
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_purge_takes_effect_on_all_servers() {
    let engine = Engine::start(Site::new().second_port);
    let (one, two) = (Node::following(engine.port), Node::following(engine.port));
    let table = [
        ("PURGE /a", 204, "/a", "MISS"),
        ("PURGE /p*", 204, "/p/1", "MISS"),
        ("PURGE /x|X-Tag: t/t\r\n", 204, "/t", "MISS"),
        ("PURGE /s|X-Soft: 1\r\n", 204, "/s", "EXPIRED"),
        ("DELETE /module/a", 200, "/module/a", "MISS"),
        ("GET /by/b", 200, "/b", "MISS"),
        // What is not on this server may be on others.
        ("PURGE /only", 204, "/only", "MISS"),
    ];
    two.fill("/stays");
    for (purge, status, target, expected) in table {
        if target != "/only" {
            one.fill(target);
        }
        two.fill(target);
        assert_eq!(one.ask(purge).0, status, "{purge}");
        two.until_cache(target, expected);
        if target != "/only" {
            assert_eq!(one.cache(target), expected, "{purge}");
            // The server's own purge does not come back.
            assert_eq!(one.cache(target), "HIT", "{purge}");
        }
    }
    assert_eq!(two.cache("/stays"), "HIT");
    one.until("\"sent\":7");
    two.until("\"applied\":7");
    assert!(
        two.ask("GET /metrics").2.contains("tidegate_cache_purges_applied_total{cache=\"z\"} 7")
    );
}

#[test]
fn a_server_that_was_away_applies_what_it_has_missed_before_it_serves() {
    let engine = Engine::start(Site::new().second_port);
    let (one, mut two) = (Node::following(engine.port), Node::following(engine.port));
    for target in ["/a", "/p/1", "/stays"] {
        two.fill(target);
    }
    two.until_stored(3);
    two.server.signal(Signal::Kill);
    two.server.wait();
    assert_eq!(one.ask("PURGE /a").0, 204);
    assert_eq!(one.ask("PURGE /p*").0, 204);
    two.server = two.site.start();
    two.server.wait_log("start worker process ");
    assert_eq!(two.cache("/a"), "MISS");
    assert_eq!(two.cache("/p/1"), "MISS");
    assert_eq!(two.cache("/stays"), "HIT");
    two.until("\"replays\":1,\"revalidations\":0");
    // Without the entry that it knows, it cannot know what it has missed.
    two.server.signal(Signal::Kill);
    two.server.wait();
    assert_eq!(engine.ask("DEL tidegate:p:proxy_z:="), ":1\r\n");
    two.server = two.site.start();
    two.server.wait_log("start worker process ");
    assert_eq!(two.cache("/stays"), "EXPIRED");
    two.until("\"revalidations\":1");
}

#[test]
fn a_purge_without_the_engine_is_sent_later() {
    let port = Site::new().second_port;
    let engine = Engine::start(port);
    let (one, two) = (Node::following(port), Node::following(port));
    for target in ["/a", "/stays"] {
        one.fill(target);
        two.fill(target);
    }
    drop(engine);
    two.until("\"state\":\"cut off\"");
    let (status, _, body) = one.ask("PURGE /a");
    assert_eq!((status, body.as_str()), (503, "not distributed\n"));
    assert_eq!(one.cache("/a"), "MISS", "it has taken effect here");
    assert_eq!(two.cache("/a"), "HIT");
    one.until("\"not_distributed\":1");
    // A new engine knows nothing: everything is stale.
    let engine = Engine::start(port);
    two.until_cache("/stays", "EXPIRED");
    while engine.ask("XLEN tidegate:p:proxy_z:=").starts_with(":0") {
        std::thread::yield_now();
    }
    one.until("\"waiting\":0");
    two.until("\"state\":\"following\"");
    assert_ne!(two.cache("/a"), "HIT");
}

#[test]
fn a_server_that_is_cut_off_makes_objects_stale_if_it_is_configured() {
    let engine = Engine::start(Site::new().second_port);
    let revalidating =
        CACHE.replace("purge_sync;", "purge_sync purge_partition=revalidate after=1s;");
    let node = Node::start(engine.port, &revalidating);
    node.fill("/a");
    drop(engine);
    node.until_cache("/a", "EXPIRED");
    // And again.
    node.until_cache("/a", "EXPIRED");
}
