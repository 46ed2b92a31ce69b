//! Settings of sessions: defaults, inheritance, and the plan of the `stream` block.

use tidegate_core::session::{Session, SessionClient};
use tidegate_core::settings::SessionSettings;

use super::*;
use crate::tests::Bench;

/// Returns the settings of a `stream` server.
fn settings(stream: &str, server: &str) -> String {
    let server = format!("server {{ listen 1.1.1.1:5; {server} do own decline; }}");
    let bench = Bench::of_file(&format!("stream {{ {stream} {server} }}"));
    let plan = bench.plan.sessions.as_ref().unwrap();
    let location = plan.location(plan.servers()[0].location);
    let found = location.extensions.of::<SessionSettings>().unwrap();
    let seconds = [found.preread_timeout, found.proxy_protocol_timeout].map(|time| time.as_secs());
    format!("{} {} {}", found.preread_buffer_size, seconds[0], seconds[1])
}

#[test]
fn settings_are_those_of_the_server_or_of_the_block() {
    for (stream, server, expected) in [
        ("", "", "16384 30 30"),
        ("preread_buffer_size 5; preread_timeout 6s;", "", "5 6 30"),
        ("preread_buffer_size 5;", "preread_buffer_size 1k;", "1024 30 30"),
        ("proxy_protocol_timeout 7s;", "preread_timeout 8s;", "16384 8 7"),
        ("", "proxy_protocol_timeout 1m;", "16384 30 60"),
    ] {
        assert_eq!(settings(stream, server), expected, "{stream} {server}");
    }
    for name in ["preread_buffer_size", "preread_timeout", "proxy_protocol_timeout"] {
        let errors = Bench::errors_of_file(&format!("stream {{ {name} 5; {name} 5; }}"));
        assert_eq!(errors, [format!("\"{name}\" directive is duplicate")]);
    }
}

/// Both blocks have plans of their own, with separate names and variables.
#[test]
fn the_two_blocks_are_separate() {
    let bench = Bench::of_file(
        "stream { server { listen 1.1.1.1:5; server_name a; do own decline; } server { listen 1.1.1.1:5 udp; do own decline; } }
         http { server { listen 1.1.1.1:80; server_name a; } }",
    );
    let sessions = bench.plan.sessions.as_ref().unwrap();
    assert_eq!((bench.plan.servers().len(), sessions.servers().len()), (1, 2));
    let places: Vec<_> =
        bench.plan.all_listeners().map(|one| (one.address.text(), one.datagram)).collect();
    let place = |text: &str, datagram| (text.to_owned(), datagram);
    assert_eq!(
        places,
        [place("1.1.1.1:80", false), place("1.1.1.1:5", false), place("1.1.1.1:5", true)]
    );
    let errors = Bench::errors_of_file("stream { server { listen 5; do own respond $uri; } }");
    assert_eq!(errors, ["unknown \"uri\" variable"]);
}

#[test]
fn variables_of_a_session() {
    struct NoDatagrams;
    impl tidegate_core::session::Datagrams for NoDatagrams {
        fn poll_receive(&self, _context: &mut std::task::Context<'_>) -> std::task::Poll<Vec<u8>> {
            std::task::Poll::Pending
        }

        fn send(&self, _bytes: &[u8]) -> std::io::Result<()> {
            Ok(())
        }

        fn release(&self) {}
    }
    let bench = Bench::new("server { }");
    let mut x = bench.exchange();
    let client = SessionClient::Datagrams(std::rc::Rc::new(NoDatagrams));
    let session = Session::new(client, "1.1.1.1:5".to_owned());
    session.traffic.received.set(5);
    session.traffic.sent.set(7);
    x.modules.extensions.insert(session);
    for (name, expected) in [
        ("bytes_received", "5"),
        ("bytes_sent", "7"),
        ("status", "000"),
        ("protocol", "UDP"),
        ("remote_addr", "192.0.2.7"),
    ] {
        let variable = variables::VARIABLES.iter().find(|variable| variable.name == name).unwrap();
        let tidegate_core::variables::Value::Fixed(get) = variable.value else { panic!("{name}") };
        let mut out = Vec::new();
        assert!(get(&mut x, &mut out), "{name}");
        assert_eq!(String::from_utf8_lossy(&out), expected, "{name}");
    }
}
