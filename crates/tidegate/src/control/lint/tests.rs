//! What the rules find, and what they leave alone.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_conf::{Loader, Parser};

use super::all;

/// One file.
struct Text<'a>(&'a str);

impl Loader for Text<'_> {
    fn read(&self, _: &Path) -> io::Result<Arc<[u8]>> {
        Ok(self.0.as_bytes().into())
    }

    fn glob(&self, _: &str) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

fn found(text: &str) -> Vec<&'static str> {
    let files = Text(text);
    let mut parser = Parser::new(&files, "/");
    let statements = parser.parse_file("/nginx.conf".as_ref());
    let (_, diagnostics) = parser.finish();
    assert!(diagnostics.is_empty(), "{text}: {diagnostics:?}");
    all(&statements).into_iter().map(|(rule, _)| rule).collect()
}

#[test]
fn each_rule_finds_its_mistake_and_not_what_is_right() {
    for (rule, wrong, right) in [
        (
            "alias-traversal",
            "location /files { alias /srv/; }",
            "location /files/ { alias /srv/; } location /a { alias /srv; } location ~ /a { alias /srv/; }",
        ),
        (
            "header-splitting",
            "location / { return 302 https://example.com$uri; }",
            "location / { return 302 https://example.com$request_uri; } location /a { return 200 $uri; }",
        ),
        ("header-splitting", "add_header X ${uri}x;", "add_header X $uri_path;"),
        (
            "request-forgery",
            "location / { proxy_pass http://$arg_host/; }",
            "location / { proxy_pass http://$backend$request_uri; } location /b { proxy_pass http://b/$arg_x; }",
        ),
        ("host-spoofing", "proxy_set_header Host $http_host;", "proxy_set_header Host $host;"),
        (
            "headers-lost",
            "server { add_header A 1; location / { add_header B 2; } }",
            "server { add_header A 1; location / { add_header_inherit merge; add_header B 2; } location /b { } }",
        ),
        (
            "allow-without-deny",
            "location / { allow 10.0.0.0/8; }",
            "location / { allow 10.0.0.0/8; deny all; } location /b { allow all; }",
        ),
        ("old-protocol", "ssl_protocols TLSv1 TLSv1.2;", "ssl_protocols TLSv1.2;"),
        ("unescaped-dot", "location ~ .php$ { }", "location ~ \\.php$ { } location /.php { }"),
    ] {
        assert_eq!(found(wrong), [rule], "{wrong}");
        assert_eq!(found(right), Vec::<&str>::new(), "{right}");
    }
}
