//! Event loops, clock, timers, sockets, thread pools: the only access to tokio.
//!
//! The other crates never name `tokio::net`, `spawn`, timers, clocks or random sources, so a simulation can replace
//! this crate.
//!
//! | module | what |
//! |---|---|
//! | [`worker`] | a thread with an event loop, its tasks, and closures from other threads |
//! | [`net`] | sockets, streams, datagrams, and the poller of idle connections |
//! | [`timer`], [`clock`] | timers; the time, and its text forms |
//! | [`blocking`] | thread pools for work that would block an event loop |
//! | [`mail`], [`sync`] | bounded mail between threads; what may be used of tokio directly |
//! | [`share`], [`iteration`] | the time share of a task in an event-loop iteration; the lengths of iterations |
//! | [`drain`] | counts the work that still runs, and asks it to end |
//! | [`batch_epoch`] | whether a recent query of the system is still valid for a request |
//! | [`random`], [`signal`] | random numbers; signals to the process |
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod batch_epoch;
pub mod blocking;
pub mod clock;
mod date;
pub mod drain;
pub mod iteration;
pub mod mail;
pub mod net;
pub mod random;
pub mod share;
pub mod signal;
pub mod sync;
pub mod timer;
pub mod worker;

pub use worker::{
    Handle, Panic, Remote, Task, Worker, block_on, spawn_local, unconstrained, yield_now,
};

#[cfg(test)]
mod tests;
