//! Delivery from the cache to the client.
//!
//! | file | what |
//! |---|---|
//! | `entry` | responses from stored objects |
//! | `fill_body` | responses from fills, while they arrive, and the rest for a reader that was left behind |
//! | `verified` | bodies that are verified against their checksums while they are sent |
//! | `wait` | waits that end when the client leaves |
//! | `passed` | unsafe methods and HEAD, which change stored responses |

pub(super) mod entry;
pub(super) mod fill_body;
pub(super) mod passed;
pub(super) mod verified;
pub(super) mod wait;
