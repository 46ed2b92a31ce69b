//! The server itself at Pebble: from nothing to HTTPS, killed (`SIGKILL`) after each request of an order in turn, and
//! renewals while it is reloaded.
//!
//! Invariants: each site gets one certificate by one order (those that Pebble has made invalid do not count, as for the
//! client alone), the first one within [`FIRST_MAX`]. Over renewals and reloads no handshake fails.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection};
use tempfile::TempDir;
use tidegate_acme::{Method, Request};

use super::https;
use super::pebble::Pebble;
use crate::bell::Failure;
use crate::torture::server::{Server, pause};

/// The options of a run.
#[derive(Debug, Clone)]
pub struct AcmeServerOptions {
    /// The directory of the binaries `pebble` and `pebble-challtestsrv`.
    pub pebble: PathBuf,
    /// The server's binary.
    pub server: PathBuf,
    /// Number of kills.
    pub kills: u32,
    /// Number of renewals.
    pub renewals: u32,
}

/// The results of a run.
#[derive(Debug, Clone, Default)]
pub struct AcmeServerReport {
    /// The time from the start of the first site to its first request by HTTPS.
    pub first: Duration,
    /// Number of kills.
    pub kills: u32,
    /// Number of sites.
    pub sites: u32,
    /// Number of orders that Pebble has.
    pub orders: u32,
    /// Number of those that Pebble has made invalid.
    pub invalid: u32,
    /// Number of certificates that Pebble has issued.
    pub certificates: u32,
    /// Number of renewals seen.
    pub renewals: u32,
    /// Number of reloads.
    pub reloads: u32,
    /// What was wrong.
    pub mistakes: Vec<String>,
}

/// The longest time from nothing to HTTPS.
const FIRST_MAX: Duration = Duration::from_secs(10);
/// The longest wait for a certificate or a renewal.
const PATIENCE: Duration = Duration::from_secs(90);
/// Seconds that certificates are valid in the run of renewals: the least that leaves room for a slow machine.
const VALIDITY_SECONDS: u32 = 24;

/// A site: one server with one certificate.
struct Site {
    directory: TempDir,
    configuration: String,
    front: SocketAddr,
    tls: SocketAddr,
}

/// Runs it.
///
/// # Errors
/// Pebble or the server could not be started, or there is no certificate after a long time.
pub fn acme_server(options: &AcmeServerOptions) -> Result<AcmeServerReport, Failure> {
    let mut report = AcmeServerReport::default();
    kills(options, &mut report)?;
    if options.renewals > 0 {
        renewals(options, &mut report)?;
    }
    Ok(report)
}

fn kills(options: &AcmeServerOptions, report: &mut AcmeServerReport) -> Result<(), Failure> {
    let pebble = Pebble::start(&options.pebble, None)?;
    let trust = trust(&pebble)?;
    let site = Site::new(&pebble, 0)?;
    let begun = Instant::now();
    let server = site.start(&options.server)?;
    site.certificate(&trust, None)?;
    report.first = begun.elapsed();
    if report.first > FIRST_MAX {
        report.mistakes.push(format!("the first certificate took {:?}", report.first));
    }
    server.kill();
    report.sites = 1;
    let mut request = 1;
    while report.kills < options.kills {
        let site = Site::new(&pebble, report.sites)?;
        report.sites += 1;
        if kill_at(&site, &pebble, options, request)? {
            report.kills += 1;
            request += 1;
        } else {
            // The order has ended before.
            request = 1;
        }
        let server = site.start(&options.server)?;
        site.certificate(&trust, None)?;
        server.kill();
        site.check(&mut report.mistakes).map_err(failed)?;
    }
    let counts = pebble.counts()?;
    (report.orders, report.invalid) = (counts.orders, counts.invalid);
    report.certificates = counts.certificates;
    let finished = counts.orders.checked_sub(counts.invalid);
    for (what, count) in [("orders", finished), ("certificates", Some(counts.certificates))] {
        if count != Some(report.sites) {
            report.mistakes.push(format!("{count:?} {what} for {} sites", report.sites));
        }
    }
    Ok(())
}

/// Starts a site and kills it once Pebble has got this number of requests; `false`: its order ended before.
fn kill_at(
    site: &Site,
    pebble: &Pebble,
    options: &AcmeServerOptions,
    request: u32,
) -> Result<bool, Failure> {
    let before = pebble.requests()?;
    let server = site.start(&options.server)?;
    let deadline = Instant::now() + PATIENCE;
    while pebble.requests()? < before + request {
        if site.is_finished().map_err(failed)? {
            server.kill();
            return Ok(false);
        }
        if Instant::now() > deadline {
            return Err(Failure::new(format!("no request {request} to Pebble: {}", site.log())));
        }
        pause(Duration::from_millis(1));
    }
    server.kill();
    Ok(true)
}

fn renewals(options: &AcmeServerOptions, report: &mut AcmeServerReport) -> Result<(), Failure> {
    let pebble = Pebble::start(&options.pebble, Some(VALIDITY_SECONDS))?;
    let trust = trust(&pebble)?;
    let site = Site::new(&pebble, 0)?;
    let server = site.start(&options.server)?;
    let mut shown = site.certificate(&trust, None)?;
    while report.renewals < options.renewals {
        let deadline = Instant::now() + PATIENCE;
        loop {
            server.reload();
            report.reloads += 1;
            pause(Duration::from_millis(700));
            match site.handshake(&trust) {
                Ok(now) if now == shown => {}
                Ok(now) => {
                    shown = now;
                    break;
                }
                Err(error) => report.mistakes.push(format!("a handshake failed: {error}")),
            }
            if Instant::now() > deadline {
                return Err(Failure::new(format!("no renewal: {}", site.log())));
            }
        }
        report.renewals += 1;
    }
    server.quit().map_err(Failure::new)?;
    let counts = pebble.counts()?;
    // The next one may have begun already.
    let expected = report.renewals + 1;
    if counts.certificates.abs_diff(expected) > 1 || counts.invalid > 0 {
        report.mistakes.push(format!("{counts:?} for {} renewals", report.renewals));
    }
    Ok(())
}

/// Returns the settings of a client that trusts Pebble's root.
fn trust(pebble: &Pebble) -> Result<Arc<ClientConfig>, Failure> {
    let own = https::config(&pebble.certificate()).map_err(failed)?;
    let url = format!("https://{}/roots/0", pebble.management);
    let request =
        Request { method: Method::Get, url, content_type: None, accept: None, body: Vec::new() };
    let response = https::send(&own, &request).map_err(failed)?;
    let file = pebble.certificate().with_file_name("root.pem");
    std::fs::write(&file, response.body).map_err(failed)?;
    https::config(&file).map_err(failed)
}

impl Site {
    /// Makes a site; every second one is validated by tls-alpn-01.
    fn new(pebble: &Pebble, number: u32) -> Result<Site, Failure> {
        let directory = tempfile::tempdir().map_err(failed)?;
        let path = directory.path().display();
        let challenge = if number.is_multiple_of(2) { "http-01" } else { "tls-alpn-01" };
        let (http, tls) = (pebble.http, pebble.tls);
        let configuration = format!(
            "daemon off; pid {path}/nginx.pid; error_log {path}/error.log info; events {{ }}
            http {{
                access_log off;
                acme_issuer pebble {{
                    uri {};
                    challenge {challenge};
                    contact admin@example.test;
                    ssl_trusted_certificate {};
                    state_path {path}/state;
                    accept_terms_of_service;
                }}
                server {{ listen 127.0.0.1:{http}; return 301 https://127.0.0.1/; }}
                server {{
                    listen 127.0.0.1:{tls} ssl;
                    acme_certificate pebble 127.0.0.1;
                    ssl_certificate $acme_certificate;
                    ssl_certificate_key $acme_certificate_key;
                    return 200 site;
                }}
            }}",
            pebble.directory(),
            pebble.certificate().display(),
        );
        let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        make_readable(directory.path()).map_err(failed)?;
        Ok(Site { directory, configuration, front: at(http), tls: at(tls) })
    }

    fn start(&self, binary: &Path) -> Result<Server, Failure> {
        Server::start(binary, self.directory.path(), self.front, &self.configuration)
    }

    /// Waits for a certificate other than `before`, and returns it.
    fn certificate(
        &self,
        trust: &Arc<ClientConfig>,
        before: Option<&CertificateDer<'static>>,
    ) -> Result<CertificateDer<'static>, Failure> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.handshake(trust) {
                Ok(shown) if Some(&shown) != before => return Ok(shown),
                Ok(_) | Err(_) if Instant::now() < deadline => pause(Duration::from_millis(20)),
                Ok(_) => return Err(Failure::new("the certificate stays the same")),
                Err(error) => {
                    return Err(Failure::new(format!("no certificate: {error}: {}", self.log())));
                }
            }
        }
    }

    /// Does a handshake, and returns the certificate of the server, which was verified.
    fn handshake(&self, trust: &Arc<ClientConfig>) -> io::Result<CertificateDer<'static>> {
        let mut socket = TcpStream::connect(self.tls)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let name = ServerName::from(std::net::IpAddr::from(Ipv4Addr::LOCALHOST));
        let mut client = ClientConnection::new(trust.clone(), name).map_err(io::Error::other)?;
        while client.is_handshaking() {
            client.complete_io(&mut socket)?;
        }
        let shown = client.peer_certificates().and_then(|chain| chain.first().cloned());
        shown.ok_or_else(|| io::Error::other("no certificate"))
    }

    /// Returns whether there is a certificate, and no order.
    fn is_finished(&self) -> io::Result<bool> {
        let files = self.files()?;
        let has = |end: &str| files.iter().any(|file| file.ends_with(end));
        Ok(has(".pem") && !has(".order"))
    }

    fn files(&self) -> io::Result<Vec<String>> {
        match std::fs::read_dir(self.directory.path().join("state")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
            Ok(entries) => {
                entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
            }
        }
    }

    /// Checks the files of a site that has its certificate: nothing of another one.
    fn check(&self, mistakes: &mut Vec<String>) -> io::Result<()> {
        let files = self.files()?;
        let count = files.iter().filter(|file| file.ends_with(".pem")).count();
        if count != 1 {
            mistakes.push(format!("{count} certificates: {files:?}"));
        }
        Ok(())
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("error.log")).unwrap_or_default()
    }
}

/// Lets the worker's user pass through the directory, which is the harness's alone.
fn make_readable(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755))
}

fn failed(error: io::Error) -> Failure {
    Failure::new(error.to_string())
}

impl fmt::Display for AcmeServerReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AcmeServerReport { first, kills, sites, orders, invalid, certificates, .. } = self;
        write!(
            f,
            "acme server: HTTPS after {:.1} s, {kills} kills, {sites} sites, {orders} orders of which {invalid} were \
             not validated, {certificates} certificates, {} renewals over {} reloads, {} mistakes",
            first.as_secs_f32(),
            self.renewals,
            self.reloads,
            self.mistakes.len()
        )
    }
}
