//! Fills: one fetch from an origin that is stored and read at the same time.
//!
//! | file | what |
//! |---|---|
//! | `task` | the detached task of a fill: asks, judges the head, stores |
//! | `pump` | the body's way into the cache |
//! | `resume` | the rest of a body whose origin broke off |
//! | `wakeups` | how often the readers of a fill are woken |
//! | `disk_slots` | who may work on a cache's files at a time |

pub mod disk_slots;
pub mod pump;
pub mod resume;
pub mod task;
pub mod wakeups;
