//! From an `acme_issuer` block to the settings of its run.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_acme::{
    AccountKeySource, ChallengeKind, Config, ExternalAccount, Key, KeyKind, Wanted,
};
use tidegate_conf::{Diagnostic, Span, Word};
use tidegate_core::error_log::ErrorLog;
use tidegate_gateway::outbound;
use tidegate_plan::PlanBuilder;
use tidegate_tls::TlsSettings;
use tidegate_upstream::resolve::Resolver;

use super::challenges::Challenges;
use super::dns::{self, DnsProgram};
use super::https::Url;
use super::rows::{AccountKeyConf, IssuerConf};

/// Identifier and key of an external account, as written.
type AccountTexts = (String, String);

/// An issuer of one configuration, with its certificates.
pub(super) struct IssuerPlan {
    pub(super) name: String,
    pub(super) config: Config,
    pub(super) wanted: Vec<Wanted>,
    /// `state_path`; none with `off`.
    pub(super) directory: Option<PathBuf>,
    /// `external_account_key` as read: its identifier and its key.
    external: Option<AccountTexts>,
    /// The program of dns-01.
    pub(super) dns: Option<DnsProgram>,
    pub(super) tls: Arc<TlsSettings>,
    /// The system's resolver is used without one.
    pub(super) resolver: Option<Resolver>,
    pub(super) log: ErrorLog,
    pub(super) challenges: Arc<Challenges>,
}

impl IssuerPlan {
    /// Returns whether the machine of the other plan can go on with this one: what it depends on is the same.
    pub(super) fn continues(&self, other: &IssuerPlan) -> bool {
        let key = |config: &Config| match &config.account_key {
            AccountKeySource::Generate(kind) => (Some(*kind), None),
            AccountKeySource::Given(key) => (None, Some(key.clone())),
        };
        let (own, others) = (&self.config, &other.config);
        self.wanted == other.wanted
            && (&self.directory, &self.external) == (&other.directory, &other.external)
            && key(own) == key(others)
            && (&own.directory, &own.contacts) == (&others.directory, &others.contacts)
            && (own.terms_agreed, own.common_name) == (others.terms_agreed, others.common_name)
            && (own.challenge, &own.profile) == (others.challenge, &others.profile)
            && own.preferred_chain == others.preferred_chain
    }
}

/// In front of a key that is written in the configuration.
const TEXT: &str = "data:";

/// Compiles a block. `span` is where the issuer is named.
///
/// # Errors
/// A missing or wrong URL; a file that cannot be read; a directory that another issuer has.
pub(super) fn compile(
    name: &str,
    conf: &IssuerConf,
    span: Span,
    challenges: &Arc<Challenges>,
    plan: &mut PlanBuilder<'_>,
) -> Result<IssuerPlan, Diagnostic> {
    let Some(uri) = &conf.uri else {
        let message = format!("\"uri\" is missing in acme_issuer \"{name}\"");
        return Err(Diagnostic::emerg(message)
            .at(span)
            .help("write `uri https://…;`, the URL of the directory of the ACME server"));
    };
    let directory_url = uri.display().into_owned();
    Url::parse(&directory_url).map_err(|reason| {
        let message = format!("invalid \"uri\" \"{directory_url}\" in acme_issuer \"{name}\"");
        Diagnostic::emerg(message).at(uri.span).label(reason)
    })?;
    let (external_account, external) = external_account(conf, plan)?.unzip();
    let config = Config {
        directory: directory_url,
        account_key: account_key(conf, plan)?,
        contacts: conf.contacts.clone(),
        external_account,
        terms_agreed: conf.accepts_terms.is_some(),
        challenge: conf.challenge.unwrap_or(ChallengeKind::Http01),
        preferred_chain: conf.preferred_chain.clone(),
        profile: conf.profile.clone(),
        common_name: conf.common_name.unwrap_or(false),
    };
    let directory = directory(name, conf, plan);
    let http = plan.http_block();
    let owner = format!("acme_issuer \"{name}\"");
    let verify = conf.verify.unwrap_or(true);
    let owner = (&*owner, "set `ssl_trusted_certificate`");
    let options = outbound::tls_options(owner, conf.trusted.as_ref(), verify, span, plan)?;
    let tls = outbound::tls(&options, span)?;
    Ok(IssuerPlan {
        name: name.to_owned(),
        config,
        wanted: Vec::new(),
        directory,
        external,
        dns: dns(conf)?,
        tls: Arc::new(tls),
        resolver: http.map(|http| outbound::resolver(http, plan)).transpose()?.flatten(),
        log: plan.main.error_log.clone(),
        challenges: challenges.clone(),
    })
}

fn dns(conf: &IssuerConf) -> Result<Option<DnsProgram>, Diagnostic> {
    let Some((word, time_max)) = &conf.dns else { return Ok(None) };
    let path = PathBuf::from(&*word.display());
    if !dns::is_program(&path) {
        let message = format!("\"{}\" is no program that can be run", path.display());
        return Err(Diagnostic::emerg(message).at(word.span));
    }
    Ok(Some(DnsProgram { path, time_max: *time_max }))
}

fn account_key(conf: &IssuerConf, plan: &PlanBuilder<'_>) -> Result<AccountKeySource, Diagnostic> {
    let word = match &conf.account_key {
        None => return Ok(AccountKeySource::Generate(KeyKind::Ecdsa256)),
        Some(AccountKeyConf::Generated(kind)) => return Ok(AccountKeySource::Generate(*kind)),
        Some(AccountKeyConf::File(word)) => word,
    };
    let path = plan.conf_path(&word.display());
    let failed = |reason: &str| {
        let message = format!("cannot load account key \"{}\": {reason}", path.display());
        Diagnostic::emerg(message).at(word.span)
    };
    let contents = plan.environment.resources.read(&path);
    let contents = contents.map_err(|error| failed(&tidegate_os::os_error(&error)))?;
    let key = Key::from_pem(&String::from_utf8_lossy(&contents));
    key.map(AccountKeySource::Given).map_err(|error| failed(&error.to_string()))
}

/// Returns the binding to an external account, and its texts.
fn external_account(
    conf: &IssuerConf,
    plan: &PlanBuilder<'_>,
) -> Result<Option<(ExternalAccount, AccountTexts)>, Diagnostic> {
    let Some((identifier, key)) = &conf.external else { return Ok(None) };
    let text = key.display();
    let text = match text.strip_prefix(TEXT) {
        Some(text) => text.to_owned(),
        None => String::from_utf8_lossy(&plan.read_file(key)?).into_owned(),
    };
    let account = ExternalAccount::new(&identifier.display(), text.trim());
    let account = account.map_err(|error| {
        let message = format!("invalid key in \"external_account_key\": {error}");
        Diagnostic::emerg(message).at(key.span).label("expected a MAC key in base64url")
    })?;
    Ok(Some((account, (identifier.display().into_owned(), text))))
}

/// Returns the directory of the state, as written.
fn directory(name: &str, conf: &IssuerConf, plan: &PlanBuilder<'_>) -> Option<PathBuf> {
    let written = conf.state_path.as_ref().map(Word::display);
    match written.as_deref() {
        Some("off") => None,
        Some(path) => Some(plan.path(path)),
        None => Some(default_directory(name, plan)),
    }
}

/// Returns `acme_NAME` beside the directories of temporary files, which the layout has in the system's place for files
/// that the server writes.
fn default_directory(name: &str, plan: &PlanBuilder<'_>) -> PathBuf {
    let beside = Path::new(plan.environment.layout.proxy_temp).parent();
    let path = beside.unwrap_or(Path::new("")).join(format!("acme_{name}"));
    plan.path(&path.to_string_lossy())
}
