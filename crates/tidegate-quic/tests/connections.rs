//! Connections over real sockets: handshakes, streams, ends.

mod support;

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use support::{
    Client, Relay, client, client_settings, connected, keys, run, send, serve, server_settings,
    socket, spawned,
};
use tidegate_quic::{Admission, ClosedBy, Direction, Endpoint, Limits, StreamEnded};
use tidegate_rt::clock;
use tidegate_rt::spawn_local;
use tidegate_rt::sync::{Notify, select};

/// Bytes that differ from stream to stream.
fn content(count: usize, seed: u8) -> Bytes {
    (0..count).map(|at| (at as u8).wrapping_mul(31) ^ (at >> 8) as u8 ^ seed).collect()
}

#[test]
fn a_stream_is_echoed_beyond_all_windows() {
    run(async {
        let (server, address) = serve(&Limits::default());
        let (_client, recorder, connection) = connected(address, "two.test").await;
        let bytes = content(5 << 20, 1);
        let id = recorder.send(&connection, bytes.clone());
        recorder.until_ended(id).await;
        assert!(recorder.received.borrow()[&id] == bytes, "other bytes came back");
        let served = server.application().connections.borrow()[0].clone();
        let handshake = served.handshake().expect("a handshake");
        assert_eq!(handshake.hello.server_name.as_deref(), Some("two.test"));
        assert_eq!(handshake.negotiated.alpn.as_deref(), Some("echo"));
        assert_eq!(handshake.negotiated.protocol, "TLSv1.3");
        assert!(!served.is_handshaking());
    });
}

#[test]
fn streams_run_beside_each_other() {
    run(async {
        let (_server, address) = serve(&Limits::default());
        let (_client, recorder, connection) = connected(address, "one.test").await;
        let sent: Vec<_> = (0..100u8)
            .map(|seed| {
                let bytes = content(1000 * usize::from(seed), seed);
                (recorder.send(&connection, bytes.clone()), bytes)
            })
            .collect();
        for (id, bytes) in sent {
            recorder.until_ended(id).await;
            let received = recorder.received.borrow_mut().remove(&id).unwrap_or_default();
            assert!(received == bytes, "stream {id} has other bytes");
        }
    });
}

/// All of them want more than the connection has room for.
#[test]
fn streams_get_room_in_the_order_in_which_they_wait() {
    run(async {
        let (_server, address) = serve(&Limits {
            stream_bytes: 1 << 20,
            connection_bytes: 1 << 24,
            ..Limits::default()
        });
        let (_client, recorder, connection) = connected(address, "one.test").await;
        let sent: Vec<_> =
            (0..60).map(|seed| recorder.send(&connection, content(100_000, seed))).collect();
        // An urgent one is before all that wait.
        let urgent = connection.open(Direction::Both).expect("a stream");
        connection.set_priority(urgent, 1);
        recorder.send_on(&connection, urgent, content(100_000, 99));
        for id in sent.iter().chain([&urgent]) {
            recorder.until_ended(*id).await;
        }
        let taken = recorder.taken.borrow();
        let others: Vec<_> = taken.iter().copied().filter(|id| *id != urgent).collect();
        assert_eq!(others, sent);
        let place = taken.iter().position(|id| *id == urgent);
        assert!(place.is_some_and(|place| place < 30), "{place:?}");
    });
}

/// The server reads nothing of a stream in one direction.
#[test]
fn a_stream_whose_window_stays_shut_costs_nothing() {
    run(async {
        let (_server, address) = serve(&Limits::default());
        let (_client, recorder, connection) = connected(address, "one.test").await;
        let shut = connection.open(Direction::One).expect("a stream");
        recorder.send_on(&connection, shut, content(1 << 20, 1));
        // All that the window takes has been received behind this one.
        let id = recorder.send(&connection, content(1000, 2));
        recorder.until_ended(id).await;
        let before = recorder.tried.get();
        for _ in 0..2000 {
            tidegate_rt::yield_now().await;
        }
        let tried = recorder.tried.get() - before;
        assert!(tried < 50, "tried {tried} times");
    });
}

#[test]
fn work_in_vain_gives_way_to_others() {
    run(async {
        let (server, address) = serve(&Limits::default());
        server.application().in_vain.set(true);
        let (_client, recorder, connection) = connected(address, "one.test").await;
        let ids: Vec<_> = (0..100).map(|_| recorder.send(&connection, content(10, 1))).collect();
        for id in ids {
            recorder.until_ended(id).await;
        }
        let accepted = server.application().accepted.borrow();
        assert_eq!(accepted.iter().sum::<usize>(), 100);
        assert!(accepted.iter().all(|count| *count <= 16), "{accepted:?}");
    });
}

#[test]
fn what_is_ignored_is_repeated() {
    run(async {
        let (server, address) = serve(&Limits::default());
        let (_client, recorder, connection) = connected(address, "one.test").await;
        let served = server.application().connections.borrow()[0].clone();
        let until = clock::exact_now() + Duration::from_millis(100);
        served.ignore_until(until);
        let id = recorder.send(&connection, content(1000, 1));
        recorder.until_ended(id).await;
        assert!(clock::exact_now() >= until, "something was received");
        assert!(recorder.received.borrow()[&id] == content(1000, 1), "other bytes came back");
    });
}

#[test]
fn a_server_that_does_not_exist_refuses_the_handshake() {
    run(async {
        let (_server, address) = serve(&Limits::default());
        // Alerts 112, unrecognized_name, and 120, no_application_protocol (RFC 9001 section 4.8).
        for (name, alpn, code) in [("three.test", "echo", 0x170), ("one.test", "other", 0x178)] {
            let (client, recorder) = (client(), Client::new());
            let settings = client_settings(alpn);
            let _connection =
                client.connect(&settings, address, name, recorder.clone()).expect("begun");
            recorder.until(|| recorder.closed.borrow().is_some()).await;
            let closed = recorder.closed.take().expect("closed");
            assert_eq!(closed.by, ClosedBy::Transport(code), "{}", closed.reason);
        }
    });
}

#[test]
fn a_client_shows_its_address_where_that_is_wanted() {
    run(async {
        let (server, address) = serve(&Limits::default());
        server.application().admission.set(Admission::Retry);
        let (client, recorder, connection) = connected(address, "one.test").await;
        let id = recorder.send(&connection, Bytes::from_static(b"hello"));
        recorder.until_ended(id).await;
        assert_eq!(*server.application().asked.borrow(), [false, true]);

        server.application().admission.set(Admission::Refuse);
        let settings = client_settings("echo");
        let recorder = Client::new();
        let _refused =
            client.connect(&settings, address, "one.test", recorder.clone()).expect("begun");
        recorder.until(|| recorder.closed.borrow().is_some()).await;
        // CONNECTION_REFUSED (RFC 9000 section 20.1). A token of the first connection validates the address.
        assert_eq!(recorder.closed.take().expect("closed").by, ClosedBy::Transport(2));
    });
}

#[test]
fn each_side_closes_and_resets_with_its_code() {
    run(async {
        let (server, address) = serve(&Limits::default());
        let (_client, recorder, connection) = connected(address, "one.test").await;
        // A stream of the server's that it gives up.
        let served = server.application().connections.borrow()[0].clone();
        let id = served.open(Direction::One).expect("a stream");
        served.write(id, &mut Bytes::from_static(b"begun")).expect("written");
        served.reset(id, 7);
        recorder.until(|| recorder.reset.borrow().contains_key(&id)).await;
        assert_eq!(recorder.reset.borrow()[&id], StreamEnded::ByPeer(7));
        let mut late = Bytes::from_static(b"late");
        assert_eq!(served.write(id, &mut late), Err(StreamEnded::Closed));

        connection.close(0x102, "enough");
        let application = server.application();
        while application.closed.borrow().is_empty() {
            application.bell.notified().await;
        }
        let closed = application.closed.borrow_mut().remove(0);
        assert_eq!(closed.by, ClosedBy::Peer(0x102));
        assert!(closed.reason.contains("enough"), "{}", closed.reason);
    });
}

#[test]
fn a_server_that_has_lost_its_state_resets_the_connection() {
    run(async {
        let limits = Limits { idle_timeout: Duration::from_secs(3600), ..Limits::default() };
        let (port, recorder, client) = (Rc::new(socket(0)), Client::new(), client());
        let address = port.1;
        let settings = server_settings(&limits);
        let Ok((socket, _)) = Rc::try_unwrap(port) else { panic!("shared") };
        let first = Rc::new(Endpoint::new(
            socket,
            support::Echo::default(),
            &keys(),
            Some(&settings),
            (0, 1),
        ));
        let connection = client
            .connect(&client_settings("echo"), address, "one.test", recorder.clone())
            .expect("begun");
        let connected = recorder.until(|| recorder.connected.get());
        let running = async {
            let mut run = std::pin::pin!(first.run());
            let mut connected = std::pin::pin!(connected);
            std::future::poll_fn(|context| {
                assert!(run.as_mut().poll(context).is_pending());
                connected.as_mut().poll(context)
            })
            .await;
        };
        running.await;
        drop(first);
        let again = spawned(Endpoint::new(
            support::socket(address.port()).0,
            support::Echo::default(),
            &keys(),
            Some(&settings),
            (0, 1),
        ));
        let _ = recorder.send(&connection, content(4000, 1));
        recorder.until(|| recorder.closed.borrow().is_some()).await;
        assert_eq!(recorder.closed.take().expect("closed").by, ClosedBy::Reset);
        assert_eq!(again.open_connections(), 0);
    });
}

#[test]
fn packets_of_another_thread_are_passed_on() {
    run(async {
        let settings = server_settings(&Limits::default());
        let make = |thread| {
            let (socket, address) = socket(0);
            let echo = support::Echo::default();
            (spawned(Endpoint::new(socket, echo, &keys(), Some(&settings), (thread, 2))), address)
        };
        let ((owner, at_owner), (other, at_other)) = (make(1), make(0));
        let (relay, address) = Relay::start(at_owner);
        let (_client, recorder, connection) = connected(address, "one.test").await;
        // As after a change of the number of threads: packets arrive at the socket of thread 0.
        relay.server.set(at_other);
        let passing = async {
            let application = other.application();
            loop {
                application.bell.notified().await;
                for (thread, packet) in application.passed_on.take() {
                    assert_eq!(thread, 1);
                    owner.receive(&packet);
                }
            }
        };
        let id = recorder.send(&connection, content(200_000, 9));
        tidegate_rt::sync::select! {
            () = passing => {}
            () = recorder.until_ended(id) => {}
        }
        assert!(recorder.received.borrow()[&id] == content(200_000, 9));
        assert_eq!(other.open_connections(), 0);
    });
}

#[test]
fn a_client_may_change_its_address() {
    run(async {
        let (server, address) = serve(&Limits::default());
        let (relay, address) = Relay::start(address);
        let (_client, recorder, connection) = connected(address, "one.test").await;
        let served = server.application().connections.borrow()[0].clone();
        // Before the handshake is confirmed no client may migrate (RFC 9000 section 9).
        let id = recorder.send(&connection, content(1000, 8));
        recorder.until_ended(id).await;
        let old = served.peer_address();
        let new = relay.rebind();
        assert_ne!(old, new);
        while served.peer_address() != new {
            assert_eq!(served.peer_address(), old);
            let id = recorder.send(&connection, content(1000, 9));
            recorder.until_ended(id).await;
        }
    });
}

#[test]
fn a_forged_sender_is_never_the_address_of_a_connection() {
    run(async {
        let (server, at_server) = serve(&Limits::default());
        let (relay, address) = Relay::start(at_server);
        let (_client, recorder, connection) = connected(address, "one.test").await;
        let served = server.application().connections.borrow()[0].clone();
        // Before the handshake is confirmed no client may migrate (RFC 9000 section 9).
        let id = recorder.send(&connection, content(1000, 8));
        recorder.until_ended(id).await;
        let old = served.peer_address();
        let (victim, at_victim) = socket(0);
        // The client's next packets are seen by the server from the victim's address alone.
        relay.server.set(socket(0).1);
        let mut last = Vec::new();
        for _ in 0..5 {
            let id = recorder.send(&connection, content(1000, 9));
            while *relay.latest.borrow() == last {
                relay.bell.notified().await;
            }
            last = relay.latest.borrow().clone();
            send(&victim, &last, at_server).expect("sent");
            tidegate_rt::yield_now().await;
            assert_eq!(served.peer_address(), old, "{id} {at_victim}");
        }
        // The client is heard again.
        relay.server.set(at_server);
        let id = recorder.send(&connection, content(1000, 9));
        recorder.until_ended(id).await;
        assert_eq!(served.peer_address(), old);
    });
}

#[test]
fn garbage_does_not_disturb_connections() {
    run(async {
        let (server, address) = serve(&Limits::default());
        let (_client, recorder, connection) = connected(address, "one.test").await;
        let (hostile, _) = socket(0);
        for seed in 0..200u8 {
            let bytes = content(usize::from(seed) * 7, seed);
            let _ = send(&hostile, &bytes, address);
        }
        let id = recorder.send(&connection, content(100_000, 3));
        recorder.until_ended(id).await;
        assert_eq!(server.open_connections(), 1);
    });
}

#[test]
fn an_endpoint_is_empty_behind_its_last_connection() {
    run(async {
        let (server, address) = serve(&Limits::default());
        server.emptied().await;
        let (_client, recorder, connection) = connected(address, "one.test").await;
        let id = recorder.send(&connection, content(10, 1));
        recorder.until_ended(id).await;
        assert_eq!(server.open_connections(), 1);
        connection.close(1, "");
        server.emptied().await;
        assert_eq!(server.open_connections(), 0);
    });
}

#[test]
fn a_dropped_server_closes_its_connections() {
    run(async {
        let (socket, address) = socket(0);
        let settings = server_settings(&Limits::default());
        let application = support::Echo { code_of_end: Some(0x100), ..Default::default() };
        let server = Endpoint::new(socket, application, &keys(), Some(&settings), (0, 1));
        let stop = Rc::new(Notify::new());
        let stopped = stop.clone();
        spawn_local(async move {
            select! {
                _ = server.run() => {}
                () = stopped.notified() => {}
            }
        });
        let (_client, recorder, connection) = connected(address, "one.test").await;
        // By then the server's handshake is complete as well.
        let id = recorder.send(&connection, content(10, 1));
        recorder.until_ended(id).await;
        stop.notify_one();
        recorder.until(|| recorder.closed.borrow().is_some()).await;
        assert_eq!(recorder.closed.take().expect("closed").by, ClosedBy::Peer(0x100));
    });
}
