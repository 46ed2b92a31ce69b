//! Modules that the `stream` block has alone. Those that `http` has as well are in [`crate::http`]: they
//! prepare sessions beside requests.

pub mod pass;
pub mod reply;
pub mod set;
pub mod ssl_preread;
