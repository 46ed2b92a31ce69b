//! Handshakes of QUIC: the choice of a server's settings by the client's hello, as over TCP, and what is known behind it.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_codec::request::parse_host;
use tidegate_core::client::{CertificateError, Connection, TlsInfo};
use tidegate_core::error_log::Level;
use tidegate_core::exchange::{Captures, PlanRef};
use tidegate_core::listen::VirtualServers;
use tidegate_core::plan::{Plan, ServerId};
use tidegate_quic::{Closed, ClosedBy};
use tidegate_tls::quic::{QuicHello, QuicNegotiated, QuicServers};
use tidegate_tls::{ServerSettings, StatusQuery};

use super::chosen::{ChosenPairs, HandshakeOwner};
use super::conf::VerifyClient;
use super::figures::{Handshake, HandshakeEvent};
use super::handshake;
use super::ocsp::QueryError;
use super::server::TlsServer;
use super::variables;
use crate::h3::directives::Http3Server;
use crate::listener::ListenerRef;
use crate::serve::scratch::no_connection;

/// The protocols for ALPN.
const HTTP3: &[u8] = b"h3";
pub(crate) const HQ_INTEROP: &[u8] = b"hq-interop";
/// The only protocol of a server that offers none: no client has it, so that the handshake ends with
/// `no_application_protocol` (RFC 9001 section 8.1).
const NO_PROTOCOL: &[u8] = b"\0";
/// Bytes of a session's number, as in OpenSSL.
const SESSION_ID_BYTES: usize = 32;

/// The alert of RFC 8446 section 6.2.
const PROTOCOL_VERSION: u8 = 70;

/// The end of a handshake that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandshakeFailure {
    /// The client went silent.
    Timeout,
    /// An alert of either side (RFC 9001 section 4.8).
    Alert(u8),
    /// Another end.
    Other,
}

impl HandshakeFailure {
    /// Returns what the end of a connection says of its handshake.
    pub(crate) fn of(closed: &Closed) -> HandshakeFailure {
        // Errors of TLS are its alerts, from there on (RFC 9000 section 20.1).
        const CRYPTO_ERROR: u64 = 0x100;
        match closed.by {
            ClosedBy::IdleTimeout => HandshakeFailure::Timeout,
            ClosedBy::Transport(code) => match code.checked_sub(CRYPTO_ERROR).map(u8::try_from) {
                Some(Ok(alert)) => HandshakeFailure::Alert(alert),
                _ => HandshakeFailure::Other,
            },
            _ => HandshakeFailure::Other,
        }
    }
}

/// The servers of one listener of a plan.
pub(crate) struct QuicNames {
    plan: Arc<Plan>,
    listener_ref: ListenerRef,
    /// The settings of servers for QUIC, made at their first handshakes: by the server that lends them and whether the
    /// server that is meant has HTTP/3 and HTTP/0.9.
    made: Mutex<HashMap<(ServerId, bool, bool), Arc<ServerSettings>>>,
}

impl QuicNames {
    /// `listener_ref` belongs to the plan.
    pub(crate) fn new(plan: Arc<Plan>, listener_ref: ListenerRef) -> QuicNames {
        QuicNames { plan, listener_ref, made: Mutex::default() }
    }

    /// Returns the settings for a name, and the server that lends them.
    fn lent(&self, name: Option<&str>) -> Option<(Arc<ServerSettings>, &TlsServer, ServerId)> {
        let plan = &*self.plan;
        let servers = self.listener_ref.servers(plan)?;
        let of = |server: ServerId| plan.server(server).extensions.of::<TlsServer>();
        let meant = named(servers, name).unwrap_or(servers.default);
        if of(meant).is_some_and(|meant| meant.reject) {
            return None;
        }
        let http3 = Http3Server::of(plan, meant);
        let has_http3 = http3.is_some_and(|server| server.enabled);
        let has_hq = http3.is_some_and(|server| server.hq);
        let lends = |server: ServerId| {
            let tls = of(server)?;
            Some((tls, tls.settings.as_ref()?, server))
        };
        let (tls, settings, server) = lends(meant).or_else(|| lends(servers.default))?;
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let settings = made.entry((server, has_http3, has_hq)).or_insert_with(|| {
            let offered = [(HTTP3, has_http3), (HQ_INTEROP, has_hq)];
            let offered = offered.iter().filter(|(_, has)| *has);
            let mut alpn: Vec<_> = offered.map(|(name, _)| name.to_vec()).collect();
            if alpn.is_empty() {
                alpn.push(NO_PROTOCOL.to_vec());
            }
            Arc::new(settings.for_quic(alpn, tls.early_data))
        });
        Some((settings.clone(), tls, server))
    }

    /// Returns what variables show of a handshake, as far as it is, and the queries by which the client's certificate is to
    /// be verified further (`ssl_ocsp`). `early` is shared with the connection, where there may be early data.
    pub(crate) fn known(&self, negotiated: QuicNegotiated) -> (TlsInfo, Vec<StatusQuery>) {
        let QuicNegotiated { hello, mut negotiated } = negotiated;
        let statuses = negotiated.client.as_mut().map(|shown| std::mem::take(&mut shown.statuses));
        let plan = &*self.plan;
        let name = hello.server_name.as_deref();
        let servers = self.listener_ref.servers(plan);
        let server_named = servers.is_some_and(|servers| named(servers, name).is_some());
        let mut known = TlsInfo { server_named, ..TlsInfo::default() };
        if let Some((settings, tls, _)) = self.lent(name) {
            handshake::keep(negotiated, &settings, &mut known);
            known.early = tls.early_data.then(|| Rc::new(Cell::new(true)));
        }
        known.server_name = hello.server_name;
        if plan.variables.find(variables::CIPHERS).is_some() {
            known.offered_ciphers = hello.cipher_suites;
        }
        if plan.variables.find(variables::CURVES).is_some() {
            known.offered_groups = hello.groups;
        }
        if plan.variables.find(variables::SIGNATURES).is_some() {
            known.offered_signatures = hello.signature_schemes;
        }
        let mut id = vec![0; SESSION_ID_BYTES];
        tidegate_rt::random::unpredictable(&mut id);
        known.session_id = id;
        (known, statuses.unwrap_or_default())
    }

    /// Counts a handshake that was completed.
    pub(crate) fn count(&self, info: &Connection) {
        let (Some(servers), Some(known)) = (self.listener_ref.servers(&self.plan), &info.tls)
        else {
            return;
        };
        let name = known.server_name.as_deref();
        let requires =
            self.lent(name).is_some_and(|(_, tls, _)| tls.verify_client == VerifyClient::On);
        let mut owner = HandshakeOwner::Connection(PlanRef::new(self.plan.clone()));
        let server = named(servers, name).unwrap_or(servers.default);
        Handshake { owner: &mut owner, server, connection: info, known }.done(requires);
    }

    /// Counts a handshake that failed; `alert` is that of the client or of the server.
    pub(crate) fn count_failed(&self, info: &Connection, end: HandshakeFailure) {
        let Some(servers) = self.listener_ref.servers(&self.plan) else { return };
        let event = match end {
            HandshakeFailure::Timeout => Some(HandshakeEvent::Timeout),
            HandshakeFailure::Alert(PROTOCOL_VERSION) => Some(HandshakeEvent::NoCommonProtocol),
            HandshakeFailure::Alert(42..=46 | 48) => Some(HandshakeEvent::RejectedCertificate),
            HandshakeFailure::Alert(_) | HandshakeFailure::Other => None,
        };
        let mut owner = HandshakeOwner::Connection(PlanRef::new(self.plan.clone()));
        let (server, known) = (servers.default, &TlsInfo::default());
        Handshake { owner: &mut owner, server, connection: info, known }.failed(event);
    }

    /// Returns the reason why the client of a handshake is not trusted after all, by the statuses of its certificates.
    pub(crate) async fn fault(
        &self,
        info: &Connection,
        statuses: &[StatusQuery],
    ) -> Option<CertificateError> {
        let name = info.tls.as_ref().and_then(|tls| tls.server_name.as_deref());
        let (_, tls, _) = self.lent(name)?;
        let servers = self.listener_ref.servers(&self.plan)?;
        let default = self.plan.server(servers.default);
        let log = &self.plan.location(default.location).settings.error_log;
        let report = |error: &QueryError| handshake::report_query(log, info, error);
        let limit = default.settings.client_header_timeout;
        tls.ocsp.as_ref()?.fault(statuses, limit, report).await
    }

    /// Loads the certificates that variables name for a client's hello, and returns its server; `None` where the server has
    /// no such certificates. The transport does not wait for settings, so that they are loaded before a connection begins.
    pub(crate) async fn load(&self, hello: QuicHello) -> Option<Loaded> {
        let (settings, tls, server) = self.lent(hello.server_name.as_deref())?;
        let chosen = tls.chosen.as_ref()?;
        let settings = self.with_chosen(&settings, chosen, server, &hello).await.map(Arc::new);
        Some(Loaded { hello, settings })
    }

    async fn with_chosen(
        &self,
        settings: &ServerSettings,
        chosen: &ChosenPairs,
        server: ServerId,
        hello: &QuicHello,
    ) -> Option<ServerSettings> {
        let mut owner = HandshakeOwner::Connection(PlanRef::new(self.plan.clone()));
        let known = TlsInfo { server_name: hello.server_name.clone(), ..TlsInfo::default() };
        match chosen.load(&mut owner, server, &no_connection(), &known).await {
            Ok(pairs) => Some(settings.with_pairs(&pairs)),
            Err(reason) => {
                let location = self.plan.location(self.plan.server(server).location);
                let text = format!("{reason} while SSL handshaking");
                location.settings.error_log.say(Level::Error, format_args!("{text}"));
                None
            }
        }
    }
}

fn named(servers: &VirtualServers, name: Option<&str>) -> Option<ServerId> {
    let name = parse_host(name?.as_bytes())?;
    servers.find_named(name.as_bytes(), &mut Captures::default()).map(|(server, _)| server)
}

impl QuicServers for QuicNames {
    fn choose(&self, hello: &QuicHello) -> Option<Arc<ServerSettings>> {
        let (settings, tls, _) = self.lent(hello.server_name.as_deref())?;
        // A server whose certificates are chosen has a `Loaded` for this hello.
        tls.chosen.is_none().then_some(settings)
    }
}

/// Returns whether variables name certificates of any server of a plan: [`QuicNames::load`] is to be called with each hello.
pub(crate) fn has_chosen(plan: &Plan) -> bool {
    plan.servers
        .iter()
        .any(|server| server.extensions.of::<TlsServer>().is_some_and(|tls| tls.chosen.is_some()))
}

/// The server of one hello, with certificates that were loaded for it, if they could be.
pub(crate) struct Loaded {
    hello: QuicHello,
    settings: Option<Arc<ServerSettings>>,
}

impl QuicServers for Loaded {
    fn choose(&self, hello: &QuicHello) -> Option<Arc<ServerSettings>> {
        self.settings.clone().filter(|_| *hello == self.hello)
    }
}

impl fmt::Debug for QuicNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuicNames")
            .field("listener_ref", &self.listener_ref)
            .finish_non_exhaustive()
    }
}
