//! Caches with a second tier in a bucket, which servers share.

use std::io::{Read, Write};
use std::net::TcpStream;

use tidegate_os::process::Signal;

use crate::bucket::{Bucket, Manner};
use crate::stores::Engine;
use crate::support::{Server, Site, connect};

/// A server with a cache, and an origin whose responses differ each time, but for a large file.
struct Node {
    site: Site,
    server: Server,
}

/// Bytes of the large file: five blocks of an object.
const LARGE_BYTES: usize = 300_000;

const CACHE: &str = r#"
    proxy_cache_tier t s3://bucket/some/where endpoint=http://127.0.0.1:{bucket} region=r-1
        credentials={dir}/keys {tier};
    {sync}
    proxy_cache_path {dir}/c keys_zone=z:1m tier=t {synced};
    map $request_method $purge { PURGE 1; default 0; }
    server {
        listen 127.0.0.1:{port};
        location / {
            proxy_pass http://127.0.0.1:{second};
            proxy_cache z; proxy_cache_key $request_uri; proxy_cache_valid 1h;
            proxy_cache_purge $purge;
            proxy_cache_purge_tag $http_x_tag;
            add_header X-C "[$upstream_cache_status]";
            location /off { proxy_pass http://127.0.0.1:{second}/large; proxy_next_upstream off; }
            location /once { proxy_pass http://127.0.0.1:{second}/large; proxy_next_upstream_tries 1; }
        }
        location /api { api; }
        location = /metrics { metrics tidegate; }
    }
    server {
        listen 127.0.0.1:{second};
        location / { add_header Cache-Tag "t$uri"; return 200 $request_id; }
        location /large { alias {dir}/large; }
        location /plain { etag off; add_header Last-Modified ""; alias {dir}/large; }
        location /vary { add_header Vary Accept-Language; return 200 "$http_accept_language $request_id"; }
    }"#;

fn large() -> String {
    (0..LARGE_BYTES).map(|at| char::from(b'a' + (at * 7 % 23) as u8)).collect()
}

impl Node {
    /// Starts a server with these parameters of the tier.
    fn start(bucket: &Bucket, tier: &str) -> Node {
        Node::start_by(bucket, tier, None)
    }

    /// As above, with purges that are shared by this engine.
    fn start_by(bucket: &Bucket, tier: &str, engine: Option<&Engine>) -> Node {
        let site = Site::new();
        let keys = "[default]\naws_access_key_id = AK\naws_secret_access_key = VERY-SECRET\n";
        std::fs::write(site.path("keys"), keys).unwrap();
        std::fs::write(site.path("large"), large()).unwrap();
        // So that the file has the same validator on all servers.
        let file = std::fs::File::options().write(true).open(site.path("large")).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000))
            .unwrap();
        let http = CACHE.replace("{bucket}", &bucket.port.to_string()).replace("{tier}", tier);
        let sync = engine.map(|engine| {
            let port = engine.port;
            format!("zone_sync_store redis://127.0.0.1:{port}/0 interval=10ms timeout=5s;")
        });
        let synced = if sync.is_some() { "purge_sync" } else { "" };
        let http = http.replace("{sync}", &sync.unwrap_or_default()).replace("{synced}", synced);
        site.configure("worker_processes 1;", &http);
        let server = site.start();
        server.wait_log("start worker process ");
        Node { site, server }
    }

    /// Starts a server that knows the purges of others, before which it asks for nothing.
    fn ready(bucket: &Bucket, tier: &str) -> Node {
        let node = Node::start(bucket, tier);
        node.until("lists", 1);
        node
    }

    /// Status, what the cache did, and the body.
    fn ask(&self, request: &str) -> (u16, String, String) {
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

    fn get(&self, target: &str) -> String {
        let (status, _, body) = self.ask(&format!("GET {target}"));
        assert_eq!(status, 200, "{target}");
        body
    }

    fn tier(&self) -> String {
        connect(self.site.port).unwrap().get("/api/9/tidegate/tiers/t")
    }

    fn figure(&self, name: &str) -> u64 {
        let shown = self.tier();
        let value = shown.split(&format!("\"{name}\":")).nth(1).unwrap();
        value.split([',', '}']).next().unwrap().trim().parse().unwrap()
    }

    /// Waits until the API says something about the cache.
    fn until_cache(&self, text: &str) {
        let path = "/api/9/http/caches/z";
        while !connect(self.site.port).unwrap().get(path).contains(text) {
            std::thread::yield_now();
        }
    }

    /// Waits until a figure has a value.
    fn until(&self, name: &str, least: u64) {
        while self.figure(name) < least {
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_new_server_is_warm() {
    let bucket = Bucket::start();
    let one = Node::ready(&bucket, "hedge=10s timeout=10s");
    let targets = ["/a", "/b", "/large"];
    let bodies = targets.map(|target| {
        let body = one.get(target);
        // The second use uploads it.
        assert_eq!(one.ask(&format!("GET {target}")).1, "HIT");
        body
    });
    bucket.wait_objects(3);
    assert!(bucket.objects().iter().all(|path| path.starts_with("/bucket/some/where/z/")));
    let two = Node::ready(&bucket, "hedge=10s timeout=10s");
    for (target, body) in targets.iter().zip(&bodies) {
        let (status, cache, from_tier) = two.ask(&format!("GET {target}"));
        assert_eq!((status, cache.as_str()), (200, "MISS"));
        assert!(from_tier == *body, "{target}");
        let (_, cache, stored) = two.ask(&format!("GET {target}"));
        assert_eq!(cache, "HIT");
        assert!(stored == *body, "{target}");
    }
    assert_eq!(two.figure("found"), 3);
    // What came from the tier is not uploaded again.
    assert_eq!((two.figure("uploaded"), two.figure("present")), (0, 0));
    let metrics = two.ask("GET /metrics").2;
    assert!(metrics.contains("tidegate_cache_tier_found_total{tier=\"t\"} 3"));
    assert!(metrics.contains("tidegate_cache_tier_asked{tier=\"t\"} 1"));
}

#[test]
fn a_key_that_the_tier_does_not_have_is_asked_for_once() {
    let bucket = Bucket::start();
    let one = Node::ready(&bucket, "min_uses=100");
    for _ in 0..3 {
        one.get("/absent");
        // Purged here, the next request is a miss again.
        one.ask("PURGE /absent");
    }
    assert_eq!(bucket.requests("GET"), 1);
    assert_eq!((one.figure("remembered"), one.figure("failures")), (2, 0));
}

#[test]
fn variants_are_not_mistaken() {
    let bucket = Bucket::start();
    let one = Node::ready(&bucket, "hedge=10s timeout=10s min_uses=1");
    let english = one.ask("GET /vary|Accept-Language: en\r\n").2;
    bucket.wait_objects(1);
    let two = Node::ready(&bucket, "hedge=10s timeout=10s min_uses=1");
    assert!(two.ask("GET /vary|Accept-Language: de\r\n").2.starts_with("de "));
    let three = Node::ready(&bucket, "hedge=10s timeout=10s min_uses=1");
    assert_eq!(three.ask("GET /vary|Accept-Language: en\r\n").2, english);
}

#[test]
fn what_was_purged_is_not_taken_from_the_tier() {
    let bucket = Bucket::start();
    let one = Node::ready(&bucket, "hedge=10s timeout=10s min_uses=1");
    let targets = ["/key", "/p/refix", "/tag", "/stays"];
    let before = targets.map(|target| one.get(target));
    bucket.wait_objects(4);
    let two = Node::ready(&bucket, "hedge=10s timeout=10s");
    for purge in ["PURGE /key", "PURGE /p/*", "PURGE /none|X-Tag: t/tag\r\n"] {
        one.ask(purge);
    }
    // One knows at once, whether its own cache had the objects or not; a new server by the list in the bucket.
    let purges = |node: &Node, what: &str| {
        for (target, before) in targets.iter().zip(&before).take(3) {
            assert_ne!(node.get(target), *before, "{what} {target}");
        }
    };
    purges(&one, "one");
    assert_eq!(one.get("/stays"), before[3]);
    let list = || bucket.length("/bucket/some/where/z/purges");
    // The entries of all three purges.
    while list() < 32 + 30 + 17 + 19 {
        std::thread::yield_now();
    }
    let three = Node::ready(&bucket, "hedge=10s timeout=10s");
    purges(&three, "three");
    assert_eq!(three.get("/stays"), before[3]);
    // A server that was there already reads the list now and then, and knows by itself after a restart.
    assert_eq!(two.get("/stays"), before[3]);
    let Node { site, server } = one;
    server.quit();
    // Its own list is left of all that it had, and of the bucket's.
    for file in std::fs::read_dir(site.path("c")).unwrap().map(Result::unwrap) {
        if file.file_name() != ".tier" {
            std::fs::remove_file(file.path()).unwrap();
        }
    }
    bucket.forget("/bucket/some/where/z/purges");
    let server = site.start();
    server.wait_log("start worker process ");
    let one = Node { site, server };
    one.until("lists", 1);
    purges(&one, "one again");
    assert_eq!(one.get("/stays"), before[3]);
}

#[test]
fn a_new_server_that_shares_purges_is_warm() {
    let (bucket, engine) = (Bucket::start(), Engine::start(Site::new().second_port));
    let parameters = "hedge=10s timeout=10s min_uses=1";
    let start = || {
        let node = Node::start_by(&bucket, parameters, Some(&engine));
        node.until_cache("\"state\":\"following\"");
        // A server that joins may have missed purges: the tier is asked after another reading of the list.
        node.until("lists", 2);
        node
    };
    let one = start();
    let (kept, purged) = (one.get("/kept"), one.get("/purged"));
    bucket.wait_objects(2);
    let two = start();
    assert_eq!(one.ask("PURGE /purged").0, 204);
    // What another server has purged is not taken from the tier, as soon as the purge has arrived.
    two.until_cache("\"applied\":1");
    assert_ne!(two.get("/purged"), purged);
    assert_eq!(two.get("/kept"), kept);
    // A server that does not know what it has missed makes no object of the tier stale.
    let three = start();
    assert_eq!(three.get("/kept"), kept);
    assert_eq!(three.ask("GET /kept").1, "HIT");
    assert_ne!(three.get("/purged"), purged);
}

#[test]
fn a_purge_is_written_to_the_list_by_one_server() {
    let (bucket, engine) = (Bucket::start(), Engine::start(Site::new().second_port));
    let nodes = [(); 3].map(|()| {
        let node = Node::start_by(&bucket, "min_uses=1", Some(&engine));
        node.until_cache("\"state\":\"following\"");
        node.until("lists", 2);
        node
    });
    let read = nodes.each_ref().map(|node| node.figure("lists"));
    nodes[0].get("/a");
    assert_eq!(nodes[0].ask("PURGE /a").0, 204);
    for node in &nodes[1..] {
        node.until_cache("\"applied\":1");
    }
    // Each one has compared its list with the bucket's since.
    for (node, read) in nodes.iter().zip(read) {
        node.until("lists", read + 1);
    }
    assert_eq!(bucket.list_writes(), 1);
}

#[test]
fn a_list_that_must_not_be_written_stops_no_reads() {
    let bucket = Bucket::start();
    let one = Node::ready(&bucket, "hedge=10s timeout=10s min_uses=1");
    let stored = one.get("/a");
    bucket.wait_objects(1);
    bucket.set(Manner::ReadOnly);
    let two = Node::ready(&bucket, "hedge=10s timeout=10s");
    two.ask("PURGE /none");
    two.server.wait_log("denied the list of purges: status 403 \"AccessDenied\"");
    assert_eq!(two.get("/a"), stored);
}

#[test]
fn a_tier_is_asked_again_when_purges_are_no_longer_shared() {
    let (bucket, engine) = (Bucket::start(), Engine::start(Site::new().second_port));
    let node = Node::start_by(&bucket, "hedge=10s timeout=10s", Some(&engine));
    node.until_cache("\"state\":\"following\"");
    node.until("lists", 2);
    let written = std::fs::read_to_string(node.site.path("nginx.conf")).unwrap();
    let configure = |partition: &str| {
        let text = written.replace(" purge_sync;", partition);
        assert_ne!(text, written);
        std::fs::write(node.site.path("nginx.conf"), text).unwrap();
        node.server.signal(Signal::Hangup);
    };
    configure(" purge_sync purge_partition=revalidate;");
    node.server.wait_log("gracefully shutting down generation 1");
    node.until_cache("\"state\":\"following\"");
    drop(engine);
    node.until_cache("\"state\":\"cut off\"");
    let mut target = 0;
    let mut next = || {
        target += 1;
        node.get(&format!("/{target}"));
        node.figure("skipped")
    };
    while next() == 0 {}
    configure(";");
    node.server.wait_log("gracefully shutting down generation 2");
    let skipped = next();
    assert_eq!(next(), skipped, "what was cut off is not remembered");
}

#[test]
fn a_failing_store_costs_no_response() {
    let table = [
        (
            Manner::Status(403, "<Error><Code>AccessDenied</Code></Error>"),
            "403 \\\"AccessDenied\\\"",
        ),
        (Manner::Status(301, "<Code>PermanentRedirect</Code>"), "301 \\\"PermanentRedirect\\\""),
        (Manner::Status(404, "<Code>NoSuchBucket</Code>"), "404 \\\"NoSuchBucket\\\""),
        (Manner::Status(500, "<Code>&lol9;</Code>"), "status 500"),
        (Manner::Silent, "in time"),
        (Manner::Close, "no connection"),
        (Manner::Garbage, "no connection"),
        (Manner::Trickle, ""),
        (Manner::Cut, ""),
        (Manner::Huge, ""),
        (Manner::Foreign, ""),
    ];
    let bucket = Bucket::start();
    let one = Node::ready(&bucket, "hedge=10s timeout=10s min_uses=1");
    for number in 0..8 {
        one.get(&format!("/o/{number}"));
    }
    bucket.wait_objects(8);
    for (manner, reason) in table {
        bucket.set(Manner::Right);
        let node = Node::ready(&bucket, "hedge=10ms timeout=100ms");
        bucket.set(manner.clone());
        for number in 0..8 {
            // The origin responds.
            let body = node.get(&format!("/o/{number}"));
            assert_eq!(body.len(), 32, "{manner:?}");
            assert_eq!(node.ask(&format!("GET /o/{number}")).1, "HIT", "{manner:?}");
        }
        if reason.is_empty() {
            // No store has failed, or none was waited for long enough.
            continue;
        }
        while !node.tier().contains(reason) {
            node.get("/o/1");
            std::thread::yield_now();
        }
        assert_eq!(node.figure("found"), 0, "{manner:?}");
    }
}

#[test]
fn a_store_that_fails_is_left_alone() {
    let bucket = Bucket::start();
    let node = Node::ready(&bucket, "hedge=10s timeout=10s");
    bucket.set(Manner::Status(503, "<Code>SlowDown</Code>"));
    for number in 0..20 {
        node.get(&format!("/o/{number}"));
    }
    assert!(node.tier().contains("\"state\":\"left alone\""), "{}", node.tier());
    assert!(node.figure("skipped") >= 10);
    node.server.wait_log("cache tier \"t\" at http://127.0.0.1");
    node.server.wait_log("is left alone for 5 s");
}

#[test]
fn no_flipped_bit_is_served() {
    const STEPS: usize = 24;
    let bucket = Bucket::start();
    let one = Node::ready(&bucket, "hedge=10s timeout=10s min_uses=1 upload=8");
    let small: Vec<String> = (0..STEPS).map(|step| one.get(&format!("/small?{step}"))).collect();
    (0..STEPS).for_each(|step| drop(one.get(&format!("/large?{step}"))));
    bucket.wait_objects(2 * STEPS);
    let longest = bucket.objects().iter().map(|path| bucket.length(path)).max().unwrap();
    let node = Node::ready(&bucket, "hedge=10s timeout=10s");
    for (step, small) in small.iter().enumerate() {
        bucket.set(Manner::Flipped(step * longest / STEPS + step));
        // The origin completes the large file, as its validator is a strong one.
        for _ in 0..2 {
            assert!(node.get(&format!("/large?{step}")) == large(), "{step}");
        }
        assert_ne!(node.get(&format!("/small?{step}")), *small, "{step}");
    }
    assert_eq!(node.figure("damaged"), 2 * STEPS as u64);
}

#[test]
fn a_damaged_object_breaks_no_response_of_a_healthy_origin() {
    let bucket = Bucket::start();
    let one = Node::ready(&bucket, "hedge=10s timeout=10s min_uses=1 upload=1");
    // Without a validator nothing completes it: it is not uploaded.
    let targets = ["/plain", "/off", "/once", "/large"];
    targets.iter().for_each(|target| assert!(one.get(target) == large(), "{target}"));
    bucket.wait_objects(3);
    assert_eq!(bucket.objects().len(), 3);
    let two = Node::ready(&bucket, "hedge=10s timeout=10s");
    // In the last block.
    bucket.set(Manner::Flipped(LARGE_BYTES - 1));
    for target in ["/plain", "/off", "/once"] {
        assert!(two.get(target) == large(), "{target}");
    }
    assert_eq!((two.figure("outdated"), two.figure("damaged")), (1, 1));
    // The origin has another file now, and cannot complete the object: the next request asks the origin.
    let changed = "B".repeat(LARGE_BYTES);
    std::fs::write(two.site.path("large"), &changed).unwrap();
    let (_, _, cut) = two.ask("GET /large");
    assert!(cut.len() < LARGE_BYTES && large().starts_with(&cut));
    assert!(two.get("/large") == changed);
    assert_eq!((two.figure("damaged"), two.figure("remembered")), (2, 1));
}

#[test]
fn keys_are_not_shown() {
    let bucket = Bucket::start();
    let node = Node::ready(&bucket, "");
    let shown = node.tier();
    assert!(shown.contains("s3://bucket/some/where") && !shown.contains("SECRET"), "{shown}");
    let site = Site::new();
    let tier = "proxy_cache_tier t s3://b access_key=AK-SECRET 'secret_key=VERY-SECRET' region=eu;\n\
        proxy_cache_tier u s3://b access_key=AK-SECRET\n  secret_key=TOP-SECRET;";
    site.configure("", tier);
    let dump = site.run(&["-T"]);
    let text = String::from_utf8_lossy(&dump.stdout).into_owned();
    assert!(text.contains("secret_key=") && text.contains("region=eu;"), "{text}");
    assert!(!text.contains("SECRET"), "{text}");
}
