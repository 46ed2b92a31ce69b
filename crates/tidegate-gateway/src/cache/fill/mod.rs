//! Fills: one fetch from an origin that is stored and read at the same time.
//!
//! | file | what |
//! |---|---|
//! | `task` | the detached task of a fill: asks, judges the head, stores |
//! | `origin` | what the origin is asked, the first time and again |
//! | `pump` | the body's way into the cache |
//! | `flush` | from memory into the file |
//! | `successor` | the fill that has taken the place of another one |
//! | `resume` | the rest of a body whose origin broke off |
//! | `wakeups` | how often the readers of a fill are woken |
//! | `disk_slots` | who may work on a cache's files at a time |

pub mod disk_slots;
pub mod flush;
pub mod origin;
pub mod pump;
pub mod resume;
pub mod successor;
pub mod task;
pub mod wakeups;
