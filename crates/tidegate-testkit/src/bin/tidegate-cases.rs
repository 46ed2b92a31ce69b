//! `tidegate-cases`: runs the end-to-end cases against Tidegate, genuine nginx, or both.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;
use tidegate_testkit::bell::Failure;
use tidegate_testkit::{Coverage, Options, Program, Rows, World, run_cases};

const USAGE: &str = "usage: tidegate-cases [--world tidegate|windows|nginx|both] [--tidegate PATH]
    [--nginx PATH] [--modules DIR] [--filter TEXT] [--jobs N] [--again] [--keep] [--quiet]
    [--groups] [PATH]...
       tidegate-cases --coverage [--brief] [--rows FILE] [--tidegate PATH] [PATH]...
Runs the cases of the files PATH and below the directories PATH (tests/cases). The last line is
`N passed, N failed, N skipped`; --groups prints such counts for each file before, --again runs
what failed once more, alone. In the world `windows` the program is started by WINE
(/usr/lib/wine/wine64). With UPDATE=1 in the environment, literals that failing rows expected are
replaced in the files by what was received.
--coverage counts the cases of each directive, variable and section of an RFC; nothing is run.
The rows are what `tidegate help --pages` prints, or the content of FILE. --brief prints only the
sums and the names without a case. The exit code is 1 when the lists beside the cases do not fit.";

struct Arguments {
    paths: Vec<PathBuf>,
    options: Options,
    tidegate: PathBuf,
    quiet: bool,
    groups: bool,
    coverage: bool,
    brief: bool,
    rows: Option<PathBuf>,
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
    let print = |report: &tidegate_testkit::Report| {
        if !quiet || matches!(report.outcome, tidegate_testkit::Outcome::Failed(_)) {
            println!("{report}");
        }
    };
    let done = if arguments.coverage {
        coverage(&arguments)
    } else {
        run_cases(&arguments.paths, &arguments.options, print).map(|summary| {
            if arguments.groups {
                print!("{}", summary.groups());
            }
            println!("{summary}");
            summary.failed() == 0
        })
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(mistakes) => {
            for mistake in mistakes {
                eprintln!("{mistake}");
            }
            ExitCode::from(2)
        }
    }
}

/// Prints the table of coverage; false when something is not covered.
fn coverage(arguments: &Arguments) -> Result<bool, Vec<Failure>> {
    let rows = match &arguments.rows {
        None => Rows::of_program(&arguments.tidegate),
        Some(file) => std::fs::read_to_string(file)
            .map(|text| Rows::of_pages(&text))
            .map_err(|error| Failure::new(format!("{}: {error}", file.display()))),
    };
    let coverage = Coverage::of(&arguments.paths, &rows.map_err(|failure| vec![failure])?)?;
    if arguments.brief {
        print!("{}", coverage.brief());
    } else {
        print!("{coverage}");
    }
    Ok(coverage.is_whole())
}

fn arguments() -> Result<Arguments, lexopt::Error> {
    use lexopt::prelude::*;
    let mut world = "tidegate".to_owned();
    let mut tidegate = beside_this_binary("tidegate");
    let mut nginx = PathBuf::from("/usr/sbin/nginx");
    let mut arguments = Arguments {
        paths: Vec::new(),
        options: Options::new(Vec::new()),
        tidegate: PathBuf::new(),
        quiet: false,
        groups: false,
        coverage: false,
        brief: false,
        rows: None,
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
            Long("coverage") => arguments.coverage = true,
            Long("brief") => arguments.brief = true,
            Long("rows") => arguments.rows = Some(parser.value()?.into()),
            Value(path) => arguments.paths.push(path.into()),
            _ => return Err(argument.unexpected()),
        }
    }
    if arguments.paths.is_empty() {
        arguments.paths.push(PathBuf::from("tests/cases"));
    }
    arguments.options.update = std::env::var_os("UPDATE").is_some_and(|value| value == "1");
    arguments.tidegate.clone_from(&tidegate);
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
