//! `fastcgi_pass`: requests are passed to FastCGI applications, such as PHP.
//!
//! ```nginx
//! location / { try_files $uri $uri/ /index.php?$args; }
//! location ~ \.php$ {
//!     fastcgi_split_path_info ^(.+?\.php)(/.*)$;
//!     fastcgi_index index.php;
//!     fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
//!     include       fastcgi_params;
//!     fastcgi_pass  unix:/run/php/php-fpm.sock;
//! }
//! ```
//! Without `fastcgi_keep_conn` a connection is kept for the next request of a burst: for 10 ms without one, and at
//! most for 32 requests and a second, since each holds a process of the application that other requests may wait for.
//! Only requests that may be sent twice use such a connection. Where requests wait for a process, connections go to the
//! oldest (`upstream/peers/process_queue`).

mod request;
mod rows;
mod script;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tidegate_conf::{Diagnostic, Directive, Word};
use tidegate_core::Exchange;
use tidegate_core::variables::Variable;
use tidegate_os::layout::Layout;
use tidegate_plan::http_core::conf::TempPath;
use tidegate_plan::module::{BlockInfo, Module};
use tidegate_plan::{LocationBuilder, Outline};
use tidegate_upstream::{ConnectionReuse, FastCgiRules, OriginRequest};

use super::cache::config::conf::CacheConf;
use super::cache::{Cache, CacheCaller, cache_rows};
use super::common::cgi::{CgiConf, CgiProtocol, CgiSettings, HasCgi};
use super::common::content::{self, Protocol, RequestMode};
use super::common::params::Packing;
use super::common::pass::{Pass, TargetRef};
use super::common::respond::Rewriter;
use super::common::settings::GatewaySettings;
use super::common::target;
use tidegate_core::Refused;

/// `ngx_http_fastcgi_module`: the `fastcgi_*` directives but those of its cache ([`FastCgiCache`]), `fastcgi_pass` as
/// the content of a location, and the variables of a script's name.
pub struct FastCgi;

/// The directives of one block.
#[derive(Default)]
pub struct Conf {
    pub cgi: CgiConf,
    index: Option<Word>,
    split: Option<Word>,
    catch_stderr: Option<Vec<Word>>,
    keep_conn: Option<bool>,
}

impl HasCgi for Conf {
    fn cgi(&mut self) -> &mut CgiConf {
        &mut self.cgi
    }
}

const KIND: CgiProtocol = CgiProtocol {
    prefix: "fastcgi_",
    temp_directory: |layout| layout.fastcgi_temp,
    schemes: target::ADDRESS,
    packing: Packing::FastCgi,
};

/// FastCGI's side of its cache.
pub struct FastCgiCaller;

impl CacheCaller for FastCgiCaller {
    const NAME: &'static str = "fastcgi_cache";
    const PREFIX: &'static str = "fastcgi_";
    const TEMPORARY: fn(&Layout) -> &'static str = |layout| layout.fastcgi_temp;
    const ROWS: &'static [Directive<CacheConf>] = cache_rows!("fastcgi_");

    fn temp_path(http: &Outline) -> Option<&TempPath> {
        http.conf::<FastCgi>()?.cgi.gateway.temp_path.as_ref()
    }
}

/// The `fastcgi_cache…` directives.
pub type FastCgiCache = Cache<FastCgiCaller>;

impl Module for FastCgi {
    type Conf = Conf;
    const NAME: &'static str = "fastcgi";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] =
        &[rows::CONNECTION, rows::RESPONSES, rows::SHARED, rows::STORE, rows::CGI, rows::OWN];
    const VARIABLES: &'static [Variable] = script::VARIABLES;

    fn close_block(conf: &mut Conf, block: BlockInfo<'_>) -> Result<(), Diagnostic> {
        conf.cgi.pass.note_block(block);
        Ok(())
    }

    fn inherit(child: &mut Conf, parent: &Conf, block: BlockInfo<'_>) {
        child.cgi.inherit(&parent.cgi, block);
        macro_rules! take_over {
            ($($field:ident),*) => {
                $(if child.$field.is_none() { child.$field.clone_from(&parent.$field); })*
            };
        }
        take_over!(index, split, catch_stderr, keep_conn);
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        script::prepare(conf.index.as_ref(), conf.split.as_ref(), location)?;
        let Some(cgi) = conf.cgi.compile::<FastCgiCaller>(KIND, location)? else { return Ok(()) };
        let words = conf.catch_stderr.iter().flatten();
        let settings = Settings {
            cgi,
            reuse: match conf.keep_conn {
                None => ConnectionReuse::Briefly,
                Some(true) => ConnectionReuse::AsGroup,
                Some(false) => ConnectionReuse::Never,
            },
            rules: FastCgiRules { catch: words.map(|word| word.bytes[..].into()).collect() },
        };
        content::install::<_, FastCgiCaller>(Arc::new(settings), location)
    }
}

/// The settings of a location with `fastcgi_pass`.
#[derive(Debug)]
struct Settings {
    cgi: CgiSettings,
    reuse: ConnectionReuse,
    rules: FastCgiRules,
}

impl Protocol for Settings {
    fn gateway(&self) -> &Arc<GatewaySettings> {
        &self.cgi.gateway
    }

    fn pass(&self) -> &Pass {
        &self.cgi.pass
    }

    fn create(
        &self,
        x: &mut Exchange,
        target: &TargetRef<'_>,
        shape: RequestMode,
    ) -> Result<OriginRequest, Refused> {
        Ok(request::create(x, self, target, shape))
    }
}

impl Rewriter for Settings {}
