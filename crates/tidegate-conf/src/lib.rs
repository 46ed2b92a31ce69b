//! nginx's configuration language: lexer, parser, includes, spans, diagnostics and the directive
//! registry.
//!
//! The steps from a configuration's bytes to its values:
//!
//! ```text
//! bytes → [`Parser`] → [`Statement`]s with [`Span`]s → [`Registry::check`] → a module's setter,
//! which reads its words through [`Args`]
//! ```
//!
//! Every error is a [`Diagnostic`]: its first line is the line that nginx would print, because tools read it;
//! below it are an excerpt of the source and a suggestion. The crate reads files only through [`Loader`].
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod args;
mod bundle;
mod contexts;
mod diagnostic;
mod dump;
pub mod file_mode;
mod foreign;
mod format;
mod fuzz;
mod known;
mod lexer;
mod loader;
pub mod network;
mod parameters;
mod parser;
mod print;
mod registry;
mod settings;
mod source;
mod tree;
mod units;

pub use args::{Args, NameLookup, once};
pub use bundle::{Bundle, BundleError, BundleLoader, RecordingLoader};
pub use contexts::Contexts;
pub use diagnostic::{Diagnostic, Severity};
pub use dump::{dump, without_key};
pub use format::format_text;
#[doc(hidden)]
pub use fuzz::fuzz_config;
pub use known::{KnownDirective, known_directives};
pub use loader::{FsLoader, Loader, NamedFiles};
pub use parser::{BLOCK_DEPTH_MAX, INCLUDE_DEPTH_MAX, Parser};
pub use print::{print_statements, print_word};
pub use registry::{Arity, Directive, GUESSES_MAX, Kind, Registry, Row, closest, row, with_prefix};
pub use settings::{NoEffect, Setter, Setting, no_effect, optional, setting};
pub use source::{FileId, SourceFile, SourceMap, Span};
pub use tree::{Block, Statement, Word};
pub use units::{parse_milliseconds, parse_number, parse_offset, parse_seconds, parse_size};
