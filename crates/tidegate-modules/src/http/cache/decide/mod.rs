//! The rules of the cache: what goes in are facts and times, what comes out is what to do. No I/O, no clock.
//!
//! | file | what |
//! |---|---|
//! | `decision` | one request's conversation with the cache, a state machine |
//! | `policy` | may this response be stored, until when, and as which variant |
//! | `coverage` | how much of a fill a request needs |
//! | `conditions` | how `If-Modified-Since` is compared |

pub mod conditions;
pub mod coverage;
pub mod decision;
pub mod policy;
