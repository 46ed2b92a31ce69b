//! Our own certificate towards origins where variables name its files: `proxy_ssl_certificate $user.pem;`.
//!
//! The files are read for each request, on a pool thread, so that a new certificate is in use at once; what
//! was made of the same bytes before is used again, with its sessions and its idle connections.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_conf::{Diagnostic, Word};
use tidegate_core::builder::{PlanBuilder, os_error};
use tidegate_core::{Exchange, Level, Template, blocking};
use tidegate_tls::{TlsOptions, TlsSettings, pem};

/// Certificates of a location that are in use at the same time; with more they begin anew.
const CERTIFICATES_MAX: usize = 256;

/// Bytes of a file; a chain of certificates has a few thousand.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// By the bytes of both files.
type Made = HashMap<(Vec<u8>, Vec<u8>), Arc<TlsSettings>>;

/// Two names made of variables.
pub struct ChosenCertificate {
    certificate: Template,
    key: Template,
    passwords: Vec<Vec<u8>>,
    /// What the names are relative to.
    folder: PathBuf,
    /// All but the certificate.
    options: TlsOptions,
    made: Mutex<Made>,
}

/// What was chosen for the request, in the exchange's extensions.
struct Choice(Arc<TlsSettings>);

impl ChosenCertificate {
    /// # Errors
    /// A variable that there is not.
    pub fn compile(
        (certificate, key): (&Word, &Word),
        passwords: Vec<Vec<u8>>,
        options: &TlsOptions,
        plan: &mut PlanBuilder<'_>,
    ) -> Result<ChosenCertificate, Diagnostic> {
        Ok(ChosenCertificate {
            certificate: plan.template(certificate)?,
            key: plan.template(key)?,
            passwords,
            folder: plan.conf_path(""),
            options: options.clone(),
            made: Mutex::default(),
        })
    }

    /// Reads the certificate of this request. An empty name means none.
    ///
    /// # Errors
    /// 500 where it cannot be used; the reason was logged.
    pub async fn choose(self: &Arc<Self>, x: &mut Exchange) -> Result<(), u16> {
        x.modules.extensions.remove::<Choice>();
        let (certificate, key) = (self.certificate.value(x), self.key.value(x));
        if certificate.is_empty() {
            return Ok(());
        }
        let chosen = self.clone();
        let done = blocking::run(move || Ok(chosen.load(&certificate, &key))).await;
        let reason = match done {
            Ok(Ok(settings)) => {
                x.modules.extensions.insert(Choice(settings));
                return Ok(());
            }
            Ok(Err(reason)) => reason,
            Err(error) => format!("cannot load certificate ({})", os_error(&error)),
        };
        x.progress.action = "connecting to upstream";
        x.log(Level::Error, format_args!("{reason}"));
        Err(500)
    }

    /// What was chosen for the request.
    pub fn of(x: &Exchange) -> Option<Arc<TlsSettings>> {
        x.modules.extensions.of::<Choice>().map(|choice| choice.0.clone())
    }

    fn load(&self, certificate: &[u8], key: &[u8]) -> Result<Arc<TlsSettings>, String> {
        let (certificate_name, certificate) = self.read("certificate", certificate)?;
        let (key_name, key) = self.read("certificate key", key)?;
        let place = (certificate, key);
        let mut options = self.options.clone();
        if let Some(known) = self.made().get(&place) {
            return Ok(known.clone());
        }
        options.certificate = pem::certificates(&place.0)
            .map_err(|fault| fault.told("certificate", &certificate_name))?;
        let private = pem::private_key(&place.1, &self.passwords)
            .map_err(|fault| fault.told("certificate key", &key_name))?;
        options.key = private.der().to_vec();
        let settings = TlsSettings::new(&options).map_err(|reason| {
            format!("SSL_use_PrivateKey(\"{key_name}\") failed (SSL: {reason})")
        })?;
        let settings = Arc::new(settings);
        let mut made = self.made();
        if made.len() >= CERTIFICATES_MAX {
            made.clear();
        }
        Ok(made.entry(place).or_insert(settings).clone())
    }

    /// How messages call a file, and its bytes.
    fn read(&self, what: &str, name: &[u8]) -> Result<(String, Vec<u8>), String> {
        let path = self.folder.join(&*String::from_utf8_lossy(name));
        let name = path.display().to_string();
        let mut bytes = Vec::new();
        let file = File::open(&path);
        match file.and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)) {
            Ok(_) => Ok((name, bytes)),
            Err(error) => Err(pem::Fault::unopened(&error).told(what, &name)),
        }
    }

    fn made(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
