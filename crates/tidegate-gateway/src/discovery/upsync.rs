//! The directives of the module upsync, in `upstream` of `http` and of `stream`.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_conf::{
    Args, Arity, Contexts, Diagnostic, Directive, Span, Word, once, parse_milliseconds, row,
};
use tidegate_plan::module::Module;
use tidegate_plan::{Outline, PlanBuilder};
use tidegate_tls::{Protocols, TlsTarget};
use tidegate_upstream::care::BackgroundTasks;
use tidegate_upstream::resolve::{self, HostPort, Resolver};
use tidegate_upstream::{BalancingMethod, Group, Member};

use super::client::{Client, Place};
use super::consul;
use super::etcd;
use super::follow::{Follow, Question, Source};
use super::kept::{Kept, Shown, ShownDiscovery};
use super::login::Login;
use crate::outbound;
use crate::upstream::saved::StateFile;
use crate::upstream::server::ServerConf;

/// The module of `upsync` and its companions.
pub struct Upsync;

impl Module for Upsync {
    type Conf = Conf;
    const NAME: &'static str = "upsync";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];
}

/// The directives of one group.
#[derive(Default)]
pub struct Conf {
    upsync: Option<UpsyncConf>,
    dump: Option<Word>,
    lb: Option<(BalancingMethod, Word)>,
}

/// An `upsync` as written.
#[derive(Clone, Debug)]
struct UpsyncConf {
    secure: Secure,
    authority: String,
    host: String,
    port: u16,
    path: String,
    source: Source,
    kind: &'static str,
    interval: Duration,
    timeout: Duration,
    empty_after: Duration,
    strong: bool,
    span: Span,
}

/// What protects the connections to an engine, as written.
#[derive(Clone, Debug)]
struct Secure {
    tls: bool,
    verify: bool,
    trusted: Option<Word>,
    /// The file with the login.
    credentials: Option<Word>,
}

const INTERVAL_DEFAULT: Duration = Duration::from_secs(5);
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(360);
const EMPTY_AFTER_DEFAULT: Duration = Duration::from_secs(30);
/// Shorter pauses would keep the engine busy while it fails.
const INTERVAL_MIN: Duration = Duration::from_millis(10);
/// An engine may hold a response for five sixths of it.
const TIMEOUT_MIN: Duration = Duration::from_millis(100);
const HERE: Contexts = Contexts::UPSTREAM.union(Contexts::STREAM_UPSTREAM);

const ROWS: &[Directive<Conf>] = &[
    row(
        "upsync",
        HERE,
        Arity::between(1, 9),
        "",
        "The group's servers are those that Consul or etcd have: `upsync [https://]HOST:PORT/PATH [upsync_type=consul|consul_services|\
         consul_health|etcd] [upsync_interval=TIME] [upsync_timeout=TIME] [strong_dependency=on|off] [empty_after=TIME] \
         [credentials=FILE] [ssl_verify=on|off] [ssl_trusted_certificate=FILE]`. \
         `consul` (the default): a key `PATH/ADDRESS:PORT` below `/v1/kv/` is a server, its value is empty or an object with \
         `weight` (1), `max_fails` (2), `fail_timeout` (10), `down` and `backup` (0), `max_conns`, `slow_start`; \
         `consul_services`, `consul_health`: the instances of the service at `/v1/catalog/service/NAME` or \
         `/v1/health/service/NAME`, with Consul's weights; with a failing check they are `down`. `etcd`: keys as for Consul, \
         below `/v2/keys/PATH`, by version 3 of its API (`/v3/kv/range`, `/v3/watch`): the key of a server is \
         `/PATH/ADDRESS:PORT`. The engine holds a question until there is something new, so that a change is in use at once; \
         `upsync_interval` (5s) is the pause after a failure, `upsync_timeout` (6m) the longest wait for a response. A response \
         that is invalid in any part changes nothing; one without servers is taken over once it has been the response for \
         `empty_after` (30s). Servers that remain keep their state; those of the configuration are used until the first \
         response. `strong_dependency=on`: a start or a reload asks once, for at most 10 s, and fails without a response. \
         `https://` is TLS, verified by the system's certificates or those in `ssl_trusted_certificate`. `credentials` names a file \
         with one line, which is read at each start and reload: a token of Consul, which is sent as `X-Consul-Token`, or \
         `USER:PASSWORD` of etcd, which are exchanged for a token (`/v3/auth/authenticate`), and again whenever that has ended.",
        upsync,
    ),
    row(
        "upsync_dump_path",
        HERE,
        Arity::ONE,
        "",
        "A file with the servers of the last response, as `server` directives, for starts while the engine is not there: its \
         servers are used until the first response, in place of those of the configuration. It may be included in the group. \
         Without the directive there is no file.",
        |conf: &mut Conf, args| once(&mut conf.dump, args.word(0).clone(), args),
    ),
    row(
        "upsync_lb",
        HERE,
        Arity::ONE,
        "",
        "The group's method: `round_robin`, `least_conn`, `ip_hash`, `hash_modula` (`hash`), `hash_ketama` (`hash … \
         consistent`). Always so: changes of servers fit every method. A method that is not the group's is an error.",
        |conf: &mut Conf, args| {
            let choices = [
                ("round_robin", BalancingMethod::RoundRobin),
                ("roundrobin", BalancingMethod::RoundRobin),
                ("least_conn", BalancingMethod::LeastConnections),
                ("ip_hash", BalancingMethod::IpHash),
                ("hash_modula", BalancingMethod::Hash),
                ("hash_ketama", BalancingMethod::HashConsistent),
            ];
            once(&mut conf.lb, (args.choice(0, &choices)?, args.word(0).clone()), args)
        },
    )
    .without_effect(),
];

fn upsync(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let mut kind = "consul";
    let (mut interval, mut timeout) = (INTERVAL_DEFAULT, TIMEOUT_DEFAULT);
    let (mut empty_after, mut strong) = (EMPTY_AFTER_DEFAULT, false);
    let (tls, authority, path) = place(args)?;
    let mut secure = Secure { tls, verify: true, trusted: None, credentials: None };
    for index in 1..args.len() {
        let least = |value: &str, min: Duration| {
            let time = parse_milliseconds(value.as_bytes()).filter(|time| *time >= min);
            time.ok_or_else(|| {
                args.invalid_parameter(index).help(format!("a time from {min:?} on"))
            })
        };
        match args.parameter(index)? {
            ("upsync_type", Some(value)) => {
                let known = KINDS.iter().find(|kind| **kind == value);
                kind = known.ok_or_else(|| {
                    args.invalid_parameter(index).help(format!("one of {}", KINDS.join(", ")))
                })?;
            }
            ("upsync_interval", Some(value)) => interval = least(value, INTERVAL_MIN)?,
            ("upsync_timeout", Some(value)) => timeout = least(value, TIMEOUT_MIN)?,
            ("empty_after", Some(value)) => empty_after = least(value, Duration::ZERO)?,
            ("strong_dependency", Some("on")) => strong = true,
            ("strong_dependency", Some("off")) => strong = false,
            ("credentials", Some(value)) if !value.is_empty() => {
                secure.credentials = Some(file(args, index, value));
            }
            (name @ ("ssl_verify" | "ssl_trusted_certificate"), _) if !tls => {
                let what = format!("\"{name}\" without TLS");
                return Err(args.error(index, what).help("write `upsync https://HOST:PORT/PATH`"));
            }
            ("ssl_verify", Some("on")) => secure.verify = true,
            ("ssl_verify", Some("off")) => secure.verify = false,
            ("ssl_trusted_certificate", Some(value)) if !value.is_empty() => {
                secure.trusted = Some(file(args, index, value));
            }
            _ => return Err(args.invalid_parameter(index)),
        }
    }
    let source = source(kind, path).map_err(|form| {
        let what = format!("invalid path in \"upsync\" with \"upsync_type={kind}\"");
        args.error(0, what).help(format!("write `upsync {authority}{form}…`"))
    })?;
    let (host, port) = match resolve::parse(authority, 0) {
        Ok(HostPort::Inet { host, port: Some(port), .. }) => (host, port),
        _ => {
            let what = "invalid address in \"upsync\"";
            return Err(args.error(0, what).help("write `HOST:PORT/PATH`"));
        }
    };
    let (authority, path) = (authority.to_owned(), path.to_owned());
    let span = args.word(0).span;
    let written = UpsyncConf {
        secure,
        authority,
        host,
        port,
        path,
        source,
        kind,
        interval,
        timeout,
        empty_after,
        strong,
        span,
    };
    once(&mut conf.upsync, written, args)
}

const KINDS: [&str; 4] = ["consul", "consul_services", "consul_health", "etcd"];

fn file(args: &Args<'_>, index: usize, value: &str) -> Word {
    Word { bytes: value.as_bytes().to_vec(), ..args.word(index).clone() }
}

/// Splits the first argument: whether it has TLS, host with port, and path.
fn place<'a>(args: &'a Args<'_>) -> Result<(bool, &'a str, &'a str), Diagnostic> {
    let text = args.text(0)?;
    let wrong = |help: &str| args.error(0, "invalid address in \"upsync\"").help(help);
    let (tls, text) = match text.split_once("://") {
        None => (false, text),
        Some(("http", rest)) => (false, rest),
        Some(("https", rest)) => (true, rest),
        Some(_) => return Err(wrong("write `HOST:PORT/PATH`, or `https://HOST:PORT/PATH`")),
    };
    let at = text.find('/').ok_or_else(|| wrong("write `HOST:PORT/PATH`"))?;
    let (authority, path) = text.split_at(at);
    if authority.contains('@') {
        return Err(wrong(
            "user and password are in a file: `credentials=FILE`, with `USER:PASSWORD` of etcd",
        ));
    }
    if !path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
        return Err(wrong("a path has no spaces, no `#` and no letters outside of ASCII"));
    }
    Ok((tls, authority, path))
}

/// Returns what is asked; else how the path has to begin.
fn source(kind: &str, path: &str) -> Result<Source, &'static str> {
    let consul = |kind, form: &'static str| match path.strip_prefix(form) {
        Some(rest) if !rest.is_empty() => Ok(Source::Consul(kind)),
        _ => Err(form),
    };
    match kind {
        "consul_services" => consul(consul::Kind::Catalog, "/v1/catalog/service/"),
        "consul_health" => consul(consul::Kind::Health, "/v1/health/service/"),
        "etcd" => match etcd::prefix(path) {
            Some(prefix) if prefix.len() > 1 => Ok(Source::Etcd),
            _ => Err("/v2/keys/"),
        },
        _ => consul(consul::Kind::Keys, "/v1/kv/"),
    }
}

/// The discovery of a group whose plan is being built.
pub(crate) struct Discovery {
    written: UpsyncConf,
    kept: Arc<Kept>,
    dump: Option<Arc<StateFile>>,
    /// The servers until the first response, where they are not those of the configuration.
    pub(crate) first: Option<FirstServers>,
}

/// The servers that a group begins with.
pub(crate) enum FirstServers {
    /// Those of the last response, before a reload.
    Last(Arc<Vec<Member>>),
    /// Those of the file.
    Dumped(Vec<ServerConf>),
}

/// Returns the discovery of a group, if it has one. `method`: the group's own.
///
/// # Errors
/// Companions without `upsync`, or with another method.
pub(crate) fn of(
    outline: &Outline,
    name: &str,
    method: BalancingMethod,
    plan: &mut PlanBuilder<'_>,
) -> Result<Option<Discovery>, Diagnostic> {
    let Some(conf) = outline.conf::<Upsync>() else { return Ok(None) };
    if let Some((wanted, word)) = &conf.lb
        && *wanted != method
    {
        let what = "\"upsync_lb\" names another method than the group has";
        let help = "write the method itself as well: `least_conn;`, `hash KEY consistent;`";
        return Err(Diagnostic::emerg(what).at(word.span).help(help));
    }
    let Some(written) = conf.upsync.clone() else {
        let companion = conf.dump.as_ref().or(conf.lb.as_ref().map(|(_, word)| word));
        return match companion {
            None => Ok(None),
            Some(word) => {
                let what = "\"upsync_dump_path\" and \"upsync_lb\" need \"upsync\"";
                Err(Diagnostic::emerg(what).at(word.span))
            }
        };
    };
    let UpsyncConf { authority, path, kind, .. } = &written;
    let key = format!("upsync {} {name} {kind} {authority}{path}", plan.in_stream());
    let make = || Ok::<_, Diagnostic>(Kept::default());
    let kept = plan.environment.reload_state.get_or_make(&key, make)?;
    let dump = conf.dump.as_ref().map(|word| dump(word, plan));
    let first = match (kept.last(), &dump) {
        (Some(last), _) => Some(FirstServers::Last(last)),
        (None, Some((file, span))) => match file.read(*span) {
            Ok(servers) => {
                Some(servers).filter(|servers| !servers.is_empty()).map(FirstServers::Dumped)
            }
            // The engine has the truth: what was left of it must not stop a start.
            Err(error) => {
                plan.diagnostics.push(error.as_warning());
                None
            }
        },
        (None, None) => None,
    };
    Ok(Some(Discovery { written, kept, dump: dump.map(|(file, _)| file), first }))
}

fn dump(word: &Word, plan: &PlanBuilder<'_>) -> (Arc<StateFile>, Span) {
    let path = plan.path(&word.display());
    // An existing directory keeps its owner: it may be the configuration's.
    if let Some(directory) = path.parent().filter(|directory| !directory.exists()) {
        plan.environment.resources.directory(directory);
    }
    (Arc::new(StateFile::new(path)), word.span)
}

impl Discovery {
    /// Begins to follow the engine, once the plan is in use.
    ///
    /// # Errors
    /// Certificates or a login that cannot be read.
    pub(crate) fn follow(
        self,
        group: &Arc<Group>,
        resolver: Option<Resolver>,
        plan: &mut PlanBuilder<'_>,
    ) -> Result<(), Diagnostic> {
        let UpsyncConf { secure, authority, host, port, path, source, kind, span, .. } =
            self.written;
        let tls = secure.target(&host, span, plan)?;
        let login = secure.login(source, plan)?;
        let scheme = if secure.tls { "https://" } else { "" };
        let source_shown = format!("{scheme}{authority}{path}");
        let shown = ShownDiscovery { kind, source: source_shown, kept: self.kept.clone() };
        plan.extensions.entry::<Shown>().0.insert(group.name.to_string(), shown);
        let place = Place::Host { host, port, resolver };
        let question = Question::new(source, &path, self.written.timeout);
        let follow = Arc::new(Follow {
            group: group.clone(),
            client: Client::new(place, authority, tls).with_login(login),
            question,
            interval: self.written.interval,
            empty_after: self.written.empty_after,
            kept: self.kept,
            current: Mutex::new(match self.first {
                Some(FirstServers::Last(last)) => Some(last),
                _ => None,
            }),
            dump: self.dump,
            is_dumped: AtomicBool::new(false),
            log: plan.main.error_log.clone(),
        });
        if self.written.strong {
            let follow = follow.clone();
            plan.openings.push(Box::new(move |_| {
                super::follow::first(&follow).map_err(|reason| {
                    let name = &follow.group.name;
                    let what = format!("upsync of upstream \"{name}\" has no servers: {reason}");
                    Diagnostic::emerg(what).at(span)
                })
            }));
        }
        plan.shared::<BackgroundTasks>().add(follow);
        Ok(())
    }
}

impl Secure {
    /// Returns how connections to this host are secured.
    fn target(
        &self,
        host: &str,
        span: Span,
        plan: &mut PlanBuilder<'_>,
    ) -> Result<Option<TlsTarget>, Diagnostic> {
        if !self.tls {
            return Ok(None);
        }
        let owner = ("\"upsync\"", "write `ssl_trusted_certificate=FILE`");
        let options = outbound::tls_options(owner, self.trusted.as_ref(), self.verify, span, plan)?;
        let settings = Arc::new(outbound::tls(&options, span)?);
        Ok(Some(TlsTarget::new(settings, host.as_bytes().into(), Protocols::default())))
    }

    /// Reads the login.
    fn login(
        &self,
        source: Source,
        plan: &mut PlanBuilder<'_>,
    ) -> Result<Option<Login>, Diagnostic> {
        let Some(word) = &self.credentials else { return Ok(None) };
        let path = plan.path(&word.display());
        let shown = path.display();
        let failed = |reason: &str| {
            Diagnostic::emerg(format!("credentials file \"{shown}\": {reason}")).at(word.span)
        };
        let text = plan.environment.resources.read(&path);
        let text = text.map_err(|error| failed(&tidegate_os::os_error(&error)))?;
        let login = match source {
            Source::Consul(_) => Login::consul(&text),
            Source::Etcd => Login::etcd(&text),
        };
        login.map(Some).map_err(failed)
    }
}
