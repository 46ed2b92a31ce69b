//! The machine against a simulated authority: its path, kills between any two steps, faults, renewals.

mod authority;
mod faults;
mod kills;
mod path;
mod renewals;
mod world;
