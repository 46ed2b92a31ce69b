//! Tests of the pure parts: decision, policy, meta, resume, wakeups, bodies of fills. What they come to over sockets is tested by the cases.

mod coverage;
mod decision;
mod lookup;
mod meta;
mod policy;
mod purge;
mod ranges;
mod resume;
mod rfc9111;
mod serve;
mod wakeups;
