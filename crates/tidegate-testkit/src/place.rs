//! Where a client connects to, and how scripts write that.

use crate::bell::Failure;
use crate::client::http3::words::Options;
use crate::words::Cursor;

/// Where a client connects to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A port of the server: `front`, `front2`, …
    Front(String),
    /// The same by HTTP/2.
    Http2 {
        /// The port's name.
        front: String,
        /// A new connection; else a stream on the newest one of the case to that port.
        is_new: bool,
    },
    /// A UDP port of the server by HTTP/3: `u1` …, or a relay `r1` ….
    Http3 {
        /// The port's name.
        front: String,
        /// How a new connection is opened; none for a stream on the newest one of the case to that port.
        options: Option<Options>,
    },
    /// A socket file in the case's directory.
    Unix(String),
}

impl Place {
    /// Parses the words after `connect`: `[h2 | stream] [front2]`, `h3 [u1] OPTION…` or `unix NAME`.
    pub(crate) fn of_connect(cursor: &mut Cursor<'_>) -> Result<Place, Failure> {
        if cursor.accept("unix") {
            return Ok(Place::Unix(cursor.string("a socket's name")?));
        }
        if cursor.accept("h3") {
            let front = front(cursor, "u1");
            return Ok(Place::Http3 { front, options: Some(Options::parse(cursor)?) });
        }
        let is_new = cursor.accept("h2");
        let is_stream = !is_new && cursor.accept("stream");
        let front = front(cursor, "front");
        Ok(match is_new || is_stream {
            true if is_of_udp(&front) => Place::Http3 { front, options: None },
            true => Place::Http2 { front, is_new },
            false => Place::Front(front),
        })
    }

    /// Parses the begin of a row: `[h2] [@front2]` or `h3 [@u1]`.
    pub(crate) fn of_row(cursor: &mut Cursor<'_>) -> Place {
        let is_http2 = cursor.accept("h2");
        let is_http3 = !is_http2 && cursor.accept("h3");
        let front = cursor.peek().and_then(|word| word.strip_prefix('@')).map(str::to_owned);
        if front.is_some() {
            cursor.word();
        }
        if is_http3 {
            let front = front.unwrap_or_else(|| "u1".to_owned());
            return Place::Http3 { front, options: Some(Options::default()) };
        }
        let front = front.unwrap_or_else(|| "front".to_owned());
        match is_http2 {
            true => Place::Http2 { front, is_new: true },
            false => Place::Front(front),
        }
    }
}

/// The port's name that may be next.
fn front(cursor: &mut Cursor<'_>, default: &str) -> String {
    let front = cursor.peek().unwrap_or(default).to_owned();
    cursor.word();
    front
}

/// Whether a name is that of a UDP port or of a relay.
fn is_of_udp(name: &str) -> bool {
    name.starts_with(['u', 'r'])
}
