//! The form of the page.
use super::*;
use crate::testing::Bench;

#[test]
fn the_page_is_nginxs() {
    let figures = ConnectionFigures {
        accepted: 67,
        handled: 66,
        requests: 70,
        active: 3,
        reading: 0,
        writing: 1,
        waiting: 2,
    };
    assert_eq!(
        page(&figures),
        "Active connections: 3 \nserver accepts handled requests\n 67 66 70 \nReading: 0 Writing: 1 Waiting: 2 \n"
    );
}

#[test]
fn only_get_and_head_are_served() {
    let bench =
        Bench::new("server { location / { stub_status; } location /on { stub_status on; } }");
    for (request, status) in [("GET /", 200), ("HEAD /on", 200), ("POST /", 405)] {
        let reply = bench.send(&format!("{request} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(reply.status, status, "{request}");
    }
    assert_eq!(bench.get("/").field("Content-Type"), "text/plain");
}
