//! Fills: one fetch from an origin that is stored and read at the same time.
//!
//! | file | what |
//! |---|---|
//! | `task` | the detached task of a fill: fetches, decides about the head, stores |
//! | `from_peer` | a fill from the server that owns the key |
//! | `from_tier` | a fill from the second tier, in a race with the origin |
//! | `origin` | the requests to the origin: the first one, and those for the rest of a body |
//! | `pump` | copies the body into the cache |
//! | `flush` | writes from memory into the file |
//! | `renew` | a stored response that the origin has confirmed |
//! | `successor` | the fill that has replaced another one |
//! | `uncacheable` | times in which requests of a key do not wait for each other |
//! | `wakeups` | how often the readers of a fill are woken |
//! | `disk_slots` | the limit of concurrent work on a cache's files |

pub(super) mod disk_slots;
pub(super) mod flush;
mod from_peer;
mod from_tier;
pub(super) mod origin;
pub(super) mod pump;
mod renew;
pub(super) mod successor;
pub(super) mod task;
pub(super) mod uncacheable;
pub(super) mod wakeups;
