//! Handlers that are WebAssembly components: programs for the world `wasi:http/proxy` (0.2), in whatever
//! language they were written, run on the threads of a pool like handlers in Rust.
//!
//! ```
//! use tidegate_wasm::{Application, Programs, Settings};
//!
//! let bytes = b"(not a component)";
//! let problem = Programs::default().program(bytes, false, 1).map(|_| ()).unwrap_err();
//! assert!(problem.to_string().contains("expected"));
//! # let _ = |program| Application::new(program, Settings::default());
//! ```
//! A [`Program`] is compiled once; an [`Application`] runs it as its [`Settings`] say. Each request has an
//! instance of its own, with a memory that begins empty, unless instances may be used again. An instance
//! sees nothing but its request, clocks and random numbers, and what its settings give it: variables of
//! the environment, directories. There is no network.
//!
//! What it does wrong ends its own request: a trap, too much memory, used-up fuel. One that nobody waits
//! for any more is interrupted, whether it computes or waits.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod application;
mod call;
mod failure;
mod host;
mod limits;
mod output;
mod program;
mod request;
#[cfg(test)]
mod tests;
mod watch;

use std::path::PathBuf;

pub use application::Application;
pub use failure::ProgramError;
pub use program::{Program, Programs};

/// Largest memory of an instance when the configuration does not say.
pub const MEMORY_BYTES_DEFAULT: usize = 64 << 20;

/// How an application's instances run, and what they are given.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Most bytes of an instance's memories and tables together.
    pub memory_bytes_max: usize,
    /// Instructions, about, that a request may take. The program must have been compiled for that.
    pub fuel: Option<u64>,
    /// Requests that an instance serves, one after the other; at least one.
    pub requests_max: u32,
    /// Variables of the environment that instances see: names and values.
    pub environment: Vec<(String, String)>,
    /// Directories that instances see.
    pub directories: Vec<Directory>,
}

/// A directory that instances see.
#[derive(Clone, Debug)]
pub struct Directory {
    /// The directory as the server sees it.
    pub host: PathBuf,
    /// Its name for the instance.
    pub guest: String,
    /// Whether instances may change what is in it.
    pub writable: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            memory_bytes_max: MEMORY_BYTES_DEFAULT,
            fuel: None,
            requests_max: 1,
            environment: Vec::new(),
            directories: Vec::new(),
        }
    }
}
