//! Coherence: a writer renames, truncates, replaces and deletes files and directories at full speed while readers
//! check that each response is one complete version, not older than the last change that had ended when
//! the request was sent.
//!
//! Each change is one system call, so that all states are recorded by the writer.
//! Without `sendfile`: a page that is truncated or overwritten in place while the kernel sends it would change in transit.
//! Bytes follow from a version's number; a response identifies its version.

mod judge;
mod reader;
mod subject;
#[cfg(test)]
mod tests;

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::bell::Failure;
use crate::places::free;
use crate::torture::object::Random;
use crate::torture::server::Server;
use reader::Reader;
use subject::Subject;

/// Number of failures that are reported in full.
const MISTAKES_MAX: usize = 20;

/// The options of a run.
#[derive(Debug, Clone)]
pub struct CoherenceOptions {
    /// The server's binary.
    pub binary: PathBuf,
    /// Number of changes.
    pub changes: u32,
    /// Readers at one time.
    pub readers: u32,
    /// Makes a run repeatable, as far as threads allow.
    pub seed: u64,
    /// Lines for the configuration's `http` block.
    pub settings: String,
}

/// The results of a run.
#[derive(Debug, Clone, Default)]
pub struct CoherenceReport {
    /// Number of changes made.
    pub changes: u32,
    /// Correct and complete responses.
    pub whole: u64,
    /// Of them the 404 responses.
    pub absent: u64,
    /// Responses that ended visibly because the file was truncated while it was sent.
    pub cut: u64,
    /// Bytes of bodies that were compared.
    pub bytes: u64,
    /// Descriptions of the failures.
    pub mistakes: Vec<String>,
}

/// Runs the server, the writer and the readers.
///
/// # Errors
/// The server cannot be started, or files cannot be changed.
pub fn coherence(options: &CoherenceOptions) -> Result<CoherenceReport, Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("coherence: {error}"));
    let directory =
        tempfile::Builder::new().prefix("tidegate-coherence-").tempdir().map_err(failed)?;
    let root = directory.path().canonicalize().map_err(failed)?;
    // Workers of any user need access.
    open_to_all(&root).map_err(failed)?;
    let front = free(TcpListener::bind).map_err(failed)?.0;
    let subjects = subject::all(&root.join("files")).map_err(failed)?;
    std::os::unix::fs::symlink(root.join("files"), root.join("link")).map_err(failed)?;
    let configuration = configuration(&root, front, &options.settings);
    let server = Server::start(&options.binary, &root, front, &configuration)?;
    let ran = run(options, front, &subjects);
    // Also when the files could not be changed: nothing else would end it.
    let ended = server.quit();
    let mut report = ran.map_err(failed)?;
    report.mistakes.extend(ended.err());
    Ok(report)
}

fn run(
    options: &CoherenceOptions,
    front: SocketAddr,
    subjects: &[Subject],
) -> std::io::Result<CoherenceReport> {
    let stop = AtomicBool::new(false);
    let mut report = CoherenceReport::default();
    std::thread::scope(|scope| {
        let readers = (0..options.readers).map(|number| {
            let random = Random::new(options.seed ^ u64::from(number + 1) << 32);
            let stop = &stop;
            scope.spawn(move || {
                let mut reader = Reader::new(front, random);
                while !stop.load(Ordering::SeqCst) && reader.report.mistakes.len() < MISTAKES_MAX {
                    reader.visit(subjects);
                }
                reader.report
            })
        });
        let readers: Vec<_> = readers.collect();
        let written = write(options, subjects, &mut report);
        stop.store(true, Ordering::SeqCst);
        for reader in readers {
            match reader.join() {
                Ok(read) => report.add(read),
                Err(_) => report.mistakes.push("a reader panicked".to_owned()),
            }
        }
        written
    })?;
    // After the last write each response is the last state.
    let mut last = Reader::new(front, Random::new(options.seed));
    for subject in subjects {
        last.ask(subject, "");
    }
    report.add(last.report);
    Ok(report)
}

/// Makes all changes, one after the other.
fn write(
    options: &CoherenceOptions,
    subjects: &[Subject],
    report: &mut CoherenceReport,
) -> std::io::Result<()> {
    let mut random = Random::new(options.seed);
    while report.changes < options.changes {
        let which = random.below(subjects.len() as u64) as usize;
        let Some(subject) = subjects.get(which) else { break };
        subject.change(&mut random)?;
        report.changes += 1;
    }
    Ok(())
}

impl CoherenceReport {
    fn add(&mut self, other: CoherenceReport) {
        self.whole += other.whole;
        self.absent += other.absent;
        self.cut += other.cut;
        self.bytes += other.bytes;
        self.mistakes.extend(other.mistakes);
    }
}

impl std::fmt::Display for CoherenceReport {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let CoherenceReport { changes, whole, absent, cut, bytes, mistakes } = self;
        let wrong = mistakes.len();
        write!(
            formatter,
            "{changes} changes; {whole} responses whole ({absent} of them: nothing there), {cut} cut \
             with their file; {bytes} bytes compared; {wrong} mistakes"
        )
    }
}

/// The same files under several rules.
fn configuration(root: &Path, front: SocketAddr, settings: &str) -> String {
    let (user, root) = (user(), root.display());
    format!(
        "{user}daemon off; worker_processes 2; pid {root}/nginx.pid; error_log {root}/error.log crit;
events {{ }}
http {{
  access_log off;
  {settings}
  client_body_temp_path {root}/body;
  server {{
    listen {front};
    root {root}/files;
    location {OWNER}/ {{ alias {root}/files/; disable_symlinks if_not_owner; }}
    location {LINKED}/ {{ alias {root}/link/; }}
  }}
}}
"
    )
}

/// Path of the same files under `disable_symlinks if_not_owner`.
const OWNER: &str = "/owner";

/// Path of the same files by a symbolic link.
const LINKED: &str = "/linked";

/// The writer's user: files of other users might be unreadable.
fn user() -> &'static str {
    if rustix::process::geteuid().is_root() { "user root; " } else { "" }
}

fn open_to_all(directory: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755))
}
