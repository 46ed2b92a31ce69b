//! Pebble and its DNS server: started on free ports, ended with the run.

use std::fs::File;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::bell::Failure;
use crate::guard;
use crate::places::free;
use crate::torture::server::pause;

/// Longest wait for a server to listen.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running Pebble.
pub(super) struct Pebble {
    files: TempDir,
    listen: SocketAddr,
    /// The address of its management.
    pub management: SocketAddr,
    /// The port of http-01.
    pub http: u16,
    /// The port of tls-alpn-01.
    pub tls: u16,
    children: Vec<Child>,
}

/// What Pebble has done.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub orders: u32,
    /// Orders whose validation has failed.
    pub invalid: u32,
    pub certificates: u32,
}

impl Pebble {
    /// Starts both servers. Certificates are valid for this number of seconds, or for the default of five years.
    pub(super) fn start(binaries: &Path, validity: Option<u32>) -> Result<Pebble, Failure> {
        let failed = |error: std::io::Error| Failure::new(format!("Pebble: {error}"));
        let place = || free(TcpListener::bind).map(|(address, _)| address).map_err(failed);
        let (listen, management, http, tls, dns) =
            (place()?, place()?, place()?, place()?, place()?);
        let files = tempfile::tempdir().map_err(failed)?;
        let path = |name: &str| files.path().join(name);
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()])
            .map_err(|error| Failure::new(error.to_string()))?;
        std::fs::write(path("certificate.pem"), made.cert.pem()).map_err(failed)?;
        std::fs::write(path("key.pem"), made.signing_key.serialize_pem()).map_err(failed)?;
        let validity = validity.map_or(String::new(), |seconds| {
            format!(
                r#""certificateValidityPeriod": {seconds},
                "profiles": {{"default": {{"description": "", "validityPeriod": {seconds}}}}},"#
            )
        });
        let config = format!(
            r#"{{"pebble": {{"listenAddress": "{listen}", "managementListenAddress": "{management}",
            "certificate": "{}", "privateKey": "{}", "httpPort": {}, "tlsPort": {}, "ocspResponderURL": "",
            "externalAccountBindingRequired": false, "keyAlgorithm": "ecdsa", {validity}
            "retryAfter": {{"authz": 1, "order": 1}}}}}}"#,
            path("certificate.pem").display(),
            path("key.pem").display(),
            http.port(),
            tls.port(),
        );
        std::fs::write(path("config.json"), config).map_err(failed)?;
        let mut pebble = Pebble {
            listen,
            management,
            http: http.port(),
            tls: tls.port(),
            children: Vec::new(),
            files,
        };
        let mut names = Command::new(binaries.join("pebble-challtestsrv"));
        names.args([
            "-defaultIPv4",
            "127.0.0.1",
            "-defaultIPv6",
            "",
            "-dnsserver",
            &dns.to_string(),
        ]);
        // Empty: challenges and management are not its work here.
        names.args(["-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", ""]);
        names.args(["-management", &place()?.to_string()]);
        pebble.spawn(names, "names.log").map_err(failed)?;
        let mut command = Command::new(binaries.join("pebble"));
        command.arg("-strict").arg("-config").arg(pebble.files.path().join("config.json"));
        command.args(["-dnsserver", &dns.to_string()]);
        // Validations begin at once; 10 % of nonces are refused; no authorization is used twice.
        command.env("PEBBLE_VA_NOSLEEP", "1").env("PEBBLE_WFE_NONCEREJECT", "10");
        command.env("PEBBLE_AUTHZREUSE", "0");
        pebble.spawn(command, "pebble.log").map_err(failed)?;
        pebble.wait()?;
        Ok(pebble)
    }

    fn spawn(&mut self, mut command: Command, log: &str) -> std::io::Result<()> {
        let log = File::create(self.files.path().join(log))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
        let child = command.spawn()?;
        guard::watch(child.id())?;
        self.children.push(child);
        Ok(())
    }

    /// Waits until it listens.
    fn wait(&self) -> Result<(), Failure> {
        let begun = Instant::now();
        while TcpStream::connect(self.listen).is_err() {
            if begun.elapsed() > PATIENCE {
                return Err(Failure::new(format!("Pebble does not listen: {}", self.log()?)));
            }
            pause(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Returns the URL of its directory.
    pub(super) fn directory(&self) -> String {
        format!("https://{}/dir", self.listen)
    }

    /// Returns the file of its certificate, which is its own root.
    pub(super) fn certificate(&self) -> PathBuf {
        self.files.path().join("certificate.pem")
    }

    fn log(&self) -> Result<String, Failure> {
        std::fs::read_to_string(self.files.path().join("pebble.log"))
            .map_err(|error| Failure::new(error.to_string()))
    }

    /// Returns the number of requests that it has got.
    pub(super) fn requests(&self) -> Result<u32, Failure> {
        let count = self.log()?.matches(" -> calling handler()").count();
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// Returns the numbers of orders and certificates, as its log has them.
    pub(super) fn counts(&self) -> Result<Counts, Failure> {
        let log = self.log()?;
        let count = |words: [&str; 2]| {
            let lines = log.lines().filter(|line| words.iter().all(|word| line.contains(word)));
            u32::try_from(lines.count()).unwrap_or(u32::MAX)
        };
        Ok(Counts {
            orders: count(["Added order ", " to the db"]),
            invalid: count([" order ", " set INVALID by "]),
            certificates: count(["Issued certificate ", " serial "]),
        })
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
            let _ = guard::forget(child.id());
        }
    }
}
