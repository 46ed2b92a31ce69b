//! `tidegate-cases`: runs the end-to-end cases against Tidegate, genuine nginx, or both.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;
use tidegate_testkit::{Options, Program, World, run_cases};

const USAGE: &str = "usage: tidegate-cases [--world tidegate|windows|nginx|both] [--tidegate PATH]
    [--nginx PATH] [--modules DIR] [--filter TEXT] [--jobs N] [--again] [--keep] [--quiet]
    [--groups] [DIR]
Runs the cases below DIR (tests/cases). The last line is `N passed, N failed, N skipped`;
--groups prints such counts for each file before, --again runs what failed once more, alone.
In the world `windows` the program is started by WINE (/usr/lib/wine/wine64).";

struct Arguments {
    directory: PathBuf,
    options: Options,
    quiet: bool,
    groups: bool,
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(mistake) => {
            eprintln!("{mistake}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let quiet = arguments.quiet;
    let on_result = |report: &tidegate_testkit::Report| {
        if !quiet || matches!(report.outcome, tidegate_testkit::Outcome::Failed(_)) {
            println!("{report}");
        }
    };
    match run_cases(&arguments.directory, &arguments.options, on_result) {
        Ok(summary) => {
            if arguments.groups {
                print!("{}", summary.groups());
            }
            println!("{summary}");
            if summary.failed() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(mistakes) => {
            for mistake in mistakes {
                eprintln!("{mistake}");
            }
            ExitCode::from(2)
        }
    }
}

fn arguments() -> Result<Arguments, lexopt::Error> {
    use lexopt::prelude::*;
    let mut world = "tidegate".to_owned();
    let mut tidegate = beside_this_binary("tidegate");
    let mut nginx = PathBuf::from("/usr/sbin/nginx");
    let mut arguments = Arguments {
        directory: PathBuf::from("tests/cases"),
        options: Options::new(Vec::new()),
        quiet: false,
        groups: false,
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("world") => world = parser.value()?.string()?,
            Long("tidegate") => tidegate = parser.value()?.into(),
            Long("nginx") => nginx = parser.value()?.into(),
            Long("modules") => arguments.options.modules = parser.value()?.string()?,
            Long("filter") => arguments.options.filter = parser.value()?.string()?,
            Long("jobs") => arguments.options.jobs = parser.value()?.parse()?,
            Long("again") => arguments.options.again = true,
            Long("keep") => arguments.options.keep = true,
            Long("quiet") => arguments.quiet = true,
            Long("groups") => arguments.groups = true,
            Value(directory) => arguments.directory = directory.into(),
            _ => return Err(argument.unexpected()),
        }
    }
    let ours = Program { world: World::Tidegate, binary: tidegate };
    let genuine = Program { world: World::Nginx, binary: nginx };
    arguments.options.programs = match world.as_str() {
        "tidegate" => vec![ours],
        "nginx" => vec![genuine],
        "windows" => vec![Program { world: World::Windows, ..ours }],
        "both" => vec![ours, genuine],
        other => return Err(format!("unknown world `{other}`").into()),
    };
    Ok(arguments)
}

fn beside_this_binary(name: &str) -> PathBuf {
    let here = std::env::current_exe().unwrap_or_default();
    here.parent().map_or_else(|| PathBuf::from(name), |directory| directory.join(name))
}
