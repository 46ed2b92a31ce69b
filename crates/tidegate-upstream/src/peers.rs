//! A group of servers (`upstream`, or one address of `proxy_pass`) and the choice among them. This module knows no
//! protocol: HTTP, its gateways and `stream` use it alike.
//!
//! The state of a group is shared by all threads: a small lock held for a few comparisons. Groups of one fixed server
//! take no lock. A choice among up to 64 servers checks each of them, in nginx's order; among more it descends a
//! tree, in O(log n).

mod check;
mod choice;
mod former;
mod group;
mod hashes;
mod member;
mod options;
pub mod owners;
mod peer;
pub(crate) mod process_queue;
mod slot;
mod state;
mod tier;
mod tree;

#[cfg(test)]
mod tests;

pub use check::{CheckRule, Health};
pub use choice::Choice;
pub use group::{Group, GroupOptions, Lease};
pub use member::{Member, MemberAddress, ServerName};
pub use options::{
    BalancingMethod, Keepalive, Mutability, Outcome, ServerOptions, Stickiness, TimeKind,
};
pub(crate) use peer::InFlight;
pub use peer::{Peer, ResponseTimes, Statistics};
pub use state::SlotView;

pub use crate::address::address_text;
