//! QUIC (RFC 9000) on the event loop of a thread, without knowledge of the protocol over it.
//!
//! The transport is `quinn_proto`, which does no I/O and knows no clock; none of its types is public here. A thread has
//! one [`Endpoint`] for each of its sockets. Its one task receives datagrams in batches, passes them to their
//! connections, reports [`Event`]s to what serves a connection ([`Served`]) on the spot, and sends what all of them have
//! to send. A connection is an entry of a table, not a task.
//!
//! ```text
//! datagrams → Endpoint → Connection → Event → Served
//!                 ▲                             │ read, write, finish, close
//!                 └──── what is to be sent ◄────┘
//! ```
//!
//! | file | content |
//! |---|---|
//! | endpoint | the task of a socket: receives, serves, sends; clients that wait for what they begin with |
//! | connection | streams and state of one connection, for what serves it |
//! | due | the order in which connections are served |
//! | application | what an endpoint serves |
//! | event | what is reported |
//! | hello | the hello of a client whose connection has not begun |
//! | numbers | connection numbers that carry their thread |
//! | address | the client's address: the last one that was validated |
//! | timers | the deadlines of all connections |
//! | waiting | the streams that wait for room, in their order |
//! | settings | limits and keys |
//! | tokens | address validation tokens, each for one use |
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod address;
mod application;
mod connection;
mod due;
mod endpoint;
mod event;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzzing;
mod hello;
mod numbers;
mod settings;
mod timers;
mod tokens;
mod waiting;

pub use application::{Admission, Application, Packet, Preparing};
pub use connection::{Connection, Read, StreamEnded};
pub use endpoint::Endpoint;
pub use event::{Closed, ClosedBy, Direction, Event, Served, StreamId};
pub use settings::{ClientSettings, Keys, Limits, ServerSettings};
