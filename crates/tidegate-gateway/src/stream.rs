//! Sessions of TCP and UDP that are passed on, and the health checks of their servers.

pub(crate) mod health_check;
pub(crate) mod proxy;
