//! What connections need that the server opens for itself: to an ACME server, to a collector of spans, to a store.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tidegate_conf::{Diagnostic, Span, Word};
use tidegate_core::blocking;
use tidegate_plan::http_core::HttpCore;
use tidegate_plan::{Outline, PlanBuilder};
use tidegate_rt::clock;
use tidegate_tls::{TlsOptions, TlsSettings, cipher_suites, key_files};
use tidegate_upstream::resolve::Resolver;
use tidegate_upstream::{FetchSettings, NextUpstream};

/// Suites of TLS 1.2 towards the server, as OpenSSL's list.
const CIPHERS: &str = "DEFAULT";
/// The most certificates between the server's and a trusted one.
const VERIFY_DEPTH: u64 = 10;
/// Makes the TLS options of connections for `owner` (`acme_issuer "le"`), which is at `span`: the server's certificate must
/// be signed by one of `trusted`, else by one that the system trusts, unless `verify` is off. `remedy` says how to name
/// certificates, for the warning where the system has none.
///
/// # Errors
/// A file that cannot be read, or has no certificates.
pub fn tls_options(
    (owner, remedy): (&str, &str),
    trusted: Option<&Word>,
    verify: bool,
    span: Span,
    plan: &mut PlanBuilder<'_>,
) -> Result<TlsOptions, Diagnostic> {
    let trusted = match trusted {
        _ if !verify => Vec::new(),
        Some(word) => key_files::certificates(plan, word)?,
        None => key_files::system_certificates(|path| plan.environment.resources.read(path)),
    };
    if verify && trusted.is_empty() {
        let message = format!("the system has no trusted certificates for {owner}");
        let help = format!("install the package `ca-certificates`, or {remedy}");
        plan.diagnostics.push(Diagnostic::warn(message).at(span).help(help));
    }
    Ok(TlsOptions {
        tls12: true,
        tls13: true,
        suites: cipher_suites::tls12(CIPHERS),
        session_reuse: true,
        server_name: true,
        verify,
        trusted,
        verify_depth: VERIFY_DEPTH,
        ..TlsOptions::default()
    })
}

/// Compiles such options.
///
/// # Errors
/// The certificates are of no use.
pub fn tls(options: &TlsOptions, span: Span) -> Result<TlsSettings, Diagnostic> {
    TlsSettings::new(options).map_err(|error| Diagnostic::emerg(error.to_string()).at(span))
}

/// Returns the limits of a request: to connect (and to send), to read, for all of it, and for the bytes of the response's head.
/// Further addresses of the host are tried after an error or a timeout.
pub fn fetch_settings(
    connect: Duration,
    read: Duration,
    total: Duration,
    head_bytes: usize,
) -> FetchSettings {
    FetchSettings {
        connect_timeout: connect,
        send_timeout: connect,
        read_timeout: read,
        head_timeout: None,
        head_bytes_max: head_bytes,
        read_bytes: head_bytes,
        next_upstream: NextUpstream(NextUpstream::ERROR.0 | NextUpstream::TIMEOUT.0),
        next_upstream_tries: 0,
        next_upstream_timeout: total,
        socket_keepalive: false,
        receive_buffer: None,
        send_buffer: None,
        pass_trailers: false,
    }
}

/// Returns the `resolver` of the `http` block; `None` without one.
///
/// # Errors
/// An address of the directive is invalid.
pub fn resolver(http: &Outline, plan: &PlanBuilder<'_>) -> Result<Option<Resolver>, Diagnostic> {
    let Some(core) = http.conf::<HttpCore>() else { return Ok(None) };
    let Some(words) = &core.resolver else { return Ok(None) };
    let words: Vec<String> = words.iter().map(|word| word.display().into_owned()).collect();
    let look_up = |host: &str| plan.environment.resources.addresses(host);
    let resolver = Resolver::parse(&words, core.plain.settings().resolver_timeout, look_up);
    resolver.map(Some).map_err(|error| Diagnostic::emerg(error.to_string()))
}

/// Returns the addresses of a host, by `resolver`, or by the system on a pool thread; at least one.
///
/// # Errors
/// The reason in words for the log.
pub async fn addresses(
    resolver: Option<&Resolver>,
    host: &str,
    port: u16,
) -> Result<Vec<SocketAddr>, String> {
    let found = match resolver {
        Some(resolver) if host.parse::<IpAddr>().is_err() => {
            let found = resolver.resolve(host, clock::now()).await;
            let found = found.map_err(|error| format!("{host} could not be resolved ({error})"))?;
            return Ok(found.into_iter().map(|address| SocketAddr::new(address, port)).collect());
        }
        _ => blocking::addresses(host, port).await,
    };
    let found = found.map_err(|error| format!("{host} could not be resolved ({error})"))?;
    match found.is_empty() {
        true => Err(format!("{host} has no address")),
        false => Ok(found),
    }
}
