//! Functions of the builders that compile texts and open files for modules.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use foldhash::quality::RandomState;
use tidegate_conf::{Diagnostic, NamedFiles, Span, Word};
use tidegate_core::blocking;
use tidegate_core::error_log::{Destination, ErrorLog, Level, LogSink};
use tidegate_core::log_file::LogFile;
use tidegate_core::pool_choice::PoolChoice;
use tidegate_core::regex::Regex;
use tidegate_core::settings::full_path;
use tidegate_core::syslog::{Syslog, SyslogError};
use tidegate_core::template::Template;
use tidegate_os::os_error;

use crate::http_core::conf::ErrorLogConf;
use crate::plan_builder::{Environment, PlanBuilder};
use crate::resources::ResourceNames;

/// Compiled expressions by their texts: those that regard case, and those that do not.
type Regexes = [HashMap<Box<[u8]>, Arc<Regex>, RandomState>; 2];

/// Expressions of a configuration that are compiled to machine code, which takes four times as long as compiling alone.
/// Of more than that most are in lists, whose search tries few of them (`RegexList`).
const JIT_MAX: usize = 4_096;

impl PlanBuilder<'_> {
    /// Collects a warning. A warning about inherited settings may occur for several blocks; it is reported once
    /// ([`Diagnostic::sort`]).
    ///
    /// # Errors
    /// The diagnostic itself, when it is an error.
    pub fn note(&mut self, diagnostic: Diagnostic) -> Result<(), Diagnostic> {
        match diagnostic.severity.is_fatal() {
            true => Err(diagnostic),
            false => {
                self.diagnostics.push(diagnostic);
                Ok(())
            }
        }
    }

    /// Compiles a word with variables.
    ///
    /// # Errors
    /// For an invalid name after a `$`, here and in the functions for several words and for parts.
    pub fn template(&mut self, word: &Word) -> Result<Template, Diagnostic> {
        Template::compile(&word.bytes, word.span, &mut self.variables)
    }

    /// Compiles words with variables.
    ///
    /// # Errors
    /// See [`PlanBuilder::template`].
    pub fn templates(&mut self, words: &[Word]) -> Result<Vec<Template>, Diagnostic> {
        words.iter().map(|word| self.template(word)).collect()
    }

    /// Compiles a part of a word with variables.
    ///
    /// # Errors
    /// See [`PlanBuilder::template`].
    pub fn template_text(&mut self, text: &[u8], span: Span) -> Result<Template, Diagnostic> {
        Template::compile(text, span, &mut self.variables)
    }

    /// Compiles a regular expression; its named groups become variables. Equal expressions are compiled once.
    ///
    /// # Errors
    /// For an invalid expression, in nginx's words.
    pub fn regex(
        &mut self,
        text: &[u8],
        caseless: bool,
        span: Span,
    ) -> Result<Arc<Regex>, Diagnostic> {
        if let Some(known) = self.shared::<Regexes>()[usize::from(caseless)].get(text) {
            return Ok(known.clone());
        }
        let shown = String::from_utf8_lossy(text);
        let jit = self.shared::<Regexes>().iter().map(HashMap::len).sum::<usize>() < JIT_MAX;
        let regex = Regex::compile(&shown, caseless, jit, &mut self.variables)
            .map_err(|error| Diagnostic::emerg(error.to_string()).at(span))?;
        let regex = Arc::new(regex);
        self.shared::<Regexes>()[usize::from(caseless)].insert(text.into(), regex.clone());
        Ok(regex)
    }

    /// Returns the thread pool that a directive names; the name may have variables.
    ///
    /// # Errors
    /// There is no pool of a constant name.
    pub fn pool_choice(&mut self, name: &Word) -> Result<PoolChoice, Diagnostic> {
        let template = self.template(name)?;
        let Some(fixed) = template.literal() else { return Ok(PoolChoice::computed(template)) };
        let fixed = String::from_utf8_lossy(fixed).into_owned();
        let needs_directive = fixed != blocking::DEFAULT && fixed != blocking::HANDLERS;
        if needs_directive && !self.main.thread_pools.iter().any(|pool| pool.name == fixed) {
            let message = format!("unknown thread pool \"{fixed}\"");
            let help = "pools are made by `thread_pool NAME threads=N;` at the file's top level";
            return Err(Diagnostic::emerg(message).at(name.span).help(help));
        }
        Ok(PoolChoice::named(fixed))
    }

    /// Returns a path, relative to the prefix.
    pub fn path(&self, path: &str) -> PathBuf {
        full_path(self.environment.prefix, path)
    }

    /// Returns a path, relative to the directory of the configuration file: for certificates, keys and password files,
    /// as in nginx.
    pub fn conf_path(&self, path: &str) -> PathBuf {
        self.environment.conf_directory.join(path)
    }

    /// Reads a file that a directive names, see [`PlanBuilder::conf_path`].
    ///
    /// # Errors
    /// `open() "X" failed (2: No such file or directory)`, at the name's position.
    pub fn read_file(&self, file: &Word) -> Result<Vec<u8>, Diagnostic> {
        let path = self.conf_path(&file.display());
        self.environment.resources.read(&path).map_err(|error| {
            let message = format!("open() \"{}\" failed ({})", path.display(), os_error(&error));
            Diagnostic::emerg(message).at(file.span)
        })
    }

    /// Opens a log file.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn log_file(&self, path: &Path, span: Span) -> Result<Arc<LogFile>, Diagnostic> {
        open_log(self.environment, path, Some(span))
    }

    /// Opens a log file that only its owner may read.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn private_log_file(&self, path: &Path, span: Span) -> Result<Arc<LogFile>, Diagnostic> {
        let opened = self.environment.resources.private_log_file(path);
        opened.map_err(|error| unopened(path, &error).at(span))
    }

    /// Parses a syslog destination, by the parameters after `syslog:`.
    ///
    /// # Errors
    /// A parameter is unknown or invalid, or the server's name has no address.
    pub fn syslog(&self, parameters: &str) -> Result<Syslog, SyslogError> {
        syslog(self.environment, parameters)
    }

    /// Opens the error log of a block.
    ///
    /// # Errors
    /// A file cannot be opened, or a syslog destination is invalid.
    pub fn error_log(&self, confs: &[ErrorLogConf]) -> Result<ErrorLog, Diagnostic> {
        error_log(self.environment, confs)
    }
}

impl NamedFiles for PlanBuilder<'_> {
    fn path_of(&self, name: &str) -> PathBuf {
        self.conf_path(name)
    }

    fn content_of(&self, path: &Path) -> io::Result<Vec<u8>> {
        match self.main.ssl_object_cache_inheritable {
            true => self.environment.resources.read_unless_unchanged(path),
            false => self.environment.resources.read(path),
        }
    }
}

fn open_log(
    environment: &Environment<'_>,
    path: &Path,
    span: Option<Span>,
) -> Result<Arc<LogFile>, Diagnostic> {
    environment.resources.log_file(path).map_err(|error| {
        let diagnostic = unopened(path, &error);
        match span {
            Some(span) => diagnostic.at(span),
            None => diagnostic,
        }
    })
}

fn unopened(path: &Path, error: &io::Error) -> Diagnostic {
    Diagnostic::emerg(format!("open() \"{}\" failed ({})", path.display(), os_error(error)))
}

/// Opens the destinations of `error_log` directives; without any, the built-in default.
pub(crate) fn error_log(
    environment: &Environment<'_>,
    confs: &[ErrorLogConf],
) -> Result<ErrorLog, Diagnostic> {
    if confs.is_empty() {
        let sink = sink(environment, environment.error_log, None)?;
        return Ok(ErrorLog::new(vec![(sink, Level::Error)]));
    }
    let mut destinations = Vec::new();
    for conf in confs {
        let sink = sink(environment, &conf.target, Some(conf.span))?;
        let (level, form, filters) = (conf.level, conf.form, conf.filters.clone());
        destinations.push(Destination { sink, level, form, filters });
    }
    Ok(ErrorLog::of(destinations))
}

/// Parses the parameters after `syslog:`.
fn syslog(environment: &Environment<'_>, parameters: &str) -> Result<Syslog, SyslogError> {
    let resources = environment.resources;
    Syslog::parse(parameters, resources.machine().host_name, &ResourceNames(resources))
}

fn sink(
    environment: &Environment<'_>,
    target: &str,
    span: Option<Span>,
) -> Result<LogSink, Diagnostic> {
    // An empty name is standard error, as in nginx.
    if matches!(target, "stderr" | "") {
        return Ok(LogSink::Stderr);
    }
    if let Some(parameters) = target.strip_prefix("syslog:") {
        let syslog = syslog(environment, parameters).map_err(|error| {
            let diagnostic = Diagnostic::emerg(error.to_string());
            match span {
                Some(span) => diagnostic.at(span),
                None => diagnostic,
            }
        })?;
        return Ok(LogSink::Syslog(Arc::new(syslog)));
    }
    if target.starts_with("memory:") {
        let diagnostic = Diagnostic::emerg("\"memory:\" of \"error_log\" is not supported yet");
        let diagnostic = diagnostic.help("write to a file, to `stderr` or to `syslog:`");
        return Err(match span {
            Some(span) => diagnostic.at(span),
            None => diagnostic,
        });
    }
    let path = full_path(environment.prefix, target);
    open_log(environment, &path, span).map(LogSink::File)
}
