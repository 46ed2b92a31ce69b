//! `proxy_cache_ranges`: ranges that are far ahead of what has arrived, or that
//! `proxy_cache_max_range_offset` keeps from fetching the whole, are fetched by themselves and kept.
//!
//! An object in parts is a head without a body under the object's own key (so that whatever removes the
//! object removes its parts, too), and a file for each part, found by a number that the head bears. All
//! parts have one strong validator and one size. The fill of the whole takes them up on its way, and
//! replaces the head in the end.
//!
//! | file | what |
//! |---|---|
//! | `plan` | numbers and keys |
//! | `object` | an object of which parts can be had |
//! | `answer` | the answer to a request for a range |
//! | `probe` | the first part of an object of which nothing is known |
//! | `part_reader` | out of a part, to the fill of the whole |
//! | `part_fetch` | from the origin into parts |
//! | `assemble` | out of parts, the running fill and the origin, to a client |

pub(super) mod answer;
pub(super) mod assemble;
pub(super) mod object;
pub(super) mod part_fetch;
pub(super) mod part_reader;
pub(super) mod plan;
pub(super) mod probe;
