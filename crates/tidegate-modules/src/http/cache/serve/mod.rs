//! From the cache to the client.
//!
//! | file | what |
//! |---|---|
//! | `entry` | heads and bodies of stored objects and of fills |
//! | `verified` | bodies that are compared with their checksums on the way |
//! | `fallback` | the rest of a body whose fill went on without a reader |
//! | `wait` | waits with an eye on the client |
//! | `rfc9111` | `Age`, unsafe methods and HEAD as RFC 9111 has them |

pub mod entry;
pub mod fallback;
pub mod rfc9111;
pub mod verified;
pub mod wait;
