//! The directive `*_cache_tier`, and the tiers of a plan.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tidegate_cache::Store;
use tidegate_conf::{
    Args, Diagnostic, Span, Word, closest, parse_milliseconds, parse_number, parse_offset,
};
use tidegate_plan::PlanBuilder;
use tidegate_store::s3::{Credentials, PROFILE_DEFAULT};
use tidegate_tls::{Protocols, TlsTarget};
use tidegate_upstream::care::BackgroundTasks;
use tidegate_upstream::resolve::Resolver;

use super::client::{Client, Endpoint};
use super::list::ListTask;
use super::upload::UploadTask;
use super::{CacheKept, CacheTier, Kept, Tier, TierSettings, Tiers};
use crate::outbound;

const REGION_DEFAULT: &str = "us-east-1";
const USES_DEFAULT: u32 = 2;
const OBJECT_DEFAULT: u64 = 16 << 20;
/// An upload is in memory as a whole.
const OBJECT_MAX: u64 = 1 << 30;
const UPLOADS_DEFAULT: usize = 4;
const UPLOADS_MAX: u64 = 64;
const HEDGE_DEFAULT: Duration = Duration::from_millis(30);
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(1);
const TIMES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(60));

/// A tier as written.
#[derive(Clone)]
pub struct TierConf {
    name: String,
    /// As written.
    url: String,
    bucket: String,
    /// Without `/` at its ends.
    prefix: String,
    endpoint: Option<Url>,
    region: String,
    path_style: bool,
    /// `access_key`, `secret_key` and `session_token`.
    keys: [Option<String>; 3],
    credentials: Option<Word>,
    profile: Option<String>,
    verify: bool,
    trusted: Option<Word>,
    settings: TierSettings,
    span: Span,
}

/// `tier=` of a cache.
#[derive(Clone, Debug)]
pub struct TierName {
    /// The name.
    pub name: String,
    /// Where it is written.
    pub span: Span,
}

/// An endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Url {
    tls: bool,
    host: String,
    port: u16,
    authority: String,
}

/// Reads `*_cache_tier NAME s3://BUCKET[/PREFIX] [parameters]`. No message contains a key.
///
/// # Errors
/// A parameter that is invalid, written twice, or without the one that it belongs to.
pub(crate) fn read(args: &Args<'_>) -> Result<TierConf, Diagnostic> {
    let (name, url) = (args.text(0)?, args.text(1)?);
    let place = url.strip_prefix("s3://").ok_or_else(|| {
        let error = args.error(1, format!("invalid URL \"{url}\" in \"{}\"", args.name()));
        error.label("expected `s3://BUCKET/PREFIX`")
    })?;
    let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
    let is_bucket = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let prefix = prefix.trim_matches('/');
    if bucket.is_empty() || !bucket.bytes().all(is_bucket) {
        let error = args.error(1, format!("invalid bucket \"{bucket}\""));
        return Err(error.label("it has letters, digits, hyphens and dots"));
    }
    if !prefix.bytes().all(|byte| is_bucket(byte) || matches!(byte, b'/' | b'~')) {
        let error = args.error(1, format!("invalid prefix \"{prefix}\""));
        return Err(error.label("it has letters, digits, hyphens, dots and slashes"));
    }
    let mut conf = TierConf {
        name: name.to_owned(),
        url: url.to_owned(),
        bucket: bucket.to_owned(),
        prefix: prefix.to_owned(),
        endpoint: None,
        region: REGION_DEFAULT.to_owned(),
        path_style: true,
        keys: [None, None, None],
        credentials: None,
        profile: None,
        verify: true,
        trusted: None,
        settings: TierSettings {
            uses_min: USES_DEFAULT,
            object_max: OBJECT_DEFAULT,
            uploads_max: UPLOADS_DEFAULT,
            hedge: HEDGE_DEFAULT,
            timeout: TIMEOUT_DEFAULT,
        },
        span: args.word(0).span,
    };
    let mut known: Vec<&str> = Vec::new();
    for index in 2..args.len() {
        let (name, value) = args.parameter(index)?;
        let Some(value) = value.filter(|value| !value.is_empty()) else {
            return Err(invalid(args, index, name));
        };
        if known.contains(&name) {
            return Err(args.error(index, format!("duplicate parameter \"{name}\"")));
        }
        known.push(name);
        conf.take(args, index, name, value)?;
    }
    conf.check(args)?;
    Ok(conf)
}

/// Returns the error for a parameter, without its value, which may be a key.
fn invalid(args: &Args<'_>, index: usize, name: &str) -> Diagnostic {
    const NAMES: [&str; 15] = [
        "endpoint",
        "region",
        "path_style",
        "access_key",
        "secret_key",
        "session_token",
        "credentials",
        "profile",
        "min_uses",
        "max_object",
        "upload",
        "hedge",
        "timeout",
        "ssl_verify",
        "ssl_trusted_certificate",
    ];
    let error = args.error(index, format!("invalid parameter \"{name}\""));
    match closest(name, NAMES.iter().copied()) {
        Some(meant) if meant != name => error.help(format!("did you mean `{meant}`?")),
        _ => error,
    }
}

impl TierConf {
    fn take(
        &mut self,
        args: &Args<'_>,
        index: usize,
        name: &str,
        value: &str,
    ) -> Result<(), Diagnostic> {
        let wrong = || invalid(args, index, name);
        let time = |(min, max): (Duration, Duration)| {
            let time = parse_milliseconds(value.as_bytes());
            let help = format!("it is between {} ms and {} ms", min.as_millis(), max.as_millis());
            time.filter(|time| (min..=max).contains(time)).ok_or_else(|| wrong().help(help))
        };
        let number = |most: u64| {
            let number =
                parse_number(value.as_bytes()).filter(|number| (1..=most).contains(number));
            number.ok_or_else(|| wrong().help(format!("it is a number from 1 to {most}")))
        };
        let switch = || match value {
            "on" => Ok(true),
            "off" => Ok(false),
            _ => Err(wrong().help("it is `on` or `off`")),
        };
        match name {
            "endpoint" => {
                let url = Url::parse(value);
                let help = "it is `http://HOST[:PORT]` or `https://HOST[:PORT]`, without a path";
                self.endpoint = Some(url.ok_or_else(|| wrong().help(help))?);
            }
            "region" if value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') => {
                value.clone_into(&mut self.region);
            }
            "path_style" => self.path_style = switch()?,
            "access_key" => self.keys[0] = Some(value.to_owned()),
            "secret_key" => self.keys[1] = Some(value.to_owned()),
            "session_token" => self.keys[2] = Some(value.to_owned()),
            "credentials" => self.credentials = Some(file(args, index, value)),
            "profile" => self.profile = Some(value.to_owned()),
            "min_uses" => self.settings.uses_min = number(1_000_000)? as u32,
            "max_object" => {
                let size = parse_offset(value.as_bytes());
                let size = size.filter(|size| (1..=OBJECT_MAX).contains(size));
                self.settings.object_max =
                    size.ok_or_else(|| wrong().help("it is a size of at most 1g"))?;
            }
            "upload" => self.settings.uploads_max = number(UPLOADS_MAX)? as usize,
            "hedge" => self.settings.hedge = time((Duration::ZERO, TIMES.1))?,
            "timeout" => self.settings.timeout = time(TIMES)?,
            "ssl_verify" => self.verify = switch()?,
            "ssl_trusted_certificate" => self.trusted = Some(file(args, index, value)),
            _ => return Err(wrong()),
        }
        Ok(())
    }

    /// Checks parameters that need others.
    fn check(&self, args: &Args<'_>) -> Result<(), Diagnostic> {
        let [access_key, secret_key, token] = &self.keys;
        let has_keys = access_key.is_some() || secret_key.is_some() || token.is_some();
        let problem = if access_key.is_some() != secret_key.is_some() {
            "\"access_key\" and \"secret_key\" need each other"
        } else if token.is_some() && access_key.is_none() {
            "\"session_token\" without \"access_key\" and \"secret_key\""
        } else if has_keys && self.credentials.is_some() {
            "\"credentials\" beside \"access_key\" and \"secret_key\""
        } else if self.profile.is_some() && self.credentials.is_none() {
            "\"profile\" without \"credentials\""
        } else {
            return Ok(());
        };
        Err(args.error_here(problem.to_owned()))
    }

    fn credentials(&self, plan: &mut PlanBuilder<'_>) -> Result<Option<Credentials>, Diagnostic> {
        let [access_key, secret_key, token] = &self.keys;
        if let (Some(access_key), Some(secret_key)) = (access_key, secret_key) {
            let credentials = Credentials::new(access_key, secret_key, token.as_deref());
            let error =
                || Diagnostic::emerg("a key has letters that keys do not have").at(self.span);
            return credentials.is_valid().then_some(Some(credentials)).ok_or_else(error);
        }
        let Some(word) = &self.credentials else { return Ok(None) };
        let path = plan.path(&word.display());
        let shown = path.display();
        let failed = |reason: String| {
            Diagnostic::emerg(format!("credentials file \"{shown}\": {reason}")).at(word.span)
        };
        let text = plan.environment.resources.read(&path);
        let text = text.map_err(|error| failed(tidegate_os::os_error(&error)))?;
        let profile = self.profile.as_deref().unwrap_or(PROFILE_DEFAULT);
        let found = Credentials::parse(&String::from_utf8_lossy(&text), profile);
        found.map(Some).map_err(|error| failed(error.to_string()))
    }

    /// Makes the tier of a plan. Client, breaker, queue and figures stay as long as nothing about the store changes.
    fn open(
        &self,
        prefix: &'static str,
        plan: &mut PlanBuilder<'_>,
    ) -> Result<Arc<Tier>, Diagnostic> {
        let credentials = self.credentials(plan)?;
        let default = || Url {
            tls: true,
            host: format!("s3.{}.amazonaws.com", self.region),
            port: 443,
            authority: format!("s3.{}.amazonaws.com", self.region),
        };
        let mut url = self.endpoint.clone().unwrap_or_else(default);
        let shown = format!("{}://{}", if url.tls { "https" } else { "http" }, url.authority);
        if !self.path_style {
            url.host = format!("{}.{}", self.bucket, url.host);
            url.authority = format!("{}.{}", self.bucket, url.authority);
        }
        let parts = [Some(&self.bucket).filter(|_| self.path_style), Some(&self.prefix)];
        let base = parts.into_iter().flatten().filter(|part| !part.is_empty());
        let base = base.fold("/".to_owned(), |base, part| format!("{base}{part}/"));
        let (tls, identity) = match url.tls {
            false => (None, String::new()),
            true => {
                let owner = ("a cache tier", "write `ssl_trusted_certificate=FILE`");
                let trusted = self.trusted.as_ref();
                let options = outbound::tls_options(owner, trusted, self.verify, self.span, plan)?;
                let settings = Arc::new(outbound::tls(&options, self.span)?);
                let name: Arc<[u8]> = url.host.as_bytes().into();
                let target = TlsTarget::new(settings, name, Protocols::default());
                (Some(target), options.identity())
            }
        };
        let http = plan.http_block();
        let resolver = http.map(|http| outbound::resolver(http, plan)).transpose()?.flatten();
        let identity = format!(
            "{identity} {} {}",
            credentials.as_ref().map_or_else(String::new, Credentials::identity),
            resolver.as_ref().map_or_else(String::new, resolver_identity)
        );
        let TierConf { name, region, settings, .. } = self;
        let timeout = settings.timeout;
        let scheme = if url.tls { "https" } else { "http" };
        // The authority has the bucket where the path does not.
        let key = format!(
            "{prefix}cache_tier {name} {scheme}://{}{base} {region} {timeout:?} {identity}",
            url.authority
        );
        let endpoint = Endpoint {
            tls,
            host: url.host,
            port: url.port,
            authority: url.authority,
            base,
            region: region.clone(),
            credentials,
            resolver,
        };
        let make = || Ok::<_, Diagnostic>(Kept::new(Client::new(endpoint, timeout)));
        let kept = plan.environment.reload_state.get_or_make(&key, make)?;
        Ok(Arc::new(Tier {
            name: name.clone(),
            url: self.url.clone(),
            endpoint: shown,
            settings: *settings,
            kept,
            log: plan.main.error_log.clone(),
        }))
    }
}

/// Returns what tells resolvers apart. The order of addresses is not part of it: that of a name server's own name may change.
fn resolver_identity(resolver: &Resolver) -> String {
    let Resolver { servers, valid, ipv4, ipv6, timeout, zone, .. } = resolver;
    let servers: BTreeSet<_> = servers.iter().collect();
    let zone = zone.as_ref().map(|zone| &zone.name);
    format!("{servers:?} {valid:?} {ipv4} {ipv6} {timeout:?} {zone:?}")
}

fn file(args: &Args<'_>, index: usize, value: &str) -> Word {
    let word = args.word(index);
    Word { bytes: value.as_bytes().to_vec(), ..word.clone() }
}

impl Url {
    fn parse(text: &str) -> Option<Url> {
        let (tls, rest) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            _ => return None,
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, port.parse().ok()?),
            _ => (authority, if tls { 443 } else { 80 }),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let is_host =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b':' | b'_');
        if host.is_empty() || port == 0 || !host.bytes().all(is_host) {
            return None;
        }
        Some(Url { tls, host: host.to_owned(), port, authority: authority.to_owned() })
    }
}

/// Makes the tiers of a prefix known, with the tasks of their uploads.
///
/// # Errors
/// A name that is used twice; credentials or certificates that cannot be read.
pub(crate) fn open_tiers(
    prefix: &'static str,
    written: &[TierConf],
    plan: &mut PlanBuilder<'_>,
) -> Result<(), Diagnostic> {
    for conf in written {
        if plan.shared::<Tiers>().0.contains_key(&(prefix, conf.name.clone())) {
            let message = format!("duplicate {prefix}cache_tier \"{}\"", conf.name);
            return Err(Diagnostic::emerg(message).at(conf.span));
        }
        let tier = conf.open(prefix, plan)?;
        let tasks = plan.shared::<BackgroundTasks>();
        for _ in 0..tier.settings.uploads_max {
            tasks.add(Arc::new(UploadTask(tier.clone())));
        }
        let key = (prefix, conf.name.clone());
        plan.shared::<Tiers>().0.insert(key.clone(), tier.clone());
        plan.extensions.entry::<Tiers>().0.insert(key, tier);
    }
    Ok(())
}

/// The prefix of gateways whose origins can be asked for the rest of a body.
const COMPLETED: &str = "proxy_";

/// Connects a cache with its tier. `pauses`: the tier is not asked while purges of other servers may be missing.
///
/// # Errors
/// There is no tier of this name.
pub(crate) fn connect(
    prefix: &'static str,
    cache: &str,
    wanted: &TierName,
    (store, pauses): (Arc<OnceLock<Store>>, bool),
    plan: &mut PlanBuilder<'_>,
) -> Result<Arc<CacheTier>, Diagnostic> {
    let tiers = &plan.shared::<Tiers>().0;
    let Some(tier) = tiers.get(&(prefix, wanted.name.clone())).cloned() else {
        let message = format!("{prefix}cache_tier \"{}\" is missing", wanted.name);
        let error = Diagnostic::emerg(message).at(wanted.span);
        let known = tiers.keys().filter(|(of, _)| *of == prefix).map(|(_, name)| name.as_str());
        return Err(match closest(&wanted.name, known) {
            Some(meant) => error.help(format!("did you mean `tier={meant}`?")),
            None => error.help(format!("write `{prefix}cache_tier {} s3://…;`", wanted.name)),
        });
    };
    // A cache whose tier is another one begins with nothing known of it.
    let place = format!("{prefix}cache {cache} with {} {}", tier.endpoint, tier.url);
    let make = || Ok::<_, Diagnostic>(CacheKept::default());
    let kept = plan.environment.reload_state.get_or_make(&place, make)?;
    let (cache, completes) = (cache.to_owned(), prefix == COMPLETED);
    let connected = Arc::new(CacheTier { tier, cache, store, kept, pauses, completes });
    plan.shared::<BackgroundTasks>().add(Arc::new(ListTask(connected.clone())));
    Ok(connected)
}
