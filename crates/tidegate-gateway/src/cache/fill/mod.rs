//! Fills: one fetch from an origin that is stored and read at the same time.
//!
//! | file | what |
//! |---|---|
//! | `task` | the detached task of a fill: asks, judges the head, stores |
//! | `origin` | what the origin is asked, the first time and again for the rest of a body |
//! | `pump` | the body's way into the cache |
//! | `flush` | from memory into the file |
//! | `successor` | the fill that has taken the place of another one |
//! | `wakeups` | how often the readers of a fill are woken |
//! | `disk_slots` | who may work on a cache's files at a time |

pub(super) mod disk_slots;
pub(super) mod flush;
pub(super) mod origin;
pub(super) mod pump;
pub(super) mod successor;
pub(super) mod task;
pub(super) mod wakeups;
