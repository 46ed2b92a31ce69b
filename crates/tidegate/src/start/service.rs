//! `tidegate service install|remove|run [OPTION…]`: the server as a service of Windows.
//!
//! ```text
//! tidegate service install -p C:/tidegate -c conf/nginx.conf
//! net start tidegate
//! ```
//! The manager starts the service with the options that it was installed with; stopping it lets requests finish, as `-s
//! quit` does. `-s` works on a service as on any other server.

use std::ffi::OsString;
use std::process::ExitCode;
use std::{fmt, io};

use tidegate_os::process::{self, Signal};
use tidegate_os::service;

use crate::cli;
use crate::configuration::Origin;
use crate::options::{self, OptionError};

/// The first argument.
pub(crate) const ARGUMENT: &str = "service";
/// The service's name.
const NAME: &str = "tidegate";
const SHOWN: &str = "Tidegate web server";
const USAGE: &str =
    "Usage: tidegate service install|remove|run [-p prefix] [-c file] [-e file] [-g directives]";

/// Runs the action of the second argument; the others are the server's options.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    let what = arguments.get(2).and_then(|argument| argument.to_str()).unwrap_or_default();
    let rest = arguments.get(3..).unwrap_or_default();
    let done = match what {
        "install" => install(rest),
        "remove" => service::remove(NAME).map_err(ServiceError::System),
        "run" => serve(arguments.first().cloned().unwrap_or_default(), rest),
        _ => Err(ServiceError::Usage),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tidegate service: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Why the program is not installed or run as a service.
#[derive(Debug)]
enum ServiceError {
    /// The second argument is unknown.
    Usage,
    Options(OptionError),
    Path(String, io::Error),
    System(io::Error),
    /// The program was not started by the service manager.
    Manager(io::Error),
}

impl fmt::Display for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServiceError::Usage => f.write_str(USAGE),
            ServiceError::Options(error) => error.fmt(f),
            ServiceError::Path(path, error) => write!(f, "{path}: {error}"),
            ServiceError::System(error) => error.fmt(f),
            ServiceError::Manager(error) => {
                write!(f, "{error}; \"run\" is for the service manager")
            }
        }
    }
}

impl std::error::Error for ServiceError {}

fn install(rest: &[OsString]) -> Result<(), ServiceError> {
    let options = options::parse(rest.iter().cloned()).map_err(ServiceError::Options)?;
    let program = std::env::current_exe().map_err(ServiceError::System)?;
    // Services start in a directory of the system, so paths are made absolute.
    let origin = Origin::new(&options);
    let mut line = vec![
        program.to_string_lossy().into_owned(),
        ARGUMENT.to_owned(),
        "run".to_owned(),
        "-p".to_owned(),
        absolute(&origin.prefix)?,
        "-c".to_owned(),
        absolute(&origin.file.to_string_lossy())?,
    ];
    for (option, value) in [("-e", &options.error_log), ("-g", &options.directives)] {
        if let Some(value) = value {
            line.extend([option.to_owned(), value.clone()]);
        }
    }
    let line: Vec<String> = line.iter().map(|word| quoted(word)).collect();
    service::install(NAME, SHOWN, &line.join(" ")).map_err(ServiceError::System)
}

fn absolute(path: &str) -> Result<String, ServiceError> {
    let absolute = std::path::absolute(path);
    let absolute = absolute.map_err(|error| ServiceError::Path(path.to_owned(), error))?;
    let written = tidegate_os::path::as_written(absolute.as_os_str().as_encoded_bytes());
    Ok(String::from_utf8_lossy(&written).into_owned())
}

/// Quotes a word so that programs parse it from their command line: in quotation marks, those within it escaped by a
/// backslash, and backslashes before either doubled.
fn quoted(word: &str) -> String {
    let mut out = String::from("\"");
    let mut backslashes = 0;
    for letter in word.chars() {
        match letter {
            '\\' => backslashes += 1,
            '"' => {
                out.extend(std::iter::repeat_n('\\', backslashes + 1));
                backslashes = 0;
            }
            _ => backslashes = 0,
        }
        out.push(letter);
    }
    out.extend(std::iter::repeat_n('\\', backslashes));
    out.push('"');
    out
}

fn serve(program: OsString, rest: &[OsString]) -> Result<(), ServiceError> {
    let arguments: Vec<OsString> = std::iter::once(program).chain(rest.iter().cloned()).collect();
    let work = move || cli::run_with(arguments) == ExitCode::SUCCESS;
    service::run(NAME, stop, work).map_err(ServiceError::Manager)
}

/// Ends the server gracefully, as `-s quit`.
fn stop() {
    let _ = process::kill(std::process::id(), Signal::Quit);
}
