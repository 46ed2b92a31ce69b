//! The rules of the cache: what goes in are facts and times, what comes out is what to do. No I/O, no clock.
//!
//! | file | what |
//! |---|---|
//! | `decision` | what a request does until it has an answer or asks the origin, a state machine; what becomes of the origin's response |
//! | `facts` | what the decisions go by: directives, demands, what is there |
//! | `policy` | may this response be stored, until when, and as which variant |
//! | `identity` | which bytes belong to one representation |
//! | `rfc9111` | ages, responses to HEAD and unsafe methods as RFC 9111 has them |
//! | `coverage` | how much of a fill a request needs |
//! | `conditions` | how `If-Modified-Since` is compared |

pub(crate) mod conditions;
pub(crate) mod coverage;
pub(crate) mod decision;
pub(crate) mod facts;
pub(crate) mod identity;
pub(crate) mod policy;
pub(crate) mod rfc9111;
