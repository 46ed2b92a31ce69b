//! The client certificate for origins where variables name its files: `proxy_ssl_certificate $user.pem;`.
//!
//! The files are read for each request, on a pool thread, so that a new certificate is in use at once; settings made
//! of the same bytes are used again, with their sessions and idle connections.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{error, fmt, io};

use tidegate_conf::{Diagnostic, Word};
use tidegate_core::Refused;
use tidegate_core::{Exchange, Level, Template, blocking};
use tidegate_os::os_error;
use tidegate_plan::PlanBuilder;
use tidegate_tls::{SettingsError, TlsOptions, TlsSettings, pem};

/// Certificates of a location that are cached at the same time; when there are more, the cache is emptied.
const CERTIFICATES_MAX: usize = 256;

/// Most bytes of a file; a chain of certificates has a few thousand.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Settings by the bytes of both files.
type SettingsCache = HashMap<(Vec<u8>, Vec<u8>), Arc<TlsSettings>>;

/// The templates of the two file names.
pub(crate) struct ChosenCertificate {
    certificate: Template,
    key: Template,
    passwords: Vec<Vec<u8>>,
    /// The directory of relative names.
    directory: PathBuf,
    /// All TLS options but the certificate.
    options: TlsOptions,
    made: Mutex<SettingsCache>,
}

/// The settings chosen for the request, in the exchange's extensions.
struct ChosenSettings(Arc<TlsSettings>);

impl ChosenCertificate {
    /// # Errors
    /// An unknown variable.
    pub(crate) fn compile(
        (certificate, key): (&Word, &Word),
        passwords: Vec<Vec<u8>>,
        options: &TlsOptions,
        plan: &mut PlanBuilder<'_>,
    ) -> Result<ChosenCertificate, Diagnostic> {
        Ok(ChosenCertificate {
            certificate: plan.template(certificate)?,
            key: plan.template(key)?,
            passwords,
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
        let chosen = self.clone();
        let done = blocking::run(move || Ok(chosen.load(&certificate, &key))).await;
        let error = match done {
            Ok(Ok(settings)) => {
                x.modules.extensions.insert(ChosenSettings(settings));
                return Ok(());
            }
            Ok(Err(error)) => error,
            Err(error) => LoadError::Pool(error),
        };
        x.progress.action = "connecting to upstream";
        x.log(Level::Error, format_args!("{error}"));
        Err(Refused::INTERNAL)
    }

    /// Returns the settings chosen for the request.
    pub(crate) fn of(x: &Exchange) -> Option<Arc<TlsSettings>> {
        x.modules.extensions.of::<ChosenSettings>().map(|choice| choice.0.clone())
    }

    fn load(&self, certificate: &[u8], key: &[u8]) -> Result<Arc<TlsSettings>, LoadError> {
        let (certificate_name, certificate) = self.read(FileKind::Certificate, certificate)?;
        let (key_name, key) = self.read(FileKind::Key, key)?;
        let place = (certificate, key);
        let mut options = self.options.clone();
        if let Some(known) = self.made().get(&place) {
            return Ok(known.clone());
        }
        options.certificate = pem::certificates(&place.0)
            .map_err(|fault| LoadError::File(FileKind::Certificate, certificate_name, fault))?;
        match pem::private_key(&place.1, &self.passwords) {
            Ok(private) => options.key = private.der().to_vec(),
            Err(fault) => return Err(LoadError::File(FileKind::Key, key_name, fault)),
        }
        let settings = match TlsSettings::new(&options) {
            Ok(settings) => Arc::new(settings),
            Err(error) => return Err(LoadError::Pair(key_name, error)),
        };
        let mut made = self.made();
        if made.len() >= CERTIFICATES_MAX {
            made.clear();
        }
        Ok(made.entry(place).or_insert(settings).clone())
    }

    /// Reads a file; returns its name for messages, and its bytes.
    fn read(&self, what: FileKind, name: &[u8]) -> Result<(String, Vec<u8>), LoadError> {
        let path = self.directory.join(&*String::from_utf8_lossy(name));
        let name = path.display().to_string();
        let mut bytes = Vec::new();
        let file = File::open(&path);
        match file.and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)) {
            Ok(_) => Ok((name, bytes)),
            Err(error) => Err(LoadError::File(what, name, pem::PemError::unopened(&error))),
        }
    }

    fn made(&self) -> MutexGuard<'_, SettingsCache> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The kind of a file.
#[derive(Clone, Copy, Debug)]
enum FileKind {
    Certificate,
    Key,
}

/// The reason why the certificate of a request cannot be used; in nginx's words.
#[derive(Debug)]
enum LoadError {
    /// The thread pool's queue is full, or it has ended.
    Pool(io::Error),
    /// A file, by its name for messages.
    File(FileKind, String, pem::PemError),
    /// Certificate and key do not match, or are unusable; with the name of the key's file.
    Pair(String, SettingsError),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Pool(error) => write!(f, "cannot load certificate ({})", os_error(error)),
            LoadError::File(FileKind::Certificate, name, fault) => {
                f.write_str(&fault.message("certificate", name))
            }
            LoadError::File(FileKind::Key, name, fault) => {
                f.write_str(&fault.message("certificate key", name))
            }
            LoadError::Pair(key, error) => {
                write!(f, "SSL_use_PrivateKey(\"{key}\") failed (SSL: {error})")
            }
        }
    }
}

impl error::Error for LoadError {}
