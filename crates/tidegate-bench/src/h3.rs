//! HTTP/3 on `tidegate-quic` and the frames and QPACK of `tidegate-h3`: a closed loop of streams over several
//! connections, hostile clients, and a relay that loses datagrams.
//!
//! The client's role is here alone: the measured servers share no code with it, and the same client visits all of them.

pub(crate) mod hostile;
pub(crate) mod load;
pub(crate) mod message;
mod peer;
pub(crate) mod relay;
#[cfg(test)]
mod tests;
