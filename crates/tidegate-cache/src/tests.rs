//! Tests of the store and its fills: see the modules.

mod damage;
mod evictions;
mod faults;
mod fills;
mod formats;
mod hooks;
mod journals;
mod lists;
mod models;
mod purges;
mod stores;
mod support;
mod threads;
