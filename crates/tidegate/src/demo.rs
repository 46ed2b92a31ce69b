//! `tidegate demo`: a server with a slow origin behind it, which shows streaming from a cache. Needs neither root nor
//! files; all data is below a fresh directory for temporary files.

mod origin;
mod pages;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use lexopt::Arg;
use tidegate_conf::SourceMap;

use crate::configuration::{self, Origin};
use crate::generation::{FIRST_GENERATION, Generation};
use crate::options::Options;
use crate::report::Report;
use crate::single;
use crate::start_error::StartError;

const PORT_DEFAULT: u16 = 8080;
/// Names for the directory that are tried before giving up.
const DIRECTORIES_MAX: u32 = 100;

/// Runs the demonstration until it is interrupted.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    let port = match port(arguments) {
        Ok(Some(port)) => port,
        Ok(None) => {
            println!("Usage: tidegate demo [--port number]");
            return ExitCode::SUCCESS;
        }
        Err(error) => return fail(&error),
    };
    if let Err(error) = check_port(port) {
        return fail(&error);
    }
    let directory = match Directory::create() {
        Ok(directory) => directory,
        Err(error) => return fail(&DemoError::Directory(error)),
    };
    match serve(&directory.path, port) {
        Ok(code) => code,
        Err(error) => fail(&error),
    }
}

fn serve(directory: &Path, port: u16) -> Result<ExitCode, DemoError> {
    let origin_port = origin::start().map_err(DemoError::Origin)?;
    let file = directory.join("nginx.conf");
    let write = |path: &Path, text: String| {
        std::fs::write(path, text).map_err(|error| DemoError::File(path.to_owned(), error))
    };
    write(&file, pages::configuration(directory, port, origin_port))?;
    let html = directory.join("html");
    std::fs::create_dir(&html).map_err(|error| DemoError::File(html.clone(), error))?;
    write(&html.join("index.html"), pages::welcome(port))?;

    let options = Options {
        prefix: Some(directory.to_string_lossy().into_owned()),
        file: Some(file),
        error_log: Some("error.log".to_owned()),
        ..Options::default()
    };
    let origin = Origin::new(&options);
    let report = Report::open(&origin, false);
    let mut parsed = configuration::read(&origin);
    let built = Generation::build(&origin, &mut parsed, FIRST_GENERATION, Arc::default());
    report_diagnostics(&report, &parsed.diagnostics, &parsed.sources);
    let built = built.ok_or(DemoError::Configuration)?;
    let (first, checked) = built
        .open_sockets(&mut Vec::new(), |error| report.failure(&error.to_string()))
        .map_err(|_| DemoError::Bind)?;
    println!("{}", pages::instructions(directory, port));
    single::run(origin, first, checked, false).map_err(DemoError::Start)
}

fn report_diagnostics(
    report: &Report,
    diagnostics: &[tidegate_conf::Diagnostic],
    sources: &SourceMap,
) {
    report.diagnostics(diagnostics, sources);
}

/// Returns the port of `--port`, or the default; `None` for `--help`.
fn port(arguments: &[OsString]) -> Result<Option<u16>, DemoError> {
    let mut port = PORT_DEFAULT;
    let mut parser = lexopt::Parser::from_args(arguments);
    while let Some(argument) = parser.next().map_err(DemoError::Arguments)? {
        match argument {
            Arg::Long("port") | Arg::Short('p') => {
                let value = parser.value().map_err(DemoError::Arguments)?;
                let number = value.to_str().and_then(|text| text.parse().ok());
                port = number
                    .filter(|port| *port > 0)
                    .ok_or_else(|| DemoError::Port(value.to_string_lossy().into_owned()))?;
            }
            Arg::Long("help") | Arg::Short('h') => return Ok(None),
            other => return Err(DemoError::Arguments(other.unexpected())),
        }
    }
    Ok(Some(port))
}

/// Reports a taken port at once: a demonstration does not wait for it.
fn check_port(port: u16) -> Result<(), DemoError> {
    match std::net::TcpListener::bind(("127.0.0.1", port)) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(DemoError::PortTaken(port)),
        Err(error) => Err(DemoError::Listen(port, error)),
    }
}

/// Why the demonstration does not run.
#[derive(Debug)]
enum DemoError {
    Arguments(lexopt::Error),
    /// The value of `--port` is not a port.
    Port(String),
    PortTaken(u16),
    Listen(u16, io::Error),
    /// No directory for temporary files can be made.
    Directory(io::Error),
    Origin(io::Error),
    File(PathBuf, io::Error),
    /// The built-in configuration is wrong; its mistakes have been reported.
    Configuration,
    /// No socket; the reason has been reported.
    Bind,
    Start(StartError),
}

impl fmt::Display for DemoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DemoError::Arguments(error) => error.fmt(f),
            DemoError::Port(text) => write!(f, "invalid port {text}"),
            DemoError::PortTaken(port) => {
                let other = port.checked_add(1).unwrap_or(PORT_DEFAULT);
                write!(
                    f,
                    "port {port} is taken by another program; try another one:\n  \
                     tidegate demo --port {other}\n  make run ARGUMENTS=\"--port {other}\""
                )
            }
            DemoError::Listen(port, error) => write!(f, "cannot listen on port {port}: {error}"),
            DemoError::Directory(error) => {
                write!(f, "cannot make a directory for temporary files: {error}")
            }
            DemoError::Origin(error) => write!(f, "cannot start the origin: {error}"),
            DemoError::File(path, error) => write!(f, "{}: {error}", path.display()),
            DemoError::Configuration => {
                f.write_str("the built-in configuration is invalid: this is a defect of Tidegate")
            }
            DemoError::Bind => f.write_str("cannot listen"),
            DemoError::Start(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for DemoError {}

/// A fresh directory that is removed when this is dropped.
struct Directory {
    path: PathBuf,
}

impl Directory {
    fn create() -> io::Result<Directory> {
        let base = std::env::temp_dir();
        let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
        for number in 0..DIRECTORIES_MAX {
            let path = base.join(format!("tidegate-demo-{}-{number}", std::process::id()));
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(Directory { path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn fail(error: &DemoError) -> ExitCode {
    eprintln!("tidegate demo: {error}");
    ExitCode::FAILURE
}
