//! Requests over real sockets. The plans have no content: most responses are errors.

mod client;

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU16;
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::client::Address;
use tidegate_core::plan::Plan;
use tidegate_os::{ListenAddr, ListenOptions};
use tidegate_quic::{ClosedBy, StreamEnded};
use tidegate_rt::net::Datagram;
use tidegate_rt::sync::channel;

use super::held::is_behind;
use super::port::HANDSHAKES_MAX;
use super::{serve_packets, threads::Threads};
use crate::front::{Front, Shared};
use crate::testing::Bench;
use client::{Client, socket};

/// Longer than any test takes.
const TEST_MAX: Duration = Duration::from_secs(60);

/// Runs a test on an event loop with a server that listens on loopback; `{quic}` in the configuration is its address.
fn run<T: Future<Output = ()>>(config: &str, test: impl FnOnce(SocketAddr, Rc<Front>) -> T) {
    run_at(Ipv4Addr::LOCALHOST, config, test);
}

/// As [`run`], with a socket at an address; `{local}` is loopback at its port.
fn run_at<T: Future<Output = ()>>(
    ip: Ipv4Addr,
    config: &str,
    test: impl FnOnce(SocketAddr, Rc<Front>) -> T,
) {
    let served = async {
        let (packets, address) = socket(ip);
        let bench = bench(config, address);
        // The bench stays while its plan is in use.
        let front = crate::open(bench.plan.shared().clone(), Arc::<Shared>::default());
        let (_sender, mail) = channel(1);
        let threads = Threads {
            thread: 0,
            count: Arc::new(AtomicU16::new(1)),
            pass_on: Rc::new(|_, _| {}),
            mail,
        };
        let serving = serve_packets(front.clone(), packets, Address::Inet(address), threads);
        tidegate_rt::spawn_local(serving);
        test(address, front).await;
    };
    tidegate_rt::block_on(tidegate_rt::timer::timeout(TEST_MAX, served))
        .expect("a loop")
        .expect("the test ends");
}

/// Makes a certificate for a name, and its key.
fn pair(name: &str) -> (String, String) {
    let key = rcgen::KeyPair::generate().expect("a key");
    let params = rcgen::CertificateParams::new(vec![name.to_owned()]).expect("a name");
    (params.self_signed(&key).expect("signed").pem(), key.serialize_pem())
}

fn bench(config: &str, address: SocketAddr) -> Bench {
    let (certificate, key) = pair("one.test");
    let config = config.replace("{quic}", &format!("listen {address} quic;"));
    let local = format!("listen {}:{} quic;", Ipv4Addr::LOCALHOST, address.port());
    let config = config.replace("{local}", &local);
    let config =
        format!("ssl_certificate {{dir}}/c.pem; ssl_certificate_key {{dir}}/k.pem; {config}");
    Bench::with_files(&config, &[("c.pem", &certificate), ("k.pem", &key)])
}

/// The plan of another configuration for the same address.
fn plan(config: &str, address: SocketAddr, generation: u64) -> Arc<Plan> {
    let bench = bench(config, address);
    let mut plan = bench.plan.shared().clone();
    drop(bench);
    if let Some(plan) = Arc::get_mut(&mut plan) {
        plan.generation = generation;
    }
    plan
}

const ONE: &str = "server { {quic} server_name one.test; }";

#[test]
fn a_request_gets_its_response() {
    run(ONE, |address, _| async move {
        let client = Client::open(address, "one.test", "h3").await;
        let response = client.get("/none").await;
        assert_eq!((response.status, response.ended), (404, true));
        assert_eq!(response.field("content-type"), Some("text/html"));
        let length = response.field("content-length").and_then(|length| length.parse().ok());
        assert_eq!(length, Some(response.body.len()));
        // SETTINGS are the first frame of the control stream (RFC 9114 section 6.2.1).
        assert_eq!(client.bytes(3).get(..2), Some(&[0, 4][..]));
    });
}

/// The type of a Retry packet, in the first byte of its header (RFC 9000 section 17.2).
const RETRY: u8 = 3;

#[test]
fn while_many_handshakes_are_in_progress_addresses_have_to_be_shown() {
    run(ONE, |address, _| async move {
        // The first packet of each client is passed on, and nothing else.
        let loopback = ListenAddr::Inet(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let bind = || Datagram::bind(&loopback, &ListenOptions::default()).expect("a socket");
        let front = bind();
        let Ok(ListenAddr::Inet(relay)) = front.local_addr() else { panic!("no address") };
        let (mut clients, mut numbers, mut buffer) = (Vec::new(), HashSet::new(), [0; 2048]);
        for begun in 0..=HANDSHAKES_MAX {
            // By a socket of its own: earlier handshakes may repeat their packets meanwhile.
            let back = bind();
            let client = Client::opening(relay, "one.test", "h3");
            loop {
                let (count, _) = front.receive_from(&mut buffer).await.expect("a first packet");
                // The client's choice of a number, of eight bytes or more (section 7.2).
                if numbers.insert(buffer[6..14].to_vec()) {
                    back.send(&buffer[..count], Some(&address)).await.expect("sent");
                    break;
                }
            }
            back.receive_from(&mut buffer).await.expect("a reply");
            clients.push((client, back));
            let is_retry = buffer[0] >> 4 & 3 == RETRY;
            assert_eq!(is_retry, begun == HANDSHAKES_MAX, "{begun} handshakes in progress");
        }
        // A client that receives there is served.
        let client = Client::open(address, "one.test", "h3").await;
        assert_eq!(client.get("/none").await.status, 404);
    });
}

/// A pipe stands for a file on a slow disk.
#[cfg(unix)]
#[test]
fn a_certificate_that_is_slow_to_read_holds_up_its_own_client_alone() {
    let directory = std::env::temp_dir().join(format!("tidegate-h3-{}", std::process::id()));
    std::fs::create_dir(&directory).expect("a directory");
    let pipe = directory.join("slow.test.pem");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");
    assert!(made.success());
    let (certificate, key) = pair("slow.test");
    std::fs::write(directory.join("key.pem"), key).expect("written");
    let at = directory.display();
    let config = format!(
        "{ONE} server {{ {{quic}} server_name slow.test; ssl_certificate {at}/$ssl_server_name.pem; \
         ssl_certificate_key {at}/key.pem; }}"
    );
    run(&config, |address, _| async move {
        let slow = Client::opening(address, "slow.test", "h3");
        let other = Client::open(address, "one.test", "h3").await;
        assert_eq!(other.get("/none").await.status, 404);
        assert!(!slow.is_connected());
        let writer = std::thread::spawn(move || std::fs::write(pipe, certificate));
        slow.until_opened().await;
        writer.join().expect("joined").expect("written");
        assert_eq!(slow.get("/none").await.status, 404);
    });
    std::fs::remove_dir_all(directory).expect("removed");
}

#[test]
fn requests_run_beside_each_other() {
    run(ONE, |address, front| async move {
        let client = Client::open(address, "one.test", "h3").await;
        let ids: Vec<_> = (0..100).map(|_| client.send(("GET", "/none"), &[], b"", true)).collect();
        for id in ids {
            assert_eq!(client.response(id).await.status, 404);
        }
        assert_eq!(front.live(), 1);
    });
}

#[test]
fn a_malformed_request_is_refused_alone() {
    run(ONE, |address, _| async move {
        let client = Client::open(address, "one.test", "h3").await;
        for (method, path, fields, body, expected) in [
            ("GET", "/..", &[][..], &b""[..], 400),
            ("GET", "/%00", &[], b"", 400),
            ("GET", "/none", &[], b"", 404),
        ] {
            let id = client.send((method, path), fields, body, true);
            let response = client.response(id).await;
            assert_eq!(response.status, expected, "{method} {path} {fields:?}");
            assert!(response.ended);
        }
    });
}

#[test]
fn the_rest_of_a_body_that_nothing_reads_is_stopped() {
    run(ONE, |address, _| async move {
        let client = Client::open(address, "one.test", "h3").await;
        let id = client.send(("POST", "/none"), &[], &[7; 300_000], false);
        let response = client.response(id).await;
        assert_eq!((response.status, response.ended), (404, true));
        // The connection goes on.
        assert_eq!(client.get("/none").await.status, 404);
    });
}

#[test]
fn a_name_without_http3_or_without_a_server_gets_no_connection() {
    let config = "server { {quic} server_name one.test; }
        server { {quic} server_name off.test; http3 off; }
        server { {quic} server_name reject.test; ssl_reject_handshake on; }";
    run(config, |address, _| async move {
        // Alerts 120, no_application_protocol, and 112, unrecognized_name (RFC 9001 section 4.8).
        for (name, alpn, code) in [
            ("off.test", "h3", 0x178),
            ("reject.test", "h3", 0x170),
            ("one.test", "h2", 0x178),
            ("one.test", "h3", 0),
        ] {
            let client = Client::open(address, name, alpn).await;
            let by = client.closed().map(|closed| closed.by);
            let expected = (code > 0).then_some(ClosedBy::Transport(code));
            assert_eq!(by, expected, "{name} {alpn}");
        }
    });
}

#[test]
fn a_connection_ends_behind_its_number_of_requests() {
    let config = "server { {quic} server_name one.test; keepalive_requests 2; }";
    run(config, |address, front| async move {
        let client = Client::open(address, "one.test", "h3").await;
        for _ in 0..2 {
            assert_eq!(client.get("/none").await.status, 404);
        }
        client.until(|client| client.closed().is_some()).await;
        assert_eq!(client.closed().map(|closed| closed.by), Some(ClosedBy::Peer(0x100)));
        // GOAWAY with the first stream that is not served, 8, behind SETTINGS.
        assert!(client.bytes(3).ends_with(&[7, 1, 8]), "{:?}", client.bytes(3));
        drop(client);
        while front.live() > 0 {
            tidegate_rt::timer::sleep(Duration::from_millis(1)).await;
        }
    });
}

#[test]
fn a_drain_ends_idle_connections() {
    run(ONE, |address, front| async move {
        let client = Client::open(address, "one.test", "h3").await;
        assert_eq!(client.get("/none").await.status, 404);
        front.drain(tidegate_rt::clock::now());
        client.until(|client| client.closed().is_some()).await;
        assert_eq!(client.closed().map(|closed| closed.by), Some(ClosedBy::Peer(0x100)));
        front.drained().await;
    });
}

#[test]
fn a_violation_of_the_protocol_ends_the_connection() {
    run(ONE, |address, _| async move {
        let client = Client::open(address, "one.test", "h3").await;
        // DATA before HEADERS: H3_FRAME_UNEXPECTED.
        let id = client.connection().open(tidegate_quic::Direction::Both).expect("a stream");
        let mut bytes = bytes::Bytes::from_static(&[0, 1, 0]);
        client.connection().write(id, &mut bytes).expect("written");
        client.until(|client| client.closed().is_some()).await;
        assert_eq!(client.closed().map(|closed| closed.by), Some(ClosedBy::Peer(0x105)));
    });
}

#[test]
fn a_stream_without_a_request_is_given_up() {
    let config = "server { {quic} server_name one.test; client_header_timeout 1s; }";
    run(config, |address, _| async move {
        let client = Client::open(address, "one.test", "h3").await;
        assert_eq!(client.get("/none").await.status, 404);
        let id = client.connection().open(tidegate_quic::Direction::Both).expect("a stream");
        let mut bytes = bytes::Bytes::from_static(&[1]);
        client.connection().write(id, &mut bytes).expect("written");
        // H3_REQUEST_INCOMPLETE.
        assert_eq!(client.response(id.0).await.reset, Some(StreamEnded::ByPeer(0x10d)));
        assert_eq!(client.get("/none").await.status, 404);
    });
}

#[test]
fn a_plan_without_the_listener_ends_its_connections() {
    run(ONE, |address, front| async move {
        let client = Client::open(address, "one.test", "h3").await;
        assert_eq!(client.get("/none").await.status, 404);
        // Connections stay over a reload.
        front.set_plan(plan(ONE, address, 2));
        assert_eq!(client.get("/none").await.status, 404);
        let other = SocketAddr::from(([127, 0, 0, 1], 1));
        front.set_plan(plan(ONE, other, 3));
        client.until(|client| client.closed().is_some()).await;
        assert_eq!(client.closed().map(|closed| closed.by), Some(ClosedBy::Peer(0x100)));
    });
}

#[test]
fn http09_is_a_line_and_a_body() {
    let config = "server { {quic} server_name one.test; http3_hq on; }";
    run(config, |address, front| async move {
        let client = Client::open(address, "one.test", "hq-interop").await;
        let id = client.connection().open(tidegate_quic::Direction::Both).expect("a stream");
        for part in ["GET /no", "ne\r\n"] {
            let mut bytes = bytes::Bytes::from(part);
            client.connection().write(id, &mut bytes).expect("written");
        }
        client.connection().finish(id).expect("finished");
        assert!(client.response(id.0).await.ended);
        let body = String::from_utf8_lossy(&client.bytes(id.0)).into_owned();
        assert!(body.starts_with("<html>") && body.contains("404 Not Found"), "{body}");
        front.drain(tidegate_rt::clock::now());
        client.until(|client| client.closed().is_some()).await;
    });
}

#[test]
fn bytes_behind_a_section_that_waits_keep_their_place() {
    let mut held = vec![(4, Bytes::from_static(b"b"), false)];
    for (id, bytes, end, expected) in
        [(0, "a", false, false), (4, "cd", false, true), (4, "", true, true), (8, "e", true, false)]
    {
        assert_eq!(is_behind(&mut held, id, &bytes.into(), end), expected, "{id} {bytes}");
    }
    assert_eq!(held, [(4, Bytes::from_static(b"bcd"), true)]);
}

#[test]
fn a_local_address_has_servers_of_its_own() {
    // Both share the socket of all addresses.
    let rejects = "server { {quic} ssl_reject_handshake on; }";
    let serves = "server { {local} server_name one.test; }";
    for (config, code) in [(rejects.to_owned(), Some(0x170)), (format!("{rejects} {serves}"), None)]
    {
        run_at(Ipv4Addr::UNSPECIFIED, &config, |address, _| async move {
            let to = SocketAddr::from((Ipv4Addr::LOCALHOST, address.port()));
            let client = Client::open(to, "one.test", "h3").await;
            let by = client.closed().map(|closed| closed.by);
            assert_eq!(by, code.map(ClosedBy::Transport));
            if code.is_none() {
                assert_eq!(client.get("/none").await.status, 404);
            }
        });
    }
}
