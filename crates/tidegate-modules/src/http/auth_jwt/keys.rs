//! Where keys come from: files, and responses of subrequests.

use std::collections::HashMap;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidegate_codec::Known;
use tidegate_conf::{Diagnostic, Word};
use tidegate_core::plan::ServerId;
use tidegate_core::subrequest::SubrequestOptions;
use tidegate_core::{Exchange, Level, Template, blocking, error_page};
use tidegate_jose::limits::KEY_SET_BYTES_MAX;
use tidegate_jose::{KeySet, KeySetError};
use tidegate_os::os_error;
use tidegate_plan::PlanBuilder;
use tidegate_rt::clock;

use super::conf::SourceConf;
use super::state::Found;

/// The kind of a source of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// `auth_jwt_key_file`.
    File,
    /// `auth_jwt_key_request`.
    Request,
}

/// A source of keys.
pub(super) struct KeySource {
    origin: Origin,
    name: Template,
    /// Directory that relative names of files refer to.
    directory: PathBuf,
    cache: Arc<KeyCache>,
}

/// The keys that a source had last, by server: subrequests of one URI are responded to by the locations of their server.
/// Sources whose names have variables use none.
#[derive(Default)]
pub(super) struct KeyCache(Mutex<HashMap<ServerId, Arc<Loaded>>>);

/// A key set and what it was made of.
struct Loaded {
    text: Vec<u8>,
    keys: Arc<KeySet>,
    /// When the text was read.
    at: Instant,
}

/// The keys of a source are not available. The reason has been logged.
pub(super) struct Unavailable;

impl KeySource {
    /// Makes a source. A file that exists is checked: a set or a key in it that cannot be used is an error. A missing one
    /// is a warning, as it may be made later.
    pub(super) fn new(
        conf: &SourceConf,
        plan: &mut PlanBuilder<'_>,
    ) -> Result<KeySource, Diagnostic> {
        let name = plan.template(&conf.name)?;
        if conf.origin == Origin::File && name.literal().is_some() {
            check_file(&conf.name, plan)?;
        }
        let directory = plan.environment.conf_directory.to_owned();
        Ok(KeySource { origin: conf.origin, name, directory, cache: conf.cache.clone() })
    }

    /// Returns the name of the file or the URI for a request.
    pub(super) fn name(&self, x: &mut Exchange) -> Vec<u8> {
        self.name.value(x)
    }

    /// Returns the keys of a name: those that were read at most `fresh_for` ago, or those that are read now. Where the text is the
    /// one of last time, so are the keys.
    ///
    /// # Errors
    /// The file or the response is not available or no key set.
    pub(super) async fn keys(
        &self,
        x: &mut Exchange,
        name: Vec<u8>,
        fresh_for: Duration,
        facts: &Rc<Found>,
    ) -> Result<Arc<KeySet>, Unavailable> {
        let is_literal = self.name.literal().is_some();
        let last = is_literal.then(|| self.cache.last(x.routing.server)).flatten();
        if let Some(last) = &last
            && clock::since(last.at) < fresh_for
        {
            return Ok(last.keys.clone());
        }
        let loaded = match self.origin {
            Origin::File => self.read(x, &name, last).await?,
            Origin::Request => request(x, name, last, facts).await?,
        };
        let keys = loaded.keys.clone();
        if is_literal {
            self.cache.store(x.routing.server, loaded);
        }
        Ok(keys)
    }

    async fn read(
        &self,
        x: &mut Exchange,
        name: &[u8],
        last: Option<Arc<Loaded>>,
    ) -> Result<Loaded, Unavailable> {
        let path = self.directory.join(String::from_utf8_lossy(name).as_ref());
        let (shown, now) = (path.display().to_string(), clock::now());
        match blocking::run(move || Ok(Loaded::new(read(&path)?, last, now))).await {
            Ok(loaded) => finish(x, &shown, loaded),
            Err(error) => {
                let error = os_error(&error);
                x.log(Level::Crit, format_args!("open() \"{shown}\" failed ({error})"));
                Err(Unavailable)
            }
        }
    }
}

impl KeyCache {
    fn last(&self, server: ServerId) -> Option<Arc<Loaded>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&server).cloned()
    }

    fn store(&self, server: ServerId, loaded: Loaded) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(server, Arc::new(loaded));
    }
}

impl Loaded {
    /// Makes the keys of a text, on a pool thread: a private RSA key takes a millisecond.
    fn new(
        text: Vec<u8>,
        last: Option<Arc<Loaded>>,
        at: Instant,
    ) -> Result<(Loaded, bool), KeySetError> {
        if let Some(last) = last.filter(|last| last.text == text) {
            return Ok((Loaded { text, keys: last.keys.clone(), at }, false));
        }
        let keys = Arc::new(KeySet::parse(&text)?);
        Ok((Loaded { text, keys, at }, true))
    }
}

/// Logs what is wrong with a set that has been read: as a whole, or, in a new one, with keys of it.
fn finish(
    x: &mut Exchange,
    source: &str,
    loaded: Result<(Loaded, bool), KeySetError>,
) -> Result<Loaded, Unavailable> {
    match loaded {
        Ok((loaded, is_new)) => {
            for key in loaded.keys.unusable().iter().filter(|_| is_new) {
                x.log(Level::Warn, format_args!("key set \"{source}\": {key}"));
            }
            Ok(loaded)
        }
        Err(error) => {
            x.log(Level::Error, format_args!("\"{source}\" is no key set: {error}"));
            Err(Unavailable)
        }
    }
}

/// Makes a subrequest and reads the key set of its response. Its location may use the variables of the token.
async fn request(
    x: &mut Exchange,
    uri: Vec<u8>,
    last: Option<Arc<Loaded>>,
    facts: &Rc<Found>,
) -> Result<Loaded, Unavailable> {
    let shown = String::from_utf8_lossy(&uri).into_owned();
    let (path, args) = error_page::split_args(uri);
    let subrequest = x.subrequest(path, args, SubrequestOptions::default());
    let mut subrequest = subrequest.map_err(|_| Unavailable)?;
    subrequest.exchange().lineage.inherited.insert(facts.clone());
    let mut reply = subrequest.run().await;
    let status = reply.status();
    if status != 200 {
        x.log(Level::Error, format_args!("key request \"{shown}\" unexpected status: {status}"));
        return Err(Unavailable);
    }
    if reply.exchange().response.headers.contains(Known::ContentEncoding) {
        let advice = "proxy_set_header Accept-Encoding \"\"; prevents that";
        x.log(
            Level::Error,
            format_args!("key request \"{shown}\": the response is compressed; {advice}"),
        );
        return Err(Unavailable);
    }
    let Ok(text) = reply.read(KEY_SET_BYTES_MAX).await else {
        x.log(Level::Error, format_args!("the response of key request \"{shown}\" is cut off"));
        return Err(Unavailable);
    };
    let now = clock::now();
    match blocking::run(move || Ok(Loaded::new(text.to_vec(), last, now))).await {
        Ok(loaded) => finish(x, &shown, loaded),
        Err(error) => {
            x.log(Level::Crit, format_args!("key request \"{shown}\": {error}"));
            Err(Unavailable)
        }
    }
}

/// Reads a file, up to one byte more than a set may have.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    std::fs::File::open(path)?.take(KEY_SET_BYTES_MAX as u64 + 1).read_to_end(&mut text)?;
    Ok(text)
}

fn check_file(file: &Word, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
    let text = match plan.read_file(file) {
        Ok(text) => text,
        Err(diagnostic) => {
            let help = "requests get the status 500 until the file can be read";
            plan.diagnostics.push(diagnostic.as_warning().help(help));
            return Ok(());
        }
    };
    let shown = file.display();
    let wrong = match KeySet::parse(&text) {
        Ok(set) => match set.unusable().first() {
            None => return Ok(()),
            Some(key) => format!("key set \"{shown}\": {key}"),
        },
        Err(error) => format!("\"{shown}\" is no key set: {error}"),
    };
    Err(Diagnostic::emerg(wrong).at(file.span))
}
