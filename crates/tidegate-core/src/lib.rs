//! The core: what a request is, how it goes through phases and filters, and how a configuration
//! becomes the plan that decides all of it. Knows no socket, no protocol and no module but its own.
#![forbid(unsafe_code)]

pub mod blocking;
pub mod body;
pub mod builder;
pub mod byte_body;
pub mod client;
pub mod counters;
pub mod credentials;
pub mod error_log;
pub mod error_page;
pub mod exchange;
pub mod family;
pub mod file_path;
pub mod file_read;
pub mod gathered;
pub mod generated;
mod handler;
pub mod host_names;
pub mod http_core;
mod ids;
mod level;
pub mod listen;
mod loaded_modules;
pub mod location;
mod location_set;
pub mod log_context;
pub mod log_file;
mod machine;
pub mod main_core;
pub mod main_settings;
pub mod module;
pub mod pace;
pub mod pause;
mod phase_cursor;
pub mod phases;
pub mod plan;
pub mod pool_choice;
pub mod regex;
pub mod request_body;
pub mod session;
pub mod settings;
pub mod step;
pub mod stream_core;
pub mod subrequest;
pub mod syslog;
pub mod temp_file;
pub mod template;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
pub mod variables;

/// A future of the connection's own thread.
pub type LocalFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + 'a>>;

pub use body::{Body, BodyError, BodyStream, Chunk, FileRange, Resident};
pub use error_log::Level;
pub use exchange::Exchange;
pub use module::{Entry, ErasedModule, Module};
pub use phases::{Answer, Phase};
pub use step::{Jump, Step};
pub use template::Template;
