//! Nothing holds signals back on this system: events with their names are made when the process can react to them, and
//! the console's end it by their default action before.

/// Does nothing.
pub fn hold() {}

/// Does nothing.
pub fn release() {}

/// Does nothing.
pub fn end_on_request() {}

/// Does nothing.
pub fn prepare_handlers() {}
