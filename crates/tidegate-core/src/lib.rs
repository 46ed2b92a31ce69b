//! The engine: the exchange, its way through phases and filters, and the frozen plan that decides all of it.
//! It knows no socket, no protocol, no module and no directive.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod blocking;
pub mod body;
pub mod body_buffer;
pub mod byte_body;
pub mod client;
pub mod counters;
pub mod credentials;
pub mod debug_log;
pub mod error_log;
pub mod error_page;
pub mod exchange;
pub mod figures;
pub mod file_path;
pub mod file_read;
mod future;
pub mod generated;
mod handler;
pub mod host_names;
mod ids;
pub mod instance;
mod level;
pub mod listen;
pub mod location;
mod location_set;
pub mod log_context;
pub mod log_file;
pub mod machine;
pub mod main_settings;
mod name_table;
pub mod pace;
pub mod pause;
mod phase_cursor;
pub mod phases;
pub mod plan;
pub mod pool_choice;
mod refused;
pub mod regex;
pub mod request_body;
pub mod session;
pub mod settings;
pub mod status_zone;
pub mod step;
pub mod subrequest;
pub mod syslog;
pub mod temp_file;
pub mod template;
#[cfg(test)]
mod tests;
pub mod timeline;
pub mod variables;
pub mod written;

pub use body::{Body, BodyError, BodyStream, Chunk, FileRange, Resident};
pub use error_log::Level;
pub use exchange::Exchange;
pub use future::LocalFuture;
pub use phases::{Phase, PhaseResult};
pub use refused::Refused;
pub use step::{Jump, Step};
pub use template::Template;
