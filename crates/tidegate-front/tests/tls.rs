//! TLS over real sockets: the choice of certificates, resumption, variables, plain HTTP to a TLS port,
//! and what a configuration check says.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

use support::tls::{Client, DECOMPRESSED, Directory, V12, V13};
use support::{Server, check_config};

const SHOW: &str = "location / { show \"$ssl_protocol $ssl_cipher $ssl_curve [$ssl_server_name] \
                    $ssl_session_reused $ssl_alpn_protocol $scheme $https $server_name\"; }";

#[test]
fn shows_what_was_negotiated() {
    let directory = Directory::new(&["a"]);
    let server =
        Server::tls(&directory, &[&format!("{} server_name a; {SHOW}", directory.pair("a"))]);
    for (client, expected) in [
        (
            Client::new(&directory).versions(V13),
            "TLSv1.3 TLS_AES_256_GCM_SHA384 X25519 [a] . http/1.1 https on a",
        ),
        (
            Client::new(&directory).versions(V12),
            "TLSv1.2 ECDHE-ECDSA-AES256-GCM-SHA384 X25519 [a] . http/1.1 https on a",
        ),
    ] {
        assert_eq!(client.body(&server, "a"), expected);
    }
}

#[test]
fn chooses_server_and_certificate_by_name() {
    let directory = Directory::new(&["a", "b", "c"]);
    let server = Server::tls(
        &directory,
        &[
            &format!("{} server_name a; {SHOW}", directory.pair("a")),
            &format!("{} server_name b *.b.test; {SHOW}", directory.pair("b")),
            &format!("server_name none; {SHOW}"),
        ],
    );
    let client = Client::new(&directory);
    for (name, certificate, by_host) in
        [("a", "a", "a"), ("b", "b", "b"), ("x.b.test", "b", "b"), ("none", "a", "none")]
    {
        let response = client.get(&server, name, name);
        assert_eq!(response.certificate, certificate, "{name}");
        assert!(response.body.ends_with(by_host), "{name}: {}", response.body);
    }
    // A host that no server claims stays with the server of the handshake.
    let response = client.get(&server, "b", "unknown");
    assert!(response.body.ends_with(" b"), "{}", response.body);
    let response = client.get(&server, "b", "a");
    assert!(response.body.ends_with(" a"), "{}", response.body);
    assert_eq!(client.get(&server, "unknown.test", "x").certificate, "a");
}

#[test]
fn certificates_are_compressed_for_clients_that_allow_it() {
    let directory = Directory::new(&["a", "b"]);
    let server = |value: &str, name: &str| {
        format!(
            "{} ssl_certificate_compression {value}; server_name {name}; {SHOW}",
            directory.pair(name)
        )
    };
    let server = Server::tls(&directory, &[&server("on", "a"), &server("off", "b")]);
    for (versions, name, expected) in [(V13, "a", 2), (V12, "a", 2), (V13, "b", 2)] {
        // A client that keeps its sessions would get a certificate once.
        for _ in 0..2 {
            let client = Client::new(&directory).versions(versions).with_decompression();
            assert_eq!(client.get(&server, name, name).certificate, name);
        }
        assert_eq!(DECOMPRESSED.load(Ordering::Relaxed), expected, "{name}");
    }
    assert_eq!(Client::new(&directory).get(&server, "a", "a").certificate, "a");
}

#[test]
fn keys_of_two_kinds() {
    let directory = Directory::new(&["e"]);
    directory.rsa("r");
    directory.rsa("replaced");
    let names = ["replaced", "r", "e"];
    let pairs = names.map(|name| directory.pair(name)).concat();
    let server = Server::tls(&directory, &[&format!("{pairs} {SHOW}")]);
    let modern = Client::new(&directory).get(&server, "a", "a");
    assert_eq!(modern.certificate, "e", "both fit: ECDSA");
    let rsa = Client::new(&directory).versions(V12).only_rsa().get(&server, "a", "a");
    assert_eq!(rsa.certificate, "r");
    assert!(rsa.body.starts_with("TLSv1.2 ECDHE-RSA-AES256-GCM-SHA384"), "{}", rsa.body);
}

/// Two servers that know nothing of each other: each has its own plan, zones and random numbers.
#[test]
fn servers_with_one_secret_resume_each_others_sessions() {
    let directory = Directory::new(&["a"]);
    for (name, byte) in [("one", 1), ("same", 1), ("other", 2)] {
        std::fs::write(directory.path(name), [byte; 32]).expect("written");
    }
    let server = |secret: &str| {
        let directives = format!("ssl_session_ticket_key derived:{secret} rotate=1h;");
        Server::tls(&directory, &[&format!("{} {directives} {SHOW}", directory.pair("a"))])
    };
    let (one, same, other) = (server("one"), server("same"), server("other"));
    for versions in [V12, V13] {
        for (next, expected) in [(&same, "r"), (&other, ".")] {
            let client = Client::new(&directory).versions(versions);
            let reused = |server| client.body(server, "a").split(' ').nth(4).map(str::to_owned);
            assert_eq!(reused(&one).as_deref(), Some("."));
            assert_eq!(reused(next).as_deref(), Some(expected));
        }
    }
}

#[test]
fn resumes_as_configured() {
    let directory = Directory::new(&["a"]);
    std::fs::write(directory.path("ticket.key"), [5; 80]).expect("written");
    for (directives, tls12, tls13) in [
        ("", "r", "r"),
        ("ssl_session_cache off;", "r", "r"),
        ("ssl_session_tickets off;", ".", "."),
        ("ssl_session_tickets off; ssl_session_cache none;", ".", "."),
        ("ssl_session_tickets off; ssl_session_cache shared:S:1m;", "r", "r"),
        ("ssl_session_tickets off; ssl_session_cache builtin:100;", "r", "r"),
        ("ssl_session_cache builtin shared:S:1m;", "r", "r"),
        ("ssl_session_ticket_key ticket.key;", "r", "r"),
        ("ssl_early_data on;", "r", "r"),
        ("ssl_early_data on; ssl_session_cache shared:S:1m;", "r", "r"),
        ("ssl_early_data on; ssl_session_tickets off;", ".", "."),
    ] {
        let config = format!("{} {directives} {SHOW}", directory.pair("a"));
        let server = Server::tls(&directory, &[&config]);
        for (versions, expected) in [(V12, tls12), (V13, tls13)] {
            let client = Client::new(&directory).versions(versions);
            let reused = |body: String| body.split(' ').nth(4).map(str::to_owned);
            assert_eq!(reused(client.body(&server, "a")).as_deref(), Some("."), "{directives}");
            assert_eq!(
                reused(client.body(&server, "a")).as_deref(),
                Some(expected),
                "{directives}"
            );
        }
    }
}

/// A request in the first flight has its response before the client's last message; a later one is not early.
#[test]
fn early_data_is_served_before_the_handshake_ends() {
    let directory = Directory::new(&["a"]);
    let show = "location / { show \"[$ssl_early_data] $ssl_session_reused\"; }";
    let config = format!("{} ssl_early_data on; {show}", directory.pair("a"));
    let server = Server::tls(&directory, &[&config]);
    let client = Client::new(&directory).versions(V13).with_early_data();
    assert_eq!(client.body(&server, "a"), "[] .");

    let mut session = client.connect(&server, "a");
    let mut early = session.conn.early_data().expect("a session");
    early.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("written");
    session.conn.write_tls(&mut session.sock).expect("sent");
    let mut text = Vec::new();
    while !text.ends_with(b"[1] r") {
        assert!(session.conn.read_tls(&mut session.sock).expect("a response") > 0, "no end");
        session.conn.process_new_packets().expect("a response");
        let _ = session.conn.reader().read_to_end(&mut text);
    }
    assert!(session.conn.is_early_data_accepted());
    let request = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    session.write_all(request).expect("written");
    session.read_to_end(&mut text).expect("a response");
    assert!(text.ends_with(b"[] r"), "{}", String::from_utf8_lossy(&text));
}

#[test]
fn sessions_survive_a_reload_and_stay_with_their_certificates() {
    let directory = Directory::new(&["a", "b"]);
    let directives = "ssl_session_tickets off; ssl_session_cache shared:S:1m;";
    for directives in ["", directives] {
        let config = |pair: &str| format!("{} {directives} {SHOW}", directory.pair(pair));
        let first = Server::tls(&directory, &[&config("a")]);
        let client = Client::new(&directory);
        client.body(&first, "a");
        // A second generation, on another port of the same process.
        let second = first.next(&directory, &[&config("a")]);
        assert!(client.body(&second, "a").contains(" r "), "{directives}");
        let other = first.next(&directory, &[&config("b")]);
        assert!(client.body(&other, "a").contains(" . "), "{directives}");
    }
}

#[test]
fn shows_what_the_client_offered() {
    let directory = Directory::new(&["a"]);
    let config = format!(
        "{} location / {{ show \"$ssl_ciphers|$ssl_curves|$ssl_sigalg|$ssl_sigalgs|$ssl_client_sigalg|$ssl_client_verify\"; }}",
        directory.pair("a")
    );
    let server = Server::tls(&directory, &[&config]);
    let body = Client::new(&directory).versions(V13).body(&server, "a");
    let ciphers = "TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256:";
    assert!(body.starts_with(ciphers), "{body}");
    let curves = "|X25519:prime256v1:secp384r1:X25519MLKEM768|ecdsa_secp256r1_sha256|";
    assert!(body.contains(curves) && body.ends_with("||NONE"), "{body}");
    assert!(body.contains("ecdsa_secp256r1_sha256:"), "{body}");
}

#[test]
fn sessions_have_numbers() {
    const SHOW_ID: &str = "location / { show \"$ssl_session_reused [$ssl_session_id]\"; }";
    let directory = Directory::new(&["a"]);
    // Settings, the version, and the length of the number in a new session and in a resumed one, and whether it stays.
    for (settings, version, new, resumed, stays) in [
        ("", V13, 64, 64, false),
        ("ssl_session_cache shared:a:1m; ssl_session_tickets off;", V12, 64, 64, true),
        ("ssl_session_tickets on;", V12, 0, 64, false),
        ("ssl_session_cache off; ssl_session_tickets off;", V12, 0, 0, false),
    ] {
        let config = format!("{} {settings} {SHOW_ID}", directory.pair("a"));
        let server = Server::tls(&directory, &[&config]);
        let client = Client::new(&directory).versions(version);
        let [first, second] = [(); 2].map(|()| client.body(&server, "a"));
        let id = |body: &str| body.split(['[', ']']).nth(1).unwrap_or_default().to_owned();
        let (first_id, second_id) = (id(&first), id(&second));
        assert_eq!(
            (first_id.len(), second_id.len()),
            (new, resumed),
            "{settings}: {first}, {second}"
        );
        assert_eq!(stays, new > 0 && first_id == second_id, "{settings}");
    }
}

#[test]
fn protocols_ciphers_and_curves() {
    let directory = Directory::new(&["a"]);
    let config = "ssl_protocols TLSv1.2; ssl_ciphers ECDHE-ECDSA-CHACHA20-POLY1305:AES128; \
                  ssl_prefer_server_ciphers on; ssl_ecdh_curve prime256v1; ssl_buffer_size 4k;";
    let server = Server::tls(&directory, &[&format!("{} {config} {SHOW}", directory.pair("a"))]);
    let body = Client::new(&directory).body(&server, "a");
    assert!(body.starts_with("TLSv1.2 ECDHE-ECDSA-CHACHA20-POLY1305 prime256v1"), "{body}");
    let error = Client::new(&directory).versions(V13).failure(&server, "a");
    assert!(error.contains("ProtocolVersion"), "{error}");
}

#[test]
fn rejects_handshakes() {
    let directory = Directory::new(&["a"]);
    let server = Server::tls(
        &directory,
        &["ssl_reject_handshake on;", &format!("{} server_name a; {SHOW}", directory.pair("a"))],
    );
    let client = Client::new(&directory);
    let error = client.failure(&server, "other");
    assert!(error.contains("UnrecognisedName"), "{error}");
    assert!(client.body(&server, "a").ends_with(" a"));
}

#[test]
fn responds_to_plain_requests_with_497() {
    let directory = Directory::new(&["a"]);
    let talk = |server: &Server| {
        let mut client = TcpStream::connect(server.address).expect("a connection");
        let request = b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n";
        client.write_all(request).expect("written");
        let mut response = String::new();
        client.read_to_string(&mut response).expect("closed by the server");
        response
    };
    let server = Server::tls(&directory, &[&directory.pair("a")]);
    let response = talk(&server);
    assert!(response.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{response}");
    assert!(response.contains("Connection: close"), "{response}");
    assert!(response.contains("The plain HTTP request was sent to HTTPS port"), "{response}");
    let redirect = "error_page 497 https://$host$request_uri;";
    let server = Server::tls(&directory, &[&format!("{} {redirect}", directory.pair("a"))]);
    let response = talk(&server);
    assert!(response.starts_with("HTTP/1.1 302 "), "{response}");
    assert!(response.contains("Location: https://a/x\r\n"), "{response}");
}

#[test]
fn garbage_gets_an_alert_and_the_next_client_is_served() {
    let directory = Directory::new(&["a"]);
    let server = Server::tls(&directory, &[&format!("{} {SHOW}", directory.pair("a"))]);
    for bytes in [&b"\x16\x03\x01\x00\x05hello"[..], b"\x80\x01\x02", b"\x16", b""] {
        let mut client = TcpStream::connect(server.address).expect("a connection");
        client.write_all(bytes).expect("written");
        let _ = client.shutdown(std::net::Shutdown::Write);
        let mut response = Vec::new();
        let _ = client.read_to_end(&mut response);
        assert!(response.is_empty() || response[0] == 0x15, "{response:?}");
    }
    assert!(Client::new(&directory).body(&server, "a").starts_with("TLSv1.3"));
}

#[test]
fn several_requests_in_one_record_and_large_bodies() {
    let directory = Directory::new(&["a"]);
    let config = format!("{} location /big {{ fill 3000000; }} {SHOW}", directory.pair("a"));
    let server = Server::tls(&directory, &[&config]);
    let client = Client::new(&directory);
    let one = "GET / HTTP/1.1\r\nHost: a\r\nX-Fill: ".to_owned() + &"x".repeat(3000) + "\r\n\r\n";
    let last = "GET /big HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let response = client.talk(&server, "a", (one.repeat(5) + last).as_bytes());
    let text = String::from_utf8_lossy(&response.bytes);
    assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 6);
    assert!(response.bytes.ends_with(&[b'f'; 3_000_000][..]));
    assert!(response.closed_properly, "close_notify");
}

#[test]
fn keeps_connections() {
    let directory = Directory::new(&["a"]);
    let server = Server::tls(&directory, &[&format!("{} {SHOW}", directory.pair("a"))]);
    let client = Client::new(&directory);
    let mut session = client.connect(&server, "a");
    for _ in 0..3 {
        session.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("written");
        let mut head = Vec::new();
        while !head.windows(4).any(|end| end == b"\r\n\r\n") {
            let mut bytes = [0; 512];
            let count = session.read(&mut bytes).expect("read");
            assert!(count > 0);
            head.extend_from_slice(&bytes[..count]);
        }
        assert!(head.starts_with(b"HTTP/1.1 200 OK"));
    }
}

/// Goal: an idle connection has no task, and is served where it is parked: whatever its bytes are, and in whatever parts
/// they arrive. Method: requests on one connection whose responses have the number of parked connections. Before each,
/// new connections ask for that number until it is two, their own and this one: one that is busy is left to its task.
#[test]
fn parks_connections() {
    let directory = Directory::new(&["a"]);
    let config = "location / { parked x; } location /big { fill 300000; }";
    let server = Server::tls(&directory, &[&format!("{} {config}", directory.pair("a"))]);
    let idle = || {
        let deadline = tidegate_rt::clock::now() + Duration::from_secs(30);
        let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        loop {
            let mut probe = Client::new(&directory).connect(&server, "a");
            probe.write_all(request.as_bytes()).expect("written");
            let mut response = Vec::new();
            probe.read_to_end(&mut response).expect("read");
            if response.ends_with(b"parked: 2") {
                break;
            }
            assert!(tidegate_rt::clock::now() < deadline, "not parked in time");
        }
    };
    for versions in [V12, V13] {
        let mut session = Client::new(&directory).versions(versions).connect(&server, "a");
        let mut ask = |target: &str, parts: bool, is_whole: &dyn Fn(&[u8]) -> bool| {
            let text = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
            session.conn.writer().write_all(text.as_bytes()).expect("written");
            let mut bytes = Vec::new();
            while session.conn.wants_write() {
                session.conn.write_tls(&mut bytes).expect("written");
            }
            let (first, rest) = bytes.split_at(if parts { 7 } else { 0 });
            for part in [first, rest].iter().filter(|part| !part.is_empty()) {
                session.sock.write_all(part).expect("written");
                std::thread::yield_now();
            }
            let mut received = Vec::new();
            while !is_whole(&received) {
                let mut bytes = [0; 16384];
                let count = session.read(&mut bytes).expect("read");
                assert!(count > 0, "the connection stays");
                received.extend_from_slice(&bytes[..count]);
                assert!(!received.ends_with(b"parked: 0"), "served by a task");
            }
            let _ = session.conn.refresh_traffic_keys();
        };
        let big = |received: &[u8]| received.ends_with(&[b'f'; 5000]) && received.len() > 300_000;
        // The handshake comes with the first request.
        ask("/big", false, &big);
        for parts in [false, true, false, true] {
            idle();
            ask("/", parts, &|received| received.ends_with(b"parked: 1"));
            idle();
            ask("/big", parts, &big);
        }
    }
}

#[test]
fn encrypted_keys() {
    let directory = Directory::new(&["a"]);
    if !directory.encrypt("a", "secret") {
        eprintln!("no openssl here: nothing to encrypt with");
        return;
    }
    std::fs::write(directory.path("pass"), "wrong\nsecret\n").expect("written");
    std::fs::write(directory.path("wrong"), "wrong\n").expect("written");
    let config = |pass: &str| format!("{} {pass} {SHOW}", directory.pair("a"));
    let server = Server::tls(&directory, &[&config("ssl_password_file pass;")]);
    assert!(Client::new(&directory).body(&server, "a").starts_with("TLSv1.3"));
    let key = directory.path("a.key");
    for (pass, reason) in [("", "no pass phrase"), ("ssl_password_file wrong;", "bad decrypt")] {
        let expected = format!(
            "cannot load certificate key \"{}\": PEM_read_bio_PrivateKey() failed (SSL: {reason})",
            key.display()
        );
        check_config(&directory, &config(pass), &expected);
    }
}

#[test]
fn configuration_errors() {
    let directory = Directory::new(&["a", "b"]);
    std::fs::write(directory.path("empty"), "").expect("written");
    let path = |name: &str| directory.path(name).display().to_string();
    let both = directory.pair("a");
    let with = |more: &str| format!("{both} {more}");
    for (config, expected) in [
        (
            String::new(),
            "no \"ssl_certificate\" is defined for the \"listen ... ssl\" directive".to_owned(),
        ),
        (
            "ssl_certificate a.crt;".to_owned(),
            "no \"ssl_certificate_key\" is defined for certificate \"a.crt\"".to_owned(),
        ),
        (
            "ssl_certificate none; ssl_certificate_key a.key;".to_owned(),
            format!("cannot load certificate \"{}\": open() failed (2: No such", path("none")),
        ),
        (
            "ssl_certificate a.crt; ssl_certificate_key none;".to_owned(),
            format!("cannot load certificate key \"{}\": open() failed (2: No", path("none")),
        ),
        (
            "ssl_certificate empty; ssl_certificate_key a.key;".to_owned(),
            format!("cannot load certificate \"{}\": PEM_read_bio_X509_AUX() f", path("empty")),
        ),
        (
            "ssl_certificate a.crt; ssl_certificate_key empty;".to_owned(),
            format!("cannot load certificate key \"{}\": PEM_read_bio_Priva", path("empty")),
        ),
        (
            "ssl_certificate a.crt; ssl_certificate_key b.key;".to_owned(),
            format!("SSL_CTX_use_PrivateKey(\"{}\") failed (SSL: key values", path("b.key")),
        ),
        (
            "ssl_certificate $x.crt; ssl_certificate_key b.key;".to_owned(),
            "unknown \"x\" variable".to_owned(),
        ),
        (
            with("ssl_ciphers NOPE;"),
            "SSL_CTX_set_cipher_list(\"NOPE\") failed (SSL: no cipher match)".to_owned(),
        ),
        (
            with("ssl_ecdh_curve foo;"),
            "SSL_CTX_set1_curves_list(\"foo\") failed (SSL: group 'foo' cannot".to_owned(),
        ),
        (with("ssl_protocols foo;"), "invalid value \"foo\"".to_owned()),
        (with("ssl_session_cache shared:S;"), "invalid session cache \"shared:S\"".to_owned()),
        (
            with("ssl_session_cache shared:S:1k;"),
            "session cache \"shared:S:1k\" is too small".to_owned(),
        ),
    ] {
        check_config(&directory, &config, &expected);
    }
}

#[test]
fn mistakes_of_ticket_keys() {
    let directory = Directory::new(&["a"]);
    std::fs::write(directory.path("short"), "12345").expect("written");
    let path = |name: &str| directory.path(name).display().to_string();
    let with = |more: &str| format!("{} {more}", directory.pair("a"));
    for (config, expected) in [
        (
            with("ssl_session_ticket_key short;"),
            format!("\"{}\" must be 48 or 80 bytes", path("short")),
        ),
        (
            with("ssl_session_ticket_key derived:short;"),
            format!("\"{}\" must be at least 32 bytes", path("short")),
        ),
        (
            with("ssl_session_ticket_key derived:;"),
            "\"derived:\" needs the name of a file".to_owned(),
        ),
        (with("ssl_session_ticket_key derived:short rotate=0;"), "invalid rotate \"0\"".to_owned()),
        (
            with("ssl_session_ticket_key derived:short every=1h;"),
            "invalid parameter \"every=1h\"".to_owned(),
        ),
        (
            with("ssl_session_ticket_key short rotate=1h;"),
            "only keys of \"derived:FILE\" are rotated".to_owned(),
        ),
        (
            with("ssl_session_ticket_key none;"),
            format!("open() \"{}\" failed (2: No such file or directory)", path("none")),
        ),
    ] {
        check_config(&directory, &config, &expected);
    }
}

#[test]
fn what_is_not_available_is_named() {
    let directory = Directory::new(&["a"]);
    std::fs::write(directory.path("ticket.key"), [5; 80]).expect("written");
    let with = |more: &str| format!("{} {more}", directory.pair("a"));
    for (config, expected) in [
        (with("ssl_verify_client on;"), "no ssl_client_certificate or ssl_trusted".to_owned()),
        (with("ssl_verify_client foo;"), "invalid value \"foo\"".to_owned()),
        (
            with("ssl_early_data on; ssl_session_ticket_key ticket.key;"),
            "warn: \"ssl_session_ticket_key\" is not used with \"ssl_early_data\"".to_owned(),
        ),
        (with("ssl_protocols TLSv1 TLSv1.2;"), "warn: protocol \"TLSv1\" is not".to_owned()),
        (with("ssl_dhparam x;"), "warn: \"ssl_dhparam\" is ignored".to_owned()),
        (with("ssl_ecdh_curve X25519:secp521r1;"), "warn: curve \"secp521r1\" is".to_owned()),
        (with("ssl_protocols TLSv1.3; ssl_ciphers AES128-SHA;"), "ok".to_owned()),
    ] {
        check_config(&directory, &config, &expected);
    }
}

/// Clients of the system, where they are installed, as a cross-check.
#[test]
fn other_clients() {
    let directory = Directory::new(&["a"]);
    let config = format!("{} ssl_session_cache shared:S:1m; {SHOW}", directory.pair("a"));
    let server = Server::tls(&directory, &[&config]);
    let port = server.address.port();
    for version in ["1.2", "1.3"] {
        let curl = std::process::Command::new("curl")
            .args(["-sSk", "--max-time", "20", "--resolve", &format!("a:{port}:127.0.0.1")])
            .args(["--tlsv1.2", "--tls-max", version, &format!("https://a:{port}/")])
            .output();
        let Ok(curl) = curl else { return };
        let text = String::from_utf8_lossy(&curl.stdout).into_owned();
        let error = String::from_utf8_lossy(&curl.stderr).into_owned();
        assert!(text.starts_with(&format!("TLSv{version} ")), "{text} {error}");
    }
}

#[test]
fn ocsp_responses_are_stapled() {
    let directory = Directory::new(&["a", "b"]);
    // Status 3, `tryLater`: the shortest valid response.
    let response = [0x30, 3, 0x0a, 1, 3];
    std::fs::write(directory.path("response.der"), response).expect("written");
    let stapling = "ssl_stapling on; ssl_stapling_file response.der;";
    let server = Server::tls(
        &directory,
        &[
            &format!("{} server_name a; {stapling} {SHOW}", directory.pair("a")),
            &format!("{} server_name b; {SHOW}", directory.pair("b")),
        ],
    );
    for versions in [V12, V13] {
        let client = Client::new(&directory).versions(versions);
        assert_eq!(client.stapled(&server, "a"), response);
        assert_eq!(client.stapled(&server, "b"), b"");
    }
}

#[test]
fn stapling_that_cannot_be() {
    let directory = Directory::new(&["a"]);
    std::fs::write(directory.path("none.der"), "none").expect("written");
    let check = |directives: &str, expected: &str| {
        let config = format!("{} ssl_stapling on; {directives}", directory.pair("a"));
        check_config(&directory, &config, expected);
    };
    check("", "warn: \"ssl_stapling\" ignored, issuer certificate not found for certificate \"");
    check(
        "ssl_trusted_certificate a.crt;",
        "warn: \"ssl_stapling\" ignored, no OCSP responder URL in the certificate \"",
    );
    check("ssl_stapling_file none.der;", "d2i_OCSP_RESPONSE_bio(\"");
    check("ssl_stapling_responder ftp://a/;", "invalid URL prefix in OCSP responder");
}

#[test]
fn commands_of_openssl() {
    let directory = Directory::new(&["a", "b"]);
    let server = |commands: &str| {
        let commands = format!("{} {commands} {SHOW}", directory.pair("a"));
        Server::tls(&directory, &[&commands])
    };
    let client = Client::new(&directory);
    let suite = server("ssl_conf_command Ciphersuites TLS_CHACHA20_POLY1305_SHA256;");
    assert!(client.body(&suite, "a").starts_with("TLSv1.3 TLS_CHACHA20_POLY1305_SHA256 "));
    let version = server("ssl_conf_command MaxProtocol TLSv1.2;");
    assert!(client.body(&version, "a").starts_with("TLSv1.2 "));
    let other = "ssl_conf_command Certificate b.crt; ssl_conf_command PrivateKey b.key;";
    assert_eq!(client.get(&server(other), "a", "a").certificate, "b");
    let group = server("ssl_conf_command Groups prime256v1;");
    assert!(client.body(&group, "a").contains(" prime256v1 "));
    for (command, expected) in [
        ("Options KTLS,-SessionTicket", "ok"),
        ("Options foo", "SSL_CONF_cmd(\"Options\", \"foo\") failed"),
        ("VerifyMode Peer", "\"ssl_conf_command VerifyMode Peer\" is not supported yet"),
    ] {
        let config = format!("{} ssl_conf_command {command};", directory.pair("a"));
        check_config(&directory, &config, expected);
    }
}
