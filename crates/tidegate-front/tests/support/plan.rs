//! Plans made of configuration texts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_conf::{Bundle, BundleLoader, Parser, SourceMap, Span};
use tidegate_core::log_file::LogFile;
use tidegate_core::plan::Plan;
use tidegate_plan::module::{Diagnostic, ErasedModule};
use tidegate_plan::{Environment, ReloadState, Resources, build};

struct Files;

impl Resources for Files {
    fn read(&self, path: &Path) -> std::io::Result<Vec<u8>> {
        std::fs::read(path)
    }

    fn log_file(&self, path: &Path) -> std::io::Result<Arc<LogFile>> {
        let file = tidegate_core::log_file::open_append(path)?;
        Ok(Arc::new(LogFile::new(path.to_path_buf(), file)))
    }
}

pub(super) type Built = Result<(Plan, Vec<Diagnostic>), Vec<Diagnostic>>;

/// Compiles a text, with relative names below `prefix`, which ends with a slash.
pub(super) fn compile(
    text: String,
    modules: &[&'static dyn ErasedModule],
    prefix: &str,
    reload_state: &ReloadState,
) -> (Built, SourceMap) {
    let file = PathBuf::from("/test.conf");
    let bundle =
        Bundle { files: vec![(file.clone(), text.into_bytes().into())], globs: Vec::new() };
    let loader = BundleLoader::new(bundle);
    let mut parser = Parser::new(&loader, "/");
    let statements = parser.parse_file(&file);
    let (sources, diagnostics) = parser.finish();
    assert!(diagnostics.is_empty(), "{}", diagnostics[0].render(&sources, false));
    let environment = Environment {
        modules,
        prefix,
        conf_directory: prefix.as_ref(),
        error_log: "stderr",
        layout: &tidegate_os::layout::PREFIX,
        sources: &sources,
        resources: &Files,
        reload_state,
        parsed: reload_state,
        generation: 1,
        is_checked: false,
        shown: None,
    };
    (build(&environment, statements, Span::NONE), sources)
}

/// Returns the plan of a text without mistakes.
pub(super) fn whole((built, sources): (Built, SourceMap)) -> Arc<Plan> {
    match built {
        Ok((mut plan, _)) => {
            plan.open().expect("a plan that can be used");
            Arc::new(plan)
        }
        Err(diagnostics) => panic!("{}", diagnostics[0].render(&sources, false)),
    }
}
