//! Modules that only the `stream` block has. Modules that `http` has as well are in [`crate::http`]: they prepare
//! sessions beside requests.

pub(crate) mod pass;
pub(crate) mod reply;
pub(crate) mod set;
pub(crate) mod ssl_preread;
