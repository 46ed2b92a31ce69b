//! What connections need that the server opens for itself: to an ACME server, to a collector of spans.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use tidegate_conf::{Diagnostic, Span, Word};
use tidegate_core::blocking;
use tidegate_plan::http_core::HttpCore;
use tidegate_plan::{Outline, PlanBuilder};
use tidegate_rt::clock;
use tidegate_tls::{TlsOptions, TlsSettings, cipher_suites, key_files};
use tidegate_upstream::resolve::Resolver;

/// Suites of TLS 1.2 towards the server, as OpenSSL's list.
const CIPHERS: &str = "DEFAULT";
/// The most certificates between the server's and a trusted one.
const VERIFY_DEPTH: u64 = 10;
/// Makes the TLS settings of connections for `owner` (`acme_issuer "le"`), which is at `span`: the server's certificate
/// must be signed by one of `trusted`, else by one that the system trusts, unless `verify` is off.
///
/// # Errors
/// A file that cannot be read, or has no certificates.
pub(super) fn tls(
    owner: &str,
    trusted: Option<&Word>,
    verify: bool,
    span: Span,
    plan: &mut PlanBuilder<'_>,
) -> Result<TlsSettings, Diagnostic> {
    let trusted = match trusted {
        _ if !verify => Vec::new(),
        Some(word) => key_files::certificates(plan, word)?,
        None => system_bundle(owner, span, plan),
    };
    let options = TlsOptions {
        tls12: true,
        tls13: true,
        suites: cipher_suites::tls12(CIPHERS),
        session_reuse: true,
        server_name: true,
        verify,
        trusted,
        verify_depth: VERIFY_DEPTH,
        ..TlsOptions::default()
    };
    let settings = TlsSettings::new(&options);
    settings.map_err(|error| Diagnostic::emerg(error.to_string()).at(span))
}

fn system_bundle(owner: &str, span: Span, plan: &mut PlanBuilder<'_>) -> Vec<Vec<u8>> {
    let resources = plan.environment.resources;
    let trusted = key_files::system_certificates(|path| resources.read(path));
    if trusted.is_empty() {
        let message = format!("the system has no trusted certificates for {owner}");
        let found = Diagnostic::warn(message).at(span);
        plan.diagnostics.push(
            found.help("install the package `ca-certificates`, or name a file with certificates"),
        );
    }
    trusted
}

/// Returns the `resolver` of the `http` block; `None` without one.
///
/// # Errors
/// An address of the directive is invalid.
pub(super) fn resolver(
    http: &Outline,
    plan: &PlanBuilder<'_>,
) -> Result<Option<Resolver>, Diagnostic> {
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
pub(super) async fn addresses(
    resolver: Option<&Resolver>,
    host: &str,
    port: u16,
) -> Result<Vec<SocketAddr>, String> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    if let Some(resolver) = resolver {
        let found = resolver.resolve(host, clock::now()).await;
        let found = found.map_err(|error| format!("{host} could not be resolved ({error})"))?;
        return Ok(found.into_iter().map(|address| SocketAddr::new(address, port)).collect());
    }
    let name = host.to_owned();
    let look_up = move || (name.as_str(), port).to_socket_addrs().map(Vec::from_iter);
    let found = blocking::run(look_up).await;
    let found =
        found.map_err(|error: io::Error| format!("{host} could not be resolved ({error})"))?;
    match found.is_empty() {
        true => Err(format!("{host} has no address")),
        false => Ok(found),
    }
}
