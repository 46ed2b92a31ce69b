//! From the command line's file to a plan: the steps that master and worker share, each with its own sources of files.

use std::path::{Path, PathBuf};

use tidegate_conf::{
    Bundle, BundleLoader, Diagnostic, FsLoader, Loader, Parser, RecordingLoader, SourceMap, Span,
    Statement,
};
use tidegate_core::plan::Plan;
use tidegate_plan::{Environment, ReloadState, Resources, build};

use tidegate_os::layout::CHOSEN;
use tidegate_os::path;

use crate::options::Options;
use crate::start_error::StartError;

/// The sources of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The prefix of relative paths; ends with `/`.
    pub prefix: String,
    pub file: PathBuf,
    /// `-e`, or the built-in default.
    pub error_log: String,
    /// `-g`.
    pub directives: String,
}

impl Origin {
    pub(crate) fn new(options: &Options) -> Origin {
        let prefix = match &options.prefix {
            Some(prefix) => path::as_written(prefix.as_bytes()),
            None => CHOSEN.prefix(),
        };
        let mut prefix = String::from_utf8_lossy(&prefix).into_owned();
        if !prefix.ends_with('/') {
            prefix.push('/');
        }
        let file = match &options.file {
            Some(file) => Path::new(&prefix).join(file),
            None => Path::new(&prefix).join(CHOSEN.conf),
        };
        let error_log = options.error_log.clone().unwrap_or_else(|| CHOSEN.error_log.to_owned());
        let directives = options.directives.clone().unwrap_or_default();
        Origin { prefix, file, error_log, directives }
    }
}

/// A parsed configuration, before directives are interpreted.
pub(crate) struct Parsed {
    statements: Vec<Statement>,
    pub sources: SourceMap,
    pub diagnostics: Vec<Diagnostic>,
    /// The files as they were read, for building the plan again from the same bytes.
    pub bundle: Bundle,
}

/// Reads the file with all that it includes, and the directives of the command line.
pub(crate) fn read(origin: &Origin) -> Parsed {
    let loader = RecordingLoader::new(FsLoader);
    let mut parsed = parse(origin, &loader);
    parsed.bundle = loader.into_bundle();
    parsed
}

/// As [`read`], from files that were read before: those on disk may have changed since.
pub(crate) fn read_again(origin: &Origin, bundle: Bundle) -> Parsed {
    parse(origin, &BundleLoader::new(bundle))
}

/// Makes a plan ready for use that was built as a check, of these files.
///
/// # Errors
/// Something cannot be opened.
pub(crate) fn open(plan: &mut Plan, origin: &Origin, bundle: Bundle) -> Result<(), StartError> {
    plan.open().map_err(|error| {
        let sources = read_again(origin, bundle).sources;
        StartError::Configuration(error.first_line(&sources))
    })
}

fn parse(origin: &Origin, loader: &dyn Loader) -> Parsed {
    let directory = origin.file.parent().unwrap_or(Path::new("/"));
    let mut parser = Parser::new(loader, directory);
    let mut statements = Vec::new();
    if !origin.directives.is_empty() {
        statements = parser.parse_fragment("command line", origin.directives.as_bytes());
    }
    statements.extend(parser.parse_file(&origin.file));
    let (sources, diagnostics) = parser.finish();
    Parsed { statements, sources, diagnostics, bundle: Bundle::default() }
}

/// The inputs for building a plan, besides the configuration.
pub(crate) struct PlanInputs<'a> {
    pub resources: &'a dyn Resources,
    pub reload_state: &'a ReloadState,
    /// See [`Environment::parsed`].
    pub parsed: &'a ReloadState,
    pub generation: u64,
    /// See [`Environment::is_checked`].
    pub is_checked: bool,
}

impl Parsed {
    /// Whether a directive in any block has a name with this ending.
    pub(crate) fn has_directive_ending(&self, end: &str) -> bool {
        fn any(statements: &[Statement], end: &[u8]) -> bool {
            statements.iter().any(|statement| {
                statement.name.bytes.ends_with(end) || any(statement.children(), end)
            })
        }
        any(&self.statements, end.as_bytes())
    }

    /// Returns the statements of the main context, with those of the command line in front.
    pub(crate) fn statements(&self) -> &[Statement] {
        &self.statements
    }

    /// Returns the first line of the first mistake; empty when there is none.
    pub(crate) fn first_mistake(&self) -> String {
        let first = self.diagnostics.iter().find(|found| found.severity.is_fatal());
        first.map_or_else(String::new, |found| found.first_line(&self.sources))
    }

    /// Builds the plan for use; see [`Parsed::plan`].
    pub(crate) fn opened_plan(&mut self, origin: &Origin, inputs: &PlanInputs<'_>) -> Option<Plan> {
        let mut plan = self.plan(origin, inputs)?;
        match plan.open() {
            Ok(()) => Some(plan),
            Err(error) => {
                self.diagnostics.push(error);
                None
            }
        }
    }

    /// Builds the plan, of which the statements are used up. All diagnostics end up in [`Parsed::diagnostics`], sorted; without a plan at
    /// least one of them is fatal.
    pub(crate) fn plan(&mut self, origin: &Origin, inputs: &PlanInputs<'_>) -> Option<Plan> {
        let mut plan = None;
        // After a parse error further diagnostics would only be its consequences.
        if !self.diagnostics.iter().any(|diagnostic| diagnostic.severity.is_fatal()) {
            let environment = Environment {
                modules: tidegate_modules::MODULES,
                prefix: &origin.prefix,
                conf_directory: origin.file.parent().unwrap_or(Path::new("/")),
                error_log: &origin.error_log,
                layout: CHOSEN,
                sources: &self.sources,
                resources: inputs.resources,
                reload_state: inputs.reload_state,
                parsed: inputs.parsed,
                generation: inputs.generation,
                is_checked: inputs.is_checked,
                shown: None,
            };
            let statements = std::mem::take(&mut self.statements);
            let found = match build(&environment, statements, Span::NONE) {
                Ok((built, found)) => {
                    plan = Some(built);
                    found
                }
                Err(found) => found,
            };
            self.diagnostics.extend(found);
        }
        Diagnostic::sort(&mut self.diagnostics, &self.sources);
        plan
    }
}
