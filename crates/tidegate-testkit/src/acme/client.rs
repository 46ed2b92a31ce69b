//! One process of the client: runs the machine of `tidegate-acme` over blocking I/O until its certificate is in use, or
//! kills itself at a point.
//!
//! Time is virtual: the clock is put forward where the machine waits.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::{Signal, getpid, kill_process};
use rustls::ClientConfig;
use tidegate_acme::{
    AccountKeySource, ChallengeKind, Change, Config, Identifier, Issuer, Key, KeyKind, Outcome,
    Step, Time, Wanted,
};

use super::challenges::Challenges;
use super::https;
use crate::bell::Failure;

/// The options of a client.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// The directory of its files.
    pub files: PathBuf,
    /// The URL of the server's directory.
    pub directory: String,
    /// The certificate of the server.
    pub trusted: PathBuf,
    /// The name of the certificate.
    pub name: String,
    /// How the name is validated: `http-01` or `tls-alpn-01`.
    pub challenge: String,
    /// The port of http-01.
    pub http: u16,
    /// The port of tls-alpn-01.
    pub tls: u16,
    /// The point at which the process kills itself.
    pub kill: Option<u32>,
}

/// Waits of a client; more are a server that does not go on.
const WAITS_MAX: u32 = 1000;
/// The real length of a wait at most.
const WAIT_MAX: Duration = Duration::from_millis(20);

/// The caller of the machine.
struct Caller {
    options: ClientOptions,
    https: Arc<ClientConfig>,
    challenges: Challenges,
    points: u32,
    /// How far the clock was put forward.
    ahead: Duration,
}

/// Runs a client until its certificate is in use and nothing else is to be done.
///
/// # Errors
/// There is none after many waits.
pub fn acme_client(options: &ClientOptions) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::new(error.to_string());
    let https = https::config(&options.trusted).map_err(failed)?;
    let challenges = Challenges::serve(options.http, options.tls).map_err(failed)?;
    let options = options.clone();
    let mut caller = Caller { options, https, challenges, points: 0, ahead: Duration::ZERO };
    let mut issuer = caller.issuer()?;
    let mut waits = 0;
    loop {
        match issuer.poll(caller.now()) {
            Step::Report(report) => eprintln!("{}", report.event),
            Step::Wait(until) => {
                let installed = issuer.certificates().all(|(_, installed)| installed.is_some());
                if installed && !caller.has_order().map_err(failed)? {
                    return Ok(());
                }
                waits += 1;
                if waits > WAITS_MAX {
                    return Err(Failure::new(format!("no certificate after {waits} waits")));
                }
                let wait = until.since(caller.now());
                caller.ahead += wait;
                std::thread::sleep(wait.min(WAIT_MAX));
            }
            step => {
                caller.point();
                let outcome = caller.do_step(&step);
                caller.point();
                issuer.done(outcome, caller.now(), u64::from(caller.points) << 40);
            }
        }
    }
}

impl Caller {
    fn issuer(&self) -> Result<Issuer, Failure> {
        let wrong = |what: &str| Failure::new(format!("the {what} is wrong"));
        let challenge = ChallengeKind::parse(&self.options.challenge);
        let name = Identifier::parse(&self.options.name).map_err(|_| wrong("name"))?;
        let config = Config {
            directory: self.options.directory.clone(),
            account_key: AccountKeySource::Generate(KeyKind::Ecdsa256),
            contacts: vec!["mailto:admin@example.test".to_owned()],
            external_account: None,
            terms_agreed: true,
            challenge: challenge.ok_or_else(|| wrong("challenge"))?,
            preferred_chain: None,
            profile: None,
            common_name: false,
        };
        let wanted = Wanted::new(&[name], KeyKind::Ecdsa256).ok_or_else(|| wrong("name"))?;
        let mut read = |file: &str| fs::read(self.options.files.join(file)).ok();
        Issuer::new(config, vec![wanted], &mut read, self.now(), 0)
            .map_err(|error| Failure::new(error.to_string()))
    }

    fn now(&self) -> Time {
        let real = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Time((real + self.ahead).as_secs())
    }

    fn has_order(&self) -> io::Result<bool> {
        for entry in fs::read_dir(&self.options.files)? {
            if entry?.file_name().to_string_lossy().ends_with(".order") {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Passes a point, or ends here.
    fn point(&mut self) {
        self.points += 1;
        if self.options.kill == Some(self.points) {
            let _ = kill_process(getpid(), Signal::KILL);
        }
    }

    fn do_step(&mut self, step: &Step) -> Outcome {
        let done = match step {
            Step::Store(change) => self.store(change),
            Step::Send(request) => match https::send(&self.https, request) {
                Ok(response) => return Outcome::Response(response),
                Err(error) => Err(error),
            },
            Step::MakeKey(kind) => match Key::generate(*kind) {
                Ok(key) => return Outcome::Key(key),
                Err(error) => Err(io::Error::other(error)),
            },
            Step::Present(list) => {
                self.challenges.present(list);
                Ok(())
            }
            Step::Withdraw(list) => {
                self.challenges.withdraw(list);
                Ok(())
            }
            Step::Report(_) | Step::Wait(_) => Ok(()),
        };
        done.map_or_else(|error| Outcome::Failed(error.to_string()), |()| Outcome::Done)
    }

    /// Changes a file as [`Change`] describes it, with points between the calls.
    fn store(&mut self, change: &Change) -> io::Result<()> {
        let path = self.options.files.join(&change.file);
        match &change.contents {
            Some(contents) => {
                // Always the same name: a file that a kill has left is written again.
                let new = self.options.files.join("new");
                let mut options = OpenOptions::new();
                options.write(true).create(true).truncate(true).mode(0o600);
                let mut file = options.open(&new)?;
                file.write_all(contents)?;
                file.sync_all()?;
                self.point();
                fs::rename(&new, &path)?;
            }
            None => match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            },
        }
        self.point();
        File::open(&self.options.files)?.sync_all()
    }
}
