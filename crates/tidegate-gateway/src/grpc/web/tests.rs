//! Bodies in both directions, piece by piece. Whole requests are tested by the end-to-end cases.

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tidegate_codec::Headers;
use tidegate_core::Body;
use tidegate_core::body::{BodyError, BodyStream, Chunk};

use super::response::WebBody;

/// A body of these pieces, and the trailers behind it.
struct Pieces(VecDeque<&'static [u8]>, Option<Headers>);

impl BodyStream for Pieces {
    fn poll_chunk(&mut self, _context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        Poll::Ready(self.0.pop_front().map(|piece| match piece {
            b"broken" => Err(BodyError::Incomplete),
            piece => Ok(Chunk::Bytes(Bytes::from_static(piece))),
        }))
    }

    fn trailers(&mut self) -> Option<Headers> {
        self.1.take()
    }
}

fn check(is_text: bool, pieces: &[&'static [u8]], status: Option<&[u8]>, expected: &[&[u8]]) {
    let trailers = status.map(|status| {
        let mut trailers = Headers::new();
        trailers.push(b"Grpc-Status", status);
        trailers
    });
    let source = Pieces(pieces.iter().copied().collect(), trailers);
    let mut body = WebBody::new(Body::Stream(Box::new(source)), is_text);
    let mut context = Context::from_waker(Waker::noop());
    let mut received = Vec::new();
    while let Poll::Ready(Some(piece)) = body.poll_chunk(&mut context) {
        match piece {
            Ok(Chunk::Bytes(bytes)) => received.push(bytes.to_vec()),
            Ok(_) => received.push(b"other".to_vec()),
            Err(_) => {
                received.push(b"broken".to_vec());
                break;
            }
        }
    }
    assert_eq!(received, expected, "{pieces:?}");
    assert!(body.trailers().is_none());
}

#[test]
fn pieces_leave_as_they_arrive() {
    let frame = b"\x80\0\0\0\x10grpc-status: 0\r\n";
    check(false, &[b"\0\0\0", b"\0\x01a"], Some(b"0"), &[b"\0\0\0", b"\0\x01a", frame]);
    check(false, &[], Some(b"0"), &[frame]);
    check(false, &[b"\0\0\0\0\0"], None, &[b"\0\0\0\0\0"]);
    check(false, &[b"\0\0", b"broken"], Some(b"0"), &[b"\0\0", b"broken"]);
    let frame = b"gAAAABBncnBjLXN0YXR1czogMA0K";
    check(true, &[b"\0\0\0", b"\0\x01a", b"\0"], Some(b"0"), &[b"AAAA", b"AAFh", b"AA==", frame]);
}
