//! Copies of requests: their targets and bodies.

use crate::testing::Bench;

const FRAME: &str = "log_format copy '$request_method $uri $args [$request_body]';";

fn bench(server: &str) -> Bench {
    Bench::new(&format!(
        "{FRAME} access_log off; server {{ {server}
         location /copy {{ log_subrequest on; access_log {{dir}}/copies copy; }} }}"
    ))
}

fn copies(bench: &Bench, request: &str) -> String {
    bench.send(request);
    bench.read("copies")
}

#[test]
fn requests_are_copied_with_their_bodies() {
    let bench = bench(
        "location / { mirror /copy/1; mirror /copy/2; }
         location /inner { mirror off; }
         location /bare { mirror /copy; mirror_request_body off; }
         location /body { mirror /copy; }",
    );
    assert_eq!(copies(&bench, "GET /inner?x HTTP/1.1\r\nHost: a\r\n\r\n"), "");
    let expected = "GET /copy/1 x [-]\nGET /copy/2 x [-]\n";
    assert_eq!(copies(&bench, "GET /?x HTTP/1.1\r\nHost: a\r\n\r\n"), expected);
    let expected = format!("{expected}PUT /copy x=1 [data]\n");
    assert_eq!(
        copies(&bench, "PUT /body?x=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\ndata"),
        expected
    );
    let expected = format!("{expected}PUT /copy - [-]\n");
    assert_eq!(
        copies(&bench, "PUT /bare HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\ndata"),
        expected
    );
}

#[test]
fn errors() {
    for config in ["mirror off; mirror /a;", "mirror /a; mirror off;", "mirror off; mirror off;"] {
        assert_eq!(Bench::errors(config)[0], "\"mirror\" directive is duplicate", "{config}");
    }
}
