//! From the cache to the client.
//!
//! | file | what |
//! |---|---|
//! | `entry` | stored objects as answers |
//! | `fill_body` | fills as answers, while they arrive, and the rest for a reader who was left behind |
//! | `verified` | bodies that are compared with their checksums on the way |
//! | `wait` | waits with an eye on the client |
//! | `passed` | unsafe methods and HEAD, which change what is stored |

pub(super) mod entry;
pub(super) mod fill_body;
pub(super) mod passed;
pub(super) mod verified;
pub(super) mod wait;
