//! A client of Redis and Valkey, for state that several servers share.
//!
//! The commands are sent by tasks of a background thread, over one connection without
//! waiting for replies in between. What the commands mean is in the crates above.
//!
//! | file | content |
//! |---|---|
//! | address | URLs |
//! | resp | the protocol: words out, replies in; no I/O |
//! | command | commands and scripts |
//! | engine | the queue in front of the connection, states, figures |
//! | connection, run | the connection, and the task that has it |
//! | key | names of records in the engine |
//! | s3 | signatures and credentials of S3-compatible stores; no I/O |
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod address;
mod command;
mod connection;
mod engine;
mod key;
pub mod resp;
mod run;
pub mod s3;

pub use address::{Address, HOSTS_MAX, Host, Login, PORT_DEFAULT, SENTINEL_PORT_DEFAULT, Sentinel};
pub use command::{Command, Script};
pub use engine::{
    CallError, Engine, EngineSettings, Figures, QUEUE_BYTES_MAX, QUEUE_MAX, Reply, State,
};
pub use key::write_key;
pub use resp::Value;
pub use run::{Lines, run};
