//! The client certificate for origins where variables name its files: `proxy_ssl_certificate $user.pem;`.
//!
//! The files are read for each request, on a pool thread, so that a new certificate is in use at once; with a
//! `*_ssl_certificate_cache` only where that has them not. Settings of the same certificates are used again, with their
//! sessions and idle connections.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{error, fmt, io};

use tidegate_conf::{Diagnostic, Word};
use tidegate_core::Refused;
use tidegate_core::{Exchange, Level, Template, blocking};
use tidegate_os::os_error;
use tidegate_plan::PlanBuilder;
use tidegate_rt::clock;
use tidegate_tls::{
    LoadError, LoadedPair, PairCache, PemSource, SettingsError, TlsOptions, TlsSettings,
};

/// Certificates of a location that are cached at the same time; when there are more, the cache is emptied.
const CERTIFICATES_MAX: usize = 256;

/// Settings by the chain of their certificate (DER).
type SettingsCache = HashMap<Vec<Vec<u8>>, Arc<TlsSettings>>;

/// The templates of the two file names.
pub(crate) struct ChosenCertificate {
    certificate: Template,
    key: Template,
    passwords: Vec<Vec<u8>>,
    cache: Option<Arc<PairCache>>,
    /// The directory of relative names.
    directory: PathBuf,
    /// All TLS options but the certificate.
    options: TlsOptions,
    made: Mutex<SettingsCache>,
}

/// Shows the names and the cache.
impl fmt::Debug for ChosenCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (&self.certificate, &self.key, &self.directory, &self.cache).fmt(f)
    }
}

/// The settings chosen for the request, in the exchange's extensions.
struct ChosenSettings(Arc<TlsSettings>);

impl ChosenCertificate {
    /// # Errors
    /// An unknown variable.
    pub(crate) fn compile(
        (certificate, key): (&Word, &Word),
        passwords: Vec<Vec<u8>>,
        cache: Option<Arc<PairCache>>,
        options: &TlsOptions,
        plan: &mut PlanBuilder<'_>,
    ) -> Result<ChosenCertificate, Diagnostic> {
        Ok(ChosenCertificate {
            certificate: plan.template(certificate)?,
            key: plan.template(key)?,
            passwords,
            cache,
            directory: plan.conf_path(""),
            options: options.clone(),
            made: Mutex::default(),
        })
    }

    /// Reads the certificate of this request. An empty name means none.
    ///
    /// # Errors
    /// 500 where it cannot be used; the reason was logged.
    pub(crate) async fn choose(self: &Arc<Self>, x: &mut Exchange) -> Result<(), Refused> {
        x.modules.extensions.remove::<ChosenSettings>();
        let (certificate, key) = (self.certificate.value(x), self.key.value(x));
        if certificate.is_empty() {
            return Ok(());
        }
        let source = |name: &[u8]| PemSource::new(name, &self.directory);
        match self.settings(source(&certificate), source(&key)).await {
            Ok(settings) => {
                x.modules.extensions.insert(ChosenSettings(settings));
                Ok(())
            }
            Err(error) => {
                x.progress.action = "connecting to upstream";
                x.log(Level::Error, format_args!("{error}"));
                Err(Refused::INTERNAL)
            }
        }
    }

    /// Returns the settings chosen for the request.
    pub(crate) fn of(x: &Exchange) -> Option<Arc<TlsSettings>> {
        x.modules.extensions.of::<ChosenSettings>().map(|choice| choice.0.clone())
    }

    async fn settings(
        self: &Arc<Self>,
        certificate: PemSource,
        key: PemSource,
    ) -> Result<Arc<TlsSettings>, ChoiceError> {
        let now = clock::now();
        let found = self.cache.as_ref().and_then(|cache| cache.find(&certificate, &key, now));
        if let Some(pair) = found
            && let Some(known) = self.made().get(&chain(&pair))
        {
            return Ok(known.clone());
        }
        let chosen = self.clone();
        let work = move || {
            let (cache, passwords) = (chosen.cache.as_deref(), &chosen.passwords);
            let pair = tidegate_tls::load(cache, &certificate, &key, passwords, now);
            Ok(pair.map_err(ChoiceError::Load).and_then(|pair| chosen.make(&pair)))
        };
        blocking::run(work).await.map_err(ChoiceError::Pool)?
    }

    fn make(&self, pair: &LoadedPair) -> Result<Arc<TlsSettings>, ChoiceError> {
        let chain = chain(pair);
        if let Some(known) = self.made().get(&chain) {
            return Ok(known.clone());
        }
        let (certificate, key) = (chain.clone(), pair.key_der().to_vec());
        let options = TlsOptions { certificate, key, ..self.options.clone() };
        let settings = Arc::new(TlsSettings::new(&options).map_err(ChoiceError::Settings)?);
        let mut made = self.made();
        if made.len() >= CERTIFICATES_MAX {
            made.clear();
        }
        Ok(made.entry(chain).or_insert(settings).clone())
    }

    fn made(&self) -> MutexGuard<'_, SettingsCache> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn chain(pair: &LoadedPair) -> Vec<Vec<u8>> {
    pair.pair().chain().map(<[u8]>::to_vec).collect()
}

/// The reason why the certificate of a request cannot be used; in nginx's words.
#[derive(Debug)]
enum ChoiceError {
    /// The thread pool's queue is full, or it has ended.
    Pool(io::Error),
    Load(LoadError),
    /// The library refuses the settings.
    Settings(SettingsError),
}

impl fmt::Display for ChoiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChoiceError::Pool(error) => write!(f, "cannot load certificate ({})", os_error(error)),
            ChoiceError::Load(error) => write!(f, "{error}"),
            ChoiceError::Settings(error) => write!(f, "SSL_new() failed (SSL: {error})"),
        }
    }
}

impl error::Error for ChoiceError {}
