//! HTTP/1 towards origins: sending a request, reading a head, streaming a body.

pub(crate) mod body;
pub(crate) mod framing;
pub(crate) mod receive;
pub(crate) mod scratch;
pub(crate) mod send;
