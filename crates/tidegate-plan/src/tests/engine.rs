//! The engine with plans that are built from texts.

mod error_log;
mod error_page;
mod file_path;
mod listen;
mod location;
mod log_context;
mod phases;
mod pool_choice;
mod session;
mod settings;
mod subrequest;
mod template;
mod variables;
