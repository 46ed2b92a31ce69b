//! `tidegate-configurations`: runs published configurations on Tidegate and genuine nginx and compares.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use tidegate_testkit::{
    ConfigurationsOptions, Program, World, configurations, program, workers_user,
};

const USAGE: &str = "usage: tidegate-configurations --list TSV --mirrors DIR [--nginx PATH]
    [--tidegate PATH] [--filter TEXT] [--jobs N] [--standard DIR] [--user NAME] [--quiet] [--keep]
Each row of the list (repository, path, context) is tried with `-t` and then served by both servers; what they say to
the same requests is compared. The repositories lie in DIR as OWNER+NAME. The last line is `N passed, N failed`.";

fn main() -> ExitCode {
    let mut quiet = false;
    let options = arguments(&mut quiet);
    program::run(USAGE, options, |options| {
        let report = configurations(options, |outcome| {
            if !quiet || outcome.failed() {
                println!("{outcome}");
            }
        })?;
        let right = report.failed() == 0;
        Ok((report, right))
    })
}

fn arguments(quiet: &mut bool) -> Result<ConfigurationsOptions, lexopt::Error> {
    use lexopt::prelude::*;
    let mut options = ConfigurationsOptions {
        list: PathBuf::new(),
        mirrors: PathBuf::new(),
        nginx: Program { world: World::Nginx, binary: "/usr/sbin/nginx".into() },
        tidegate: Program { world: World::Tidegate, binary: program::beside() },
        filter: String::new(),
        jobs: 2,
        standard: "/etc/nginx".into(),
        user: workers_user(),
        keep: false,
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("list") => options.list = parser.value()?.into(),
            Long("mirrors") => options.mirrors = parser.value()?.into(),
            Long("nginx") => options.nginx.binary = parser.value()?.into(),
            Long("tidegate") => options.tidegate.binary = parser.value()?.into(),
            Long("filter") => options.filter = parser.value()?.string()?,
            Long("jobs") => options.jobs = parser.value()?.parse()?,
            Long("standard") => options.standard = parser.value()?.into(),
            Long("user") => options.user = Some(parser.value()?.string()?),
            Long("quiet") => *quiet = true,
            Long("keep") => options.keep = true,
            other => return Err(other.unexpected()),
        }
    }
    if options.list.as_os_str().is_empty() || options.mirrors.as_os_str().is_empty() {
        return Err("--list and --mirrors are needed".into());
    }
    Ok(options)
}
