//! Tests of the pure parts: decision, policy, meta, identity, wakeups, bodies of fills. What they come to over sockets is tested by the cases.

mod coverage;
mod decision;
mod identity;
mod lookup;
mod meta;
mod policy;
mod purge;
mod ranges;
mod rfc9111;
mod serve;
mod wakeups;
