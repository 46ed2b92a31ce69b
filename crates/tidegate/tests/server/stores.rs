//! Servers that share zones by Redis, as Debian has it. `scripts/setup.sh test` installs it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use crate::gateways::Component;
use crate::support::{Server, Site, connect};

/// An engine with a port of its own.
pub(crate) struct Engine {
    component: Component,
    pub(crate) port: u16,
}

impl Engine {
    pub(crate) fn start(port: u16) -> Engine {
        Engine::with(port, &[])
    }

    fn with(port: u16, arguments: &[&str]) -> Engine {
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
        command.args(["--appendonly", "no", "--logfile", "/dev/stderr"]);
        command.args(arguments);
        let component = Component::start(&mut command, "Ready to accept connections");
        Engine { component, port }
    }

    /// Stops it (`-STOP`), or lets it go on (`-CONT`).
    fn signal(&self, signal: &str) {
        let pid = self.component.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    /// Sends a command of words without spaces; returns the first bytes of its reply.
    pub(crate) fn ask(&self, command: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
        let mut reply = [0; 256];
        let count = stream.read(&mut reply).unwrap();
        String::from_utf8_lossy(&reply[..count]).into_owned()
    }
}

/// A server with zones that are shared, and its port.
struct Node {
    site: Site,
    _server: Server,
}

fn ask(port: u16, target: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let request = format!("GET {target} HTTP/1.0\r\nHost: a\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

fn status_of(response: &str) -> u16 {
    response.split(' ').nth(1).unwrap().parse().unwrap()
}

const LIMITS: &str = r#"
    zone_sync_store redis://127.0.0.1:{engine}/0 interval=10ms timeout=5s;
    limit_req_zone $arg_k zone=r:1m rate=1r/m sync;
    limit_conn_zone $arg_k zone=c:1m sync;
    limit_req_status 429; limit_conn_status 429;
    keyval_zone zone=p:1m timeout=1h state={dir}/pairs sync;
    keyval $arg_k $pair zone=p;
    server {
        listen 127.0.0.1:{port};
        location / { limit_req zone=r burst=4 nodelay; }
        location /slow { limit_conn c 1; limit_rate 1k; root {dir}; }
        location /fast { limit_conn c 1; }
        location /pair { return 200 "[$pair]"; }
        location /set { set $pair new; return 204; }
        location /api { api write=on; }
    }"#;

impl Node {
    fn start(engine: u16, http: &str) -> Node {
        let site = Site::new();
        let http = http.replace("{engine}", &engine.to_string());
        site.configure("worker_processes 1;", &http);
        let server = site.start();
        server.wait_log("start worker process ");
        let node = Node { site, _server: server };
        node.until_api("/tidegate/stores", "\"state\":\"ready\"");
        node
    }

    fn status(&self, target: &str) -> u16 {
        status_of(&self.response(target))
    }

    fn response(&self, target: &str) -> String {
        ask(self.site.port, target)
    }

    fn api(&self, path: &str) -> String {
        connect(self.site.port).unwrap().get(&format!("/api/9{path}"))
    }

    /// Asks until the API says something.
    fn until_api(&self, path: &str, text: &str) {
        while !self.api(path).contains(text) {
            std::thread::yield_now();
        }
    }

    /// Returns the rounds so far.
    fn rounds(&self) -> u64 {
        let text = self.api("/tidegate/stores/default");
        let at = text.split("\"rounds\":").nth(1).unwrap();
        at.split(',').next().unwrap().parse().unwrap()
    }

    /// Waits until a round has begun and ended.
    fn await_round(&self) {
        let before = self.rounds();
        while self.rounds() < before + 2 {
            // There is no round without a change.
            self.status("/?k=change");
        }
    }
}

#[test]
fn a_rate_is_that_of_all_servers() {
    let engine = Engine::start(Site::new().second_port);
    let (one, two) = (Node::start(engine.port, LIMITS), Node::start(engine.port, LIMITS));
    one.until_api("/stream/zone_sync", "\"nodes_online\":1");
    let long = "k=".to_owned() + &"x".repeat(4000);
    for key in ["k=a", &long] {
        for _ in 0..5 {
            assert_eq!(one.status(&format!("/?{key}")), 404);
        }
        assert_eq!(one.status(&format!("/?{key}")), 429);
        one.await_round();
        // The other server admits one request before it knows.
        assert_eq!(two.status(&format!("/?{key}")), 404);
        two.await_round();
        assert_eq!(two.status(&format!("/?{key}")), 429);
    }
    assert_eq!(two.status("/?k=b"), 404);
    // A value of another kind, or with a time far away, counts as none, or as the burst of both.
    assert_eq!(engine.ask("LPUSH tidegate:r:r:=c 1"), ":1\r\n");
    assert_eq!(two.status("/?k=c"), 404);
    two.await_round();
    assert_eq!(two.status("/?k=c"), 404);
    assert!(engine.ask("GET tidegate:r:r:=c").starts_with('$'));
}

/// Keys of an engine whose clock is set back would be refused until the time comes that was.
#[test]
fn an_arrival_time_that_is_too_far_away_is_replaced() {
    let engine = Engine::start(Site::new().second_port);
    let record = || -> (u64, String) {
        let shown = engine.ask("GET tidegate:r:r:=a");
        let (time, total) = shown.lines().nth(1).unwrap().split_once(':').unwrap();
        (time.parse().unwrap(), total.to_owned())
    };
    for http in [LIMITS, WAITING] {
        let node = Node::start(engine.port, http);
        while node.status("/?k=a") != 429 {}
        node.await_round();
        let (time, total) = record();
        let later = time + 3_600_000_000;
        assert_eq!(engine.ask(&format!("SET tidegate:r:r:=a {later}:{total}")), "+OK\r\n");
        // It adds nothing to the record.
        assert_eq!(node.status("/?k=a"), 429);
        node.await_round();
        let (time, same_total) = record();
        assert!(time < later, "{time}");
        assert_eq!(same_total, total);
        assert!(engine.ask("DEL tidegate:r:r:=a").starts_with(':'));
    }
}

const WAITING: &str = r#"
    zone_sync_store redis://127.0.0.1:{engine}/0 interval=10ms timeout=200ms;
    limit_req_zone $arg_k zone=r:1m rate=1r/m sync=wait;
    limit_req_zone $arg_n zone=n:1m rate=1r/m sync=wait:default sync_failure=reject;
    limit_req_zone $arg_d zone=d:1m rate=1r/s sync=wait;
    limit_req_zone $arg_own zone=own:1m rate=1r/m;
    limit_req_status 429;
    server {
        listen 127.0.0.1:{port};
        limit_req zone=r burst=4 nodelay;
        limit_req zone=n nodelay;
        limit_req zone=d burst=1;
        limit_req zone=own nodelay;
        add_header X-Status $limit_req_status always;
        location /api { api; }
    }"#;

#[test]
fn requests_that_wait_never_exceed_the_rate() {
    let engine = Engine::start(Site::new().second_port);
    let nodes = [Node::start(engine.port, WAITING), Node::start(engine.port, WAITING)];
    // Many at once, on both servers: one burst passes, in any order.
    for key in ["a", "b"] {
        let statuses: Vec<u16> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..32)
                .map(|client| {
                    let port = nodes[client % 2].site.port;
                    scope.spawn(move || status_of(&ask(port, &format!("/?k={key}"))))
                })
                .collect();
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        let passed = statuses.iter().filter(|status| **status == 404).count();
        assert_eq!((passed, statuses.len()), (5, 32), "{statuses:?}");
        assert!(statuses.iter().all(|status| [404, 429].contains(status)), "{statuses:?}");
    }
    // One that another rule refuses is counted by none: by a rule of the store, and by one of the server's own.
    let count = |key: &str| {
        let shown = engine.ask(&format!("GET tidegate:{key}"));
        shown.trim_end().rsplit(':').next().unwrap().to_owned()
    };
    assert_eq!(nodes[0].status("/?k=c&n=1"), 404);
    assert_eq!(nodes[1].status("/?k=c&n=1"), 429);
    assert_eq!((count("r:r:=c"), count("r:n:=1")), ("1".to_owned(), "1".to_owned()));
    assert_eq!(nodes[0].status("/?k=d&own=1"), 404);
    assert_eq!(nodes[0].status("/?k=d&own=1"), 429);
    assert_eq!(count("r:r:=d"), "1");
    // One that is too early is delayed as it would be by this server alone.
    assert!(nodes[0].response("/?d=1").contains("X-Status: PASSED"));
    assert!(nodes[1].response("/?d=1").contains("X-Status: DELAYED"));
    // Without a reply in time `sync_failure` decides.
    engine.signal("-STOP");
    assert_eq!(nodes[0].status("/?k=e"), 404);
    assert_eq!(nodes[0].status("/?k=c"), 404, "a share of the rate");
    assert_eq!(nodes[0].status("/?n=2"), 429);
    engine.signal("-CONT");
    while nodes[0].status("/?n=2") != 404 {}
    nodes[0].until_api("/tidegate/stores", "\"available\":true");
}

#[test]
fn a_paused_engine_and_a_new_one_cost_no_request() {
    let port = Site::new().second_port;
    let engine = Engine::start(port);
    let http = LIMITS.replace("timeout=5s", "timeout=20ms");
    let node = Node::start(port, &http);
    engine.signal("-STOP");
    assert_eq!(node.status("/?k=a"), 404);
    node.until_api("/tidegate/stores", "\"available\":false");
    assert_eq!(node.status("/?k=b"), 404);
    engine.signal("-CONT");
    node.until_api("/tidegate/stores", "\"available\":true");
    // What was counted meanwhile is sent.
    while !engine.ask("GET tidegate:r:r:=b").starts_with('$') {
        std::thread::yield_now();
    }
    drop(engine);
    node.until_api("/tidegate/stores", "\"available\":false");
    assert_eq!(node.status("/?k=c"), 404);
    let _engine = Engine::start(port);
    node.until_api("/tidegate/stores", "\"available\":true");
    assert_eq!(node.status("/?k=c"), 404);
}

#[test]
fn connections_are_counted_together() {
    let engine = Engine::start(Site::new().second_port);
    let (one, two) = (Node::start(engine.port, LIMITS), Node::start(engine.port, LIMITS));
    std::fs::write(one.site.path("slow"), "x".repeat(1 << 20)).unwrap();
    // A request that is in progress as long as its connection.
    let mut slow = TcpStream::connect(("127.0.0.1", one.site.port)).unwrap();
    slow.write_all(b"GET /slow?k=a HTTP/1.0\r\nHost: a\r\n\r\n").unwrap();
    let mut head = [0; 12];
    slow.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    assert_eq!(one.status("/fast?k=a"), 429);
    one.await_round();
    // The other server admits one request before it knows.
    assert_eq!(two.status("/fast?k=a"), 404);
    two.await_round();
    assert_eq!(two.status("/fast?k=a"), 429);
    drop(slow);
    while two.status("/fast?k=a") != 404 {}
    // A server that has died has left a count with a lease.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let until = now.as_millis() + 400;
    assert_eq!(engine.ask(&format!("HSET tidegate:c:c:=b dead 5:{until}")), ":1\r\n");
    assert_eq!(two.status("/fast?k=b"), 404);
    two.await_round();
    let mut refused = 0;
    while two.status("/fast?k=b") != 404 {
        refused += 1;
    }
    assert!(refused > 0, "the lease has not counted");
}

impl Node {
    /// Sends a command about pairs; returns the status.
    fn pairs(&self, method: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.site.port)).unwrap();
        let length = body.len();
        let request = format!(
            "{method} /api/9/http/keyvals/p HTTP/1.0\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        let code = response.split("\"code\":\"").nth(1).and_then(|rest| rest.split('"').next());
        format!("{} {}", &response[9..12], code.unwrap_or_default())
    }

    fn pair(&self, key: &str) -> String {
        connect(self.site.port).unwrap().get(&format!("/pair?k={key}"))
    }

    fn until_pair(&self, key: &str, value: &str) {
        while self.pair(key) != format!("[{value}]") {
            std::thread::yield_now();
        }
    }
}

#[test]
fn pairs_are_those_of_all_servers() {
    let port = Site::new().second_port;
    let engine = Engine::start(port);
    let (one, two) = (Node::start(port, LIMITS), Node::start(port, LIMITS));
    assert_eq!(one.pairs("POST", r#"{"a":"1"}"#), "201 ");
    assert_eq!(one.pair("a"), "[1]", "it is known here before the response");
    two.until_pair("a", "1");
    assert_eq!(two.pairs("POST", r#"{"a":"2"}"#), "409 KeyvalKeyExists");
    assert_eq!(two.pairs("POST", r#"{"b":"1","c":"1"}"#), "400 KeyvalFormatError");
    assert_eq!(two.pairs("PATCH", r#"{"a":"2:\n3"}"#), "204 ");
    one.until_pair("a", "2:\n3");
    assert_eq!(two.pairs("PATCH", r#"{"x":"2"}"#), "404 KeyvalKeyNotFound");
    assert_eq!(two.pairs("PATCH", r#"{"a":null}"#), "204 ");
    one.until_pair("a", "");
    assert_eq!(one.pairs("POST", r#"{"b":"1","c":{"value":"2","expire":300}}"#), "201 ");
    two.until_pair("c", "2");
    assert_eq!(one.status("/set?k=d"), 204);
    two.until_pair("d", "new");
    // Its time is over on both servers.
    two.until_pair("c", "");
    one.until_pair("c", "");
    // A third server gets all pairs.
    let three = Node::start(port, LIMITS);
    three.until_pair("b", "1");
    drop(three);
    // Lookups go on without the engine, changes do not.
    drop(engine);
    one.until_api("/tidegate/stores", "\"state\":\"broken\"");
    assert_eq!(one.pair("b"), "[1]");
    assert_eq!(one.pairs("POST", r#"{"e":"1"}"#), "503 StoreUnavailable");
    // A new engine gets the pairs of one server.
    let engine = Engine::start(port);
    while !engine.ask("HLEN tidegate:kp:p:=").starts_with(":2") {
        std::thread::yield_now();
    }
    one.until_api("/tidegate/stores", "\"available\":true");
    assert_eq!(one.pairs("POST", r#"{"e":"1"}"#), "201 ");
    two.until_pair("e", "1");
    assert_eq!(two.pairs("DELETE", ""), "204 ");
    one.until_pair("b", "");
}

#[test]
fn an_old_engine_with_a_password_is_used() {
    let port = Site::new().second_port;
    // It knows neither HELLO nor, with that, RESP3.
    let _engine = Engine::with(port, &["--rename-command", "HELLO", "", "--requirepass", "p/w"]);
    let limits =
        LIMITS.replace("redis://", "redis://:p%2Fw@").replace("/0 interval", "/3 interval");
    let (one, two) = (Node::start(port, &limits), Node::start(port, &limits));
    one.until_api("/stream/zone_sync", "\"nodes_online\":1");
    assert_eq!(one.pairs("POST", r#"{"a":"1"}"#), "201 ");
    two.until_pair("a", "1");
    for _ in 0..5 {
        assert_eq!(one.status("/?k=a"), 404);
    }
    one.await_round();
    assert_eq!(two.status("/?k=a"), 404);
    two.await_round();
    assert_eq!(two.status("/?k=a"), 429);
}

/// Starts a Sentinel that watches an engine as `main` and has the password `p@ss`; it needs a file of its own.
fn sentinel(site: &Site, port: u16, engine: u16) -> Component {
    let file = site.path("sentinel.conf");
    let text = format!(
        "port {port}\nbind 127.0.0.1\ndir {}\nlogfile /dev/stderr\nrequirepass p@ss\n\
         sentinel monitor main 127.0.0.1 {engine} 1\n\
         sentinel down-after-milliseconds main 200\nsentinel failover-timeout main 1000\n",
        site.path("").display()
    );
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new("redis-server");
    command.arg(&file).arg("--sentinel");
    Component::start(&mut command, "+slave slave")
}

#[test]
fn an_engine_that_takes_over_is_found_by_sentinels() {
    let (first, site) = (Site::new(), Site::new());
    // What they copy is in a file in between.
    let directories = [&first, &site].map(|site| site.path("").display().to_string());
    let engine = Engine::with(first.second_port, &["--dir", &directories[0]]);
    let of = ["--dir", &directories[1], "--replicaof", "127.0.0.1", &engine.port.to_string()];
    let successor = Engine::with(site.second_port, &of);
    while !engine.ask("WAIT 1 100").starts_with(":1") {}
    let _sentinel = sentinel(&site, site.port, engine.port);
    let sentinels = format!("redis://127.0.0.1:1,127.0.0.1:{}/0 sentinel=:p%40ss@main", site.port);
    let limits = LIMITS.replace("redis://127.0.0.1:{engine}/0", &sentinels);
    let (one, two) = (Node::start(0, &limits), Node::start(0, &limits));
    one.until_api("/stream/zone_sync", "\"nodes_online\":1");
    for _ in 0..5 {
        assert_eq!(one.status("/?k=a"), 404);
    }
    one.await_round();
    while !engine.ask("WAIT 1 100").starts_with(":1") {}
    drop(engine);
    // Requests are decided all the time, by the servers themselves meanwhile.
    let mut key = 0;
    while !two.api("/tidegate/stores").contains("\"available\":false") {
        key += 1;
        assert_eq!(two.status(&format!("/?k={key}")), 404);
    }
    while !two.api("/tidegate/stores").contains("\"available\":true") {
        key += 1;
        assert_eq!(two.status(&format!("/?k={key}")), 404);
    }
    // The new engine has the count of the old one, and gets what follows, behind what was counted meanwhile.
    assert_eq!(two.status("/?k=a"), 404);
    while !successor.ask("GET tidegate:r:r:=a").ends_with(":6\r\n") {
        std::thread::yield_now();
    }
}

const STICKY: &str = r#"
    zone_sync_store redis://127.0.0.1:{engine}/0 interval=10ms timeout=5s;
    upstream u {
        server unix:{dir}/a route=a;
        server unix:{dir}/b route=b;
        sticky learn create=$upstream_cookie_sid lookup=$cookie_sid zone=s:1m timeout=1h sync;
    }
    server { listen 127.0.0.1:{port}; location / { proxy_pass http://u; } location /api { api; } }
    server { listen unix:{dir}/a; add_header Set-Cookie "sid=$arg_sid"; return 200 a; }
    server { listen unix:{dir}/b; add_header Set-Cookie "sid=$arg_sid"; return 200 b; }"#;

impl Node {
    fn body(&self, target: &str, session: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.site.port)).unwrap();
        let request = format!("GET {target} HTTP/1.0\r\nHost: a\r\nCookie: sid={session}\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response.split("\r\n\r\n").nth(1).unwrap().to_owned()
    }
}

#[test]
fn a_session_is_that_of_all_servers() {
    let engine = Engine::start(Site::new().second_port);
    let (one, two) = (Node::start(engine.port, STICKY), Node::start(engine.port, STICKY));
    let first = one.body("/?sid=x", "");
    let second = one.body("/?sid=y", "");
    assert_ne!(first, second, "round robin");
    for session in ["x", "y"] {
        while !engine.ask(&format!("EXISTS tidegate:s:s:={session}")).starts_with(":1") {
            std::thread::yield_now();
        }
    }
    // A reply may be late once; a server that did not learn of the session would alternate.
    for (session, expected) in [("y", &second), ("x", &first)] {
        while (0..4).any(|_| two.body("/", session) != *expected) {}
    }
    assert!(engine.ask("PTTL tidegate:s:s:=x").trim_start_matches(':').trim() > "0");
    let zones = two.api("/stream/zone_sync");
    assert!(zones.contains("\"s\":{\"records_pending\""), "{zones}");
    // Without the engine the table of each server decides.
    engine.signal("-STOP");
    assert_eq!(two.body("/", "y"), second);
    engine.signal("-CONT");
}
