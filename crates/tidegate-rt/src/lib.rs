//! Worker loop, clock, timers, sockets, blocking pools: the only door to tokio.
//!
//! The other crates never name `tokio::net`, `spawn`, timers, clocks or random sources; so a
//! simulated world can stand behind this one.
//!
//! | module | what |
//! |---|---|
//! | [`worker`] | a thread with a loop, its tasks, and errands from other threads |
//! | [`net`] | sockets, streams, datagrams, and the poller of idle connections |
//! | [`timer`], [`clock`] | waiting for a moment; what time it is, and its texts |
//! | [`blocking`] | pools of threads for what would stop a loop |
//! | [`mail`], [`sync`] | bounded mail between threads; what may be used of tokio directly |
//! | [`share`], [`turn`] | what a task may take of a turn of its loop; how long turns are |
//! | [`drain`] | counts what still runs, and has it come to an end |
//! | [`freshness`] | whether what the system was asked a moment ago may answer a request |
//! | [`random`], [`signal`] | random numbers; signals of the system |
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod blocking;
pub mod clock;
mod date;
pub mod drain;
pub mod freshness;
pub mod mail;
pub mod net;
pub mod random;
pub mod share;
pub mod signal;
pub mod sync;
pub mod timer;
pub mod turn;
pub mod worker;

pub use worker::{
    Handle, Panic, Remote, Task, Worker, block_on, spawn_local, unconstrained, yield_now,
};

#[cfg(test)]
mod tests;
