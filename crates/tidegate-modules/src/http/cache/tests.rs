//! Tests of the pure parts: turn, policy, meta, resume, rounds, bodies of fills. What they come to over sockets is tested by the cases.

mod join;
mod lookup;
mod meta;
mod parts;
mod policy;
mod purge;
mod resume;
mod rounds;
mod serve;
mod turn;
