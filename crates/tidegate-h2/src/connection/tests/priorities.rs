//! The tree of RFC 7540 in a connection: which signals count, and in which order streams are sent.

use super::support::{Peer, feed, server};
use crate::frame::parse::Dependency;
use crate::frame::{FrameHeader, Kind, flags, write};
use crate::{Config, Connection, ErrorCode, Server, StreamId};

fn on(parent: u32, weight: u16) -> Dependency {
    Dependency { exclusive: false, parent: StreamId::new(parent), weight: (weight - 1) as u8 }
}

fn priority(peer: &mut Peer, stream: u32, dependency: Dependency) {
    write::priority(&mut peer.out, StreamId::new(stream), dependency);
}

/// A request whose HEADERS have a priority.
fn get_on(peer: &mut Peer, stream: u32, dependency: Dependency) {
    let line = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a.test")];
    let block = peer.block(&line);
    let mut payload = dependency.parent.value().to_be_bytes().to_vec();
    payload.push(dependency.weight);
    payload.extend_from_slice(&block);
    let header = FrameHeader {
        length: payload.len() as u32,
        kind: Kind::Headers,
        flags: flags::PRIORITY | flags::END_HEADERS | flags::END_STREAM,
        stream: StreamId::new(stream),
    };
    peer.raw(header, &payload).done();
}

/// Responds on these streams.
fn respond(server: &mut Connection<Server>, streams: &[u32]) {
    for stream in streams {
        let stream = StreamId::new(*stream);
        server.respond(stream, 200, false, |_| {}).expect("it is open");
        server.want(stream, true);
    }
}

/// Sends one frame of each stream that waits, with the end; the order.
fn finish(server: &mut Connection<Server>) -> Vec<u32> {
    let mut order = Vec::new();
    while let Some(stream) = server.next_to_send() {
        server.send_data(stream, b"x", true).expect("it is open");
        order.push(stream.value());
    }
    order
}

#[test]
fn priority_frames_and_heads_make_a_tree() {
    let mut server = server(Config::default());
    let mut peer = Peer::client();
    peer.get(1, &[], true).get(3, &[], true);
    feed(&mut server, &peer.take()).expect("requests are right");
    respond(&mut server, &[1, 3]);
    // 11 is a group that is never a stream. 7 comes before 5, whose head changes what PRIORITY has said of it.
    priority(&mut peer, 11, on(0, 16));
    priority(&mut peer, 5, on(11, 256));
    priority(&mut peer, 7, on(11, 8));
    priority(&mut peer, 3, on(0, 256));
    get_on(&mut peer, 5, on(7, 256));
    peer.get(7, &[], true);
    feed(&mut server, &peer.take()).expect("requests are right");
    respond(&mut server, &[5, 7]);
    assert_eq!(finish(&mut server), [3, 1, 7, 5]);
    for stream in [1, 3, 5, 7] {
        server.close(StreamId::new(stream), ErrorCode::CANCEL);
    }
    // An idle connection keeps its groups, and no more than these.
    server.release_memory();
    assert!(server.memory() < 600, "{}", server.memory());
    get_on(&mut peer, 13, on(11, 16));
    get_on(&mut peer, 15, on(13, 16));
    get_on(&mut peer, 17, on(11, 200));
    feed(&mut server, &peer.take()).expect("requests are right");
    respond(&mut server, &[15, 17, 13]);
    assert_eq!(finish(&mut server), [17, 13, 15]);
}

#[test]
fn signals_of_rfc_9218_take_the_place_of_the_tree() {
    type Signal = fn(&mut Peer);
    let signals: [Signal; 2] = [
        |peer| write::priority_update(&mut peer.out, StreamId::new(3), b"u=1"),
        |peer| peer.get(9, &[("priority", "u=7")], true).done(),
    ];
    for (at, signal) in signals.into_iter().enumerate() {
        let mut server = server(Config::default());
        let mut peer = Peer::client();
        get_on(&mut peer, 1, on(0, 256));
        get_on(&mut peer, 3, on(1, 16));
        get_on(&mut peer, 5, on(0, 1));
        feed(&mut server, &peer.take()).expect("requests are right");
        respond(&mut server, &[3, 5, 1]);
        assert_eq!(server.next_to_send(), Some(StreamId::new(1)), "{at}");
        signal(&mut peer);
        // They are of no effect from now on.
        priority(&mut peer, 1, on(3, 16));
        get_on(&mut peer, 11, on(0, 256));
        feed(&mut server, &peer.take()).expect("frames are right");
        let expected = if at == 0 { [3, 1, 5] } else { [1, 3, 5] };
        assert_eq!(finish(&mut server), expected, "{at}");
    }
}

#[test]
fn windows_and_resets_change_what_is_next() {
    let mut server = server(Config::default());
    let mut peer = Peer::client();
    peer.settings(&[(crate::settings::id::INITIAL_WINDOW_SIZE, 4)]);
    get_on(&mut peer, 1, on(0, 16));
    get_on(&mut peer, 3, on(1, 16));
    get_on(&mut peer, 5, on(3, 16));
    feed(&mut server, &peer.take()).expect("requests are right");
    respond(&mut server, &[1, 3, 5]);
    let next = |server: &Connection<Server>| server.next_to_send().map(StreamId::value);
    assert_eq!(server.send_data(StreamId::new(1), b"12345", false), Ok(4));
    // A parent that has no window is passed over.
    assert_eq!(next(&server), Some(3));
    peer.window(1, 1);
    feed(&mut server, &peer.take()).expect("it is right");
    assert_eq!(next(&server), Some(1));
    peer.settings(&[(crate::settings::id::INITIAL_WINDOW_SIZE, 2)]);
    feed(&mut server, &peer.take()).expect("it is right");
    assert_eq!(next(&server), Some(3));
    peer.reset(3);
    feed(&mut server, &peer.take()).expect("it is right");
    server.close(StreamId::new(3), ErrorCode::CANCEL);
    assert_eq!(next(&server), Some(5));
    server.close(StreamId::new(5), ErrorCode::CANCEL);
    assert_eq!(next(&server), None);
    peer.settings(&[(crate::settings::id::INITIAL_WINDOW_SIZE, 100)]);
    feed(&mut server, &peer.take()).expect("it is right");
    assert_eq!(next(&server), Some(1));
}
