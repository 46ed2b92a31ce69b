//! HTTP/2 on `tidegate-h2`: a client, a closed loop of streams over several connections, hostile clients, and an origin.
//!
//! The measured servers share no code with the client's role, and the same client visits all of them.

pub(crate) mod client;
pub(crate) mod core_loop;
pub(crate) mod hostile;
pub(crate) mod load;
pub(crate) mod origin;
#[cfg(test)]
mod tests;
