//! The command line: the choice of what to run.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use tidegate_conf::Diagnostic;
use tidegate_core::error_log::Level;
use tidegate_os::held_signals;

use crate::configuration::{self, Origin, Parsed};
use crate::generation::{Built, FIRST_GENERATION, Generation};
use crate::options::{self, Options};
use crate::report::Report;
use crate::{control, demo, manual, signal_command, start, tune, version};

const DEMO_ARGUMENT: &str = "demo";

/// Runs the whole program. Signals are held back; other modes than the server's release them.
pub(crate) fn run() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if let Some(code) = start::run_other_mode(&arguments) {
        return code;
    }
    if arguments.get(1).is_some_and(|argument| argument == DEMO_ARGUMENT) {
        held_signals::release();
        return demo::run(&arguments[2..]);
    }
    if arguments.get(1).is_some_and(|argument| argument == manual::ARGUMENT) {
        held_signals::release();
        return manual::run(&arguments[2..]);
    }
    run_with(arguments)
}

/// Runs the server, or the other action that the options select. The first argument is the program's name.
///
/// In nginx's order: `-v` and `-V` print even beside `-t`; then `tune`, `-s`, `-t` and `-T`, and else the server. The
/// configuration is read once: the server starts with the very files that were checked ([`RecordingLoader`]), which may
/// change meanwhile.
pub(crate) fn run_with(arguments: Vec<OsString>) -> ExitCode {
    let options = match options::parse(arguments.iter().skip(1).cloned()) {
        Ok(options) => options,
        Err(error) => {
            print(&format!("nginx: {error}"));
            return ExitCode::FAILURE;
        }
    };
    // A server that reads its configuration has nothing to clean up; orders for later wait.
    match options.serves() {
        true => held_signals::end_on_request(),
        false => held_signals::release(),
    }
    if options.version {
        print_version(&options);
        if !options.test {
            return ExitCode::SUCCESS;
        }
    }
    if let Some((command, words)) = options.control.clone() {
        return control::run(command, words, options);
    }
    let origin = Origin::new(&options);
    if options.tune {
        return tune::run(&origin);
    }
    let report = Report::open(&origin, options.quiet);
    if let Some(command) = options.signal {
        return signal_command::run(&origin, command, &report);
    }
    let mut parsed = configuration::read(&origin);
    let built = Generation::build(&origin, &mut parsed, FIRST_GENERATION, Arc::default());
    Diagnostic::sort(&mut parsed.diagnostics, &parsed.sources);
    report.diagnostics(&parsed.diagnostics, &parsed.sources);
    if options.test {
        return test(&options, &origin, &parsed, built, &report);
    }
    let Some(built) = built else { return ExitCode::FAILURE };
    drop(parsed);
    match start::start(origin, built, arguments, &report) {
        Ok(code) => code,
        Err(error) => {
            report.say(Level::Emerg, &error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn print_version(options: &Options) {
    if options.configure {
        let names: Vec<_> = tidegate_modules::MODULES.iter().map(|module| module.name()).collect();
        print(&version::configure(&names));
    } else {
        print(&version::line());
    }
    if options.help {
        print(&version::help());
    }
}

/// Tests the configuration: `-t` and `-T`.
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
            let mut refused: Vec<String> =
                built.try_sockets().iter().map(ToString::to_string).collect();
            refused.extend(built.make_missing_directories().err().map(|found| found.message));
            refused.iter().for_each(|message| report.say(Level::Emerg, message));
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

fn print(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
