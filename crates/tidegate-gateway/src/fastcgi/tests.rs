//! `fastcgi_pass`: the parameters that the application receives, script names and path infos, configuration errors.

use std::io::{Read, Write};

use tidegate_codec::fastcgi::STDIN_END;

use crate::testing::{Bench, TestResponse};

/// Runs an application that reads one request and responds with its parameters, one a line.
fn received_parameters(config: &str, request: &str) -> TestResponse {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let application = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut received = Vec::new();
        let mut buffer = [0; 4096];
        while !received.ends_with(&STDIN_END) {
            let count = stream.read(&mut buffer).expect("a request");
            received.extend_from_slice(&buffer[..count]);
        }
        let text = format!("A: b\r\n\r\n{}", parameters(&received));
        let length = (text.len() as u16).to_be_bytes();
        let head = [1, 6, 0, 1, length[0], length[1], 0, 0];
        let end = [1, 3, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        stream.write_all(&[&head, text.as_bytes(), &end].concat()).expect("sent");
    });
    let bench = Bench::new(&config.replace("PASS", &format!("fastcgi_pass 127.0.0.1:{port};")));
    let reply = bench.send(request);
    application.join().expect("the application");
    reply
}

/// Returns names and values shorter than 128 bytes, sorted, and the body.
fn parameters(received: &[u8]) -> String {
    let mut lines = Vec::new();
    let mut body = Vec::new();
    let mut rest = received;
    while let [_, kind, _, _, high, low, padding, _, ..] = *rest {
        let length = usize::from(u16::from_be_bytes([high, low]));
        let mut content = &rest[8..8 + length];
        rest = &rest[8 + length + usize::from(padding)..];
        while let (4, [name, value, ..]) = (kind, content) {
            let (name, value) = (usize::from(*name), usize::from(*value));
            let (pair, more) = content[2..].split_at(name + value);
            let (name, value) = pair.split_at(name);
            let text = String::from_utf8_lossy;
            lines.push(format!("{}={}", text(name), text(value)));
            content = more;
        }
        if kind == 5 {
            body.extend_from_slice(content);
        }
    }
    lines.sort();
    lines.push(String::from_utf8_lossy(&body).into_owned());
    lines.join("\n")
}

#[test]
fn the_application_receives_parameters_and_fields() {
    let config = "server { location / {
        fastcgi_param A a; fastcgi_param B $arg_b if_not_empty; fastcgi_param C $arg_c;
        fastcgi_param D '' if_not_empty; fastcgi_param HTTP_X_OWN mine; PASS } }";
    let request = "GET /?b= HTTP/1.1\r\nHost: h\r\nX-Own: theirs\r\nX-Two: 1\r\nx-two: 2\r\n\
                   Cookie: a\r\nCookie: b\r\n\r\n";
    let expected = "A=a\nC=\nHTTP_COOKIE=a; b\nHTTP_HOST=h\nHTTP_X_OWN=mine\nHTTP_X_TWO=1, 2\n";
    assert_eq!(received_parameters(config, request).text(), expected);
    let config = "server { location / { fastcgi_pass_request_headers off; PASS } }";
    let request = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody";
    assert_eq!(received_parameters(config, request).text(), "body");
    let config = "server { location / { fastcgi_pass_request_headers off;
        fastcgi_pass_request_body off; PASS } }";
    assert_eq!(received_parameters(config, request).text(), "");
}

#[test]
fn parameters_of_inner_blocks_replace_all() {
    let config = "fastcgi_param A outer; fastcgi_param B outer;
        server { location / { fastcgi_pass_request_headers off; fastcgi_param A inner; PASS } }";
    assert_eq!(
        received_parameters(config, "GET / HTTP/1.1\r\nHost: h\r\n\r\n").text(),
        "A=inner\n"
    );
}

#[test]
fn mistakes_are_found_while_loading() {
    let check = |config: &str, message: &str| {
        let errors = Bench::errors(config).join("\n");
        assert!(errors.contains(message), "{config}: {errors}");
    };
    let location = |text: &str| format!("server {{ location / {{ {text} }} }}");
    check(&location("fastcgi_pass 127.0.0.1;"), "no port in upstream \"127.0.0.1\"");
    check(&location("fastcgi_pass 127.0.0.1:x;"), "invalid port in upstream \"127.0.0.1:x\"");
    check(&location("fastcgi_pass unix:;"), "no path in the unix domain socket");
    check(&location("fastcgi_param A b c;"), "invalid parameter \"c\"");
    check(&location("fastcgi_split_path_info ^(.*)$;"), "pattern \"^(.*)$\" must have 2 captures");
    check(&location("fastcgi_cache none; fastcgi_pass 127.0.0.1:9;"), "zone \"none\" is unknown");
    let warned = Bench::new(
        "fastcgi_cache_path {dir}/c keys_zone=z:1m;
         server { location / { fastcgi_cache z; fastcgi_pass 127.0.0.1:9; } }",
    );
    assert_eq!(warned.warnings.len(), 1, "{:?}", warned.warnings);
    assert!(warned.warnings[0].contains("no \"fastcgi_cache_key\" for \"fastcgi_cache\""));
    check("fastcgi_pass 127.0.0.1:9;", "\"fastcgi_pass\" directive is not allowed here");
    check(
        "fastcgi_cache_path {dir}/c keys_zone=z:1m;
         server { location / { fastcgi_cache z; fastcgi_store on; fastcgi_pass 127.0.0.1:9; } }",
        "\"fastcgi_store\" directive is incompatible with \"fastcgi_cache\"",
    );
}
