//! Reloads that fail: what outlives a configuration is as it was before.

use std::io::{Read, Write};
use std::net::TcpStream;

use tidegate_os::process::Signal;

use crate::support::{Site, connect};

const GROUP: &str = r#"
    upstream u {
        zone u 64k;
        server unix:{dir}/a;
        server unix:{dir}/b;
        sticky learn create=$upstream_cookie_sid lookup=$cookie_sid zone=s:1m timeout=1h;
    }
    server {
        listen 127.0.0.1:{port};
        location / { proxy_pass http://u; }
        location /api { api; }
    }
    server { listen unix:{dir}/a; add_header Set-Cookie "sid=$arg_sid"; return 200 a; }
    server { listen unix:{dir}/b; add_header Set-Cookie "sid=$arg_sid"; return 200 b; }"#;

/// Returns the body of a response.
fn ask(site: &Site, target: &str, session: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", site.port)).unwrap();
    write!(stream, "GET {target} HTTP/1.0\r\nHost: a\r\nCookie: sid={session}\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// Returns the number of requests of each server of the group.
fn requests(site: &Site) -> Vec<u64> {
    let shown = connect(site.port).unwrap().get("/api/9/http/upstreams/u");
    let counts = shown.split("\"requests\":").skip(1);
    counts.map(|rest| rest.split(',').next().unwrap().trim().parse().unwrap()).collect()
}

#[test]
fn a_reload_that_fails_changes_no_group_and_no_session() {
    let site = Site::new();
    // In one process: a master finds the mistake before its worker does.
    let main = "master_process off; worker_processes 1;";
    site.configure(main, GROUP);
    let server = site.start();
    server.wait_log("using the \"epoll\" event method");
    let bound = ask(&site, "/?sid=x", "");
    ask(&site, "/?sid=y", "");
    let before = requests(&site);
    assert!(before.len() == 2 && before.iter().all(|count| *count > 0), "{before:?}");
    // One server less, a smaller zone, and a mistake that is found behind them.
    let failing = GROUP
        .replace("server unix:{dir}/b;", "")
        .replace("zone=s:1m", "zone=s:32k")
        .replace("location / {", "location /late { limit_req zone=missing; } location / {");
    site.configure(main, &failing);
    server.signal(Signal::Hangup);
    server.wait_log("missing");
    // More sessions than the smaller zone would have.
    for session in 0..200 {
        ask(&site, &format!("/?sid={session}"), "");
    }
    for _ in 0..4 {
        assert_eq!(ask(&site, "/", "x"), bound, "the first session is still there");
    }
    let before = requests(&site);
    site.configure(main, GROUP);
    server.signal(Signal::Hangup);
    server.wait_log("gracefully shutting down generation 1");
    assert_eq!(requests(&site), before, "the figures of both servers go on");
    assert_eq!(ask(&site, "/", "x"), bound);
    server.quit();
}
