//! Limits: what a hostile client can cause, and where it ends.

use std::time::Duration;

use super::support::{
    CONTROL, ENCODER, GET, POST, code_of, data, feed, frame, headers, headers_by, server,
};
use crate::frame::kind;
use crate::qpack::Encoder;
use crate::{Config, ConnectionError, ErrorCode, Fault, Flood};

const NOW: Duration = Duration::ZERO;

fn flood(flood: Flood) -> ConnectionError {
    ConnectionError(Fault::Flood(flood))
}

#[test]
fn frames_without_content() {
    for (stream, bytes) in [
        (0, frame(0x21, b"")),
        (0, data(b"")),
        (CONTROL, frame(0x21, b"abc")),
        (CONTROL, frame(kind::MAX_PUSH_ID, b"\x00")),
        (CONTROL, frame(kind::PRIORITY_UPDATE, b"\x00u=1")),
    ] {
        let mut server = server(Config { control_frames_max: 100, ..Config::default() });
        assert!(feed(&mut server, 0, &headers(&POST), false).is_ok());
        assert!(feed(&mut server, CONTROL, b"\x00\x04\x00", false).is_ok());
        assert!(feed(&mut server, stream, &bytes.repeat(100), false).is_ok());
        // A head and bytes of a body earn some back.
        assert!(feed(&mut server, 4, &headers(&GET), true).is_ok());
        assert!(feed(&mut server, 0, &data(&[b'x'; 4 * 256]), false).is_ok());
        assert!(feed(&mut server, stream, &bytes.repeat(20), false).is_ok());
        let error = feed(&mut server, stream, &bytes, false).expect_err("a flood");
        assert_eq!(error, flood(Flood::ControlFrames));
        assert_eq!(error.code(), ErrorCode::EXCESSIVE_LOAD);
    }
}

#[test]
fn unknown_streams() {
    let mut server = server(Config { control_frames_max: 100, ..Config::default() });
    for number in 0..100 {
        assert!(feed(&mut server, 2 + 4 * number, b"\x21", number % 2 == 0).is_ok());
    }
    assert_eq!(code_of(&mut server, 402, b"\x21", false), Some(ErrorCode::EXCESSIVE_LOAD));
    let mut server = super::support::server(Config::default());
    for number in 0..6 {
        assert_eq!(feed(&mut server, 2 + 4 * number, b"\x40", false), Ok(vec![]));
    }
    assert_eq!(feed(&mut server, 26, b"\x40", false), Err(flood(Flood::Streams)));
}

#[test]
fn streams_count_until_they_are_closed() {
    let mut server = server(Config { streams_max: 2, ..Config::default() });
    for stream in [0, 4] {
        assert!(feed(&mut server, stream, &headers(&GET), false).is_ok());
        assert!(server.reset_received(stream, ErrorCode::NO_ERROR, NOW).is_ok());
    }
    let refused = Ok(vec!["8 refused H3_REQUEST_REJECTED".to_owned()]);
    assert_eq!(feed(&mut server, 8, &headers(&GET), false), refused);
    server.close(0, ErrorCode::REQUEST_CANCELLED);
    assert!(feed(&mut server, 12, &headers(&GET), false).is_ok_and(|events| events.len() == 1));
    assert_eq!(server.streams(), 2);
}

#[test]
fn rapid_resets() {
    let mut server = server(Config { streams_max: 4, ..Config::default() });
    let mut cancel = |stream: u64, responds: bool, now: Duration| {
        feed(&mut server, stream, &headers(&GET), false)?;
        if responds {
            let _ = server.respond(stream, 200, true, &mut Vec::new(), |_| {});
        }
        let event = server.reset_received(stream, ErrorCode::REQUEST_CANCELLED, now);
        server.close(stream, ErrorCode::REQUEST_CANCELLED);
        event.map(|_| ())
    };
    for number in 0..8 {
        assert_eq!(cancel(4 * number, false, NOW), Ok(()));
    }
    // A response that was sent earns one.
    assert_eq!(cancel(32, true, NOW), Ok(()));
    let later = Duration::from_secs(10);
    for number in 9..17 {
        assert_eq!(cancel(4 * number, false, later), Ok(()));
    }
    assert_eq!(cancel(68, false, later), Err(flood(Flood::Resets)));
}

#[test]
fn large_sections_are_refused_without_reading_them() {
    let mut server = server(Config::default());
    let mut frame_header = Vec::new();
    crate::frame::write::header(&mut frame_header, kind::HEADERS, 1 << 40);
    let malformed = vec!["0 malformed: header list too large".to_owned()];
    assert_eq!(feed(&mut server, 0, &frame_header, false), Ok(malformed));
    assert_eq!(feed(&mut server, 0, &[0; 100_000], false), Ok(vec![]));
    assert!(server.memory() < 4096, "{}", server.memory());
    // The list is limited as well, behind decompression.
    let long = "v".repeat(20_000);
    let list = [&GET[..], &[("x-a", &long), ("x-b", &long)]].concat();
    let malformed = vec!["4 malformed: header list too large".to_owned()];
    assert_eq!(feed(&mut server, 4, &headers(&list), true), Ok(malformed));
}

#[test]
fn incomplete_sections_have_a_sum() {
    let mut server = server(Config { sections_bytes_max: 100_000, ..Config::default() });
    let mut part = Vec::new();
    crate::frame::write::header(&mut part, kind::HEADERS, 60_000);
    part.resize(30_000, 0);
    for stream in [0, 4, 8] {
        assert_eq!(feed(&mut server, stream, &part, false), Ok(vec![]));
    }
    assert!(server.reset_received(4, ErrorCode::NO_ERROR, NOW).is_ok());
    assert_eq!(feed(&mut server, 12, &part, false), Ok(vec![]));
    assert_eq!(feed(&mut server, 16, &part, false), Err(flood(Flood::SectionBytes)));
}

#[test]
fn blocked_streams_have_a_limit() {
    let mut server = server(Config { blocked_streams_max: 2, ..Config::default() });
    // This client does not keep to the limit.
    let mut encoder = Encoder::new(4096, true);
    encoder.limit(4096, 100);
    let list = [&GET[..], &[("x-a", "b")]].concat();
    for stream in [0, 4] {
        let request = headers_by(&mut encoder, stream, &list);
        assert_eq!(feed(&mut server, stream, &request, true), Ok(vec![]));
    }
    let request = headers_by(&mut encoder, 8, &list);
    let code = code_of(&mut server, 8, &request, true);
    assert_eq!(code, Some(ErrorCode::QPACK_DECOMPRESSION_FAILED));
}

#[test]
fn instructions_have_a_budget() {
    let mut server = server(Config { instructions_max: 50, ..Config::default() });
    let insertions = [b"\x02\x3f\xe1\x1f\xc0\x01a".to_vec(), vec![0; 48]].concat();
    assert_eq!(feed(&mut server, ENCODER, &insertions, false), Ok(vec![]));
    assert!(feed(&mut server, 0, &headers(&GET), true).is_ok());
    assert_eq!(feed(&mut server, ENCODER, &[0; 32], false), Ok(vec![]));
    assert_eq!(feed(&mut server, ENCODER, &[0], false), Err(flood(Flood::Instructions)));
}

#[test]
fn confirmations_that_are_not_read_have_a_limit() {
    let config = Config { output_bytes_max: 50, streams_max: 1000, ..Config::default() };
    let mut server = server(config);
    let mut encoder = Encoder::new(4096, true);
    encoder.limit(4096, 100);
    let list = [&GET[..], &[("x-a", "b")]].concat();
    let requests: Vec<_> =
        (0..60).map(|number| headers_by(&mut encoder, 4 * number, &list)).collect();
    let mut insertions = vec![0x02];
    encoder.take_output(&mut insertions);
    assert!(feed(&mut server, ENCODER, &insertions, false).is_ok());
    let mut error = None;
    for (number, request) in requests.iter().enumerate() {
        let stream = 4 * number as u64;
        error = error.or(feed(&mut server, stream, request, true).err());
    }
    assert_eq!(error, Some(flood(Flood::Output)));
}

#[test]
fn late_streams_have_a_limit() {
    for first in [0, 2] {
        let mut server = server(Config::default());
        assert_eq!(feed(&mut server, first + 4 * 128, b"", false), Ok(vec![]));
        // All of these are late, and one more would be.
        assert_eq!(feed(&mut server, first, b"", false), Ok(vec![]));
        let beyond = first + 4 * 131;
        assert_eq!(feed(&mut server, beyond, b"", false), Err(flood(Flood::Streams)));
    }
}
