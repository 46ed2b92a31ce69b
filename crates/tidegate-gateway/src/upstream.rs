//! `upstream`: groups of servers that `proxy_pass` names.
//!
//! ```nginx
//! upstream backend {
//!     least_conn;
//!     server 192.0.2.1:8080 weight=5;
//!     server 192.0.2.2:8080 max_fails=3 fail_timeout=30s;
//!     server unix:/run/spare.sock backup;
//!     keepalive 32;
//! }
//! ```

pub(crate) mod key;
pub(crate) mod options;
mod pending;
mod resolvers;
mod rows;
pub(crate) mod saved;
pub(crate) mod server;
mod sessions;
pub(crate) mod sticky;
mod zones;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use tidegate_conf::{Contexts, Diagnostic, Directive, Span, Word};
use tidegate_core::figures::{Slab, SlabUse};
use tidegate_core::variables::Variable;
use tidegate_plan::http_core::HttpCore;
use tidegate_plan::module::{BlockRow, Module};
use tidegate_plan::{Outline, PlanBuilder, Resources};
use tidegate_rt::clock;
use tidegate_upstream::care::names::NamesTask;
use tidegate_upstream::care::{BackgroundTasks, BackgroundWorker, PlanCare};
use tidegate_upstream::peers::{Mutability, Peer, Stickiness};
use tidegate_upstream::resolve::{self, HostPort, Resolver, ResolverError};
use tidegate_upstream::{BalancingMethod, Group, GroupOptions, Keepalive, Member};

use super::common::variables;
use crate::discovery::docker::Containers;
use crate::discovery::upsync::{self, FirstServers};
pub(crate) use key::{GroupKey, HashKey};
use pending::{Pending, ResolveService};
use saved::StateFile;
use server::{MemberError, ServerConf};
use sticky::StickyConf;

/// `ngx_http_upstream_module` with its keepalive, zone and balancing companions, and the same of `stream`: the blocks
/// `upstream`, and the variables `$upstream_*`. It makes the groups before a gateway looks for them, so it precedes
/// the gateways on the list of modules.
pub struct Upstream;

/// One `upstream` block as written.
#[derive(Default)]
pub struct Conf {
    pub servers: Vec<ServerConf>,
    pub keepalive: Option<(u64, bool)>,
    pub keepalive_requests: Option<u64>,
    pub keepalive_time: Option<Duration>,
    pub keepalive_timeout: Option<Duration>,
    pub method: Option<BalancingMethod>,
    /// The key of `hash`.
    pub key: Option<Word>,
    pub zone: Option<String>,
    zone_size: Option<ZoneSize>,
    pub sticky: Option<StickyConf>,
    pub queue: Option<(usize, Duration)>,
    pub state: Option<Word>,
    pub resolver: Option<Vec<String>>,
    pub resolver_timeout: Option<Duration>,
    /// Set in the `http` block: names that cannot be resolved now are retried later.
    pub retries_names: Option<bool>,
    pub warnings: Vec<Diagnostic>,
}

/// The size of a `zone`, which one of the groups that share it has to set.
#[derive(Clone, Copy)]
struct ZoneSize {
    bytes: Option<u64>,
    span: Span,
}

/// All groups by name: those of `upstream` blocks and those that a `proxy_pass` implies. As the names of hosts are,
/// these are found whatever their case.
#[derive(Clone, Default)]
pub struct Groups(Arc<RwLock<GroupTable>>);

/// Shows nothing: the settings that hold this are in place of a group that each request finds.
impl fmt::Debug for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Groups")
    }
}

#[derive(Default)]
struct GroupTable {
    /// By name in lower case, as the next.
    named: HashMap<String, GroupEntry>,
    /// By scheme, plain and TLS: they differ in the default port.
    implied: [HashMap<String, Arc<Group>>; 2],
    /// The queue of unresolved names, if they are allowed.
    pending: Option<Pending>,
}

#[derive(Clone)]
struct GroupEntry {
    /// As written.
    name: String,
    group: Arc<Group>,
    key: Option<GroupKey>,
    /// Name of its `zone`.
    zone: Option<String>,
    /// `state`.
    saved: Option<Arc<StateFile>>,
    /// Containers may be its servers (`docker_endpoint`).
    has_containers: bool,
}

impl Groups {
    /// Returns the group of this name, or the one implied by a directive with the same scheme.
    pub fn find(&self, name: &str, tls: bool) -> Option<Arc<Group>> {
        let groups = self.0.read().unwrap_or_else(PoisonError::into_inner);
        match groups.named.get(&*folded(name)) {
            Some(entry) => Some(entry.group.clone()),
            None => groups.implied[usize::from(tls)].get(&*folded(name)).cloned(),
        }
    }

    /// Returns the inputs of the choice in the group of this name.
    pub fn key(&self, name: &str) -> Option<GroupKey> {
        let groups = self.0.read().unwrap_or_else(PoisonError::into_inner);
        groups.named.get(&*folded(name)).and_then(|entry| entry.key.clone())
    }

    /// Adds a group that an address in a directive implies.
    pub fn add_implicit(&self, name: &str, tls: bool, group: Arc<Group>) {
        let mut groups = self.0.write().unwrap_or_else(PoisonError::into_inner);
        groups.implied[usize::from(tls)].entry(folded(name).into_owned()).or_insert(group);
    }

    /// Returns the queue of unresolved names; `None`: they are errors.
    pub fn pending(&self) -> Option<Pending> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).pending.clone()
    }

    /// Returns the groups of `upstream` blocks that commands can read and change, by name.
    pub fn changing(&self) -> BTreeMap<String, (Arc<Group>, String)> {
        let groups = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let zoned = groups.named.values().filter_map(|entry| {
            Some((entry.name.clone(), (entry.group.clone(), entry.zone.clone()?)))
        });
        zoned.collect()
    }

    /// Returns the number of servers of all groups of [`Groups::changing`].
    pub(crate) fn servers(&self) -> usize {
        let groups = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let zoned = groups.named.values().filter(|entry| entry.zone.is_some());
        zoned.map(|entry| entry.group.attempts_max() as usize).sum()
    }

    /// Returns the groups whose servers containers may be, by name.
    pub(crate) fn of_containers(&self) -> Vec<(String, Arc<Group>)> {
        let groups = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let groups = groups.named.values().filter(|entry| entry.has_containers);
        groups.map(|entry| (entry.name.clone(), entry.group.clone())).collect()
    }

    /// Returns the state file of the group of this name.
    pub fn saved(&self, name: &str) -> Option<Arc<StateFile>> {
        let groups = self.0.read().unwrap_or_else(PoisonError::into_inner);
        groups.named.get(&*folded(name))?.saved.clone()
    }

    /// Returns whether there is an `upstream` of this name.
    pub fn is_named(&self, name: &str) -> bool {
        let groups = self.0.read().unwrap_or_else(PoisonError::into_inner);
        groups.named.contains_key(&*folded(name))
    }

    /// Checks that an address in a directive is not an `upstream` with a port: its servers have the ports.
    ///
    /// # Errors
    /// It is; the text says so in nginx's words.
    pub(crate) fn check_port(&self, authority: &str) -> Result<(), String> {
        match resolve::parse(authority, 0) {
            Ok(HostPort::Inet { host, port: Some(port), .. }) if self.is_named(&host) => {
                Err(format!("upstream \"{host}\" may not have port {port}"))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether the entry is the first of its name.
    fn add(&self, entry: GroupEntry) -> bool {
        let mut groups = self.0.write().unwrap_or_else(PoisonError::into_inner);
        groups.named.insert(folded(&entry.name).into_owned(), entry).is_none()
    }
}

/// Returns a name of a group as the table has it.
fn folded(name: &str) -> Cow<'_, str> {
    match name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => Cow::Owned(name.to_ascii_lowercase()),
        false => Cow::Borrowed(name),
    }
}

impl Module for Upstream {
    type Conf = Conf;
    const NAME: &'static str = "upstream";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[rows::ROWS];
    const BLOCKS: &'static [BlockRow] = &[
        BlockRow { name: "upstream", within: Contexts::HTTP, opens: Contexts::UPSTREAM },
        BlockRow { name: "upstream", within: Contexts::STREAM, opens: Contexts::STREAM_UPSTREAM },
    ];
    const VARIABLES: &'static [Variable] = variables::VARIABLES;
    const SESSION_VARIABLES: &'static [Variable] = variables::SESSION_VARIABLES;

    fn prepare_stream(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        Upstream::prepare_http(conf, plan)
    }

    fn prepare_http(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        let groups = plan.shared::<Groups>().clone();
        plan.extensions.insert(groups.clone());
        if conf.retries_names == Some(true) {
            let pending = Pending::default();
            let log = plan.main.error_log.clone();
            plan.services.push(Arc::new(ResolveService { pending: pending.clone(), log }));
            groups.0.write().unwrap_or_else(PoisonError::into_inner).pending = Some(pending);
        }
        let Some(http) = plan.http_block() else { return bequeath(plan) };
        zones::check(http, plan);
        resolvers::check(http, plan);
        for outline in http.blocks("upstream") {
            if let Some(conf) = outline.conf::<Upstream>() {
                plan.diagnostics.extend(conf.warnings.iter().cloned());
            }
            match entry(outline, http, plan) {
                Ok(entry) => {
                    let name = entry.name.clone();
                    if !groups.add(entry) {
                        let message = format!("duplicate upstream \"{name}\"");
                        plan.diagnostics.push(Diagnostic::emerg(message).at(outline.span));
                    }
                }
                Err(diagnostic) => plan.diagnostics.push(diagnostic),
            }
        }
        bequeath(plan)?;
        let make = || Ok::<_, Diagnostic>(BackgroundWorker::default());
        let background = plan.environment.reload_state.get_or_make(survivor(plan), make)?;
        let tasks = plan.shared::<BackgroundTasks>().clone();
        plan.services.push(Arc::new(PlanCare::new(background, tasks)));
        Ok(())
    }
}

/// Returns the key of the groups: groups of `http` and of `stream` may have the same name.
fn survivor(plan: &PlanBuilder<'_>) -> &'static str {
    if plan.in_stream() { "stream upstreams" } else { "upstreams" }
}

/// The groups of the plan in use by name: the next ones inherit their state.
#[derive(Default)]
struct LatestGroups(Mutex<HashMap<String, Arc<Group>>>);

/// The groups of the plan that is being built.
#[derive(Default)]
struct OwnGroups(HashMap<String, Arc<Group>>);

/// Makes a block's group. It inherits the state of the group of that name in the configuration before.
///
/// The order matters: the servers (from the file of `state`, if it exists), their addresses, the name servers, the
/// group, its state from before, and only then the tasks that change it (names resolved again or for the first time).
/// Once its plan is in use, the next configuration inherits from it.
///
/// # Errors
/// No server, or backups only; an invalid or unknown address; `resolve` without a zone or name servers.
fn entry(
    outline: &Outline,
    http: &Outline,
    plan: &mut PlanBuilder<'_>,
) -> Result<GroupEntry, Diagnostic> {
    let name = outline.args.first().map(|word| word.display().into_owned()).unwrap_or_default();
    let empty = Conf::default();
    let conf = outline.conf::<Upstream>().unwrap_or(&empty);
    let method = conf.method.unwrap_or_default();
    let discovery = upsync::of(outline, &name, method, plan)?;
    let saved = saved(conf, plan)?;
    if let (Some(_), Some(state)) = (&discovery, &conf.state) {
        let what = "\"state\" cannot be used along with the \"upsync\" directive";
        return Err(Diagnostic::emerg(what).at(state.span).help("use `upsync_dump_path`"));
    }
    let servers = match (&saved, discovery.as_ref().and_then(|found| found.first.as_ref())) {
        (Some((_, servers)), _) | (None, Some(FirstServers::Dumped(servers))) => servers,
        (None, _) => &conf.servers,
    };
    if saved.is_none() && discovery.is_none() {
        check_servers(&name, conf, outline.span)?;
    }
    let mut members = match discovery.as_ref().and_then(|found| found.first.as_ref()) {
        Some(FirstServers::Last(last)) => last.to_vec(),
        _ => members(servers, plan)?,
    };
    // Containers must not get into the file of the servers that commands have given the group.
    let has_containers = conf.zone.is_some() && discovery.is_none() && saved.is_none();
    if has_containers {
        plan.shared::<Containers>().join(&name, &mut members);
    }
    let resolver = resolver(conf, servers, http, outline, plan.environment.resources)?;
    resolvers::show(resolver.as_ref(), plan);
    // The servers of a discovery change, whether commands can change them or not.
    let zone = conf.zone.clone().or_else(|| discovery.is_some().then(|| name.clone()));
    let options = GroupOptions {
        sticky: if conf.sticky.is_some() { Stickiness::Routes } else { Stickiness::None },
        mutability: if zone.is_some() { Mutability::Changing } else { Mutability::Fixed },
        queue: conf.queue,
        resolves: resolver.is_some(),
    };
    let group = Group::with(&name, (method, keepalive(conf), options), members, clock::now());
    let group = inherited(group, plan)?;
    show_memory(conf, &group, plan);
    if let Some(discovery) = discovery {
        discovery.follow(&group, resolver.clone(), plan)?;
    }
    match (resolver, plan.shared::<Groups>().pending()) {
        (Some(resolver), _) if group.is_changing() => look_up(&group, resolver, plan),
        (_, Some(pending)) => pending.add(&group, options::PORT),
        _ => {}
    }
    let hash = match (method, &conf.key) {
        (BalancingMethod::IpHash, _) => Some(HashKey::Client),
        (_, Some(word)) => Some(HashKey::Text(plan.template(word)?)),
        _ => None,
    };
    let sticky = conf.sticky.as_ref().map(|sticky| sticky.compile(plan)).transpose()?;
    let key = (hash.is_some() || sticky.is_some()).then_some(GroupKey { hash, sticky });
    let saved = saved.map(|(saved, _)| saved);
    Ok(GroupEntry { name, group, key, zone, saved, has_containers })
}

/// Makes the members of a group of its servers.
///
/// # Errors
/// An address is invalid, or a name unknown.
fn members(servers: &[ServerConf], plan: &mut PlanBuilder<'_>) -> Result<Vec<Member>, Diagnostic> {
    let needs_port = plan.in_stream();
    let retries_names = plan.shared::<Groups>().pending().is_some();
    let resources = plan.environment.resources;
    let members = servers.iter().map(|server| {
        let fail = |error: MemberError| {
            let message = format!("{error} in upstream \"{}\"", server.address);
            Diagnostic::emerg(message).at(server.span)
        };
        match server.member(needs_port, |host| resources.addresses(host)) {
            Err(MemberError::NOT_FOUND) if retries_names => Ok(server.unresolved()),
            member => member.map_err(fail),
        }
    });
    members.collect()
}

/// Gives a group the state of the one of its name in the plan in use; the next plan inherits from it, if this one comes into
/// use.
fn inherited(mut group: Group, plan: &mut PlanBuilder<'_>) -> Result<Arc<Group>, Diagnostic> {
    if let Some(before) = lock(&latest(plan)?.0).get(&*group.name) {
        group.inherit(before, clock::now());
    }
    let group = Arc::new(group);
    plan.shared::<OwnGroups>().0.insert(group.name.to_string(), group.clone());
    Ok(group)
}

/// Lets the next plan inherit from the groups of this one, once this one is in use.
fn bequeath(plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
    let latest = latest(plan)?;
    let own = std::mem::take(&mut plan.shared::<OwnGroups>().0);
    plan.when_in_use(move || lock(&latest.0).clone_from(&own));
    Ok(())
}

fn latest(plan: &PlanBuilder<'_>) -> Result<Arc<LatestGroups>, Diagnostic> {
    let make = || Ok::<_, Diagnostic>(LatestGroups::default());
    plan.environment.reload_state.get_or_make(survivor(plan), make)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Checks that a group has a server that is no backup. Commands of `api` may add servers to a group with a `zone`.
fn check_servers(name: &str, conf: &Conf, span: Span) -> Result<(), Diagnostic> {
    match &conf.servers[..] {
        [] if conf.zone.is_some() => Ok(()),
        [] => Err(Diagnostic::emerg("no servers are inside upstream").at(span)),
        servers if servers.iter().all(|server| server.options.backup) => {
            let message = format!("no servers in upstream \"{name}\"");
            Err(Diagnostic::emerg(message).at(span).help("all of them are `backup`"))
        }
        _ => Ok(()),
    }
}

/// Makes the memory of a group's `zone` known to those who show zones of memory.
fn show_memory(conf: &Conf, group: &Arc<Group>, plan: &mut PlanBuilder<'_>) {
    let bytes = conf.zone_size.and_then(|size| size.bytes);
    let (Some(zone), Some(bytes)) = (&conf.zone, bytes) else { return };
    let group = group.clone();
    let used = move || {
        let servers = u64::from(group.attempts_max());
        SlabUse { bytes: servers * size_of::<Peer>() as u64, entries: servers }
    };
    plan.figures.add_slab(zone, Slab { bytes, used: Arc::new(used) });
}

/// A file and the servers in it.
type SavedServers = (Arc<StateFile>, Vec<ServerConf>);

/// Returns the servers that are kept in a file, in place of those of the configuration.
fn saved(conf: &Conf, plan: &PlanBuilder<'_>) -> Result<Option<SavedServers>, Diagnostic> {
    let Some(word) = &conf.state else { return Ok(None) };
    let error = |what: &str| Diagnostic::emerg(what).at(word.span);
    if !conf.servers.is_empty() {
        return Err(error("\"state\" cannot be used along with the \"server\" directive"));
    }
    if conf.zone.is_none() {
        return Err(error("\"state\" requires the \"zone\" directive"));
    }
    let path = plan.path(&word.display());
    // An existing directory keeps its owner: it may be the configuration's.
    if let Some(directory) = path.parent().filter(|directory| !directory.exists()) {
        plan.environment.resources.directory(directory);
    }
    let saved = StateFile::new(path);
    let servers = saved.read(word.span)?;
    Ok(Some((Arc::new(saved), servers)))
}

/// Returns the name servers of a group: its own, or those of the `http` block.
fn resolver(
    conf: &Conf,
    servers: &[ServerConf],
    http: &Outline,
    outline: &Outline,
    resources: &dyn Resources,
) -> Result<Option<Resolver>, Diagnostic> {
    let error = |message: String| Diagnostic::emerg(message).at(outline.span);
    let name = outline.args.first().map(|word| word.display().into_owned()).unwrap_or_default();
    let core = http.conf::<HttpCore>();
    let inherited = core
        .and_then(|core| core.resolver.as_ref())
        .map(|words| words.iter().map(|word| word.display().into_owned()).collect::<Vec<_>>());
    let words = conf.resolver.clone().or(inherited);
    if servers.iter().any(ServerConf::is_looked_up) {
        if conf.zone.is_none() {
            let what = "resolving names at run time requires upstream";
            return Err(error(format!("{what} \"{name}\" in shared memory"))
                .help("add `zone NAME SIZE;` to the group"));
        }
        if words.is_none() {
            let what = "no resolver defined to resolve names at run time in upstream";
            return Err(error(format!("{what} \"{name}\"")));
        }
    }
    let timeout = conf.resolver_timeout.or(core.and_then(|core| core.plain.resolver_timeout));
    let timeout = timeout.unwrap_or(RESOLVER_TIMEOUT);
    let look_up = |host: &str| resources.addresses(host);
    let wrong = |wrong: ResolverError| error(wrong.to_string());
    words.map(|words| Resolver::parse(&words, timeout, look_up).map_err(wrong)).transpose()
}

const RESOLVER_TIMEOUT: Duration = Duration::from_secs(30);

/// Starts resolving names, as long as the plan is in use.
fn look_up(group: &Arc<Group>, resolver: Resolver, plan: &mut PlanBuilder<'_>) {
    let (group, log) = (group.clone(), plan.main.error_log.clone());
    plan.shared::<BackgroundTasks>().add(Arc::new(NamesTask { group, resolver, log }));
}

fn keepalive(conf: &Conf) -> Keepalive {
    let default = Keepalive::DEFAULT;
    let (idle_max, local) = match conf.keepalive {
        Some((count, local)) => (usize::try_from(count).unwrap_or(usize::MAX), local),
        None => (default.idle_max, default.local),
    };
    Keepalive {
        idle_max,
        local,
        requests_max: conf.keepalive_requests.unwrap_or(default.requests_max),
        age_max: conf.keepalive_time.unwrap_or(default.age_max),
        idle_time_max: conf.keepalive_timeout.unwrap_or(default.idle_time_max),
    }
}
