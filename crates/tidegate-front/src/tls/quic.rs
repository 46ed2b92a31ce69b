//! Handshakes of QUIC: the choice of a server's settings by the client's hello, as over TCP, and what is known behind it.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_codec::request::parse_host;
use tidegate_core::client::TlsInfo;
use tidegate_core::exchange::Captures;
use tidegate_core::listen::VirtualServers;
use tidegate_core::plan::{Plan, ServerId};
use tidegate_tls::ServerSettings;
use tidegate_tls::quic::{QuicHello, QuicNegotiated, QuicServers};

use super::handshake;
use super::server::TlsServer;
use super::variables;
use crate::h3::directives::Http3Server;
use crate::listener::ListenerRef;

/// The only protocol of a server that offers none: no client has it, so that the handshake ends with
/// `no_application_protocol` (RFC 9001 section 8.1).
const NO_PROTOCOL: &[u8] = b"\0";
/// Bytes of a session's number, as in OpenSSL.
const SESSION_ID_BYTES: usize = 32;

/// The servers of one listener of a plan.
pub(crate) struct QuicNames {
    plan: Arc<Plan>,
    listener_ref: ListenerRef,
    /// The settings of servers for QUIC, made at their first handshakes: by the server that lends them and whether the
    /// server that is meant has HTTP/3.
    made: Mutex<HashMap<(ServerId, bool), Arc<ServerSettings>>>,
}

impl QuicNames {
    /// `listener_ref` belongs to the plan.
    pub(crate) fn new(plan: Arc<Plan>, listener_ref: ListenerRef) -> QuicNames {
        QuicNames { plan, listener_ref, made: Mutex::default() }
    }

    /// Returns the settings for a name, and the server that lends them.
    fn lent(&self, name: Option<&str>) -> Option<(Arc<ServerSettings>, &TlsServer)> {
        let plan = &*self.plan;
        let servers = self.listener_ref.servers(plan)?;
        let of = |server: ServerId| plan.server(server).extensions.of::<TlsServer>();
        let meant = named(servers, name).unwrap_or(servers.default);
        if of(meant).is_some_and(|meant| meant.reject) {
            return None;
        }
        let has_http3 = Http3Server::of(plan, meant).is_some_and(|server| server.enabled);
        let lends = |server: ServerId| {
            let tls = of(server)?;
            Some((tls, tls.settings.as_ref()?, server))
        };
        let (tls, settings, server) = lends(meant).or_else(|| lends(servers.default))?;
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let settings = made.entry((server, has_http3)).or_insert_with(|| {
            let alpn = if has_http3 { b"h3" } else { NO_PROTOCOL };
            Arc::new(settings.for_quic(vec![alpn.to_vec()], tls.early_data))
        });
        Some((settings.clone(), tls))
    }

    /// Returns what variables show of a handshake, as far as it is. `early` is shared with the connection, where there may
    /// be early data.
    pub(crate) fn known(&self, negotiated: QuicNegotiated) -> TlsInfo {
        let QuicNegotiated { hello, negotiated } = negotiated;
        let plan = &*self.plan;
        let name = hello.server_name.as_deref();
        let servers = self.listener_ref.servers(plan);
        let server_named = servers.is_some_and(|servers| named(servers, name).is_some());
        let mut known = TlsInfo { server_named, ..TlsInfo::default() };
        if let Some((settings, tls)) = self.lent(name) {
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
        let mut id = vec![0; SESSION_ID_BYTES];
        tidegate_rt::random::unpredictable(&mut id);
        known.session_id = id;
        known
    }
}

fn named(servers: &VirtualServers, name: Option<&str>) -> Option<ServerId> {
    let name = parse_host(name?.as_bytes())?;
    servers.find_named(name.as_bytes(), &mut Captures::default()).map(|(server, _)| server)
}

impl QuicServers for QuicNames {
    fn choose(&self, hello: &QuicHello) -> Option<Arc<ServerSettings>> {
        self.lent(hello.server_name.as_deref()).map(|(settings, _)| settings)
    }
}

impl fmt::Debug for QuicNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuicNames")
            .field("listener_ref", &self.listener_ref)
            .finish_non_exhaustive()
    }
}
