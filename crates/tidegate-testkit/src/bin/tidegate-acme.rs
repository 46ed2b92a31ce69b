//! `tidegate-acme`: kills an ACME client at each point of an order at Pebble, and counts orders and certificates.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use tidegate_testkit::{
    AcmeOptions, AcmeServerOptions, ClientOptions, acme, acme_client, acme_server, program,
};

const USAGE: &str = "usage: tidegate-acme --pebble DIRECTORY [--kills N] [--server BINARY [--renewals N]]
Gets certificates from Pebble, whose binaries pebble and pebble-challtestsrv are in the directory. The process of the
client is killed (SIGKILL) at each point of an order in turn, and again and again, N times (100) at least. Each name must
get one certificate by one order; otherwise the exit code is 1. scripts/acme-tests.sh installs Pebble and runs this.
--server: the same with the server itself, killed after each request of an order in turn, N times; then N renewals (2)
while it is reloaded.";

/// What the program does: the run, or one client of it.
struct Arguments {
    run: AcmeOptions,
    client: ClientOptions,
    is_client: bool,
    server: Option<PathBuf>,
    renewals: u32,
}

fn main() -> ExitCode {
    match arguments() {
        Ok(Arguments { client, is_client: true, .. }) => match acme_client(&client) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                eprintln!("{failure}");
                ExitCode::FAILURE
            }
        },
        Ok(Arguments { run, server: Some(server), renewals, .. }) => {
            let AcmeOptions { pebble, kills } = run;
            let options = AcmeServerOptions { pebble, server, kills, renewals };
            program::run(USAGE, Ok(options), |options| {
                let report = acme_server(options)?;
                report.mistakes.iter().for_each(|mistake| println!("{mistake}"));
                let right = report.mistakes.is_empty();
                Ok((report, right))
            })
        }
        arguments => program::run(USAGE, arguments, |arguments| {
            let report = acme(&arguments.run)?;
            report.mistakes.iter().for_each(|mistake| println!("{mistake}"));
            let right = report.mistakes.is_empty();
            Ok((report, right))
        }),
    }
}

fn arguments() -> Result<Arguments, lexopt::Error> {
    use lexopt::prelude::*;
    let mut run = AcmeOptions { pebble: PathBuf::new(), kills: 100 };
    let mut client = ClientOptions {
        files: PathBuf::new(),
        directory: String::new(),
        trusted: PathBuf::new(),
        name: String::new(),
        challenge: "http-01".to_owned(),
        http: 0,
        tls: 0,
        kill: None,
    };
    let (mut is_client, mut server, mut renewals) = (false, None, 2);
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("pebble") => run.pebble = PathBuf::from(parser.value()?),
            Long("kills") => run.kills = parser.value()?.parse()?,
            Long("server") => server = Some(PathBuf::from(parser.value()?)),
            Long("renewals") => renewals = parser.value()?.parse()?,
            Long("client") => {
                is_client = true;
                client.files = PathBuf::from(parser.value()?);
            }
            Long("directory") => client.directory = parser.value()?.string()?,
            Long("trusted") => client.trusted = PathBuf::from(parser.value()?),
            Long("name") => client.name = parser.value()?.string()?,
            Long("challenge") => client.challenge = parser.value()?.string()?,
            Long("http") => client.http = parser.value()?.parse()?,
            Long("tls") => client.tls = parser.value()?.parse()?,
            Long("kill") => client.kill = Some(parser.value()?.parse()?),
            other => return Err(other.unexpected()),
        }
    }
    if !is_client && run.pebble.as_os_str().is_empty() {
        return Err("--pebble is missing".into());
    }
    Ok(Arguments { run, client, is_client, server, renewals })
}
