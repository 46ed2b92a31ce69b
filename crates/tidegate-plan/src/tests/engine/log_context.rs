//! The context of log lines of requests.

use tidegate_core::exchange::Exchange;
use tidegate_core::log_context::with_context;

use crate::tests::Bench;

#[test]
fn a_line_names_the_action_the_client_and_the_request() {
    let bench = Bench::new("server { server_name name; location / { do own respond a; } }");
    let head = "GET /a?b HTTP/1.1\r\nHost: H:80\r\nReferer: http://r/\r\n\r\n";
    let mut x = bench.received(head);
    let shown = |x: &Exchange| with_context(x, format_args!("text"));
    let context = ", client: 192.0.2.7, server: name, request: \"GET /a?b HTTP/1.1\"";
    let rest = ", host: \"H:80\", referrer: \"http://r/\"";
    assert_eq!(shown(&x), format!("text{context}{rest}"));
    x.progress.action = "reading client request body";
    x.progress.upstream = "http://o/a".to_owned();
    assert_eq!(
        shown(&x),
        format!("text while reading client request body{context}, upstream: \"http://o/a\"{rest}")
    );
    let mut part = x.subrequest(b"/part".to_vec(), vec![], Default::default()).ok().unwrap();
    assert_eq!(shown(part.exchange()), format!("text{context}, subrequest: \"/part\"{rest}"));
    let none = bench.exchange();
    assert_eq!(
        shown(&none),
        "text while reading client request line, client: 192.0.2.7, server: name"
    );
}
