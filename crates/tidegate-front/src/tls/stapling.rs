//! `ssl_stapling`: OCSP responses that are sent along with our certificates (RFC 6066 section 8).
//!
//! A response is fetched when the plan comes into use, by a thread of its own for the time that takes, and again before
//! it expires. No handshake waits for it.

#[cfg(test)]
mod tests;

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{error, fmt};

use tidegate_codec::uri::{Escape, escape};
use tidegate_conf::{Diagnostic, Word};
use tidegate_core::credentials::padded_base64;
use tidegate_core::error_log::{ErrorLog, Level};
use tidegate_core::plan::Service;
use tidegate_plan::PlanBuilder;
use tidegate_rt::net::{ConnectOptions, ListenAddr, Stream};
use tidegate_rt::timer;
use tidegate_tls::stapling::{StatusCheck, StatusError};
use tidegate_tls::{Stapled, key_files};

use super::conf::Conf;

/// Responses are fetched again after this time at the latest.
const REFRESH: Duration = Duration::from_secs(3600);
/// The time until the next fetch after a failed one.
const RETRY: Duration = Duration::from_secs(300);
/// Limit for name lookup, connection, request and response together.
const FETCH_TIME_MAX: Duration = Duration::from_secs(60);
/// Longer responses are refused, bytes.
const RESPONSE_BYTES_MAX: usize = 64 * 1024;

/// Sets up stapling for a server's certificates, each with its directive's argument, as its directives say.
///
/// # Errors
/// A file that cannot be read, or a responder that is no URL.
pub(super) fn begin(
    conf: &Conf,
    certificates: &[(Arc<Stapled>, &Word)],
    plan: &mut PlanBuilder<'_>,
) -> Result<(), Diagnostic> {
    if !conf.stapling.unwrap_or(false) {
        return Ok(());
    }
    if let Some(word) = &conf.stapling_file {
        let response = plan.read_file(word)?;
        if !tidegate_tls::stapling::is_response(&response) {
            let name = plan.conf_path(&word.display());
            let message = format!("d2i_OCSP_RESPONSE_bio(\"{}\") failed", name.display());
            return Err(Diagnostic::emerg(message).at(word.span));
        }
        certificates.iter().for_each(|(own, _)| own.staple(Some(response.clone())));
        return Ok(());
    }
    let mut trusted = Vec::new();
    if let Some(word) = conf.trusted_certificate.as_ref().filter(|word| !word.bytes.is_empty()) {
        trusted = key_files::certificates(plan, word)?;
    }
    for (own, word) in certificates {
        match task(conf, own, &trusted, &plan.main.error_log) {
            Ok(task) => plan.services.push(Arc::new(task)),
            Err(reason) => {
                let name = plan.conf_path(&word.display());
                let message = format!("\"ssl_stapling\" ignored, {reason} \"{}\"", name.display());
                plan.diagnostics.push(Diagnostic::warn(message).at(word.span));
            }
        }
    }
    Ok(())
}

/// Why no response can be fetched for a certificate, in words in front of the certificate's name.
#[derive(Debug)]
enum StaplingError {
    NoIssuer,
    NoResponder,
    InvalidUrl,
}

impl fmt::Display for StaplingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StaplingError::NoIssuer => "issuer certificate not found for certificate",
            StaplingError::NoResponder => "no OCSP responder URL in the certificate",
            StaplingError::InvalidUrl => "invalid URL of the OCSP responder for the certificate",
        })
    }
}

impl error::Error for StaplingError {}

fn task(
    conf: &Conf,
    own: &Arc<Stapled>,
    trusted: &[Vec<u8>],
    log: &ErrorLog,
) -> Result<Stapling, StaplingError> {
    let verify = conf.stapling_verify.unwrap_or(false);
    let check = StatusCheck::new(own.clone(), trusted, verify).ok_or(StaplingError::NoIssuer)?;
    let url = match &conf.stapling_responder {
        Some(word) => word.display().into_owned(),
        None => check.responder().ok_or(StaplingError::NoResponder)?,
    };
    let request = check.question().ok_or(StaplingError::NoIssuer)?;
    let responder = Responder::new(&url, &request).ok_or(StaplingError::InvalidUrl)?;
    let fetch = OcspFetch { check, responder, log: log.clone() };
    Ok(Stapling { fetch: Arc::new(fetch), next: Arc::default() })
}

/// The task that keeps one certificate's response fresh.
struct Stapling {
    fetch: Arc<OcspFetch>,
    /// How long the last response holds; fetching in between.
    next: Arc<Mutex<FetchState>>,
}

#[derive(Default)]
enum FetchState {
    #[default]
    Now,
    Fetching,
    Later(Duration),
}

struct OcspFetch {
    check: StatusCheck,
    responder: Responder,
    log: ErrorLog,
}

/// The responder and the request to it.
pub(super) struct Responder {
    host: String,
    port: u16,
    head: String,
}

impl Service for Stapling {
    fn name(&self) -> String {
        "stapling".to_owned()
    }

    /// Begins a thread for each fetch: a slow responder delays no other service's step.
    fn step(&self) -> Duration {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        match *next {
            FetchState::Fetching => FETCH_TIME_MAX,
            FetchState::Later(time) => {
                *next = FetchState::Now;
                time
            }
            FetchState::Now => {
                *next = FetchState::Fetching;
                let (fetch, slot) = (self.fetch.clone(), self.next.clone());
                let fetch = move || {
                    let time = fetch.refresh();
                    *slot.lock().unwrap_or_else(PoisonError::into_inner) = FetchState::Later(time);
                };
                let thread = std::thread::Builder::new().name("stapling".to_owned()).spawn(fetch);
                if thread.is_err() {
                    *next = FetchState::Now;
                    return RETRY;
                }
                FETCH_TIME_MAX
            }
        }
    }
}

impl OcspFetch {
    /// Fetches a response; returns the time until the next fetch.
    fn refresh(&self) -> Duration {
        let fetched = tidegate_rt::block_on(timer::timeout(FETCH_TIME_MAX, self.responder.fetch()));
        let now = tidegate_rt::clock::unix_seconds();
        let result = match fetched {
            Ok(Ok(response)) => response.and_then(|response| self.take(response, now)),
            Ok(Err(_)) => Err(FetchError::Late),
            Err(error) => Err(FetchError::Loop(error)),
        };
        match result {
            Ok(time) => time,
            Err(reason) => {
                let text = format!(
                    "{reason} while requesting certificate status, responder: {}",
                    self.responder.host
                );
                self.log.say(Level::Error, format_args!("{text}"));
                match reason {
                    // What the responder says now holds: the certificate may be revoked.
                    FetchError::Status(_) => self.check.clear(),
                    _ => self.check.expire(now),
                }
                RETRY
            }
        }
    }

    /// Takes a response; returns how long it holds.
    fn take(&self, response: Vec<u8>, now: i64) -> Result<Duration, FetchError> {
        let next = self.check.take(response, now).map_err(FetchError::Status)?;
        let left = next.map(|next| next.saturating_sub(now).max(1));
        let left = left.and_then(|left| u64::try_from(left).ok()).map(Duration::from_secs);
        Ok(left.map_or(REFRESH, |left| left.min(REFRESH)))
    }
}

impl Responder {
    /// Makes a fetch target of a responder's URL and an OCSP request (RFC 6960 appendix A.1); `None` if it is no URL.
    pub(super) fn new(url: &str, request: &[u8]) -> Option<Responder> {
        let rest = url.strip_prefix("http://")?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
            _ => (authority, 80),
        };
        let printable = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if host.is_empty() || !printable(authority) || !printable(path) {
            return None;
        }
        let mut letters = Vec::new();
        escape(&padded_base64(request), Escape::Component, &mut letters);
        let request = String::from_utf8_lossy(&letters);
        let slash = if path.is_empty() || path.ends_with('/') { "" } else { "/" };
        let head = format!("GET /{path}{slash}{request} HTTP/1.0\r\nHost: {authority}\r\n\r\n");
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Some(Responder { host, port, head })
    }

    /// Sends the request and returns the response. The thread belongs to this fetch alone, so the name may be looked up
    /// by the system.
    ///
    /// Addresses are tried in the order in which the system gives them; the error of the last one is reported. Dropped
    /// at an await (the time limit), the connection closes.
    async fn fetch(&self) -> Result<Vec<u8>, FetchError> {
        let addresses = (self.host.as_str(), self.port).to_socket_addrs();
        self.fetch_at(addresses.map_err(|error| FetchError::Host(Some(error)))?).await
    }

    /// Returns the responder's host, without brackets.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// Returns the responder's port.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// As [`Responder::fetch`], from these addresses of the responder.
    pub(super) async fn fetch_at(
        &self,
        addresses: impl IntoIterator<Item = SocketAddr>,
    ) -> Result<Vec<u8>, FetchError> {
        let mut reason = FetchError::Host(None);
        for address in addresses {
            let options = ConnectOptions::default();
            match Stream::connect(&ListenAddr::Inet(address), &options).await {
                Ok(stream) => return self.ask(&stream).await,
                Err(error) => reason = FetchError::Connect(error),
            }
        }
        Err(reason)
    }

    async fn ask(&self, stream: &Stream) -> Result<Vec<u8>, FetchError> {
        stream.write_all(self.head.as_bytes()).await.map_err(FetchError::Responder)?;
        let mut bytes = Vec::new();
        loop {
            bytes.reserve(4096);
            if stream.read_append(&mut bytes).await.map_err(FetchError::Responder)? == 0 {
                break;
            }
            if bytes.len() > RESPONSE_BYTES_MAX {
                return Err(FetchError::TooLong);
            }
        }
        body(&bytes).ok_or(FetchError::Invalid)
    }
}

/// Why there is no response of a responder.
#[derive(Debug)]
pub(super) enum FetchError {
    /// The responder's name has no address.
    Host(Option<io::Error>),
    Connect(io::Error),
    /// The connection broke.
    Responder(io::Error),
    /// More than [`RESPONSE_BYTES_MAX`].
    TooLong,
    /// No response with status 200.
    Invalid,
    /// No response within [`FETCH_TIME_MAX`].
    Late,
    /// The response is not valid for the certificate.
    Status(StatusError),
    /// The thread got no event loop.
    Loop(io::Error),
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FetchError::Host(Some(error)) => write!(f, "host not found ({error})"),
            FetchError::Host(None) => f.write_str("host not found"),
            FetchError::Connect(error) => write!(f, "connect() failed ({error})"),
            FetchError::Responder(error) => write!(f, "OCSP responder failed ({error})"),
            FetchError::TooLong => f.write_str("OCSP responder sent too much"),
            FetchError::Invalid => f.write_str("OCSP responder sent invalid response"),
            FetchError::Late => f.write_str("OCSP responder timed out"),
            FetchError::Status(error) => error.fmt(f),
            FetchError::Loop(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for FetchError {}

/// Returns the body of a successful response that ends with its connection. Lines may end without a CR.
fn body(bytes: &[u8]) -> Option<Vec<u8>> {
    let fine = bytes.starts_with(b"HTTP/1.") && bytes.get(8..12) == Some(b" 200");
    let mut start = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        start += line.len();
        if matches!(line, b"\n" | b"\r\n") {
            return fine.then(|| bytes[start..].to_vec());
        }
    }
    None
}
