//! TLS termination.
use crate::conn::Entrance;
use crate::front::Front;
use crate::io::Io;
use std::rc::Rc;
use std::time::Duration;
use tidegate_core::client::Connection;
use tidegate_rt::net::Stream;

/// Handshake.
pub async fn accept(
    _front: &Rc<Front>,
    _stream: Rc<Stream>,
    _info: Connection,
    _entrance: Entrance,
    _input: Vec<u8>,
    _limit: Duration,
) -> Option<(Io, Connection, Vec<u8>)> {
    None
}
