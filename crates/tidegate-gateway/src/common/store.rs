//! `*_store`: copies of origins' responses as files, for all gateways that have the directive.
//!
//! ```nginx
//! location /images/ { root /data/www; error_page 404 = @fetch; }
//! location @fetch   { internal; proxy_pass http://origin; proxy_store on; root /data/www; }
//! ```
//! Only complete responses of 200 become files, except unbuffered ones and those to HEAD. `copy` does the work.

mod copy;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use tidegate_codec::request::Method;
use tidegate_conf::{Args, Diagnostic, Span, Word, once};
use tidegate_core::{Exchange, Level, Template, file_path};
use tidegate_os::os_error;
use tidegate_plan::PlanBuilder;
use tidegate_upstream::LogContext;

use super::options::GatewayConf;
use super::settings::SpoolSettings;
use crate::cache::config::conf::ZoneName;
pub(crate) use copy::StoreCopy;
use tidegate_conf::file_mode;

/// Permissions without `*_store_access`.
const MODE_DEFAULT: u32 = 0o600;

/// The directives of one block as written.
#[derive(Clone, Default)]
pub struct StoreConf {
    written: Option<StoreDirective>,
    access: Option<u32>,
}

#[derive(Clone)]
struct StoreDirective {
    to: StoreTarget,
    span: Span,
    /// Number of blocks between this one and the one that sets it.
    distance: u16,
}

#[derive(Clone)]
enum StoreTarget {
    Off,
    /// The path by `root` or `alias`.
    Path,
    Text(Word),
}

/// The settings of a location that stores.
#[derive(Debug)]
pub struct StoreSettings {
    /// `None`: the path by `root` or `alias`.
    target: Option<Template>,
    mode: u32,
}

/// Makes the rows for a prefix and a module's settings.
macro_rules! gateway_store_rows {
    ($prefix:literal, $conf:ty) => {
        &[
            tidegate_conf::row::<$conf>(
                tidegate_conf::with_prefix($prefix, ["proxy_store", "fastcgi_store", "uwsgi_store", "scgi_store"]),
                tidegate_conf::Contexts::HTTP_SERVER_LOCATION,
                tidegate_conf::Arity::ONE,
                "off",
                "Saves responses as files: `on` in the place given by `root` or `alias`, or under a name with variables.",
                |conf, args| $crate::common::store::set_store(conf.gateway(), args),
            ),
            tidegate_conf::row::<$conf>(
                tidegate_conf::with_prefix($prefix, [
                    "proxy_store_access",
                    "fastcgi_store_access",
                    "uwsgi_store_access",
                    "scgi_store_access",
                ]),
                tidegate_conf::Contexts::HTTP_SERVER_LOCATION,
                tidegate_conf::Arity::ONE_TO_THREE,
                "user:rw",
                "Permissions of saved files and their directories: `user:`, `group:`, `all:` with `r` and `w`.",
                |conf, args| $crate::common::store::set_access(conf.gateway(), args),
            ),
        ]
    };
}
pub(crate) use gateway_store_rows;

pub(crate) fn set_store(conf: &mut GatewayConf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let to = match args.bytes(0) {
        b"off" => StoreTarget::Off,
        b"on" => StoreTarget::Path,
        b"" => return Err(args.error(0, "empty path")),
        _ => StoreTarget::Text(args.word(0).clone()),
    };
    let written = StoreDirective { to, span: args.word(0).span, distance: 0 };
    once(&mut conf.store.written, written, args)
}

pub(crate) fn set_access(conf: &mut GatewayConf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let mode = file_mode::read(args)?;
    once(&mut conf.store.access, mode, args)
}

/// Inherits settings: http → server → location.
pub(crate) fn inherit(child: &mut StoreConf, parent: &StoreConf) {
    if child.written.is_none() {
        child.written = parent.written.clone();
        child.written.iter_mut().for_each(|written| written.distance += 1);
    }
    child.access = child.access.or(parent.access);
}

impl StoreConf {
    /// Compiles the settings of a block that stores. A cache excludes it: the innermost of the two wins.
    ///
    /// # Errors
    /// Both are set in the same block; an invalid text with variables.
    pub fn compile(
        &self,
        prefix: &str,
        cache: Option<&ZoneName>,
        plan: &mut PlanBuilder<'_>,
    ) -> Result<Option<StoreSettings>, Diagnostic> {
        if !self.is_on(prefix, cache)? {
            return Ok(None);
        }
        let target = match self.written.as_ref().map(|written| &written.to) {
            Some(StoreTarget::Text(word)) => Some(plan.template(word)?),
            _ => None,
        };
        Ok(Some(StoreSettings { target, mode: self.access.unwrap_or(MODE_DEFAULT) }))
    }

    fn is_on(&self, prefix: &str, cache: Option<&ZoneName>) -> Result<bool, Diagnostic> {
        let Some(written) =
            self.written.as_ref().filter(|written| !matches!(written.to, StoreTarget::Off))
        else {
            return Ok(false);
        };
        let Some(cache) = cache.filter(|cache| cache.word.is_some()) else { return Ok(true) };
        if written.distance == cache.distance {
            let message =
                format!("\"{prefix}store\" directive is incompatible with \"{prefix}cache\"");
            return Err(Diagnostic::emerg(message).at(written.span));
        }
        Ok(written.distance < cache.distance)
    }
}

impl StoreSettings {
    /// Returns the destination of this response's copy; `None` when it is not to be stored.
    pub fn copy(
        &self,
        x: &mut Exchange,
        buffering: bool,
        spool: &Arc<SpoolSettings>,
    ) -> Option<StoreCopy> {
        if x.disposition.status() != 200 || x.request.head.method == Method::Head || !buffering {
            return None;
        }
        let path = match &self.target {
            None => file_path::map(x)?,
            Some(template) => template.value(x),
        };
        // A relative one is below the prefix; an absolute one is used unchanged.
        let written = match &self.target {
            None => file_path::root_length(x, &path),
            Some(_) if tidegate_os::path::is_absolute(&path) => 0,
            Some(_) => x.plan.main.prefix.len(),
        };
        let target = PathBuf::from(&x.plan.main.prefix).join(tidegate_os::path::of_vec(path));
        if let Err(error) = tidegate_os::path::check(&target, written) {
            let (target, error) = (target.display(), os_error(&error));
            x.log(Level::Error, format_args!("storing as \"{target}\" failed ({error})"));
            return None;
        }
        Some(StoreCopy {
            target,
            mode: self.mode,
            modified: x.response.last_modified,
            length: x.response.content_length,
            spool: spool.clone(),
            log: LogContext::of(x),
        })
    }
}
