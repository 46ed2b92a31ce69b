//! Endurance of the ACME client: orders at Pebble, a test server for ACME, whose process is killed (`SIGKILL`) at each
//! point of an order in turn, and then begins again from its files.
//!
//! Invariant: each name gets one certificate by one order, as Pebble counts them, and no file of an order is left. A
//! second order has one reason only: Pebble validates at once, so a process that was killed after its request for that
//! does not present its challenges, and Pebble makes the order invalid.

mod challenges;
mod client;
mod https;
mod pebble;
mod server;

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::bell::Failure;
use pebble::Pebble;

pub use client::{ClientOptions, acme_client};
pub use server::{AcmeServerOptions, AcmeServerReport, acme_server};

/// The options of a run.
#[derive(Debug, Clone)]
pub struct AcmeOptions {
    /// The directory of the binaries `pebble` and `pebble-challtestsrv`.
    pub pebble: PathBuf,
    /// Number of kills at least.
    pub kills: u32,
}

/// The results of a run.
#[derive(Debug, Clone, Default)]
pub struct AcmeReport {
    /// Number of kills.
    pub kills: u32,
    /// Number of names.
    pub names: u32,
    /// Number of orders that Pebble has.
    pub orders: u32,
    /// Number of those that Pebble has made invalid: a killed client presents no challenges.
    pub invalid: u32,
    /// Number of certificates that Pebble has issued.
    pub certificates: u32,
    /// What was wrong.
    pub mistakes: Vec<String>,
}

/// How the process of a client ended.
enum End {
    Killed,
    Finished,
}

/// Points of an order, with room: a client that passes more of them goes in circles.
const POINTS_MAX: u32 = 500;

/// Runs it: for each point of an order a name whose client is killed there; then names whose client is killed again and
/// again, each time one point later, until both together are the number of kills.
///
/// # Errors
/// Pebble or a client could not be started.
pub fn acme(options: &AcmeOptions) -> Result<AcmeReport, Failure> {
    let pebble = Pebble::start(&options.pebble, None)?;
    let mut report = AcmeReport::default();
    for point in 1..=POINTS_MAX {
        if !name(&pebble, &mut report, &mut |life| (life == 0).then_some(point))? {
            break;
        }
    }
    while report.kills < options.kills {
        // Each life passes one point more: a short one only begins again (directory, nonce, order, authorization).
        name(&pebble, &mut report, &mut |life| Some(life + 1))?;
    }
    let counts = pebble.counts()?;
    report.certificates = counts.certificates;
    (report.orders, report.invalid) = (counts.orders, counts.invalid);
    let finished = counts.orders.checked_sub(counts.invalid);
    for (what, count) in [("orders", finished), ("certificates", Some(counts.certificates))] {
        if count != Some(report.names) {
            report.mistakes.push(format!("{count:?} {what} for {} names", report.names));
        }
    }
    Ok(report)
}

/// Gets a certificate for a name of its own. `kill` returns the point at which a life ends. Returns whether there was a
/// kill.
fn name(
    pebble: &Pebble,
    report: &mut AcmeReport,
    kill: &mut dyn FnMut(u32) -> Option<u32>,
) -> Result<bool, Failure> {
    let failed = |error: std::io::Error| Failure::new(error.to_string());
    let directory = tempfile::tempdir().map_err(failed)?;
    let number = report.names;
    report.names += 1;
    let mut killed = false;
    for life in 0..POINTS_MAX {
        match client(pebble, directory.path(), number, kill(life))? {
            End::Killed => {
                killed = true;
                report.kills += 1;
            }
            End::Finished => {
                check(directory.path(), number, &mut report.mistakes).map_err(failed)?;
                return Ok(killed);
            }
        }
    }
    Err(Failure::new(format!("name {number} has no certificate after {POINTS_MAX} lives")))
}

/// Runs one process of the client.
fn client(
    pebble: &Pebble,
    directory: &Path,
    number: u32,
    kill: Option<u32>,
) -> Result<End, Failure> {
    let failed = |error: std::io::Error| Failure::new(error.to_string());
    let challenge = if number.is_multiple_of(2) { "http-01" } else { "tls-alpn-01" };
    // Some certificates are for an address: their challenges have names of their own (RFC 8738).
    let name = match number % 5 {
        3 | 4 => "127.0.0.1".to_owned(),
        _ => format!("name-{number}.example.test"),
    };
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.arg("--client").arg(directory).arg("--directory").arg(pebble.directory());
    command.arg("--trusted").arg(pebble.certificate());
    command.args(["--name", &name, "--challenge", challenge]);
    command.args(["--http", &pebble.http.to_string(), "--tls", &pebble.tls.to_string()]);
    if let Some(kill) = kill {
        command.args(["--kill", &kill.to_string()]);
    }
    let output = command.stdin(Stdio::null()).output().map_err(failed)?;
    match (output.status.signal(), output.status.success()) {
        (Some(9), _) => Ok(End::Killed),
        (None, true) => Ok(End::Finished),
        _ => {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            Err(Failure::new(format!("name {number}: {}: {text}", output.status)))
        }
    }
}

/// Checks the files of a client that has finished.
fn check(directory: &Path, number: u32, mistakes: &mut Vec<String>) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mut certificates = 0;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let file = entry.file_name().to_string_lossy().into_owned();
        certificates += u32::from(file.ends_with(".pem"));
        if file.ends_with(".order") {
            mistakes.push(format!("name {number}: {file} is left"));
        }
        let mode = entry.metadata()?.permissions().mode() & 0o777;
        if mode != 0o600 {
            mistakes.push(format!("name {number}: {file} has mode {mode:o}"));
        }
    }
    if certificates != 1 {
        mistakes.push(format!("name {number}: {certificates} certificates"));
    }
    Ok(())
}

impl fmt::Display for AcmeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AcmeReport { kills, names, orders, invalid, certificates, mistakes } = self;
        write!(
            f,
            "acme: {kills} kills, {names} names, {orders} orders of which {invalid} were not validated, \
             {certificates} certificates, {} mistakes",
            mistakes.len()
        )
    }
}
