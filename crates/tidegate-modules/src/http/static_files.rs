//! Files: the content handler of locations without another one.
//!
//! ```nginx
//! location / {
//!     root /srv/www;
//!     disable_symlinks if_not_owner from=$document_root;
//! }
//! ```
//! Files are kept open, and small ones in memory, by a cache that is always on and never stale (see `cache.rs`).
//! FIFOs, sockets and devices are never opened.

mod cache;
mod conf;
mod direct;
mod entry;
mod pool;
mod serve;
#[cfg(test)]
mod tests;
mod watch_tree;

use std::io;

use tidegate_conf::{Diagnostic, Directive};
use tidegate_core::exchange::Exchange;
use tidegate_core::phases::PhaseHandler;
use tidegate_core::{Phase, blocking, file_path, pool_choice};
use tidegate_os::path::HAS_ALIASES;
use tidegate_plan::LocationBuilder;
use tidegate_plan::Module;
use tidegate_plan::module::BlockInfo;

use cache::Policy;

pub(crate) use cache::PathInfo;
pub(crate) use conf::Options;
pub(crate) use direct::{part, whole};
pub(crate) use entry::{Content, Entry, EntryKind, LinkRule, Links, OpenFile, errno, query_path};
pub(crate) use serve::{head, respond, serve};

/// The module of static files.
pub(crate) struct StaticFiles;

impl Module for StaticFiles {
    type Conf = conf::Conf;
    const NAME: &'static str = "static";
    const DIRECTIVES: &'static [&'static [Directive<conf::Conf>]] = &[conf::ROWS];

    fn inherit(child: &mut conf::Conf, parent: &conf::Conf, _block: BlockInfo<'_>) {
        child.inherit(parent);
    }

    fn prepare(
        conf: &conf::Conf,
        location: &mut LocationBuilder<'_, '_>,
    ) -> Result<(), Diagnostic> {
        match conf.pool(location.plan) {
            Ok(Some(choice)) => {
                location.plan.show(&choice);
                pool::use_in(location, choice);
            }
            Ok(None) => {}
            Err(unknown) => location.plan.diagnostics.push(unknown),
        }
        let options = conf.prepare(location.plan)?;
        location.plan.show(&(&options, conf.reading()));
        location.location.extensions.insert(options);
        let handler: PhaseHandler = match conf.reading() {
            Some(reading) => {
                location.location.extensions.insert(reading);
                Box::new(direct::handle)
            }
            None => Box::new(serve::handle),
        };
        location.handler(Phase::Content, handler);
        Ok(())
    }
}

/// Returns the current file, directory or error at a path, under the present location's rules.
pub(crate) fn open(x: &mut Exchange, path: &[u8]) -> std::sync::Arc<Entry> {
    let (rule, policy) = rules(x, path);
    cache::find(path, rule, &policy)
}

/// Does the same as [`open`], but returns `None` where it might block on a disk; then [`warm`] is to be called
/// first.
pub(crate) fn open_nonblocking(x: &mut Exchange, path: &[u8]) -> Option<std::sync::Arc<Entry>> {
    let (rule, policy) = rules(x, path);
    cache::find_nonblocking(path, rule, &policy)
}

/// Has a pool thread query a path, so that the kernel has its names in memory.
pub(crate) async fn warm(x: &mut Exchange, path: &[u8]) {
    let rule = link_rule(x, path);
    let pool = pool_choice::pool_of(x);
    let path = path.to_vec();
    // Without a pool, or with a full one, the event loop has to wait after all.
    let _ = blocking::run_on(pool.as_deref(), move || query_path(&path, rule)).await;
}

/// Tests a path without opening the file.
///
/// # Errors
/// Those of stat; `FilesystemLoop` for a link that `disable_symlinks` refuses.
pub(crate) fn test(x: &mut Exchange, path: &[u8]) -> io::Result<PathInfo> {
    let (rule, policy) = rules(x, path);
    cache::test(path, rule, &policy)
}

/// Does the same as [`test()`], but returns `None` where it might block on a disk; then [`warm`] is to be called
/// first.
pub(crate) fn test_nonblocking(x: &mut Exchange, path: &[u8]) -> Option<io::Result<PathInfo>> {
    let (rule, policy) = rules(x, path);
    cache::test_nonblocking(path, rule, &policy)
}

/// Returns the treatment of links in a path in the present location.
pub(crate) fn link_rule(x: &mut Exchange, path: &[u8]) -> LinkRule {
    rules(x, path).0
}

fn rules(x: &mut Exchange, path: &[u8]) -> (LinkRule, Policy) {
    let (mut rule, policy) = match x.location_ref().extensions.of::<Options>() {
        Some(options) => (options.rule(x, path), options.policy),
        None => (LinkRule::default(), Policy::default()),
    };
    if HAS_ALIASES {
        rule.from = rule.from.max(file_path::root_length(x, path));
    }
    (rule, policy)
}

/// Returns whether an error means "no such file", so that another one may be tried.
pub(crate) fn is_absent(errno: i32) -> bool {
    tidegate_os::error::is_absent(errno)
}

/// Returns whether an error means "forbidden".
pub(crate) fn is_refused(errno: i32) -> bool {
    tidegate_os::error::is_refused(errno)
}
