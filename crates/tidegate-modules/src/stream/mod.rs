//! Modules that the `stream` block has alone. Those that `http` has as well are in [`crate::http`]: they
//! prepare sessions beside requests.

pub mod health_check;
pub mod pass;
pub mod proxy;
pub mod reply;
pub mod set;
pub mod ssl_preread;
