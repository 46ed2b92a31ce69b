//! Words to a tree, with included files in their place.

use std::path::{Path, PathBuf};

use crate::diagnostic::Diagnostic;
use crate::loader::Loader;
use crate::source::SourceMap;
use crate::tree::Statement;

/// Deepest nesting of included files. nginx has no limit of its own but open files; the deepest
/// tree seen in practice has four levels.
pub const INCLUDE_DEPTH_MAX: usize = 32;

/// Deepest nesting of blocks, included files counted in. nginx's own directives nest nine levels
/// deep, `location` in `location` aside; it bounds recursion over the tree.
pub const BLOCK_DEPTH_MAX: usize = 100;

/// Reads configurations: files and fragments into one [`SourceMap`], all errors into one list.
pub struct Parser<'a> {
    loader: &'a dyn Loader,
    conf_prefix: PathBuf,
    sources: SourceMap,
    diagnostics: Vec<Diagnostic>,
}

impl<'a> Parser<'a> {
    /// A parser that reads by `loader`. Paths in `include` are relative to `conf_prefix`, the
    /// folder of the main configuration file.
    pub fn new(loader: &'a dyn Loader, conf_prefix: impl Into<PathBuf>) -> Self {
        Parser {
            loader,
            conf_prefix: conf_prefix.into(),
            sources: SourceMap::new(),
            diagnostics: Vec::new(),
        }
    }

    /// Reads a configuration file and all that it includes. What is wrong is added to
    /// [`Parser::diagnostics`]; the result is what could be understood.
    pub fn parse_file(&mut self, path: &Path) -> Vec<Statement> {
        let _ = (self.loader, &self.conf_prefix, path);
        Vec::new()
    }

    /// Reads directives from a text that is no file, as `-g` gives them: `name` is what nginx
    /// prints for the place, `command line`. Blocks are not allowed there.
    pub fn parse_fragment(&mut self, name: &str, text: &[u8]) -> Vec<Statement> {
        let _ = self.sources.add_fragment(name, text.to_vec());
        Vec::new()
    }

    /// The texts read so far.
    pub fn sources(&self) -> &SourceMap {
        &self.sources
    }

    /// What is wrong so far.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// The texts and what is wrong with them.
    pub fn finish(self) -> (SourceMap, Vec<Diagnostic>) {
        (self.sources, self.diagnostics)
    }
}
