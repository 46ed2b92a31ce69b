//! Tests of the program from outside: processes, signals, files, command line.
#![cfg(unix)]

mod bucket;
mod caches;
mod command_line;
mod demo;
mod discovery;
mod figures;
mod files;
mod gateways;
mod limits;
mod mistakes;
mod process;
mod purges;
mod reloads;
mod restarts;
mod rings;
mod scrapes;
mod signals;
mod stores;
mod supervised;
mod support;
mod tiers;
