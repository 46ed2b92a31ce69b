//! Tests of the parts that decide figures, and one run of the load against the origin.

mod depth;
mod figures;
mod parsing;
mod smoke;
mod study;
mod tuning;
mod wine;
