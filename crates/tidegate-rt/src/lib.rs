//! Worker loop, clock, timers, sockets, blocking pools: the only door to tokio.
//!
//! The other crates never name `tokio::net`, `spawn`, timers, clocks or random sources; so a
//! simulated world can stand behind this one.
#![forbid(unsafe_code)]

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
