//! Sessions of TCP and UDP that are passed on, and the checks of their servers.

pub mod health_check;
pub mod proxy;
