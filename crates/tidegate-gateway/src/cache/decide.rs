//! The rules of the cache: facts and times go in, decisions come out. No I/O, no clock.
//!
//! | file | what |
//! |---|---|
//! | `decision` | the state machine of a request until it has a response or fetches one; the decision about the origin's response |
//! | `facts` | the inputs: directives, demands, stored objects, fills |
//! | `policy` | whether a response may be stored, until when, and as which variant |
//! | `identity` | the bytes that belong to one representation |
//! | `rfc9111` | ages, responses to HEAD and unsafe methods by RFC 9111 |
//! | `coverage` | the number of bytes of a fill that a request needs |
//! | `conditions` | the comparison of `If-Modified-Since` |

pub(crate) mod conditions;
pub(crate) mod coverage;
pub(crate) mod decision;
pub(crate) mod facts;
pub(crate) mod identity;
pub(crate) mod policy;
pub(crate) mod rfc9111;
