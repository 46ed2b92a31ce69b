//! The command line: what is asked for, and the way to it.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use tidegate_conf::{Diagnostic, FsLoader, RecordingLoader};
use tidegate_core::error_log::Level;

use crate::configuration::{self, Origin, Parsed};
use crate::listening::{self, BindError};
use crate::master::generation::{Built, Generation};
use crate::master::{self, pidfile, upgrade};
use crate::options::{self, Options};
use crate::report::Report;
use crate::worker::process;
use crate::{demo, order, single, version};

/// The first argument of a worker process, which only a master gives.
pub const WORKER_ARGUMENT: &str = "worker-process-of-a-master";
const DEMO_ARGUMENT: &str = "demo";

/// The whole program.
pub fn run() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    match arguments.get(1).and_then(|argument| argument.to_str()) {
        Some(WORKER_ARGUMENT) => return process::run(),
        Some(DEMO_ARGUMENT) => return demo::run(&arguments[2..]),
        _ => {}
    }
    let options = match options::parse(arguments.iter().skip(1).cloned()) {
        Ok(options) => options,
        Err(message) => {
            print(&format!("nginx: {message}"));
            return ExitCode::FAILURE;
        }
    };
    if options.version {
        tell_version(&options);
        if !options.test {
            return ExitCode::SUCCESS;
        }
    }
    let origin = Origin::new(&options);
    let report = Report::open(&origin, options.quiet);
    if let Some(order) = options.order {
        return order::run(&origin, order, &report);
    }
    let loader = RecordingLoader::new(FsLoader);
    let mut parsed = configuration::parse(&origin, &loader);
    let built = Generation::build(&origin, &mut parsed, 1);
    Diagnostic::sort(&mut parsed.diagnostics, &parsed.sources);
    report.diagnostics(&parsed.diagnostics, &parsed.sources);
    if options.test {
        return test(&options, &origin, &parsed, built, &report);
    }
    let Some(mut built) = built else { return ExitCode::FAILURE };
    built.generation.bundle = loader.into_bundle();
    match start(origin, built, arguments, &report) {
        Ok(code) => code,
        Err(message) => {
            report.say(Level::Emerg, &message);
            ExitCode::FAILURE
        }
    }
}

fn tell_version(options: &Options) {
    if options.configure {
        let names: Vec<_> = crate::modules::all().iter().map(|module| module.name()).collect();
        print(&version::configure(&names));
    } else {
        print(&version::line());
    }
    if options.help {
        print(version::HELP);
    }
}

/// `-t` and `-T`.
fn test(
    options: &Options,
    origin: &Origin,
    parsed: &Parsed,
    built: Option<Built>,
    report: &Report,
) -> ExitCode {
    let file = origin.file.display();
    let failed = match &built {
        None => true,
        Some(built) => {
            report.line(&format!("the configuration file {file} syntax is ok"));
            let refused = built.try_sockets();
            refused.iter().for_each(|error| report.say(Level::Emerg, &error.to_string()));
            !refused.is_empty()
        }
    };
    if failed {
        report.failure(&format!("configuration file {file} test failed"));
        return ExitCode::FAILURE;
    }
    report.line(&format!("configuration file {file} test is successful"));
    if options.dump {
        let text = tidegate_conf::dump(&parsed.sources);
        if std::io::stdout().write_all(&text).is_err() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Opens what needs privileges and becomes the server.
fn start(
    origin: Origin,
    built: Built,
    arguments: Vec<OsString>,
    report: &Report,
) -> Result<ExitCode, String> {
    let mut present = upgrade::inherited().map_err(|error| {
        format!("invalid sockets in environment variable {}: {error}", upgrade::VARIABLE)
    })?;
    let inherited = !present.is_empty();
    let tell = |error: &BindError| report.say(Level::Emerg, &error.to_string());
    let first = match built.open_sockets(&mut present, tell) {
        Ok(first) => first,
        Err(failed) => {
            listening::remove_socket_files(&failed, &[]);
            return Err("still could not bind()".to_owned());
        }
    };
    // What an older binary listened on and this configuration does not.
    drop(present);
    if let Err(message) = pidfile::check(&first.main.pid) {
        if !inherited {
            listening::remove_socket_files(&first.listening, &[]);
        }
        return Err(message);
    }
    if first.main.daemon && !inherited {
        tidegate_os::daemon::daemonize().map_err(|error| format!("daemon() failed ({error})"))?;
    }
    if first.main.master_process {
        master::run(origin, first, arguments, inherited)
    } else {
        single::run(origin, first)
    }
}

fn print(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
