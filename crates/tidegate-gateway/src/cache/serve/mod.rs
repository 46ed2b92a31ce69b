//! From the cache to the client.
//!
//! | file | what |
//! |---|---|
//! | `entry` | stored objects as answers |
//! | `fill_body` | fills as answers, while they arrive |
//! | `verified` | bodies that are compared with their checksums on the way |
//! | `fallback` | the rest of a body whose fill went on without a reader |
//! | `wait` | waits with an eye on the client |
//! | `rfc9111` | `Age`, unsafe methods and HEAD as RFC 9111 has them |

pub(super) mod entry;
pub(super) mod fallback;
pub(super) mod fill_body;
pub(super) mod rfc9111;
pub(super) mod verified;
pub(super) mod wait;
