//! `tidegate-bench`: compares Tidegate with genuine nginx on the user's own machine.
//!
//! Both servers get the same generated nginx.conf and are bound to one processor; load generator
//! and origin simulator run in this process on another. The figure that counts is the server's
//! processor time per request, which a busy neighbour disturbs less than rates.

#![forbid(unsafe_code)]

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use machine::Place;
use options::{Command, Options, Suite};
use server::{Binary, Kind};
use suites::{Case, Context, tuning};

mod chart;
mod cluster;
mod config;
mod draw;
mod figures;
mod h2;
mod h3;
mod histogram;
mod instructions;
mod json;
mod load;
mod machine;
mod options;
mod origin;
mod page;
mod pattern;
mod probe;
mod procfs;
mod raw;
mod report;
mod response;
mod server;
mod start;
mod statistics;
mod study;
mod suites;
#[cfg(test)]
mod tests;
mod walk;
mod wine;
mod wire;

/// Counts allocations, for the rows of `tidegate-h2` alone.
#[global_allocator]
static ALLOCATOR: tidegate_os::counted::Counted = tidegate_os::counted::Counted;

fn main() -> ExitCode {
    if let Some(ended) = h2::core_loop::run(std::env::args_os().skip(1)) {
        return ended;
    }
    if let Some(ended) = raw::run(std::env::args_os().skip(1)) {
        ended.unwrap_or_else(|reason| eprintln!("tidegate-bench: {reason}"));
        return ExitCode::FAILURE;
    }
    let of_texts =
        start::run(std::env::args_os().skip(1)).or_else(|| draw::run(std::env::args_os().skip(1)));
    if let Some(ended) = of_texts {
        return exit_code(ended.map(|()| true));
    }
    let of_goals = figures::run(std::env::args_os().skip(1))
        .or_else(|| cluster::run(std::env::args_os().skip(1)))
        .or_else(|| instructions::run(std::env::args_os().skip(1)));
    if let Some(ended) = of_goals {
        return exit_code(ended);
    }
    let result = match options::parse(std::env::args_os().skip(1)) {
        Ok(Command::Help) => {
            print!("{}", options::HELP);
            Ok(Vec::new())
        }
        Ok(Command::List) => {
            for (name, suite) in [
                ("quick", Suite::Quick),
                ("steady", Suite::Steady),
                ("depth", Suite::Depth),
                ("blocking", Suite::Blocking),
                ("tuning", Suite::Tuning),
                ("fairness", Suite::Fairness),
                ("growth", Suite::Growth),
                ("protocols", Suite::Protocols),
            ] {
                println!("{name}:");
                for case in suites::cases(suite) {
                    println!("  {:<14} {}", case.name(), case.about());
                }
            }
            println!("streaming:");
            for entry in study::ENTRIES {
                println!("  {:<18} {}, {}", entry.name, entry.server, entry.mode);
            }
            Ok(Vec::new())
        }
        Ok(Command::Run(options)) => run(*options),
        Err(reason) => Err(reason),
    };
    exit_code(result.map(|unmet| {
        unmet.iter().for_each(|reason| eprintln!("tidegate-bench: not met: {reason}"));
        unmet.is_empty()
    }))
}

/// Returns the exit status: 0 where all goals are met, 1 where not, 2 with the reason where nothing was measured.
fn exit_code(ended: Result<bool, String>) -> ExitCode {
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => {
            eprintln!("tidegate-bench: {reason}");
            ExitCode::from(2)
        }
    }
}

/// Measures and reports; returns the requirements that are not met, as text.
fn run(options: Options) -> Result<Vec<String>, String> {
    if let Some(program) = &options.wine {
        return wine::run(&options, program);
    }
    let cases = chosen_cases(&options)?;
    let tidegate_path = options.tidegate.clone().unwrap_or_else(|| match options.suite {
        // The server with handlers in it.
        Suite::Blocking => beside_this_program("tidegate-example"),
        _ => beside_this_program("tidegate"),
    });
    let tidegate = named(&tidegate_path, Binary::probe(Kind::Nginx, &tidegate_path))?;
    let nginx = given_or_found(Kind::Nginx, options.nginx.as_deref())?;
    let mut others = Vec::new();
    if options.suite == Suite::Streaming {
        others.extend(given_or_found(Kind::Varnish, options.varnish.as_deref())?);
        others.extend(given_or_found(Kind::TrafficServer, options.traffic_server.as_deref())?);
    }
    let compares = !matches!(options.suite, Suite::Steady | Suite::Streaming | Suite::Fairness);
    if options.suite == Suite::Blocking {
        others.extend(Binary::find(Kind::Apache));
    }
    if matches!(options.suite, Suite::Quick | Suite::Blocking | Suite::Tuning) {
        others.extend(Binary::find(Kind::HaProxy));
    }
    if options.strict && compares && nginx.is_none() {
        return Err("--strict compares with nginx, which is not installed".to_owned());
    }
    let processors = machine::Processors::choose(options.server_cpu, options.client_cpu)
        .map_err(|error| error.to_string())?;
    // Before the origin's thread starts, which inherits it.
    machine::pin_current_thread(Place::one(processors.client))
        .map_err(|error| error.to_string())?;
    machine::raise_descriptor_limit(DESCRIPTORS_WANTED);
    // An error now is better than one after minutes of measuring.
    let json_file =
        options.json.as_ref().map(|path| named(path, File::create(path))).transpose()?;
    let html_file =
        options.html.as_ref().map(|path| named(path, File::create(path))).transpose()?;
    let origin = origin::Origin::start().map_err(|error| format!("origin: {error}"))?;
    let environment = report::Environment::collect(&tidegate, nginx.as_ref(), processors, &options);
    let context = Context { options, processors, origin, tidegate, nginx, others };
    if context.options.suite == Suite::Streaming {
        return run_study(&context, environment, json_file, html_file);
    }
    let is_one = cases.len() == 1;
    let ended = |report: &_| {
        if !is_one {
            print_case(&environment, report);
        }
    };
    let reports = suites::measure(&context, &cases, ended);
    write_reports(&context.options, &environment, &reports, (json_file, html_file))?;
    let rows = reports.iter().flat_map(|report| &report.rows);
    Ok(rows.filter_map(|row| row.unmet(context.options.strict)).collect())
}

/// Prints the table, and writes the files that were asked for: JSON, and a page.
fn write_reports(
    options: &Options,
    environment: &report::Environment,
    reports: &[suites::CaseReport],
    (json_file, html_file): (Option<File>, Option<File>),
) -> Result<(), String> {
    let is_tuning = options.suite == Suite::Tuning;
    let table = if is_tuning { tuning::table::text } else { report::table };
    print!("{}", table(environment, reports));
    print_watchdog();
    if let (Some(path), Some(mut file)) = (&options.json, json_file) {
        let json = if is_tuning { tuning::table::json } else { report::json };
        named(path, writeln!(file, "{}", json(environment, reports)))?;
    }
    if let (Some(path), Some(mut file)) = (&options.html, html_file) {
        let page = match options.suite {
            Suite::Tuning => tuning::html,
            Suite::Growth => suites::growth::html,
            _ => suites::depth::html,
        };
        named(path, file.write_all(page(environment, reports).as_bytes()))?;
    }
    Ok(())
}

/// Prints the rows of a case, so that a suite that is ended early has shown what it has measured.
fn print_case(environment: &report::Environment, ended: &suites::CaseReport) {
    eprint!("\n{}\n", report::rows(environment, std::slice::from_ref(ended)));
}

/// Reports long event-loop iterations, once all servers have ended.
fn print_watchdog() {
    if let Some(line) = server::watchdog::summary() {
        println!("\n{line}");
    }
}

/// The suite streaming, whose rows are servers.
fn run_study(
    context: &Context,
    environment: report::Environment,
    json_file: Option<File>,
    html_file: Option<File>,
) -> Result<Vec<String>, String> {
    let study = study::Study::measure(context, environment);
    print!("{}", study.text());
    print_watchdog();
    if let (Some(path), Some(mut file)) = (&context.options.json, json_file) {
        named(path, writeln!(file, "{}", study.json()))?;
    }
    if let (Some(path), Some(mut file)) = (&context.options.html, html_file) {
        named(path, file.write_all(study.html().as_bytes()))?;
    }
    Ok(study.unmet())
}

/// Adds the path to an error.
fn named<T>(path: &Path, result: std::io::Result<T>) -> Result<T, String> {
    result.map_err(|error| format!("{}: {error}", path.display()))
}

/// Finds a program to compare with; one given on the command line must exist.
fn given_or_found(kind: Kind, given: Option<&Path>) -> Result<Option<Binary>, String> {
    match given {
        Some(path) => named(path, Binary::probe(kind, path)).map(Some),
        None => Ok(Binary::find(kind)),
    }
}

fn chosen_cases(options: &Options) -> Result<Vec<Case>, String> {
    let cases = suites::cases(options.suite);
    let rows = study::ENTRIES.iter().filter(|_| options.suite == Suite::Streaming);
    let rows = rows.map(|entry| entry.name);
    let names: Vec<&str> = cases.iter().map(Case::name).chain(rows).collect();
    for name in &options.only {
        if !names.contains(&name.as_str()) {
            return Err(format!("no case of this suite is named \"{name}\"; --list names them"));
        }
    }
    let pattern = options.rows.as_ref();
    let wanted = |case: &Case| {
        let named = options.only.is_empty() || options.only.iter().any(|name| name == case.name());
        named && pattern.is_none_or(|rows| rows.0.is_match(case.name().as_bytes()).unwrap_or(false))
    };
    let chosen: Vec<Case> = cases.into_iter().filter(wanted).collect();
    if chosen.is_empty() && options.suite != Suite::Streaming {
        return Err("no row is named so; --list names them".to_owned());
    }
    Ok(suites::with_bases(chosen))
}

/// A program in this program's directory, as both are built and installed together.
fn beside_this_program(name: &str) -> PathBuf {
    let directory = std::env::current_exe().ok().and_then(|path| path.parent().map(Path::to_owned));
    directory.unwrap_or_default().join(name)
}

/// For both ends of the largest `--connections` through a proxy.
const DESCRIPTORS_WANTED: u64 = 30_000;
