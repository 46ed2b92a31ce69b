//! The parts that HTTP/2 and HTTP/3 share, without I/O and without a clock.
//!
//! Both protocols carry lists of fields that are compressed by tables of earlier fields, and both have the same rules
//! for the fields. `tidegate-h2` (HPACK) and `tidegate-h3` (QPACK) add the representations of their own
//! compression, frames and connections. Neither depends on the other.
//!
//! | module | contents | source |
//! |---|---|---|
//! | [`head`] | from decoded fields to a checked [`Head`]; [`Fields`] takes the fields to be sent | RFC 9113 8, RFC 9114 4 |
//! | [`huffman`] | the Huffman code of strings | RFC 7541 5.2, RFC 9204 4.1.2 |
//! | [`integer`] | integers with a prefix | RFC 7541 5.1, RFC 9204 4.1.1 |
//! | [`string`] | string literals, plain or Huffman coded | RFC 7541 5.2, RFC 9204 4.1.2 |
//! | [`table`] | a dynamic table | RFC 7541 2.3.2, RFC 9204 3.2 |
//! | [`priority`] | urgency and order of responses | RFC 9218 |
//! | [`budget`] | a limit on the rate of work that a peer causes | – |
//! | [`flood`] | the budgets of a connection in both protocols | – |
//!
//! # Example
//!
//! ```
//! use tidegate_fields::head::{Head, HeadRules, Reader, Scratch, Section};
//! use tidegate_fields::{DecodedField, Known};
//!
//! let (mut head, mut scratch) = (Head::default(), Scratch::default());
//! let rules = HeadRules::default();
//! let mut reader = Reader::new(&mut head, &mut scratch, &rules, Section::Request);
//! for (name, value) in
//!     [(":method", "GET"), (":scheme", "https"), (":path", "/"), (":authority", "example.com")]
//! {
//!     let (name, value) = (name.as_bytes(), value.as_bytes());
//!     let known = Known::of(name);
//!     reader.field(DecodedField { known, name, value, never_indexed: false, is_static: true });
//! }
//! assert_eq!(reader.finish(), Ok(()));
//! assert_eq!(head.text(head.line), b"GET / HTTP/2.0");
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod budget;
mod field;
pub mod flood;
pub mod head;
pub mod huffman;
pub mod integer;
pub mod priority;
pub mod string;
pub mod table;

pub use budget::Budget;
pub use field::{DecodedField, ENTRY_OVERHEAD_BYTES, FieldEncoder, Indexing};
pub use flood::FloodBudgets;
pub use head::{Fields, Head, HeadFault, RequestLine};
pub use priority::Priority;
pub use tidegate_codec::Known;
