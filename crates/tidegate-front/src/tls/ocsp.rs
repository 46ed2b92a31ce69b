//! `ssl_ocsp`: before a client with a trusted certificate is served, OCSP responders are asked whether certificates of
//! its chain were revoked (RFC 6960).
//!
//! The queries run in the connection's task behind the handshake, so a slow responder delays its connection alone. They
//! have as long as the handshake. No response is as bad as a revoked certificate.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tidegate_conf::{Diagnostic, Word};
use tidegate_core::client::CertificateError;
use tidegate_plan::http_core::HttpCore;
use tidegate_plan::{Outline, PlanBuilder};
use tidegate_rt::clock;
use tidegate_rt::net::Addr;
use tidegate_rt::timer::timeout;
use tidegate_tls::{StatusCache, StatusQuery, StatusScope};
use tidegate_upstream::resolve::{HostPortError, ResolveError, Resolver, addresses, parse};

use super::conf::{Conf, OcspCacheConf, VerifyClient};
use super::shared_zone;
use super::stapling::{FetchError, Responder};

/// The settings of a server's queries.
#[derive(Debug)]
pub(super) struct ClientOcsp {
    /// `ssl_ocsp_responder`; `None` for the one that each certificate names.
    responder: Option<KnownResponder>,
    cache: Option<Arc<StatusCache>>,
    /// `resolver`, for the names of responders in certificates.
    resolver: Option<Resolver>,
}

/// A responder whose addresses were looked up with the configuration.
#[derive(Debug)]
struct KnownResponder {
    url: String,
    addresses: Vec<SocketAddr>,
}

/// A failed query: the responder's host, and the reason.
pub(super) struct QueryError {
    pub(super) host: String,
    pub(super) reason: QueryFailure,
}

/// Why a query failed, in words for the log.
pub(super) enum QueryFailure {
    NoResponder,
    NoResolver,
    Unresolved(ResolveError),
    Fetch(FetchError),
}

const URL_PREFIX: &str = "http://";
const PORT_DEFAULT: u16 = 80;
/// nginx's limit for a query.
const QUERY_TIME_MAX: Duration = Duration::from_secs(60);
/// nginx's words; these have no number.
const REVOKED: CertificateError =
    CertificateError { number: 0, text: "certificate revoked", is_about_trust: false };
const FAILED: CertificateError = CertificateError {
    number: 0,
    text: "certificate status request failed",
    is_about_trust: false,
};

/// Compiles the directives of a server; `None` where no status is queried.
///
/// # Errors
/// A responder that is no URL or has no address, `ssl_verify_client optional_no_ca`, or a cache of two sizes.
pub(super) fn compile(
    conf: &Conf,
    outline: &Outline,
    plan: &mut PlanBuilder<'_>,
) -> Result<Option<ClientOcsp>, Diagnostic> {
    if conf.ocsp.unwrap_or_default() == StatusScope::None {
        return Ok(None);
    }
    match conf.verify_client.unwrap_or_default() {
        VerifyClient::Off => return Ok(None),
        VerifyClient::OptionalNoCa => {
            let message = "\"ssl_ocsp\" is incompatible with \"ssl_verify_client optional_no_ca\"";
            return Err(Diagnostic::emerg(message).at(outline.span));
        }
        VerifyClient::On | VerifyClient::Optional => {}
    }
    let responder = conf.ocsp_responder.as_ref();
    let responder = responder.map(|word| known_responder(word, plan)).transpose()?;
    let cache = match &conf.ocsp_cache {
        Some(OcspCacheConf::Shared { name, bytes }) => {
            Some(shared_zone::cache(plan, name, *bytes, StatusCache::with_bytes)?)
        }
        None | Some(OcspCacheConf::Off) => None,
    };
    Ok(Some(ClientOcsp { responder, cache, resolver: resolver(outline, plan)? }))
}

fn known_responder(word: &Word, plan: &PlanBuilder<'_>) -> Result<KnownResponder, Diagnostic> {
    let url = word.display().into_owned();
    let failed = |error: &str, url: &str| {
        let message = format!("{error} in OCSP responder \"{url}\" in \"ssl_ocsp_responder\"");
        Diagnostic::emerg(message).at(word.span)
    };
    let rest = url.strip_prefix(URL_PREFIX).filter(|rest| !rest.is_empty());
    let Some(rest) = rest else { return Err(failed("invalid URL prefix", &url)) };
    let authority = rest.split('/').next().unwrap_or(rest);
    let invalid = |error: HostPortError| failed(&error.to_string(), rest);
    let host = parse(authority, PORT_DEFAULT).map_err(invalid)?;
    let look_up = |name: &str| plan.environment.resources.addresses(name);
    let found = addresses(&host, PORT_DEFAULT, look_up).map_err(invalid)?;
    let inet = found.into_iter().filter_map(|address| match address {
        Addr::Inet(address) => Some(address),
        Addr::Unix(_) => None,
    });
    let addresses: Vec<SocketAddr> = inet.collect();
    if addresses.is_empty() || Responder::new(&url, b"").is_none() {
        return Err(failed("invalid host", rest));
    }
    Ok(KnownResponder { url, addresses })
}

fn resolver(outline: &Outline, plan: &PlanBuilder<'_>) -> Result<Option<Resolver>, Diagnostic> {
    let Some(core) = outline.conf::<HttpCore>() else { return Ok(None) };
    let Some(words) = &core.resolver else { return Ok(None) };
    let words: Vec<String> = words.iter().map(|word| word.display().into_owned()).collect();
    let look_up = |host: &str| plan.environment.resources.addresses(host);
    let resolver = Resolver::parse(&words, core.plain.settings().resolver_timeout, look_up);
    resolver.map(Some).map_err(|error| Diagnostic::emerg(error.to_string()))
}

impl ClientOcsp {
    /// Queries the statuses of a chain, one after the other, all together within `limit`. Returns the reason why the
    /// client is not trusted after all; `report` gets the failures of queries.
    ///
    /// Cancelling: dropped while it waits, the connection to the responder closes.
    pub(super) async fn fault(
        &self,
        queries: &[StatusQuery],
        limit: Duration,
        report: impl Fn(&QueryError),
    ) -> Option<CertificateError> {
        let end = clock::now() + limit.min(QUERY_TIME_MAX);
        for query in queries {
            let left = end.saturating_duration_since(clock::now());
            match self.revoked(query, left).await {
                Ok(false) => {}
                Ok(true) => return Some(REVOKED),
                Err(error) => {
                    report(&error);
                    return Some(FAILED);
                }
            }
        }
        None
    }

    /// Returns whether a certificate was revoked: by the cache, or by its responder.
    async fn revoked(&self, query: &StatusQuery, limit: Duration) -> Result<bool, QueryError> {
        let failed = |host: &str, reason| QueryError { host: host.to_owned(), reason };
        let named = || query.responder();
        let url = self.responder.as_ref().map(|known| known.url.clone()).or_else(named);
        let (Some(url), Some(request)) = (url, query.request()) else {
            return Err(failed("", QueryFailure::NoResponder));
        };
        let now = clock::unix_seconds();
        let cached = self.cache.as_ref().and_then(|cache| cache.find(&request, now));
        if let Some(revoked) = cached {
            return Ok(revoked);
        }
        let Some(responder) = Responder::new(&url, &request) else {
            return Err(failed("", QueryFailure::NoResponder));
        };
        let fetch = async {
            let addresses = self.addresses(&responder).await?;
            responder.fetch_at(addresses).await.map_err(QueryFailure::Fetch)
        };
        let fetched = timeout(limit, Box::pin(fetch)).await;
        let response = fetched.unwrap_or(Err(QueryFailure::Fetch(FetchError::Late)));
        let response = response.map_err(|reason| failed(responder.host(), reason))?;
        let status = query.verify(&response, clock::unix_seconds()).map_err(|error| {
            failed(responder.host(), QueryFailure::Fetch(FetchError::Status(error)))
        })?;
        if let Some(cache) = &self.cache {
            cache.put(&request, status);
        }
        Ok(status.revoked)
    }

    async fn addresses(&self, responder: &Responder) -> Result<Vec<SocketAddr>, QueryFailure> {
        if let Some(known) = &self.responder {
            return Ok(known.addresses.clone());
        }
        let (host, port) = (responder.host(), responder.port());
        let found: Vec<IpAddr> = match host.parse() {
            Ok(address) => vec![address],
            Err(_) => match &self.resolver {
                None => return Err(QueryFailure::NoResolver),
                Some(resolver) => {
                    let found = resolver.resolve(host, clock::now()).await;
                    found.map_err(QueryFailure::Unresolved)?
                }
            },
        };
        Ok(found.into_iter().map(|address| SocketAddr::new(address, port)).collect())
    }
}

impl std::fmt::Display for QueryError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.reason {
            QueryFailure::NoResponder => f.write_str("no OCSP responder URL in certificate"),
            QueryFailure::NoResolver => {
                write!(f, "no resolver defined to resolve {}", self.host)
            }
            QueryFailure::Unresolved(error) => {
                write!(f, "{} could not be resolved ({error})", self.host)
            }
            QueryFailure::Fetch(error) => write!(f, "{error}"),
        }
    }
}
