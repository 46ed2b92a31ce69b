//! From directives to the settings of one server's handshakes, and the checks over all servers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_conf::{Diagnostic, Word};
use tidegate_core::client::Address;
use tidegate_core::plan::{Plan, ServerId};
use tidegate_plan::http_core::HttpCore;
use tidegate_plan::http_core::listen::ListenConf;
use tidegate_plan::{Outline, PlanBuilder};
use tidegate_tls::{
    Groups, ServerOptions, ServerProtocols, ServerSettings, SessionCache, Stapled, TicketKeys,
    cipher_suites, groups, key_files,
};

use super::chosen::{ChosenPairs, is_chosen};
use super::conf::{Conf, SessionCacheConf, VerifyClient};
use super::ocsp::ClientOcsp;
use super::ticket_keys::{self, TicketKeyConf};
use super::{Ssl, client, key_log, keys, ocsp, shared_zone, stapling};

/// Returns the time limit of a session's handshake (`ssl_handshake_timeout`).
pub(crate) fn session_handshake_timeout(plan: &Plan, server: ServerId) -> Duration {
    let settings = plan.server(server).extensions.of::<TlsServer>();
    settings.map_or(HANDSHAKE_TIMEOUT_DEFAULT, |settings| settings.handshake_timeout)
}

/// A server's settings for handshakes.
#[derive(Debug)]
pub(super) struct TlsServer {
    /// In `stream` only.
    handshake_timeout: Duration,
    /// `None` without certificates: the address's default server then lends its own.
    pub settings: Option<ServerSettings>,
    /// Certificates beside those of the settings, loaded for each handshake.
    pub chosen: Option<ChosenPairs>,
    /// The same with HTTP/2 in front of the other protocols; not in `stream`.
    pub settings_h2: Option<ServerSettings>,
    /// What requests to this server require, whichever server lent the certificate.
    pub verify_client: VerifyClient,
    pub reject: bool,
    /// Requests in the first flight of a resumed session are accepted (`ssl_early_data`).
    pub early_data: bool,
    /// Queries about clients' certificates; `None` where there are none.
    pub ocsp: Option<ClientOcsp>,
}

/// Protocols offered by ALPN, as nginx has them; the first one only where HTTP/2 is served.
const ALPN: [&[u8]; 4] = [b"h2", b"http/1.1", b"http/1.0", b"http/0.9"];
/// nginx's default.
const CIPHERS_DEFAULT: &str = "HIGH:!aNULL:!MD5";
/// nginx's default in `stream`.
const HANDSHAKE_TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(300);
/// Sessions that are kept for early data without a cache of their own: the size of OpenSSL's cache.
const EARLY_SESSIONS: usize = 20_480;
/// nginx's default (`ssl_buffer_size`).
const RECORD_BYTES_DEFAULT: u64 = 16 * 1024;

/// Compiles one server's settings.
///
/// # Errors
/// The first mistake, in nginx's words.
///
/// Invariant: a server without certificates has no settings of its own; a handshake with its name borrows those of the
/// default server ([`super::handshake`]). Session caches and ticket keys are kept by name across reloads. Sources: the
/// `ssl_*` directives; the others are in `client` (`ssl_verify_client`) and `stapling`.
pub(super) fn compile(
    conf: &Conf,
    outline: &Outline,
    plan: &mut PlanBuilder<'_>,
) -> Result<TlsServer, Diagnostic> {
    let reject = conf.reject_handshake.unwrap_or(false);
    let handshake_timeout = conf.handshake_timeout.unwrap_or(HANDSHAKE_TIMEOUT_DEFAULT);
    let verify_client = conf.verify_client.unwrap_or_default();
    let mut server = TlsServer {
        settings: None,
        settings_h2: None,
        chosen: None,
        verify_client,
        reject,
        early_data: false,
        handshake_timeout,
        ocsp: None,
    };
    if conf.certificates.is_empty() {
        return Ok(server);
    }
    // From here on with the changes of `ssl_conf_command`.
    let conf = &conf.after_commands();
    let (certificates, chosen) = certificates(conf, outline, plan)?;
    server.chosen = chosen;
    let protocols = protocols(conf, plan)?;
    server.ocsp = ocsp::compile(conf, outline, plan)?;
    let clients = client::compile(conf, plan)?;
    let names = |names: &[&[u8]]| names.iter().map(|name| name.to_vec()).collect();
    let alpn = match plan.in_stream() {
        false => names(&ALPN[1..]),
        true => conf.alpn.iter().flatten().map(|word| word.bytes.clone()).collect(),
    };
    let session_timeout = conf.session_timeout.unwrap_or(TIMEOUT_DEFAULT);
    let (sessions, tickets) = resumption(conf, plan, session_timeout)?;
    let early_data = tickets.is_none() && sessions.is_some() && conf.early_data == Some(true);
    server.early_data = early_data;
    let options = ServerOptions {
        protocols,
        certificates,
        clients,
        alpn,
        prefers_own_suites: conf.prefer_server_ciphers.unwrap_or(false),
        record_bytes_max: conf.buffer_size.unwrap_or(RECORD_BYTES_DEFAULT),
        session_timeout,
        sessions,
        tickets,
        early_data,
        compresses_certificates: conf.certificate_compression.unwrap_or(false),
        key_log: key_log::compile(conf, plan)?,
    };
    plan.show(&options);
    let settings = ServerSettings::new(options);
    server.settings_h2 = (!plan.in_stream()).then(|| settings.with_alpn(names(&ALPN)));
    server.settings = Some(settings);
    Ok(server)
}

/// Returns the cache of sessions and the keys of tickets. With early data tickets are names of sessions in a cache.
fn resumption(
    conf: &Conf,
    plan: &mut PlanBuilder<'_>,
    timeout: Duration,
) -> Result<(Option<Arc<SessionCache>>, Option<TicketKeys>), Diagnostic> {
    let has_tickets = conf.session_tickets.unwrap_or(true);
    let is_early = conf.early_data == Some(true);
    let sessions = match &conf.session_cache {
        None | Some(SessionCacheConf::Off) if is_early && has_tickets => {
            let make = || Ok::<_, Diagnostic>(SessionCache::with_entries(EARLY_SESSIONS));
            Some(plan.environment.reload_state.get_or_make("early data", make)?)
        }
        None | Some(SessionCacheConf::Off) => None,
        Some(SessionCacheConf::Builtin(entries)) => {
            Some(Arc::new(SessionCache::with_entries(*entries)))
        }
        Some(SessionCacheConf::Shared { name, bytes }) => {
            Some(shared_zone::cache(plan, name, *bytes, SessionCache::with_bytes)?)
        }
    };
    let tickets =
        has_tickets.then(|| ticket_keys::compile(&conf.ticket_keys, plan, timeout)).transpose()?;
    if is_early && let Some(TicketKeyConf { file: word, .. }) = conf.ticket_keys.first() {
        let message = "\"ssl_session_ticket_key\" is not used with \"ssl_early_data\"";
        let found = Diagnostic::warn(message).at(word.span);
        plan.diagnostics.push(found.label("each session is kept here and resumed once"));
    }
    Ok((sessions, tickets.filter(|_| !is_early)))
}

/// Loads the certificates whose names are constant, and compiles the names of the others.
fn certificates(
    conf: &Conf,
    outline: &Outline,
    plan: &mut PlanBuilder<'_>,
) -> Result<(Vec<Arc<Stapled>>, Option<ChosenPairs>), Diagnostic> {
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
    let (chosen, fixed): (Vec<_>, Vec<_>) =
        pairs.partition(|(certificate, key)| is_chosen(certificate, key));
    let mut stapled = Vec::new();
    let name = server_name(outline);
    for (certificate, key) in &fixed {
        let pair = keys::load(plan, certificate, key, &passwords, &name)?;
        stapled.push((Arc::new(Stapled::new(pair)), *certificate));
    }
    stapling::begin(conf, &stapled, plan)?;
    let cache = conf.certificate_cache.clone().flatten();
    let chosen = match chosen.is_empty() {
        true => None,
        false => Some(ChosenPairs::compile(&chosen, passwords, cache, plan)?),
    };
    Ok((stapled.into_iter().map(|(stapled, _)| stapled).collect(), chosen))
}

/// Returns the first name of a server block; empty without one.
fn server_name(outline: &Outline) -> String {
    let first = outline.conf::<HttpCore>().and_then(|conf| conf.server_names.first());
    first.map_or_else(String::new, |name| name.display().into_owned())
}

fn protocols(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<ServerProtocols, Diagnostic> {
    let versions = conf.protocols.unwrap_or_default();
    let list = conf.ciphers.as_ref().map(|word| word.display());
    let list = list.as_deref().unwrap_or(CIPHERS_DEFAULT);
    let suites = cipher_suites::tls12(list);
    // OpenSSL's cipher lists do not concern TLS 1.3.
    if let (true, true, Some(word)) = (suites.is_empty(), versions.tls12, &conf.ciphers) {
        let found = cipher_suites::no_suite(word, versions.tls13)
            .help("available: ECDHE with AES128-GCM, AES256-GCM and CHACHA20, for ECDSA and RSA");
        plan.note(match found.severity.is_fatal() {
            true => found.label("names no available cipher suite"),
            false => found,
        })?;
    }
    let groups = match &conf.curves {
        Some(word) => curves(word, plan)?,
        None => Groups::default(),
    };
    let chosen = conf.suites_tls13.as_deref();
    plan.show(&(versions, &suites, chosen, &groups));
    let protocols = ServerProtocols::new(versions.tls12, versions.tls13, &suites, chosen, groups);
    protocols.map_err(|error| {
        let diagnostic = Diagnostic::emerg(format!("TLS settings cannot be used: {error}"));
        diagnostic.at(conf.certificates[0].span)
    })
}

/// Parses `ssl_ecdh_curve`.
fn curves(word: &Word, plan: &mut PlanBuilder<'_>) -> Result<Groups, Diagnostic> {
    let list = word.display();
    let failed = |reason: String| {
        let message = format!("SSL_CTX_set1_curves_list(\"{list}\") failed (SSL: {reason})");
        Diagnostic::emerg(message).at(word.span)
    };
    let groups = groups::parse(&list);
    let groups = groups.map_err(|unknown| failed(unknown.to_string()))?;
    if groups.is_empty() {
        return Err(failed("none is available".to_owned()));
    }
    if !groups.unavailable.is_empty() {
        let names = groups.unavailable.join(":");
        let message = format!("curve \"{names}\" is not available, ignored");
        plan.diagnostics.push(Diagnostic::warn(message).at(word.span));
    }
    Ok(groups)
}

/// Checks that each address with `ssl` or `quic` has a certificate: of its default server, or, when that one rejects
/// handshakes, of each server; and that the default server of an address with `quic` has TLS 1.3. The cost is linear in
/// the number of `listen` directives.
pub(super) fn check_listeners(plan: &mut PlanBuilder<'_>) {
    let Some(http) = plan.http_block() else { return };
    let mut by_address: HashMap<(&Address, bool), AddressServers<'_>> = HashMap::new();
    for server in http.blocks("server") {
        for listen in listens(server) {
            let shared = by_address.entry(place(listen)).or_insert_with(|| AddressServers {
                default: server,
                default_written: false,
                tls: false,
            });
            if listen.default_server && !shared.default_written {
                (shared.default, shared.default_written) = (server, true);
            }
            shared.tls |= listen.tls || listen.quic;
        }
    }
    if !by_address.values().any(|shared| shared.tls) {
        return;
    }
    for server in http.blocks("server") {
        let shared = || {
            let at = |listen| Some((listen, by_address.get(&place(listen))?));
            listens(server).iter().filter_map(at)
        };
        let mut defaults = shared().filter(|(_, shared)| std::ptr::eq(shared.default, server));
        if lends(server) && !has_tls13(server) && defaults.any(|(listen, _)| listen.quic) {
            let message =
                "\"ssl_protocols\" must enable TLSv1.3 for the \"listen ... quic\" directive";
            let diagnostic = Diagnostic::emerg(message).at(server.span);
            plan.diagnostics.push(diagnostic.label("this server has older versions alone"));
        }
        if lends(server) || rejects(server) {
            continue;
        }
        if let Some((listen, _)) = shared().find(|(_, shared)| shared.tls && !lends(shared.default))
        {
            let protocol = if listen.quic { "quic" } else { "ssl" };
            let message = format!(
                "no \"ssl_certificate\" is defined for the \"listen ... {protocol}\" directive"
            );
            let diagnostic = Diagnostic::emerg(message).at(server.span);
            plan.diagnostics.push(diagnostic.label("this server has no certificate"));
        }
    }
}

/// Returns the identity of a listener.
fn place(listen: &ListenConf) -> (&Address, bool) {
    (&listen.address, listen.datagram)
}

fn listens(server: &Outline) -> &[ListenConf] {
    server.conf::<HttpCore>().map_or(&[][..], |conf| &conf.listens)
}

/// What the servers of one address have in common.
struct AddressServers<'p> {
    /// Its default server: the first one until one is written as `default_server`.
    default: &'p Outline,
    default_written: bool,
    /// Whether any of the servers listens with `ssl` or `quic`.
    tls: bool,
}

fn has_tls13(server: &Outline) -> bool {
    let conf = server.conf::<Ssl>();
    conf.is_none_or(|conf| conf.after_commands().protocols.is_none_or(|protocols| protocols.tls13))
}

fn lends(server: &Outline) -> bool {
    server.conf::<Ssl>().is_some_and(|conf| !conf.certificates.is_empty())
}

fn rejects(server: &Outline) -> bool {
    server.conf::<Ssl>().is_some_and(|conf| conf.reject_handshake == Some(true))
}
