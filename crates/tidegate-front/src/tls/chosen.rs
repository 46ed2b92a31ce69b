//! Certificates that variables name: `ssl_certificate $ssl_server_name.pem;`. They are loaded between the client's hello
//! and the rest of the handshake, from `ssl_certificate_cache` or by a pool thread.

use std::fmt;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use tidegate_conf::{Diagnostic, Word};
use tidegate_core::client::{Connection, NoClient, TlsInfo};
use tidegate_core::exchange::PlanRef;
use tidegate_core::plan::ServerId;
use tidegate_core::{Exchange, Template, blocking};
use tidegate_os::os_error;
use tidegate_plan::PlanBuilder;
use tidegate_rt::clock;
use tidegate_tls::{KeyPair, PairCache, PemSource, load};

/// The pairs of a server whose names have variables.
pub(super) struct ChosenPairs {
    /// Certificates and their keys.
    pairs: Vec<(Template, Template)>,
    /// The directory of relative names.
    directory: PathBuf,
    passwords: Arc<[Vec<u8>]>,
    cache: Option<Arc<PairCache>>,
}

/// Shows the names and the cache, and no pass phrase.
impl fmt::Debug for ChosenPairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (&self.pairs, &self.directory, &self.cache).fmt(f)
    }
}

/// The owner of the variables in the names.
pub(crate) enum HandshakeOwner<'a> {
    /// A connection of `http`, which has no request yet.
    Connection(PlanRef),
    /// A session of `stream`; its own connection is a placeholder during the handshake.
    Session(&'a mut Exchange),
}

impl HandshakeOwner<'_> {
    /// Returns the plan that the handshake is made by.
    pub(super) fn plan(&self) -> PlanRef {
        match self {
            HandshakeOwner::Connection(plan) => plan.clone(),
            HandshakeOwner::Session(x) => x.plan.clone(),
        }
    }

    /// Calls `work` with an exchange whose variables show what is known of the handshake with a server.
    pub(super) fn with_exchange<T>(
        &mut self,
        server: ServerId,
        connection: &Connection,
        known: &TlsInfo,
        work: impl FnOnce(&mut Exchange) -> T,
    ) -> T {
        let connection =
            Rc::new(Connection { tls: Some(Box::new(known.clone())), ..connection.clone() });
        match self {
            HandshakeOwner::Session(x) => {
                x.connection = connection;
                work(x)
            }
            HandshakeOwner::Connection(plan) => {
                let location = plan.server(server).location;
                let mut x = Exchange::new(plan.clone(), connection, Rc::new(NoClient));
                (x.routing.server, x.routing.location) = (server, location);
                work(&mut x)
            }
        }
    }
}

/// Returns whether either name of a pair has a variable.
pub(super) fn is_chosen(certificate: &Word, key: &Word) -> bool {
    [certificate, key].iter().any(|word| word.bytes.contains(&b'$'))
}

impl ChosenPairs {
    /// # Errors
    /// An invalid name of a variable.
    pub(super) fn compile(
        words: &[(&Word, &Word)],
        passwords: Vec<Vec<u8>>,
        cache: Option<Arc<PairCache>>,
        plan: &mut PlanBuilder<'_>,
    ) -> Result<ChosenPairs, Diagnostic> {
        let mut pairs = Vec::new();
        for (certificate, key) in words {
            pairs.push((plan.template(certificate)?, plan.template(key)?));
        }
        let directory = plan.conf_path("");
        Ok(ChosenPairs { pairs, directory, passwords: passwords.into(), cache })
    }

    /// Loads the pairs for a client that has sent its hello. `server` is the one that lends them. A pair whose certificate
    /// has an empty name is left out.
    ///
    /// # Errors
    /// A pair cannot be loaded: the reason in nginx's words.
    pub(super) async fn load(
        &self,
        owner: &mut HandshakeOwner<'_>,
        server: ServerId,
        connection: &Connection,
        known: &TlsInfo,
    ) -> Result<Vec<KeyPair>, String> {
        let names = owner.with_exchange(server, connection, known, |x| self.values(x));
        let now = clock::now();
        if let Some(cache) = &self.cache {
            let found = names.iter().map(|(certificate, key)| cache.find(certificate, key, now));
            if let Some(found) = found.collect::<Option<Vec<_>>>() {
                return Ok(found.iter().map(|loaded| loaded.pair().clone()).collect());
            }
        }
        let (cache, passwords) = (self.cache.clone(), self.passwords.clone());
        let work = move || {
            let loaded = names.iter().map(|(certificate, key)| {
                load(cache.as_deref(), certificate, key, &passwords, now)
                    .map(|loaded| loaded.pair().clone())
            });
            Ok(loaded.collect::<Result<Vec<_>, _>>())
        };
        match blocking::run(work).await {
            Ok(loaded) => loaded.map_err(|error| error.to_string()),
            Err(error) => Err(format!("cannot load certificate ({})", os_error(&error))),
        }
    }

    fn values(&self, x: &mut Exchange) -> Vec<(PemSource, PemSource)> {
        let mut sources = Vec::new();
        for (certificate, key) in &self.pairs {
            let certificate = certificate.value(x);
            // No certificate yet (`$acme_certificate`): the handshake has the others, or none.
            if certificate.is_empty() {
                continue;
            }
            let source = |value: &[u8]| PemSource::new(value, &self.directory);
            sources.push((source(&certificate), source(&key.value(x))));
        }
        sources
    }
}
