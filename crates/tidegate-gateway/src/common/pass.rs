//! `proxy_pass` and its kin: the server of each request, fixed or made of variables.

use tidegate_conf::{Diagnostic, Word};
use tidegate_core::timeline::{Cause, blame};
use tidegate_core::{Exchange, Level, Template};
use tidegate_plan::LocationBuilder;
use tidegate_rt::clock;
use tidegate_upstream::resolve::{HostPortError, Resolver};

use super::target::{self, FindError, Scheme, Target, Url, UrlError};
use crate::upstream::{GroupKey, Groups};
use tidegate_core::Refused;

/// The destination of a location's requests.
#[derive(Debug)]
pub struct Pass {
    pub destination: PassDestination,
    schemes: &'static [Scheme],
    /// `resolver`, for names that are known only per request.
    resolver: Option<Resolver>,
}

/// A known server, or a text that names one.
#[derive(Debug)]
pub enum PassDestination {
    Fixed(Target, Option<GroupKey>),
    Variable(Template, Groups),
}

impl Pass {
    /// Compiles the argument of the directive; `fixed_uri` says whether a fixed one may have a URI.
    ///
    /// # Errors
    /// An invalid URL, an unknown host, a URI where none is allowed.
    pub fn compile(
        word: &Word,
        schemes: &'static [Scheme],
        fixed_uri: Result<(), &str>,
        location: &mut LocationBuilder<'_, '_>,
    ) -> Result<Pass, Diagnostic> {
        let plan = &mut *location.plan;
        let error = |message: String| Diagnostic::emerg(message).at(word.span);
        let groups = plan.shared::<Groups>().clone();
        if word.bytes.contains(&b'$') {
            let destination = PassDestination::Variable(plan.template(word)?, groups);
            let core = &location.location.settings;
            let resolver = match core.resolver.is_empty() {
                true => None,
                false => {
                    let look_up = |host: &str| plan.environment.resources.addresses(host);
                    let timeout = core.resolver_timeout;
                    let resolver = Resolver::parse(&core.resolver, timeout, look_up);
                    Some(resolver.map_err(|error| Diagnostic::emerg(error.to_string()))?)
                }
            };
            return Ok(Pass { destination, schemes, resolver });
        }
        let url = target::split(&word.bytes, schemes).map_err(|wrong| match wrong {
            UrlError::Prefix => error("invalid URL prefix".to_owned()),
            UrlError::Invalid(what) => error(format!("{what} in \"{}\"", word.display())),
        })?;
        if let (Some(_), Err(message)) = (&url.uri, fixed_uri) {
            return Err(error(message.to_owned()));
        }
        let authority = url.authority.clone();
        groups.check_port(&authority).map_err(error)?;
        let target = url.resolve_now(&groups, plan.environment, clock::now()).map_err(|wrong| {
            let what = match wrong {
                UrlError::Invalid(what) => what,
                UrlError::Prefix => HostPortError::InvalidHost,
            };
            error(format!("{what} in upstream \"{authority}\""))
        })?;
        let key = groups.key(&authority);
        Ok(Pass { destination: PassDestination::Fixed(target, key), schemes, resolver: None })
    }

    /// Returns the host of a fixed destination; it is empty where variables name the server.
    pub(crate) fn fixed_host(&self) -> &[u8] {
        match &self.destination {
            PassDestination::Fixed(target, _) => &target.host,
            PassDestination::Variable(..) => b"",
        }
    }

    /// Returns the server of this request: a fixed one is borrowed from the settings; a text with variables is
    /// evaluated, and names an `upstream`, an address, or a name for the `resolver`.
    ///
    /// Cancelling: there is one await, the query; dropping it there ends this request's part in it.
    ///
    /// # Errors
    /// 500 for an invalid URL, 502 for a name that cannot be resolved.
    pub async fn target<'s>(&'s self, x: &mut Exchange) -> Result<TargetRef<'s>, Refused> {
        let (template, groups) = match &self.destination {
            PassDestination::Fixed(target, key) => {
                return Ok(TargetRef::Fixed(target, key.as_ref()));
            }
            PassDestination::Variable(template, groups) => (template, groups),
        };
        let text = template.value(x);
        let shown = String::from_utf8_lossy(&text).into_owned();
        let url = target::split(&text, self.schemes).ok();
        // A scheme alone is not even the beginning of an address.
        let whole =
            |url: &Url| url.scheme.prefix.is_empty() || text.len() > url.scheme.prefix.len();
        let Some(url) = url.filter(whole) else {
            x.log(Level::Error, format_args!("invalid URL prefix in \"{shown}\""));
            return Err(Refused::INTERNAL);
        };
        let key = groups.key(&url.authority);
        let name = match url.clone().find(groups, clock::now()) {
            Ok(target) => return Ok(TargetRef::Made(Box::new(target), key)),
            Err(FindError::Name(name)) => name,
            Err(FindError::Invalid(what)) => {
                let address = shown.get(url.scheme.prefix.len()..).unwrap_or(&shown);
                x.log(Level::Error, format_args!("{what} in upstream \"{address}\""));
                return Err(Refused::INTERNAL);
            }
        };
        let Some(resolver) = &self.resolver else {
            x.log(Level::Error, format_args!("no resolver defined to resolve {name}"));
            return Err(Refused::BAD_GATEWAY);
        };
        // Boxed: the state of a query is large, and most targets need none.
        let resolving = Box::pin(resolver.resolve(&name, clock::now()));
        match blame(Cause::Dns, resolving).await {
            Ok(addresses) => {
                let target = url.with_addresses(addresses, clock::now());
                let target = target.map_err(|_| Refused::INTERNAL)?;
                Ok(TargetRef::Made(Box::new(target), None))
            }
            Err(error) => {
                x.log(Level::Error, format_args!("{name} could not be resolved ({error})"));
                Err(Refused::BAD_GATEWAY)
            }
        }
    }
}

/// A target that the settings hold, or one made for the request.
pub enum TargetRef<'s> {
    Fixed(&'s Target, Option<&'s GroupKey>),
    Made(Box<Target>, Option<GroupKey>),
}

impl TargetRef<'_> {
    pub fn target(&self) -> &Target {
        match self {
            TargetRef::Fixed(target, _) => target,
            TargetRef::Made(target, _) => target,
        }
    }

    /// Returns the inputs of the group's choice.
    pub fn key(&self) -> Option<&GroupKey> {
        match self {
            TargetRef::Fixed(_, key) => *key,
            TargetRef::Made(_, key) => key.as_ref(),
        }
    }

    /// Returns whether the URI was made of variables: it is sent unchanged.
    pub fn is_made(&self) -> bool {
        matches!(self, TargetRef::Made(..))
    }
}

/// Returns a number for a location that is the same after a reload (FNV-1a of its name).
pub(crate) fn location_tag(name: &[u8]) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    name.iter().fold(0xcbf2_9ce4_8422_2325, mix)
}
