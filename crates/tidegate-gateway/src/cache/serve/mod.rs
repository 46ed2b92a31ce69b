//! From the cache to the client.
//!
//! | file | what |
//! |---|---|
//! | `entry` | stored objects as answers |
//! | `fill_body` | fills as answers, while they arrive |
//! | `verified` | bodies that are compared with their checksums on the way |
//! | `fallback` | the rest of a body whose fill went on without a reader |
//! | `wait` | waits with an eye on the client |
//! | `passed` | unsafe methods and HEAD, which change what is stored |

pub(super) mod entry;
pub(super) mod fallback;
pub(super) mod fill_body;
pub(super) mod passed;
pub(super) mod verified;
pub(super) mod wait;
