//! Groups whose servers etcd has, as Debian has it. `scripts/setup.sh test` installs it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use crate::gateways::Component;
use crate::support::{Site, connect};

/// An engine with a port and a directory of its own.
struct Etcd {
    _component: Component,
    _site: Site,
    port: u16,
    /// Of a login, once users are needed.
    token: Option<String>,
}

impl Etcd {
    fn start() -> Etcd {
        let site = Site::new();
        let (client, peer) = (site.port, site.second_port);
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let mut command = Command::new("etcd");
        command.args(["--data-dir", &site.path("etcd").to_string_lossy()]);
        command.args([
            "--listen-client-urls",
            &url(client),
            "--advertise-client-urls",
            &url(client),
        ]);
        command.args([
            "--listen-peer-urls",
            &url(peer),
            "--initial-advertise-peer-urls",
            &url(peer),
        ]);
        command.args(["--initial-cluster", &format!("default={}", url(peer)), "--unsafe-no-fsync"]);
        let component = Component::start(&mut command, "ready to serve client requests");
        Etcd { _component: component, _site: site, port: client, token: None }
    }

    /// Lets no one read or write without a login: there is the user `root`.
    fn require_login(&mut self, password: &str) {
        let login = format!("{{\"name\":\"root\",\"password\":\"{password}\"}}");
        self.ask("/v3/auth/user/add", &login);
        self.ask("/v3/auth/role/add", "{\"name\":\"root\"}");
        self.ask("/v3/auth/user/grant", "{\"user\":\"root\",\"role\":\"root\"}");
        self.ask("/v3/auth/enable", "{}");
        let response = self.ask("/v3/auth/authenticate", &login);
        let token = response.split("\"token\":\"").nth(1).unwrap();
        self.token = Some(token.split('"').next().unwrap().to_owned());
    }

    /// Sends a request of the JSON gateway.
    fn ask(&self, path: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let length = body.len();
        let login = self.token.as_ref().map(|token| format!("Authorization: {token}\r\n"));
        let login = login.unwrap_or_default();
        let head =
            format!("POST {path} HTTP/1.0\r\nHost: a\r\n{login}Content-Length: {length}\r\n\r\n");
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        assert!(response.contains(" 200 OK"), "{response}");
        response
    }

    fn put(&self, key: &str, value: &str) {
        let (key, value) = (base64(key), base64(value));
        self.ask("/v3/kv/put", &format!("{{\"key\":\"{key}\",\"value\":\"{value}\"}}"));
    }

    fn delete(&self, key: &str) {
        self.ask("/v3/kv/deleterange", &format!("{{\"key\":\"{}\"}}", base64(key)));
    }
}

fn base64(text: &str) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for three in text.as_bytes().chunks(3) {
        let at = |index: usize| u32::from(three.get(index).copied().unwrap_or(0));
        let bits = (at(0) << 16) | (at(1) << 8) | at(2);
        for place in 0..4 {
            let letter = LETTERS[((bits >> (18 - 6 * place)) & 63) as usize];
            out.push(if place <= three.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

#[test]
fn changes_of_etcd_reach_the_group() {
    let etcd = Etcd::start();
    let site = Site::new();
    let (one, two) = (format!("127.0.0.1:{}", site.second_port), "127.0.0.1:1");
    etcd.put(&format!("/upstreams/u/{one}"), "{\"weight\":3}");
    etcd.put("/upstreams/v/127.0.0.1:2", "not ours");
    let http = r#"
        upstream u {
            upsync 127.0.0.1:{etcd}/v2/keys/upstreams/u upsync_type=etcd upsync_interval=10ms strong_dependency=on;
        }
        server { listen 127.0.0.1:{port}; location / { proxy_pass http://u; } location /api { api; } }
        server { listen 127.0.0.1:{second}; return 200 "one"; }"#
        .replace("{etcd}", &etcd.port.to_string());
    site.configure("worker_processes 1;", &http);
    let server = site.start();
    server.wait_log("start worker process ");
    let api = |path: &str| connect(site.port).unwrap().get(&format!("/api/9{path}"));
    // The first response was there before the first request.
    assert_eq!(connect(site.port).unwrap().get("/"), "one");
    let until = |text: &str| {
        while !api("/http/upstreams/u/servers").contains(text) {
            std::thread::yield_now();
        }
    };
    assert!(api("/http/upstreams/u/servers").contains("\"weight\":3"));
    etcd.put(&format!("/upstreams/u/{two}"), "{\"down\":1}");
    until(&format!("\"server\":\"{two}\""));
    etcd.put(&format!("/upstreams/u/{one}"), "{\"weight\":7}");
    until("\"weight\":7");
    etcd.delete(&format!("/upstreams/u/{two}"));
    while api("/http/upstreams/u/servers").contains(two) {
        std::thread::yield_now();
    }
    // What is invalid changes nothing.
    etcd.put(&format!("/upstreams/u/{two}"), "no object");
    while !api("/tidegate/discovery/u").contains("its value is no JSON object") {
        std::thread::yield_now();
    }
    assert!(!api("/http/upstreams/u/servers").contains(two));
    assert_eq!(connect(site.port).unwrap().get("/"), "one");
    etcd.delete(&format!("/upstreams/u/{two}"));
    while !api("/tidegate/discovery/u").contains("\"state\":\"current\"") {
        std::thread::yield_now();
    }
    server.quit();
}

#[test]
fn a_user_of_etcd_follows_changes() {
    let mut etcd = Etcd::start();
    etcd.put("/upstreams/u/127.0.0.1:1", "{\"weight\":3}");
    etcd.require_login("a:b");
    let site = Site::new();
    std::fs::write(site.path("user"), "root:a:b\n").unwrap();
    let http = r#"
        upstream u {
            server 127.0.0.1:2;
            upsync 127.0.0.1:{etcd}/v2/keys/upstreams/u upsync_type=etcd upsync_interval=10ms credentials={dir}/user;
        }
        server { listen 127.0.0.1:{port}; location / { proxy_pass http://u; } location /api { api; } }"#
        .replace("{etcd}", &etcd.port.to_string());
    site.configure("worker_processes 1;", &http);
    let server = site.start();
    server.wait_log("start worker process ");
    let until = |text: &str| {
        let api = || connect(site.port).unwrap().get("/api/9/http/upstreams/u/servers");
        while !api().contains(text) {
            std::thread::yield_now();
        }
    };
    until("\"weight\":3");
    etcd.put("/upstreams/u/127.0.0.1:1", "{\"weight\":7}");
    until("\"weight\":7");
    server.quit();
}
