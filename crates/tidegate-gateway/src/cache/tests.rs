//! Tests of the pure parts: decision, policy, meta, identity, wakeups, bodies of fills. Their behaviour over sockets
//! is tested by the end-to-end cases.

mod coverage;
mod decision;
mod identity;
mod lookup;
mod meta;
mod part_reader;
mod policy;
mod purge;
mod ranges;
mod rfc9111;
mod serve;
mod wakeups;
