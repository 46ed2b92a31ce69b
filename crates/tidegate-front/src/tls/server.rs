//! From directives to what one server's handshakes need, and the checks over all servers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_conf::Diagnostic;
use tidegate_core::builder::{Outline, PlanBuilder};
use tidegate_core::client::Address;
use tidegate_core::http_core::HttpCore;
use tidegate_core::http_core::listen::ListenConf;
use tidegate_core::plan::{Plan, ServerId};
use tidegate_tls::sessions::{ServerSessions, SessionCache};
use tidegate_tls::tickets::{Keys, RandomKeys, TicketKey, Tickets};
use tidegate_tls::{cipher_suites, groups, key_files, suites};
use tokio_rustls::rustls::crypto::{CryptoProvider, aws_lc_rs};
use tokio_rustls::rustls::server::NoServerSessionStorage;
use tokio_rustls::rustls::{ServerConfig, version};

use super::Ssl;
use super::client::{self, ClientTrust};
use super::conf::{Conf, Protocols, SessionCacheConf, VerifyClient};
use super::keys::{self, Certificates};
use super::stapling::{self, Stapled};

/// A session's longest handshake (`ssl_handshake_timeout`).
pub(crate) fn session_handshake_timeout(plan: &Plan, server: ServerId) -> Duration {
    let settings = plan.server(server).extensions.of::<TlsServer>();
    settings.map_or(HANDSHAKE_TIMEOUT_DEFAULT, |settings| settings.handshake_timeout)
}

/// What a server brings to handshakes.
pub struct TlsServer {
    /// In `stream` only.
    handshake_timeout: Duration,
    /// `None` without certificates: the address's default server then lends its own.
    pub config: Option<Arc<ServerConfig>>,
    /// Whom clients are trusted by in handshakes with this `config`.
    pub clients: Option<ClientTrust>,
    /// What requests that reach this server need, whoever lent the certificate.
    pub verify_client: VerifyClient,
    pub reject: bool,
}

/// Protocols offered by ALPN, as nginx has them. HTTP/2 is to be put in front.
const ALPN: [&[u8]; 3] = [b"http/1.1", b"http/1.0", b"http/0.9"];
/// nginx's default.
const CIPHERS_DEFAULT: &str = "HIGH:!aNULL:!MD5";
/// nginx's default in `stream`.
const HANDSHAKE_TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(300);
/// The library's limits of a record's size (RFC 8449: at least 64 bytes).
const RECORD_BYTES_MIN: u64 = 64;
const RECORD_BYTES_MAX: u64 = 16 * 1024;
/// Tickets sent after a full handshake of TLS 1.3, as OpenSSL does.
const TICKETS_SENT: usize = 2;

/// Compiles one server's settings.
///
/// # Errors
/// The first mistake, in nginx's words.
pub fn compile(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<TlsServer, Diagnostic> {
    let reject = conf.reject_handshake.unwrap_or(false);
    let handshake_timeout = conf.handshake_timeout.unwrap_or(HANDSHAKE_TIMEOUT_DEFAULT);
    let verify_client = conf.verify_client.unwrap_or_default();
    let mut server =
        TlsServer { config: None, clients: None, verify_client, reject, handshake_timeout };
    if conf.certificates.is_empty() {
        return Ok(server);
    }
    let conf = &conf.after_commands();
    let certificates = Arc::new(certificates(conf, plan)?);
    let protocols = conf.protocols.unwrap_or_default();
    let provider = provider(conf, protocols, plan)?;
    let versions =
        [protocols.tls12.then_some(&version::TLS12), protocols.tls13.then_some(&version::TLS13)];
    let versions: Vec<_> = versions.into_iter().flatten().collect();
    let builder = ServerConfig::builder_with_provider(provider).with_protocol_versions(&versions);
    let builder = builder.map_err(|error| {
        let diagnostic = Diagnostic::emerg(format!("TLS settings cannot be used: {error}"));
        diagnostic.at(conf.certificates[0].span)
    })?;
    server.clients = client::compile(conf, plan)?;
    let context = context(&certificates, server.clients.as_ref());
    let builder = match &server.clients {
        Some(clients) => builder.with_client_cert_verifier(Arc::new(clients.verifier())),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(certificates);
    config.alpn_protocols = match plan.in_stream() {
        false => ALPN.iter().map(|name| name.to_vec()).collect(),
        true => conf.alpn.iter().flatten().map(|word| word.bytes.clone()).collect(),
    };
    config.ignore_client_order = conf.prefer_server_ciphers.unwrap_or(false);
    let record = conf.buffer_size.unwrap_or(RECORD_BYTES_MAX);
    if record < RECORD_BYTES_MAX {
        config.max_fragment_size = Some(record.max(RECORD_BYTES_MIN) as usize);
    }
    resumption(conf, plan, context, &mut config)?;
    server.config = Some(Arc::new(config));
    Ok(server)
}

fn certificates(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<Certificates, Diagnostic> {
    if conf.keys.len() < conf.certificates.len() {
        let last = &conf.certificates[conf.certificates.len() - 1];
        let name = last.display();
        let message = format!("no \"ssl_certificate_key\" is defined for certificate \"{name}\"");
        return Err(Diagnostic::emerg(message).at(last.span).label("its key is missing"));
    }
    let passwords = match &conf.password_file {
        Some(file) => key_files::passwords(&plan.read_file(file)?),
        None => Vec::new(),
    };
    let pairs = conf.certificates.iter().zip(&conf.keys);
    let pairs = pairs.map(|(certificate, key)| keys::load(plan, certificate, key, &passwords));
    let pairs = pairs.map(|pair| Ok(Arc::new(Stapled::new(pair?))));
    let pairs: Vec<_> = pairs.collect::<Result<_, Diagnostic>>()?;
    stapling::begin(conf, &pairs, plan)?;
    Ok(Certificates::new(pairs))
}

fn provider(
    conf: &Conf,
    protocols: Protocols,
    plan: &mut PlanBuilder<'_>,
) -> Result<Arc<CryptoProvider>, Diagnostic> {
    let list = conf.ciphers.as_ref().map(|word| word.display());
    let list = list.as_deref().unwrap_or(CIPHERS_DEFAULT);
    let tls12 = suites::tls12(list);
    // Lists do not concern TLS 1.3.
    if let (true, true, Some(word)) = (tls12.is_empty(), protocols.tls12, &conf.ciphers) {
        let found = cipher_suites::no_suite(word, protocols.tls13)
            .help("available: ECDHE with AES128-GCM, AES256-GCM and CHACHA20, for ECDSA and RSA");
        plan.note(match found.severity.is_fatal() {
            true => found.label("names no available cipher suite"),
            false => found,
        })?;
    }
    let mut chosen = groups::all();
    if let Some(word) = &conf.curves {
        let list = word.display();
        let failed = |reason: String| {
            let message = format!("SSL_CTX_set1_curves_list(\"{list}\") failed (SSL: {reason})");
            Diagnostic::emerg(message).at(word.span)
        };
        let parsed = groups::parse(&list);
        let parsed = parsed.map_err(|name| failed(format!("group '{name}' cannot be set")))?;
        if parsed.groups.is_empty() {
            return Err(failed("none is available".to_owned()));
        }
        if !parsed.unavailable.is_empty() {
            let names = parsed.unavailable.join(":");
            let message = format!("curve \"{names}\" is not available, ignored");
            plan.diagnostics.push(Diagnostic::warn(message).at(word.span));
        }
        chosen = parsed.groups;
    }
    let tls13 = suites::tls13(conf.suites_tls13.as_deref());
    let cipher_suites = tls13.into_iter().chain(tls12).collect();
    let provider = aws_lc_rs::default_provider();
    Ok(Arc::new(CryptoProvider { cipher_suites, kx_groups: chosen, ..provider }))
}

/// Tells servers' sessions apart by their certificates and those of their clients.
fn context(certificates: &Certificates, clients: Option<&ClientTrust>) -> [u8; 16] {
    let mut digest = ::aws_lc_rs::digest::Context::new(&::aws_lc_rs::digest::SHA256);
    let parts = certificates.parts();
    let clients = clients.into_iter().flat_map(ClientTrust::parts);
    for part in parts.iter().map(Vec::as_slice).chain(clients) {
        digest.update(&(part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    let digest = digest.finish();
    digest.as_ref().first_chunk().copied().unwrap_or_default()
}

/// Sizes of shared caches that were named in this build.
#[derive(Default)]
struct SharedSizes(Vec<(String, u64)>);

fn resumption(
    conf: &Conf,
    plan: &mut PlanBuilder<'_>,
    context: [u8; 16],
    config: &mut ServerConfig,
) -> Result<(), Diagnostic> {
    let timeout = conf.session_timeout.unwrap_or(TIMEOUT_DEFAULT);
    let cache = match &conf.session_cache {
        None | Some(SessionCacheConf::Off) => None,
        Some(SessionCacheConf::Builtin(entries)) => {
            Some(Arc::new(SessionCache::with_entries(*entries)))
        }
        Some(SessionCacheConf::Shared { name, bytes }) => Some(shared(plan, name, *bytes)?),
    };
    let kept = cache.is_some();
    config.session_storage = match cache {
        Some(cache) => Arc::new(ServerSessions { cache, timeout, context }),
        None => Arc::new(NoServerSessionStorage {}),
    };
    let tickets = conf.session_tickets.unwrap_or(true);
    if tickets {
        let keys = ticket_keys(conf, plan, timeout)?;
        config.ticketer = Arc::new(Tickets { keys, timeout, context });
    }
    config.send_tls13_tickets = if tickets || kept { TICKETS_SENT } else { 0 };
    Ok(())
}

fn shared(
    plan: &mut PlanBuilder<'_>,
    name: &str,
    bytes: u64,
) -> Result<Arc<SessionCache>, Diagnostic> {
    let sizes = &mut plan.shared::<SharedSizes>().0;
    match sizes.iter().find(|(known, _)| known == name) {
        None => sizes.push((name.to_owned(), bytes)),
        Some((_, size)) if *size == bytes => {}
        Some((_, size)) => {
            return Err(Diagnostic::emerg(format!(
                "the size {bytes} of shared memory zone \"{name}\" conflicts with already declared \
                 size {size}"
            )));
        }
    }
    let make = || Ok(SessionCache::with_bytes(bytes));
    plan.environment.survivors.get_or_make(&format!("{name}:{bytes}"), make)
}

fn ticket_keys(conf: &Conf, plan: &PlanBuilder<'_>, timeout: Duration) -> Result<Keys, Diagnostic> {
    if conf.ticket_keys.is_empty() {
        let make = || Ok::<_, Diagnostic>(RandomKeys::new(timeout));
        let name = format!("tickets:{}", timeout.as_secs());
        return Ok(Keys::Random(plan.environment.survivors.get_or_make(&name, make)?));
    }
    let mut keys = Vec::new();
    for word in &conf.ticket_keys {
        let bytes = plan.read_file(word)?;
        let key = TicketKey::from_file(&bytes).ok_or_else(|| {
            let path = plan.conf_path(&word.display());
            let message = format!("\"{}\" must be 48 or 80 bytes", path.display());
            Diagnostic::emerg(message).at(word.span)
        })?;
        keys.push(key);
    }
    Ok(Keys::Files(keys))
}

/// Each address with `ssl` needs a certificate: of its default server, or, when that one rejects
/// handshakes, of each server. Costs as much as there are `listen` directives.
pub fn check_listeners(plan: &mut PlanBuilder<'_>) {
    let Some(http) = plan.http_block() else { return };
    let mut places: HashMap<&Address, SharedPlace> = HashMap::new();
    for server in http.blocks("server") {
        for listen in listens(server) {
            let place = places.entry(&listen.address).or_insert_with(|| SharedPlace {
                lends: lends(server),
                default_written: false,
                tls: false,
            });
            if listen.default_server && !place.default_written {
                (place.lends, place.default_written) = (lends(server), true);
            }
            place.tls |= listen.tls;
        }
    }
    for server in http.blocks("server") {
        if lends(server) || rejects(server) {
            continue;
        }
        let mut places = listens(server).iter().filter_map(|listen| places.get(&listen.address));
        if places.any(|place| place.tls && !place.lends) {
            let message = "no \"ssl_certificate\" is defined for the \"listen ... ssl\" directive";
            let diagnostic = Diagnostic::emerg(message).at(server.span);
            plan.diagnostics.push(diagnostic.label("this server has no certificate"));
        }
    }
}

fn listens(server: &Outline) -> &[ListenConf] {
    server.conf::<HttpCore>().map_or(&[][..], |conf| &conf.listens)
}

/// What the servers of one address have in common.
struct SharedPlace {
    /// Whether its default server has a certificate: of those before, the first one counts until one is
    /// written as `default_server`.
    lends: bool,
    default_written: bool,
    /// Whether any of them listens with `ssl`.
    tls: bool,
}

fn lends(server: &Outline) -> bool {
    server.conf::<Ssl>().is_some_and(|conf| !conf.certificates.is_empty())
}

fn rejects(server: &Outline) -> bool {
    server.conf::<Ssl>().is_some_and(|conf| conf.reject_handshake == Some(true))
}
