//! Every flood that is known by a name ends the connection with ENHANCE_YOUR_CALM, at a number, and with little memory.

use std::time::Duration;

use super::support::{Peer, feed, feed_at, output, server};
use crate::connection::{Connection, Server};
use crate::frame::{FrameHeader, Kind, StreamId, flags, write};
use crate::settings::id;
use crate::{Config, ErrorCode, Fault, Flood};

/// Sends what `step` writes until the connection ends, the output being read after each; returns how often it was
/// sent, the reason, and the most memory that was used.
fn flood(
    config: Config,
    read: bool,
    mut step: impl FnMut(&mut Peer, &mut Connection<Server>, u32),
) -> (u32, Option<Fault>, usize) {
    const STEPS_MAX: u32 = 20_000;
    let mut server = server(config);
    let mut peer = Peer::client();
    let mut memory = 0;
    for count in 0..STEPS_MAX {
        step(&mut peer, &mut server, count);
        let outcome = feed(&mut server, &peer.take());
        memory = memory.max(server.memory());
        if let Err(error) = outcome {
            return (count, Some(error.0), memory);
        }
        if read {
            output(&mut server);
        }
    }
    (STEPS_MAX, None, memory)
}

/// A stream's number.
fn odd(count: u32) -> u32 {
    2 * count + 1
}

#[test]
fn rapid_reset_cve_2023_44487() {
    // The exchange of each is over at once, which is the best case for the client.
    let (count, fault, memory) = flood(Config::default(), true, |peer, server, count| {
        if let Some(before) = count.checked_sub(1) {
            server.close(StreamId::new(odd(before)), ErrorCode::CANCEL);
        }
        peer.get(odd(count), &[], true).reset(odd(count));
    });
    assert_eq!((count, fault), (256, Some(Fault::Flood(Flood::Resets))));
    assert!(memory < 8192, "{memory}");
}

#[test]
fn streams_that_are_reset_but_still_worked_on_count() {
    // Nothing is closed: the limit on streams holds, whatever is reset.
    let (count, fault, memory) = flood(Config::default(), true, |peer, server, count| {
        if count == 0 {
            write::settings_ack(&mut peer.out);
        }
        peer.get(odd(count), &[], true).reset(odd(count));
        assert!(server.streams() <= 128);
    });
    assert_eq!(fault, Some(Fault::Flood(Flood::Resets)));
    assert!(count <= 256 && memory < 65_536, "{count} {memory}");
}

#[test]
fn made_you_reset() {
    // The client has the server reset its streams, by mistakes of many kinds.
    let (count, fault, _) = flood(Config::default(), true, |peer, server, count| {
        if let Some(before) = count.checked_sub(1) {
            server.close(StreamId::new(odd(before)), ErrorCode::CANCEL);
        }
        peer.get(odd(count), &[], count % 2 == 0);
        match count % 4 {
            0 => peer.window(odd(count), 0),
            1 => peer.window(odd(count), 0x7fff_ffff),
            2 => peer.data(odd(count), b"x", true),
            _ => peer.get(odd(count), &[], false),
        };
    });
    assert_eq!((count, fault), (256, Some(Fault::Flood(Flood::Resets))));
}

#[test]
fn refused_streams_are_a_flood_too() {
    for (acknowledges, expected, kind) in
        [(true, 128 + 256, Flood::Resets), (false, 128 + 1000, Flood::ControlFrames)]
    {
        let (count, fault, _) = flood(Config::default(), true, |peer, _, count| {
            if count == 0 && acknowledges {
                write::settings_ack(&mut peer.out);
            }
            peer.get(odd(count), &[], true);
        });
        assert_eq!((count, fault), (expected, Some(Fault::Flood(kind))));
    }
}

#[test]
fn clients_that_end_what_they_begin_may_reset_some() {
    let (count, fault, _) = flood(Config::default(), true, |peer, server, count| {
        let [reset, ended] = [odd(2 * count), odd(2 * count + 1)];
        if count > 0 {
            for before in [odd(2 * count - 2), odd(2 * count - 1)].map(StreamId::new) {
                let _ = server.respond(before, 200, true, |_| {});
                server.close(before, ErrorCode::CANCEL);
            }
        }
        peer.get(reset, &[], true).reset(reset).get(ended, &[], true);
    });
    assert_eq!((count, fault), (20_000, None));
}

fn continuations(length: usize, config: Config) -> (u32, Option<Fault>, usize) {
    flood(config, true, |peer, _, count| {
        let kind = if count == 0 { Kind::Headers } else { Kind::Continuation };
        let stream = StreamId::new(1);
        let header = FrameHeader { length: length as u32, kind, flags: 0, stream };
        peer.raw(header, &vec![0x82; length]);
    })
}

#[test]
fn continuation_flood() {
    let (count, fault, memory) = continuations(1, Config::default());
    assert_eq!((count, fault), (65, Some(Fault::Flood(Flood::Continuations))));
    assert!(memory < 4096, "{memory}");
    let (count, fault, _) = continuations(0, Config::default());
    assert_eq!((count, fault), (9, Some(Fault::Flood(Flood::Continuations))));
    let (count, fault, memory) = continuations(16_384, Config::default());
    assert_eq!((count, fault), (4, Some(Fault::Flood(Flood::BlockBytes))));
    assert!(memory < 200_000, "{memory}");
}

/// Frames that cost a client nothing: how many are taken, with the output read and unread.
#[test]
fn control_frames() {
    type Write = fn(&mut Peer);
    let cases: [(&str, Write, Option<u32>); 8] = [
        ("ping", |peer| write::ping(&mut peer.out, [0; 8], false), Some(256)),
        ("ping replies", |peer| write::ping(&mut peer.out, [0; 8], true), None),
        ("settings", |peer| peer.settings(&[(id::INITIAL_WINDOW_SIZE, 9)]).done(), Some(256)),
        ("settings acknowledged", |peer| write::settings_ack(&mut peer.out), None),
        ("window", |peer| peer.window(0, 1).done(), None),
        (
            "unknown type",
            |peer| {
                let stream = StreamId::new(1);
                let kind = Kind::Unknown(0xee);
                peer.raw(FrameHeader { length: 1, kind, flags: 0, stream }, b"x");
            },
            None,
        ),
        (
            "priority",
            |peer| {
                let stream = StreamId::new(3);
                let kind = Kind::Priority;
                peer.raw(FrameHeader { length: 5, kind, flags: 0, stream }, &[0; 5]);
            },
            None,
        ),
        (
            "priority update",
            |peer| {
                write::priority_update(&mut peer.out, StreamId::new(9), b"u=1");
            },
            None,
        ),
    ];
    for (name, write, unread_max) in cases {
        for read in [true, false] {
            let (count, fault, memory) = flood(Config::default(), read, |peer, _, _| write(peer));
            let (expected, flood) = match unread_max {
                Some(most) if !read => (most, Flood::Replies),
                _ => (1000, Flood::ControlFrames),
            };
            assert_eq!(fault, Some(Fault::Flood(flood)), "{name}");
            // The first SETTINGS frame and its reply count as well.
            assert!((expected - 2..=expected).contains(&count), "{name} {count}");
            assert!(memory < 20_000, "{name} {memory}");
        }
    }
}

#[test]
fn empty_data_flood() {
    for padded in [false, true] {
        let (count, fault, _) = flood(Config::default(), true, |peer, _, count| {
            let stream = StreamId::new(1);
            if count == 0 {
                peer.get(1, &[], false);
            }
            match padded {
                true => write::data_padded(&mut peer.out, stream, b"", 3, false),
                false => write::data(&mut peer.out, stream, b"", false),
            }
        });
        assert_eq!(fault, Some(Fault::Flood(Flood::ControlFrames)));
        assert!((990..1020).contains(&count), "{count}");
    }
}

#[test]
fn empty_header_blocks_are_a_flood() {
    // HEADERS without a byte, continued by CONTINUATION with the block: one control frame each beside the request.
    let (count, fault, _) = flood(Config::default(), true, |peer, server, count| {
        if let Some(before) = count.checked_sub(1) {
            let before = StreamId::new(odd(before));
            let _ = server.respond(before, 200, true, |_| {});
            server.close(before, ErrorCode::CANCEL);
        }
        let stream = StreamId::new(odd(count));
        for kind in [Kind::Headers, Kind::Continuation] {
            let flags = if kind == Kind::Headers { 0 } else { flags::END_HEADERS };
            peer.raw(FrameHeader { length: 0, kind, flags, stream }, b"");
        }
    });
    // An empty list is a malformed request, with a response like others: it costs what a request does.
    assert_eq!((count, fault), (20_000, None));
}

/// Fields without a name or a value: their number is limited.
#[test]
fn zero_length_headers_cve_2019_9516() {
    let mut server = server(Config::default());
    let mut peer = Peer::client();
    let mut block = peer.block(&[(":method", "GET"), (":scheme", "http"), (":path", "/")]);
    // Literal without indexing, name and value empty.
    block.extend_from_slice(&[0, 0, 0].repeat(5000));
    write::header_block(&mut peer.out, StreamId::new(1), &block, true, 16_384);
    let events = feed(&mut server, &peer.take());
    let expected = ["settings".to_owned(), "malformed 1 TooMany".to_owned()];
    assert_eq!(events.as_deref(), Ok(&expected[..]));
    assert!(server.memory() < 65_536, "{}", server.memory());
}

#[test]
fn hpack_bomb() {
    let mut server = server(Config::default());
    let mut peer = Peer::client();
    // 20 times 4,000 bytes: more than a list may have, in a way that an honest client might have it.
    let block = bomb(&mut peer, 20);
    write::header_block(&mut peer.out, StreamId::new(1), &block, true, 16_384);
    let events = feed(&mut server, &peer.take());
    let expected = ["settings".to_owned(), "malformed 1 TooLarge".to_owned()];
    assert_eq!(events.as_deref(), Ok(&expected[..]));
    assert!(server.memory() < 100_000, "{}", server.memory());
    assert!(server.head().headers.text().len() < 40_000);
    // The table is in step.
    peer.get(3, &[], true);
    assert_eq!(feed(&mut server, &peer.take()), Ok(vec!["head 3 end".to_owned()]));
    // 4,000 bytes for each byte of 16 KB.
    let block = bomb(&mut peer, 15_000);
    write::header_block(&mut peer.out, StreamId::new(5), &block, true, 16_384);
    let error = feed(&mut server, &peer.take()).map_err(|error| error.0);
    assert_eq!(error, Err(Fault::Flood(Flood::ListBytes)));
    assert!(server.memory() < 100_000, "{}", server.memory());
}

/// On a stream that is refused anyway, a bomb is one as well.
#[test]
fn hpack_bomb_on_a_refused_stream() {
    let mut server = server(Config { streams_max: 0, ..Config::default() });
    let mut peer = Peer::client();
    let block = bomb(&mut peer, 15_000);
    write::header_block(&mut peer.out, StreamId::new(1), &block, true, 16_384);
    let error = feed(&mut server, &peer.take()).map_err(|error| error.0);
    assert_eq!(error, Err(Fault::Flood(Flood::ListBytes)));
}

/// A request with a field of 4,000 bytes, which is named again `times` times.
fn bomb(peer: &mut Peer, times: usize) -> Vec<u8> {
    let value = "x".repeat(4000);
    let mut block = peer.block(&[
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/"),
        (":authority", "a"),
        ("x-bomb", &value),
    ]);
    block.resize(block.len() + times, 0xbe);
    block
}

/// A peer is suspect before its flood ends the connection, and no longer once it has done something useful.
#[test]
fn floods_are_suspect_before_they_end() {
    let mut server = server(Config::default());
    let mut peer = Peer::client();
    let mut ping = |server: &mut Connection<Server>| {
        write::ping(&mut peer.out, [0; 8], false);
        feed(server, &peer.take()).expect("it is no flood yet");
        output(server);
    };
    (0..490).for_each(|_| ping(&mut server));
    assert!(!server.is_suspect());
    (0..20).for_each(|_| ping(&mut server));
    assert!(server.is_suspect());
    peer.get(1, &[], true);
    feed(&mut server, &peer.take()).expect("a request is right");
    assert!(!server.is_suspect());
}

#[test]
fn window_exhaustion_and_data_dribble() {
    // CVE-2019-9517 and 9511: the client asks, opens no window, or one byte at a time.
    let config = Config::default();
    let mut server = server(config);
    let mut peer = Peer::client();
    peer.settings(&[(id::INITIAL_WINDOW_SIZE, 0)]);
    for count in 0..100 {
        peer.get(odd(count), &[], true);
    }
    feed(&mut server, &peer.take()).expect("requests are right");
    output(&mut server);
    let body = [b'x'; 100_000];
    for count in 0..100 {
        let stream = StreamId::new(odd(count));
        server.respond(stream, 200, false, |_| {}).expect("it is open");
        assert_eq!(server.send_data(stream, &body, true), Ok(0));
        server.want(stream, true);
    }
    assert_eq!(server.next_to_send(), None);
    assert!(server.output().len() < 2000);
    let outcome = (0..20_000).find_map(|_| {
        peer.window(1, 1);
        let outcome = feed(&mut server, &peer.take());
        let _ = server.send_data(StreamId::new(1), b"x", false);
        output(&mut server);
        outcome.err()
    });
    assert_eq!(outcome.map(|error| error.0), Some(Fault::Flood(Flood::ControlFrames)));
}

#[test]
fn a_reader_that_is_slow_stops_bodies() {
    let mut server = server(Config::default());
    let mut peer = Peer::client();
    peer.settings(&[(id::INITIAL_WINDOW_SIZE, 1 << 30)]).window(0, 1 << 30).get(1, &[], true);
    feed(&mut server, &peer.take()).expect("a request is right");
    let stream = StreamId::new(1);
    server.respond(stream, 200, false, |_| {}).expect("it is open");
    while !server.output_is_full() {
        assert_eq!(server.send_data(stream, &[b'x'; 16_384], false), Ok(16_384));
    }
    assert!(server.output().len() < 64 * 1024 + 2 * 16_384);
    let unsent = server.output().len();
    server.output_sent(unsent - 10);
    assert!(!server.output_is_full());
    assert_eq!(server.output().len(), 10);
    server.output_sent(10);
    assert_eq!(server.output(), b"");
}

#[test]
fn a_slow_reader_may_ping_for_as_long_as_it_likes() {
    let mut server = server(Config::default());
    let mut peer = Peer::client();
    peer.settings(&[(id::INITIAL_WINDOW_SIZE, 1 << 30)]).window(0, 1 << 30).get(1, &[], true);
    feed(&mut server, &peer.take()).expect("a request is right");
    let stream = StreamId::new(1);
    server.respond(stream, 200, false, |_| {}).expect("it is open");
    for _ in 0..10_000 {
        // The output is never empty.
        server.send_data(stream, &[b'x'; 1024], false).expect("it is open");
        write::ping(&mut peer.out, [0; 8], false);
        feed(&mut server, &peer.take()).expect("it reads");
        server.output_sent(1024 + 9 + 16);
    }
    assert!(!server.output().is_empty());
    // One that sends more than it reads is stopped.
    let outcome = (0..20_000).find_map(|_| {
        write::ping(&mut peer.out, [0; 8], false);
        server.output_sent(1);
        feed(&mut server, &peer.take()).err()
    });
    assert!(outcome.is_some() && server.output().len() < 40_000, "{}", server.output().len());
}

#[test]
fn useful_clients_may_send_as_many_control_frames_as_they_need() {
    // WINDOW_UPDATE for each DATA frame, both for the stream and for the connection.
    let (count, fault, _) = flood(Config::default(), true, |peer, server, count| {
        if count == 0 {
            return peer.get(1, &[], true).done();
        }
        let stream = StreamId::new(1);
        let _ = server.respond(stream, 200, false, |_| {});
        let _ = server.send_data(stream, &[b'x'; 2048], false);
        peer.window(0, 2048).window(1, 2048);
    });
    assert_eq!((count, fault), (20_000, None));
}

#[test]
fn budgets_are_full_again_after_a_while() {
    let mut server = server(Config::default());
    let mut peer = Peer::client();
    feed(&mut server, &peer.take()).expect("it begins");
    for second in (0..1000).step_by(10) {
        for _ in 0..900 {
            write::ping(&mut peer.out, [0; 8], true);
        }
        let now = Duration::from_secs(second + 10);
        feed_at(&mut server, &peer.take(), now).expect("90 a second are few");
    }
}

#[test]
fn interim_responses_without_end() {
    let mut client = super::support::client(Config::default(), 1);
    let mut peer = Peer::server();
    let outcome = (0..20_000).find_map(|_| {
        peer.head(1, &[(":status", "103")], false);
        feed(&mut client, &peer.take()).err()
    });
    assert_eq!(outcome.map(|error| error.0), Some(Fault::Flood(Flood::ControlFrames)));
}
