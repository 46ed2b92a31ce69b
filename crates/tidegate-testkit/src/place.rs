//! Where a client connects to, and how scripts write that.

use crate::bell::Failure;
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
    /// A socket file in the case's directory.
    Unix(String),
}

impl Place {
    /// Parses the words after `connect`: `[h2 | stream] [front2]` or `unix NAME`.
    pub(crate) fn of_connect(cursor: &mut Cursor<'_>) -> Result<Place, Failure> {
        if cursor.accept("unix") {
            return Ok(Place::Unix(cursor.string("a socket's name")?));
        }
        let is_new = cursor.accept("h2");
        let is_stream = !is_new && cursor.accept("stream");
        let front = cursor.peek().map_or_else(|| "front".to_owned(), str::to_owned);
        cursor.word();
        Ok(match is_new || is_stream {
            true => Place::Http2 { front, is_new },
            false => Place::Front(front),
        })
    }

    /// Parses the begin of a row: `[h2] [@front2]`.
    pub(crate) fn of_row(cursor: &mut Cursor<'_>) -> Place {
        let is_http2 = cursor.accept("h2");
        let front = cursor.peek().and_then(|word| word.strip_prefix('@')).map(str::to_owned);
        if front.is_some() {
            cursor.word();
        }
        let front = front.unwrap_or_else(|| "front".to_owned());
        match is_http2 {
            true => Place::Http2 { front, is_new: true },
            false => Place::Front(front),
        }
    }
}
