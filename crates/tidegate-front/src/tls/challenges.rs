//! Validations of ACME by tls-alpn-01 (RFC 8737): a handshake whose only protocol is `acme-tls/1` gets the certificate
//! that proves the control of its name, whatever the servers' settings are, and no request follows it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_core::client::TlsInfo;
use tidegate_core::plan::{Plan, ServerId};
use tidegate_tls::{
    Groups, Hello, KeyPair, ServerOptions, ServerProtocols, ServerSettings, Stapled, cipher_suites,
};

/// The protocol that a validation offers (RFC 8737 section 6.2).
const PROTOCOL: &[u8] = b"acme-tls/1";
/// The suites of TLS 1.2 for validations, as OpenSSL's list.
const CIPHERS: &str = "HIGH:!aNULL:!MD5";
/// The bytes of a record; a validation has no data.
const RECORD_BYTES_MAX: u64 = 16 * 1024;

/// The certificates of the validations in progress, by the names that clients send. A module of ACME fills it; it is
/// an extension of each server, as an `Arc`.
#[derive(Default)]
pub struct HandshakeChallenges(Mutex<HashMap<String, KeyPair>>);

impl HandshakeChallenges {
    /// Presents a certificate for handshakes with this name, in lower case.
    pub fn present(&self, name: &str, pair: KeyPair) {
        self.all().insert(name.to_owned(), pair);
    }

    /// Ends the presentation for a name.
    pub fn withdraw(&self, name: &str) {
        self.all().remove(name);
    }

    fn find(&self, name: &str) -> Option<KeyPair> {
        self.all().get(&name.to_ascii_lowercase()).cloned()
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, KeyPair>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for HandshakeChallenges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HandshakeChallenges").field(&self.all().len()).finish()
    }
}

/// Returns the settings of a handshake that is a validation; `None` for other handshakes, and for names that are not
/// validated now. `default` is the default server of the address.
pub(super) fn settings(
    plan: &Plan,
    default: ServerId,
    hello: &Hello,
    known: &TlsInfo,
) -> Option<ServerSettings> {
    let challenges = plan.server(default).extensions.of::<Arc<HandshakeChallenges>>()?;
    if !hello.offers_only(PROTOCOL) {
        return None;
    }
    let pair = challenges.find(known.server_name.as_ref()?)?;
    let suites = cipher_suites::tls12(CIPHERS);
    let protocols = ServerProtocols::new(true, true, &suites, None, Groups::default()).ok()?;
    Some(ServerSettings::new(ServerOptions {
        protocols,
        certificates: vec![Arc::new(Stapled::new(pair))],
        clients: None,
        alpn: vec![PROTOCOL.to_vec()],
        prefers_own_suites: false,
        record_bytes_max: RECORD_BYTES_MAX,
        session_timeout: Duration::ZERO,
        sessions: None,
        tickets: None,
        early_data: false,
        compresses_certificates: false,
        key_log: None,
    }))
}
