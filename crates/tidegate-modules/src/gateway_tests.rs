//! Gateways together with the modules that they are used with: `set`, `return`, `rewrite`, `try_files`.
//! `memcached_pass`: the command, the response, and what is refused.

use std::io::{Read, Write};

use crate::testing::{Bench, TestResponse};

/// Starts a server that reads one command and sends `response`; returns the reply to a request, and the command.
fn exchange(location: &str, target: &str, response: &'static str) -> (TestResponse, String) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let (mut command, mut byte) = (Vec::new(), [0]);
        while !command.ends_with(b"\n") && stream.read(&mut byte).expect("a command") > 0 {
            command.push(byte[0]);
        }
        stream.write_all(response.as_bytes()).expect("sent");
        String::from_utf8_lossy(&command).into_owned()
    });
    let pass = format!("memcached_pass 127.0.0.1:{port};");
    let bench = Bench::new(&format!("server {{ {} }}", location.replace("PASS", &pass)));
    let reply = bench.get(target);
    (reply, server.join().expect("the server"))
}

const LOCATION: &str = "location / { set $memcached_key $uri; default_type text/html; PASS }";

#[test]
fn values_become_responses() {
    let (reply, command) =
        exchange(LOCATION, "/a%20b%0d%0aset", "VALUE /a%20b%0D%0Aset 0 5\r\nhello\r\nEND\r\n");
    assert_eq!((reply.status, reply.text()), (200, "hello"));
    assert_eq!(command, "get /a%20b%0D%0Aset\r\n");
    assert_eq!(reply.headers.first_named(b"Content-Type"), Some(&b"text/html"[..]));
    let gzip = LOCATION.replace("PASS", "memcached_gzip_flag 2; PASS");
    for (flags, coding) in [("3", Some(&b"gzip"[..])), ("1", None)] {
        let response: &'static str = format!("VALUE /a {flags} 2\r\nzz\r\nEND\r\n").leak();
        let (reply, _) = exchange(&gzip, "/a", response);
        assert_eq!(reply.headers.first_named(b"Content-Encoding"), coding, "flags {flags}");
    }
}

#[test]
fn other_replies_are_errors() {
    let check = |response: &'static str, status: u16| {
        assert_eq!(exchange(LOCATION, "/a", response).0.status, status, "{response:?}");
    };
    check("END\r\n", 404);
    check("ERROR\r\n", 502);
    check("VALUE /b 0 1\r\nx\r\nEND\r\n", 502);
    check("VALUE /a 0 x\r\n", 502);
    check("", 502);
    let page = LOCATION.replace("PASS", "error_page 404 = /other; PASS");
    let page = format!("{page} location = /other {{ return 200 other; }}");
    let (reply, _) = exchange(&page, "/a", "END\r\n");
    assert_eq!((reply.status, reply.text()), (200, "other"));
}

#[test]
fn a_value_that_is_cut_breaks_off() {
    let (reply, _) = exchange(LOCATION, "/a", "VALUE /a 0 100\r\nabc");
    assert!(reply.broken, "{}", reply.text());
    let (reply, _) = exchange(LOCATION, "/a", "VALUE /a 0 3\r\nabc\r\nENDX");
    assert_eq!((reply.text(), reply.broken), ("abc", false), "the value itself is whole");
}

#[test]
fn errors_are_found_while_loading() {
    let check = |config: &str, message: &str| {
        let errors = Bench::errors(config).join("\n");
        assert!(errors.contains(message), "{config}: {errors}");
    };
    let location = |pass: &str| format!("server {{ location / {{ memcached_pass {pass}; }} }}");
    check(&location("127.0.0.1:1"), "unknown \"memcached_key\" variable");
    check(&location("127.0.0.1"), "no port in upstream \"127.0.0.1\"");
    check("server { memcached_next_upstream http_500; }", "invalid value \"http_500\"");
}

#[test]
fn only_what_reads_is_passed_on() {
    let bench = Bench::new(
        "server { location / { set $memcached_key a; memcached_pass 127.0.0.1:1; }
                  location /empty { set $memcached_key ''; memcached_pass 127.0.0.1:1; } }",
    );
    assert_eq!(bench.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").status, 405);
    assert_eq!(bench.get("/empty").status, 500);
}

#[test]
fn scripts_are_found_in_paths() {
    let bench = Bench::new(
        "server {
            location / { return 200 $fastcgi_script_name|$fastcgi_path_info; fastcgi_index i.php; }
            location /split { fastcgi_split_path_info ^(.+?\\.php)(/.*)$; fastcgi_index i.php;
                return 200 $fastcgi_script_name|$fastcgi_path_info; }
            location /none { return 200 $fastcgi_script_name|$fastcgi_path_info; }
            location ~ ^/cap(.*) { fastcgi_split_path_info ^(.+?\\.php)(/.*)$;
                return 200 $fastcgi_script_name|$1; }
        }",
    );
    let check = |target: &str, expected: &str| assert_eq!(bench.text(target), expected, "{target}");
    check("/a.php", "/a.php|");
    check("/a/", "/a/i.php|");
    check("/split/a.php/b/c", "/split/a.php|/b/c");
    check("/split/a.php", "/split/a.php|");
    check("/split/a/", "/split/a/i.php|");
    check("/none/", "/none/|");
    check("/cap/a.php/b", "/cap/a.php|/a.php/b");
}

#[test]
fn the_variable_has_a_value_where_there_are_parts() {
    let bench = Bench::new(
        "server {
            location /off { try_files /none =404; add_header X <$slice_range> always; }
            location / { slice 1k; try_files /none =404; add_header X <$slice_range> always; }
        }",
    );
    assert_eq!(bench.get_with("/off", &["Range: bytes=1500-"]).field("X"), "<>");
    // The response is a 404 before the range is evaluated.
    assert_eq!(bench.get_with("/", &["Range: bytes=1500-"]).field("X"), "<>");
    let errors = Bench::errors("slice -1; server { }");
    assert_eq!(errors, ["\"slice\" directive invalid value"]);
}

#[test]
fn a_rewritten_path_replaces_that_of_proxy_pass() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let origin = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let (mut received, mut byte) = (Vec::new(), [0]);
        while !received.ends_with(b"\r\n\r\n") && stream.read(&mut byte).expect("a request") > 0 {
            received.push(byte[0]);
        }
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").expect("sent");
        String::from_utf8_lossy(&received).into_owned()
    });
    let location =
        format!("location /a {{ rewrite ^ /z break; proxy_pass http://127.0.0.1:{port}/c; }}");
    assert_eq!(Bench::new(&format!("server {{ {location} }}")).get("/a/b").status, 204);
    assert!(origin.join().expect("the origin").starts_with("GET /z HTTP/1.1\r\n"));
}
