//! Handlers that are WebAssembly components: programs in any language for the world `wasi:http/proxy` (0.2). They run
//! on the threads of a pool like handlers in Rust.
//!
//! ```
//! use tidegate_wasm::{Application, Programs, Settings};
//!
//! let bytes = b"(not a component)";
//! let problem = Programs::default().program(bytes, false, 1).map(|_| ()).unwrap_err();
//! assert!(problem.to_string().contains("expected"));
//! # let _ = |program| Application::new(program, Settings::default());
//! ```
//! A [`Program`] is compiled once; an [`Application`] runs it with its [`Settings`]. Each request has an instance of
//! its own with empty memory, unless instances may be reused. An instance has access to its request, clocks and
//! random numbers, and to the environment variables and directories of its settings. There is no network.
//!
//! A failure of an instance ends its own request: a trap, too much memory, used-up fuel. An abandoned request is
//! interrupted, whether its instance computes or waits.
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

/// Most memory of an instance without `memory=`, in bytes.
pub const MEMORY_BYTES_DEFAULT: usize = 64 << 20;

/// Limits and access rights of an application's instances.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Most bytes of an instance's memories and tables together.
    pub memory_bytes_max: usize,
    /// Fuel of a request, about one unit per instruction. The program must be compiled as `metered`.
    pub fuel: Option<u64>,
    /// Most requests that an instance serves, one after the other; at least one.
    pub requests_max: u32,
    /// Environment variables of instances: names and values.
    pub environment: Vec<(String, String)>,
    /// Directories that instances have access to.
    pub directories: Vec<Directory>,
}

/// A directory that instances have access to.
#[derive(Clone, Debug)]
pub struct Directory {
    /// The directory's path on the server.
    pub host: PathBuf,
    /// The directory's name for the instance.
    pub guest: String,
    /// Whether instances may write to it.
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
