//! Tidegate as a library: the whole server, with your own handlers in it.
//!
//! ```no_run
//! use std::process::ExitCode;
//! use tidegate::{Request, Response, Server};
//!
//! fn hello(request: Request) -> tidegate::Result {
//!     Ok(Response::text(format!("Hello, {}!\n", request.client_address())))
//! }
//!
//! fn main() -> ExitCode {
//!     Server::new().handler("hello", hello).run()
//! }
//! ```
//! With `location / { handler hello; }` in its configuration this program responds to requests. It takes nginx's
//! command line and runs any configuration that `tidegate` runs. Handlers may block: they run on the threads of a pool,
//! never on an event loop. [`Handler`] documents their arguments and limits.
#![forbid(unsafe_code)]
#![warn(missing_docs)]
// Without a master some functions of generations, files and threads are not used.
#![cfg_attr(windows, allow(dead_code))]

#[cfg(unix)]
mod activation;
#[cfg(unix)]
mod claims;
mod cli;
mod configuration;
mod control;
mod demo;
mod events;
mod generation;
#[cfg(unix)]
mod handover;
mod listening;
mod manual;
#[cfg(unix)]
mod master;
mod options;
mod panics;
mod pidfile;
mod report;
mod resources;
mod rights;
mod signal_command;
mod single;
mod start;
mod start_error;
mod supervisor;
mod tune;
mod version;
mod worker;

use std::process::ExitCode;
use std::sync::Arc;

pub use tidegate_handler::{
    Bytes, Error, Handler, Request, RequestBody, Response, Result, Writer, with_variables,
};

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: tidegate_os::allocator::Allocator = tidegate_os::allocator::Allocator;

/// The server, and the handlers that its configuration may name.
#[derive(Default)]
#[must_use]
pub struct Server {
    handlers: Vec<(String, Arc<dyn Handler>)>,
}

impl Server {
    /// Makes a server without handlers, like the program `tidegate`.
    pub fn new() -> Server {
        Server::default()
    }

    /// Registers a handler under a name, for `handler NAME;`.
    pub fn handler(mut self, name: &str, handler: impl Handler) -> Server {
        self.handlers.push((name.to_owned(), Arc::new(handler)));
        self
    }

    /// Runs the program by its command line, to its end. Call it first in `main`: daemons fork, which threads would not
    /// survive, and so does the first worker, unless there are threads. Later workers are the same binary, started again.
    pub fn run(self) -> ExitCode {
        tidegate_os::held_signals::hold();
        #[cfg(unix)]
        master::upgrade::remember_parent();
        for (name, handler) in self.handlers {
            tidegate_handler::server::register(&name, handler);
        }
        // Without this an idle connection costs twice its size; where it is not available nothing breaks.
        let _ = tidegate_os::process::use_small_pages();
        cli::run()
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.handlers.iter().map(|(name, _)| name).collect();
        f.debug_struct("Server").field("handlers", &names).finish()
    }
}
