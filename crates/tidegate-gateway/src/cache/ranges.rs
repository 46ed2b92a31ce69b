//! `proxy_cache_ranges`: ranges that are far ahead of the bytes that have arrived, or for which
//! `proxy_cache_max_range_offset` forbids fetching the complete object, are fetched separately and stored.
//!
//! An object in parts is a head without a body under the object's own key (so that any removal of the object removes
//! its parts, too), and a file for each part, whose key contains an id from that head. All parts have one strong
//! validator and one size. The fill of the complete object takes them up on its way, and replaces the head in the
//! end.
//!
//! | file | what |
//! |---|---|
//! | `plan` | numbers and keys |
//! | `object` | an object whose parts can be fetched |
//! | `response` | the response to a request for a range |
//! | `probe` | the first range request for an unknown object |
//! | `part_reader` | reads a part for the fill of the complete object |
//! | `part_fetch` | fetches parts from an origin |
//! | `assemble` | a body for a client, from parts, the running fill and the origin |

pub(super) mod assemble;
pub(super) mod object;
pub(super) mod part_fetch;
pub(super) mod part_reader;
pub(super) mod plan;
pub(super) mod probe;
pub(super) mod response;
