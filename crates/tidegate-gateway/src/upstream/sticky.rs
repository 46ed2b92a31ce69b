//! `sticky`: the requests of a client go to the same server.
//!
//! ```nginx
//! sticky cookie srv_id expires=1h domain=.example.com path=/;
//! sticky route $route_cookie $route_uri;
//! sticky learn create=$upstream_cookie_sid lookup=$cookie_sid zone=sessions:1m;
//! ```

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tidegate_codec::headers::one_line;
use tidegate_codec::{cookie, date};
use tidegate_conf::{Args, Diagnostic, Span};
use tidegate_core::{Exchange, Template};
use tidegate_plan::PlanBuilder;
use tidegate_rt::clock;
use tidegate_upstream::{Group, Peer};

use super::sessions::Sessions;
use super::sessions::shared::SharedSessions;
use crate::common::state::GatewayState;
use crate::zone_sync::{self, Sync};

/// The directive as written.
#[derive(Clone, Debug)]
pub struct StickyConf {
    kind: KindConf,
    span: Span,
}

#[derive(Clone, Debug)]
enum KindConf {
    Cookie(CookieConf),
    Route(Vec<Vec<u8>>),
    Learn(LearnConf),
}

#[derive(Clone, Debug, Default)]
struct CookieConf {
    name: Vec<u8>,
    expires: Option<Expires>,
    domain: Option<Vec<u8>>,
    path: Option<Vec<u8>>,
    http_only: bool,
    secure: bool,
    same_site: Option<Vec<u8>>,
}

#[derive(Clone, Copy, Debug)]
enum Expires {
    Max,
    In(Duration),
}

#[derive(Clone, Debug, Default)]
struct LearnConf {
    create: Vec<Vec<u8>>,
    lookup: Vec<Vec<u8>>,
    zone: Option<(String, u64)>,
    timeout: Option<Duration>,
    header: bool,
    sync: Option<Sync>,
}

/// The compiled directive.
#[derive(Debug)]
pub enum Sticky {
    Cookie(Box<CookieRule>),
    /// The first variable with a value names the server.
    Route(Vec<Template>),
    Learn(Box<Learn>),
}

/// A cookie that names the server.
#[derive(Debug)]
pub struct CookieRule {
    name: Vec<u8>,
    expires: Option<Expires>,
    domain: Option<Template>,
    path: Option<Template>,
    http_only: bool,
    secure: bool,
    same_site: Option<Template>,
}

/// Sessions that responses create.
#[derive(Debug)]
pub struct Learn {
    create: Vec<Template>,
    lookup: Vec<Template>,
    sessions: Arc<Sessions>,
    /// With `sync`.
    shared: Option<Arc<SharedSessions>>,
    timeout: Duration,
    /// A session is created by the head of a response, not by its end.
    header: bool,
}

/// A request's session, from its choice of a server to the end of its response.
pub(crate) struct BoundSession {
    sticky: Arc<Sticky>,
    group: Arc<Group>,
    looked_up: Vec<u8>,
    pending: Option<SessionUpdate>,
}

/// The update of a session at the end of a response.
enum SessionUpdate {
    /// A session was created on the server with this route.
    Begun { session: Vec<u8>, route: Vec<u8> },
    /// The session of the request is prolonged.
    Prolonged,
}

impl BoundSession {
    fn learn(&mut self, now: Instant) {
        let (Some(update), Sticky::Learn(learn)) = (self.pending.take(), &*self.sticky) else {
            return;
        };
        match update {
            SessionUpdate::Begun { session, route } => {
                learn.sessions.put(&session, &route, learn.timeout, now);
            }
            SessionUpdate::Prolonged => learn.sessions.touch(&self.looked_up, learn.timeout, now),
        }
    }
}

impl Drop for BoundSession {
    fn drop(&mut self) {
        // The request ends, in whatever way.
        if self.pending.is_some() {
            self.learn(clock::now());
        }
    }
}

/// Parses the arguments of the directive.
pub(crate) fn parse(args: &Args<'_>) -> Result<StickyConf, Diagnostic> {
    let kind = match args.bytes(0) {
        b"cookie" => KindConf::Cookie(parse_cookie(args)?),
        b"route" => {
            let words = args.words().get(1..).unwrap_or_default();
            KindConf::Route(words.iter().map(|word| word.bytes.clone()).collect())
        }
        b"learn" => KindConf::Learn(parse_learn(args)?),
        _ => return Err(args.invalid_parameter(0)),
    };
    Ok(StickyConf { kind, span: args.word(0).span })
}

fn parse_cookie(args: &Args<'_>) -> Result<CookieConf, Diagnostic> {
    let mut conf = CookieConf { name: args.bytes(1).to_vec(), ..CookieConf::default() };
    for index in 2..args.len() {
        let text = |value: &str| Some(value.as_bytes().to_vec());
        match args.parameter(index)? {
            ("expires", Some("max")) => conf.expires = Some(Expires::Max),
            ("expires", Some(value)) => {
                let time = tidegate_conf::parse_seconds(value.as_bytes());
                let time =
                    time.ok_or_else(|| args.error(index, "invalid \"expires\" parameter"))?;
                conf.expires = Some(Expires::In(time));
            }
            ("domain", Some(value)) => conf.domain = text(value),
            ("path", Some(value)) => conf.path = text(value),
            ("samesite", Some(value)) => {
                let known = ["strict", "lax", "none"].contains(&value) || value.starts_with('$');
                if !known {
                    return Err(args.invalid_parameter(index));
                }
                conf.same_site = text(value);
            }
            ("httponly", None) => conf.http_only = true,
            ("secure", None) => conf.secure = true,
            _ => return Err(args.invalid_parameter(index)),
        }
    }
    Ok(conf)
}

fn parse_learn(args: &Args<'_>) -> Result<LearnConf, Diagnostic> {
    let mut conf = LearnConf::default();
    for index in 1..args.len() {
        let invalid = || args.invalid_parameter(index);
        match args.parameter(index)? {
            ("create", Some(value)) if value.starts_with('$') => conf.create.push(value.into()),
            ("lookup", Some(value)) if value.starts_with('$') => conf.lookup.push(value.into()),
            ("zone", Some(value)) => {
                let (name, size) = value.split_once(':').ok_or_else(invalid)?;
                let size = tidegate_conf::parse_size(size.as_bytes());
                let size = size.filter(|size| *size >= ZONE_BYTES_MIN && !name.is_empty());
                conf.zone = Some((name.to_owned(), size.ok_or_else(invalid)?));
            }
            ("timeout", Some(value)) => {
                let time = tidegate_conf::parse_milliseconds(value.as_bytes());
                conf.timeout = Some(time.ok_or_else(invalid)?);
            }
            ("header", None) => conf.header = true,
            ("sync", store) if store != Some("") => {
                let store = store.map(str::to_owned);
                conf.sync = Some(Sync { store, span: args.word(index).span });
            }
            _ => return Err(invalid()),
        }
    }
    for (missing, name) in [
        (conf.create.is_empty(), "create"),
        (conf.lookup.is_empty(), "lookup"),
        (conf.zone.is_none(), "zone"),
    ] {
        if missing {
            return Err(args.error_here(format!("\"sticky learn\" requires \"{name}\" parameter")));
        }
    }
    Ok(conf)
}

/// Smallest zone: eight pages, as for all zones.
const ZONE_BYTES_MIN: u64 = 8 * 4096;
const LEARN_TIMEOUT: Duration = Duration::from_secs(600);

impl StickyConf {
    /// Compiles the directive.
    pub fn compile(&self, plan: &mut PlanBuilder<'_>) -> Result<Arc<Sticky>, Diagnostic> {
        let span = self.span;
        let mut template = |text: &Vec<u8>| plan.template_text(text, span);
        let sticky = match &self.kind {
            KindConf::Route(texts) => {
                Sticky::Route(texts.iter().map(template).collect::<Result<_, _>>()?)
            }
            KindConf::Cookie(conf) => Sticky::Cookie(Box::new(CookieRule {
                name: conf.name.clone(),
                expires: conf.expires,
                domain: conf.domain.as_ref().map(&mut template).transpose()?,
                path: conf.path.as_ref().map(&mut template).transpose()?,
                http_only: conf.http_only,
                secure: conf.secure,
                same_site: conf.same_site.as_ref().map(&mut template).transpose()?,
            })),
            KindConf::Learn(conf) => {
                let create = conf.create.iter().map(&mut template).collect::<Result<_, _>>()?;
                let lookup = conf.lookup.iter().map(template).collect::<Result<_, _>>()?;
                let (name, bytes) = conf.zone.clone().unwrap_or_default();
                let make = || Ok::<_, Diagnostic>(Sessions::new(bytes, conf.sync.is_some()));
                let sessions = plan.environment.reload_state.get_or_make(&name, make)?;
                let shared = shared(conf, (&name, bytes), &sessions, plan)?;
                let timeout = conf.timeout.unwrap_or(LEARN_TIMEOUT);
                let header = conf.header;
                Sticky::Learn(Box::new(Learn { create, lookup, sessions, shared, timeout, header }))
            }
        };
        Ok(Arc::new(sticky))
    }
}

/// The zones of a configuration by name: several groups may have one.
#[derive(Default)]
struct Zones(HashMap<String, Arc<SessionZone>>);

/// The settings of a zone. One group with `sync` is enough to share it.
#[derive(Default)]
struct SessionZone {
    bytes: AtomicU64,
    shared: OnceLock<Arc<SharedSessions>>,
}

/// Makes the shared part of a zone, where it has `sync`. The sessions, which outlive the plan, are configured once it is in use.
fn shared(
    conf: &LearnConf,
    (name, bytes): (&str, u64),
    sessions: &Arc<Sessions>,
    plan: &mut PlanBuilder<'_>,
) -> Result<Option<Arc<SharedSessions>>, Diagnostic> {
    let known = plan.shared::<Zones>().0.get(name).cloned();
    let zone = known.unwrap_or_else(|| {
        let (zone, sessions) = (Arc::new(SessionZone::default()), sessions.clone());
        plan.shared::<Zones>().0.insert(name.to_owned(), zone.clone());
        let of_plan = zone.clone();
        plan.when_in_use(move || {
            let is_shared = of_plan.shared.get().is_some();
            sessions.configure(of_plan.bytes.load(Ordering::Relaxed), is_shared);
        });
        zone
    });
    zone.bytes.store(bytes, Ordering::Relaxed);
    let Some(sync) = &conf.sync else { return Ok(None) };
    if let Some(shared) = zone.shared.get() {
        return Ok(Some(shared.clone()));
    }
    let store = zone_sync::find(sync, plan)?;
    let shared = zone
        .shared
        .get_or_init(|| Arc::new(SharedSessions::new(name, sessions.clone(), store.clone())));
    store.add(shared.clone());
    Ok(Some(shared.clone()))
}

/// Asks other servers for the session of a request, where this one does not know it (`sync`): a wait of some milliseconds at
/// most.
pub(crate) async fn prepare(x: &mut Exchange, sticky: &Sticky) {
    let Sticky::Learn(learn) = sticky else { return };
    let Some(shared) = &learn.shared else { return };
    let session = first_value(x, &learn.lookup).unwrap_or_default();
    Box::pin(shared.learn(&session, learn.timeout)).await;
}

/// Returns the route that a request asks for; the session is kept in the exchange until the response.
pub(crate) fn begin(
    x: &mut Exchange,
    sticky: &Arc<Sticky>,
    group: &Arc<Group>,
    now: Instant,
) -> Option<Box<[u8]>> {
    let mut looked_up = Vec::new();
    let route = match &**sticky {
        Sticky::Cookie(rule) => {
            cookie::find(&x.request.head.headers, &rule.name).map(<[u8]>::to_vec)
        }
        Sticky::Route(templates) => first_value(x, templates),
        Sticky::Learn(learn) => {
            looked_up = first_value(x, &learn.lookup).unwrap_or_default();
            learn.sessions.find(&looked_up, now)
        }
    };
    let (sticky, group) = (sticky.clone(), group.clone());
    GatewayState::of(x).bound = Some(BoundSession { sticky, group, looked_up, pending: None });
    route.filter(|route| !route.is_empty()).map(Vec::into_boxed_slice)
}

fn first_value(x: &mut Exchange, templates: &[Template]) -> Option<Vec<u8>> {
    templates.iter().map(|template| template.value(x)).find(|value| !value.is_empty())
}

/// Handles the response of a server: sets the cookie, or stores the session. `whole`: the response has arrived with
/// its body. The time is given by both clocks, monotonic and in Unix seconds.
pub(crate) fn on_response(x: &mut Exchange, whole: bool, (now, unix_now): (Instant, i64)) {
    let state = GatewayState::of(x);
    let peer = state.report.borrow().attempts().last().and_then(|attempt| attempt.peer().cloned());
    let (Some(bound), Some(peer)) = (state.bound.take(), peer) else { return };
    let bound = match &*bound.sticky.clone() {
        Sticky::Route(_) => bound,
        Sticky::Cookie(rule) => {
            set_cookie(x, rule, &bound.group, &peer, unix_now);
            bound
        }
        Sticky::Learn(learn) => learn_session(x, learn, bound, &peer, (whole, now)),
    };
    GatewayState::of(x).bound = Some(bound);
}

fn learn_session(
    x: &mut Exchange,
    learn: &Learn,
    mut bound: BoundSession,
    peer: &Peer,
    (whole, now): (bool, Instant),
) -> BoundSession {
    let created = first_value(x, &learn.create);
    bound.pending = Some(match (created, bound.group.route(peer)) {
        (Some(session), Some(route)) => SessionUpdate::Begun { session, route },
        // A response without a session prolongs the request's session.
        _ => SessionUpdate::Prolonged,
    });
    if whole || learn.header {
        bound.learn(now);
    }
    bound
}

/// Sets the cookie that binds the client to its server (`sticky cookie`; RFC 6265 section 4.1): the route, and the
/// attributes of the directive in its order. `now` is in Unix seconds. A server without a route gets no cookie.
fn set_cookie(x: &mut Exchange, rule: &CookieRule, group: &Group, peer: &Peer, now: i64) {
    let Some(route) = group.route(peer) else { return };
    let mut value = rule.name.clone();
    value.push(b'=');
    value.extend_from_slice(&route);
    let lasts = rule.expires.map(|expires| match expires {
        Expires::Max => (b"Thu, 31-Dec-37 23:55:55 GMT".to_vec(), MAX_AGE_MAX),
        Expires::In(time) => {
            let mut text = Vec::new();
            let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
            date::write_cookie(now.saturating_add(seconds), &mut text);
            (text, time.as_secs())
        }
    });
    if let Some((date, seconds)) = lasts {
        value.extend_from_slice(b"; expires=");
        value.extend_from_slice(&date);
        value.extend_from_slice(format!("; max-age={seconds}").as_bytes());
    }
    let mut attribute = |name: &[u8], template: &Option<Template>, known: Option<&[&[u8]]>| {
        let text = template.as_ref().map(|template| template.value(x)).unwrap_or_default();
        let text = match known {
            Some([first, rest @ ..]) if !rest.contains(&&text[..]) && !text.is_empty() => first,
            _ => &text[..],
        };
        if !text.is_empty() {
            value.extend_from_slice(name);
            value.extend_from_slice(text);
        }
    };
    attribute(b"; domain=", &rule.domain, None);
    attribute(b"; path=", &rule.path, None);
    // Any other value is the strictest one.
    attribute(b"; samesite=", &rule.same_site, Some(&[b"strict", b"lax", b"none"]));
    if rule.secure {
        value.extend_from_slice(b"; secure");
    }
    if rule.http_only {
        value.extend_from_slice(b"; httponly");
    }
    x.response.headers.push(b"Set-Cookie", &one_line(value));
}

/// Ten years in seconds, with `expires=max`.
const MAX_AGE_MAX: u64 = 315_360_000;
