//! `zone_sync_store`: engines (Redis, Valkey) by which servers share zones, with the parameter `sync` of the zones.
//!
//! ```nginx
//! zone_sync_store redis://10.0.0.5:6379/0;
//! limit_req_zone $binary_remote_addr zone=clients:10m rate=10r/s sync;
//! ```
//! A request waits for an engine where its zone says so alone (`sync=wait` of limits): it is decided by this server's copy of the
//! zone. In each interval one task sends what
//! has changed in all zones, without waiting in between, and the zones take over the replies. A zone that is shared is a
//! [`Member`]; what its commands mean is its own matter.

mod budget;
mod conf;
mod nodes;
mod store;
mod task;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_conf::{Diagnostic, Directive, Span, closest};
use tidegate_plan::PlanBuilder;
use tidegate_plan::module::Module;
use tidegate_store::{Engine, EngineSettings};
use tidegate_tls::TlsOptions;
use tidegate_upstream::care::BackgroundTasks;

use conf::{Conf, ROWS, StoreConf};
use store::Kept;
pub use store::{Member, MemberFigures, SyncStore};
use task::{EngineTask, SyncTask};

use crate::outbound;

/// The module of `zone_sync_store`, in `http` and in `stream`.
pub struct ZoneSync;

impl Module for ZoneSync {
    type Conf = Conf;
    const NAME: &'static str = "zone_sync";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];

    fn prepare_http(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        let mut stores = Stores::default();
        for written in &conf.stores {
            let store = Arc::new(open(written, plan)?);
            let tasks = plan.shared::<BackgroundTasks>();
            tasks.add(Arc::new(EngineTask(store.clone())));
            tasks.add(Arc::new(SyncTask(store.clone())));
            stores.0.insert(written.name.clone(), store);
        }
        plan.extensions.insert(stores.clone());
        plan.share(stores);
        Ok(())
    }

    fn prepare_stream(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        ZoneSync::prepare_http(conf, plan)
    }
}

/// The value of `sync` with which requests await the store: no store has this name, nor one that begins with it and `:`.
pub const WAIT: &str = "wait";

/// The stores of a block by name.
#[derive(Clone, Default)]
pub(crate) struct Stores(pub(crate) BTreeMap<String, Arc<SyncStore>>);

/// The value of `sync` of a zone: the name of a store, if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sync {
    /// The name behind `sync=`.
    pub store: Option<String>,
    /// Where it is written.
    pub span: Span,
}

/// Returns the store by which a zone is shared. Without a name there has to be one store, or one without a name.
///
/// # Errors
/// There is none, or it is not clear which.
pub fn find(sync: &Sync, plan: &mut PlanBuilder<'_>) -> Result<Arc<SyncStore>, Diagnostic> {
    let block = if plan.in_stream() { "stream" } else { "http" };
    let stores = &plan.shared::<Stores>().0;
    let found = match &sync.store {
        Some(name) => stores.get(name),
        None if stores.len() == 1 => stores.values().next(),
        None => stores.get(conf::NAME_DEFAULT),
    };
    if let Some(found) = found {
        return Ok(found.clone());
    }
    if stores.is_empty() {
        let error = Diagnostic::emerg("\"sync\" without \"zone_sync_store\"").at(sync.span);
        let help = format!("write `zone_sync_store redis://ADDRESS:6379/0;` in `{block}`");
        return Err(error.help(help));
    }
    let Some(name) = &sync.store else {
        let error = Diagnostic::emerg("\"sync\" names none of several stores").at(sync.span);
        return Err(error.help("write `sync=NAME`, with the name of a `zone_sync_store`"));
    };
    let error = Diagnostic::emerg(format!("zone_sync_store \"{name}\" is missing")).at(sync.span);
    Err(match closest(name, stores.keys().map(String::as_str)) {
        Some(meant) => error.help(format!("did you mean `sync={meant}`?")),
        None => error,
    })
}

fn open(written: &StoreConf, plan: &mut PlanBuilder<'_>) -> Result<SyncStore, Diagnostic> {
    let options = tls_options(written, plan)?;
    let identity = options.as_ref().map_or(String::new(), TlsOptions::identity);
    let tls = match &options {
        None => None,
        Some(options) => Some(Arc::new(outbound::tls(options, written.span)?)),
    };
    let StoreConf { name, address, timeout, .. } = written;
    // An engine with its connection's figures stays as long as nothing about it changes.
    let StoreConf { url, sentinel, .. } = written;
    let key = format!("{} {name} {url} {sentinel:?} {timeout:?} {identity}", plan.in_stream());
    let make = || {
        let (address, timeout) = (address.clone(), *timeout);
        let engine = Arc::new(Engine::new(EngineSettings { address, timeout, tls }));
        Ok::<_, Diagnostic>(Kept::new(engine))
    };
    let kept = plan.environment.reload_state.get_or_make(&key, make)?;
    let (name, prefix) = (name.as_str().into(), written.prefix.as_str().into());
    Ok(SyncStore::new(kept, name, prefix, written.interval, plan.main.error_log.clone()))
}

fn tls_options(
    written: &StoreConf,
    plan: &mut PlanBuilder<'_>,
) -> Result<Option<TlsOptions>, Diagnostic> {
    if !written.address.tls {
        return Ok(None);
    }
    let owner = ("\"zone_sync_store\"", "write `ssl_trusted_certificate=FILE`");
    let (trusted, verify) = (written.trusted.as_ref(), written.verify);
    outbound::tls_options(owner, trusted, verify, written.span, plan).map(Some)
}

/// The longest time in which a server that is gone still counts among those that share a store: limits then allow it its
/// part.
pub(crate) const LEASE: Duration = Duration::from_secs(3);
