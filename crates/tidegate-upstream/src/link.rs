//! The way to an origin that a response's body is read from.

use crate::connection::OriginConnection;
use crate::h2::OriginStream;

/// A connection of one request, or a stream of one that is shared.
pub(crate) enum Link {
    Own(Box<OriginConnection>),
    Stream(Box<OriginStream>),
}
