//! Servers whose caches are one (`proxy_cache_peers`): three processes, and an origin that counts what it is asked for.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

use crate::support::{DEADLINE, Server, Site, connect};

/// An origin: the body of a target begins with the number of requests for it.
#[derive(Clone)]
struct Origin {
    port: u16,
    state: Arc<(Mutex<OriginState>, Condvar)>,
}

#[derive(Default)]
struct OriginState {
    requests: HashMap<String, usize>,
    /// Bodies end.
    is_open: bool,
}

/// Bytes of a body: more than servers hold back for each other.
const BODY_BYTES: usize = 100_000;

impl Origin {
    /// Listens; the thread ends with the process.
    fn start(is_open: bool) -> Origin {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = OriginState { is_open, ..OriginState::default() };
        let origin = Origin { port, state: Arc::new((Mutex::new(state), Condvar::new())) };
        let serving = origin.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let origin = serving.clone();
                // A connection that fails is seen by its client.
                std::thread::spawn(move || drop(origin.serve(stream)));
            }
        });
        origin
    }

    fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let target = line.split(' ').nth(1).unwrap_or_default().to_owned();
        while line.trim_end() != "" {
            line.clear();
            reader.read_line(&mut line)?;
        }
        let (lock, opened) = &*self.state;
        let number = {
            let mut state = lock.lock().unwrap();
            let count = state.requests.entry(target).or_default();
            *count += 1;
            *count
        };
        let stream = reader.get_mut();
        write!(stream, "HTTP/1.0 200 OK\r\nContent-Length: {BODY_BYTES}\r\n\r\n")?;
        let mut body = number.to_string().into_bytes();
        body.resize(BODY_BYTES, b' ');
        stream.write_all(&body[..BODY_BYTES / 2])?;
        let wait = opened.wait_timeout_while(lock.lock().unwrap(), DEADLINE, |one| !one.is_open);
        drop(wait.unwrap());
        stream.write_all(&body[BODY_BYTES / 2..])
    }

    fn open(&self) {
        self.state.0.lock().unwrap().is_open = true;
        self.state.1.notify_all();
    }

    fn requests(&self, target: &str) -> usize {
        self.state.0.lock().unwrap().requests.get(target).copied().unwrap_or(0)
    }

    fn all_requests(&self) -> usize {
        self.state.0.lock().unwrap().requests.values().sum()
    }
}

/// A server of a ring.
struct Node {
    site: Site,
    server: Server,
    worker: u32,
}

const HTTP: &str = r#"
    upstream ring { {servers} }
    proxy_cache_path {dir}/c keys_zone=z:1m;
    map $request_method $purge { PURGE 1; default 0; }
    server {
        listen 127.0.0.1:{port};
        location / {
            proxy_pass http://127.0.0.1:{origin};
            proxy_cache z; proxy_cache_key $request_uri; proxy_cache_valid 1h;
            proxy_cache_purge $purge;
            proxy_cache_peers ring self=127.0.0.1:{port} {hot};
            add_header X-C "[$upstream_cache_status]";
        }
        location /api { api; }
        location = /metrics { metrics tidegate; }
    }"#;

/// Starts servers of one ring.
fn ring(origin: &Origin, count: usize, hot: &str) -> Vec<Node> {
    let sites: Vec<Site> = (0..count).map(|_| Site::new()).collect();
    let servers =
        sites.iter().map(|site| format!("server 127.0.0.1:{} fail_timeout=1h;", site.port));
    let servers: String = servers.collect();
    let start = |site: Site| {
        let http = HTTP.replace("{servers}", &servers).replace("{hot}", hot);
        site.configure("worker_processes 1;", &http.replace("{origin}", &origin.port.to_string()));
        let server = site.start();
        let worker = server.wait_number("start worker process ");
        Node { site, server, worker }
    };
    sites.into_iter().map(start).collect()
}

impl Node {
    /// Sends a request; returns the connection.
    fn begin(&self, line: &str) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.site.port)).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        write!(stream, "{line} HTTP/1.0\r\nHost: a\r\n\r\n").unwrap();
        BufReader::new(stream)
    }

    /// Returns status, what the cache did, and the number with which the body begins.
    fn ask(&self, line: &str) -> (u16, String, usize) {
        let mut response = String::new();
        self.begin(line).read_to_string(&mut response).unwrap();
        read(&response)
    }

    /// Purges a response, whether it is stored here or was only read here a moment ago.
    fn purge(&self, target: &str) {
        let (status, ..) = self.ask(&format!("PURGE {target}"));
        assert!(matches!(status, 204 | 404), "{status}");
    }

    fn figure(&self, name: &str) -> u64 {
        let shown = connect(self.site.port).unwrap().get("/api/9/tidegate/cache_peers/ring");
        let value = shown.split(&format!("\"{name}\":")).nth(1).unwrap();
        value.split([',', '}']).next().unwrap().parse().unwrap()
    }

    /// Asks until the response is stored here.
    fn until_hit(&self, target: &str) -> usize {
        loop {
            let (status, cache, number) = self.ask(&format!("GET {target}"));
            assert_eq!(status, 200);
            if cache == "HIT" {
                return number;
            }
        }
    }
}

fn read(response: &str) -> (u16, String, usize) {
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let cache = head.split("X-C: [").nth(1).and_then(|rest| rest.split(']').next());
    if status != 200 {
        return (status, String::new(), 0);
    }
    assert_eq!(body.len(), BODY_BYTES, "{head}");
    (status, cache.unwrap_or_default().to_owned(), body.trim_end().parse().unwrap())
}

#[test]
fn clients_of_all_servers_read_one_fetch() {
    let origin = Origin::start(false);
    let nodes = ring(&origin, 3, "");
    let clients = nodes.iter().flat_map(|node| (0..20).map(|_| node.begin("GET /new")));
    let mut clients: Vec<_> = clients.collect();
    // The first bytes are with all of them before the origin has sent the rest.
    let mut begun = Vec::new();
    for client in &mut clients {
        let mut first = vec![0; 1000];
        client.read_exact(&mut first).unwrap();
        begun.push(first);
    }
    assert_eq!(origin.requests("/new"), 1);
    origin.open();
    for (mut client, mut response) in clients.into_iter().zip(begun) {
        client.read_to_end(&mut response).unwrap();
        let (status, _, number) = read(std::str::from_utf8(&response).unwrap());
        assert_eq!((status, number), (200, 1));
    }
    // Two servers have asked the third one, once each.
    let sum = |name: &str| nodes.iter().map(|node| node.figure(name)).sum::<u64>();
    assert_eq!((sum("asked"), sum("served"), sum("requests"), sum("failures")), (2, 2, 2, 0));
    let metrics = connect(nodes[0].site.port).unwrap().get("/metrics");
    assert!(metrics.contains("tidegate_cache_peers_asked_total{upstream=\"ring\"}"), "{metrics}");
}

#[test]
fn a_lost_server_moves_its_own_keys() {
    const OBJECTS: usize = 60;
    let origin = Origin::start(true);
    let mut nodes = ring(&origin, 3, "");
    let get_all = |nodes: &[Node]| {
        for object in 0..OBJECTS {
            for node in nodes {
                assert_eq!(node.ask(&format!("GET /{object}")).0, 200);
            }
        }
    };
    get_all(&nodes);
    assert_eq!(origin.all_requests(), OBJECTS);
    let lost = nodes.remove(2);
    let owned = (0..OBJECTS).filter(|object| {
        let mut hits = (0..2).map(|_| lost.ask(&format!("GET /{object}")).1);
        hits.all(|cache| cache == "HIT")
    });
    let owned = owned.count();
    drop(lost);
    get_all(&nodes);
    // No client sees it, and what it had is fetched once by one of the others.
    assert_eq!(origin.all_requests(), OBJECTS + owned);
    // Which keys a server owns is by its port: how many differs from run to run, some it always did.
    assert!((1..OBJECTS).contains(&owned), "it owned {owned} of {OBJECTS}");
    get_all(&nodes);
    assert_eq!(origin.all_requests(), OBJECTS + owned);
    let failures: u64 = nodes.iter().map(|node| node.figure("failures")).sum();
    assert!((1..=2).contains(&failures), "{failures}");
}

#[test]
fn a_server_that_hangs_is_left_after_one_wait() {
    let origin = Origin::start(true);
    let nodes = ring(&origin, 2, "");
    let signal = |name: &str| {
        let pid = nodes[1].worker.to_string();
        let mut kill = std::process::Command::new("kill");
        assert!(kill.args([name, &pid]).status().unwrap().success());
    };
    signal("-STOP");
    for object in 0..20 {
        assert_eq!(nodes[0].ask(&format!("GET /{object}")).0, 200);
        assert_eq!(nodes[0].until_hit(&format!("/{object}")), 1);
    }
    assert_eq!(nodes[0].figure("failures"), 1);
    assert_eq!(origin.all_requests(), 20);
    // It reads the request now, whose client has gone, and may ask the origin.
    signal("-CONT");
    nodes[0].server.wait_log("gives no sign of life");
}

#[test]
fn a_purged_response_does_not_come_back_from_the_owner() {
    let origin = Origin::start(true);
    let nodes = ring(&origin, 2, "hot=2");
    for object in 0..8 {
        let target = format!("/{object}");
        // The first server has a copy, or is the owner; the other one may be either.
        assert_eq!(nodes[1].ask(&format!("GET {target}")).2, 1);
        assert_eq!((nodes[0].until_hit(&target), nodes[1].until_hit(&target)), (1, 1));
        assert_eq!(origin.requests(&target), 1);
        nodes[0].purge(&target);
        // A response of the other server is older.
        assert_eq!(nodes[0].ask(&format!("GET {target}")).2, 2);
        assert_eq!(nodes[0].until_hit(&target), 2);
        assert_eq!(nodes[1].until_hit(&target), 1, "there it was not purged");
        nodes[1].purge(&target);
        let behind = nodes[1].ask(&format!("GET {target}")).2;
        assert!(behind == 3, "{behind}: the other server's is older than this purge as well");
    }
    assert!(nodes.iter().map(|node| node.figure("outdated")).sum::<u64>() > 0);
}
