//! `uwsgi_pass`: requests are passed to uWSGI.
//!
//! ```nginx
//! location / {
//!     include    uwsgi_params;
//!     uwsgi_pass unix:/run/uwsgi/app.sock;      # suwsgi://… speaks TLS
//! }
//! ```
//! The protocol has one request on a connection, and its length is that of the packet, which must not exceed 64 kB:
//! for larger requests the response is 500. A chunked body is read completely whatever `uwsgi_request_buffering`
//! sets.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use tidegate_codec::cgi::{uwsgi_close, uwsgi_open};
use tidegate_conf::{Arity, Contexts, Diagnostic, Directive, Word, once, row};
use tidegate_core::{Exchange, Level};
use tidegate_os::layout::Layout;
use tidegate_plan::http_core::conf::TempPath;
use tidegate_plan::module::{BlockInfo, Module};
use tidegate_plan::{LocationBuilder, Outline};
use tidegate_upstream::{OriginRequest, Wire};

use super::cache::config::conf::CacheConf;
use super::cache::{Cache, CacheCaller, cache_rows};
use super::common::cgi::{CgiConf, CgiProtocol, CgiSettings, HasCgi, cgi_rows};
use super::common::content::{self, Protocol, RequestMode};
use super::common::options::{HasGateway, gateway_rows};
use super::common::params::Packing;
use super::common::pass::{Pass, TargetRef};
use super::common::respond::Rewriter;
use super::common::settings::GatewaySettings;
use super::common::store::gateway_store_rows;
use super::common::target::Scheme;
use super::common::tls::{GatewayTls, gateway_tls_rows};
use tidegate_core::Refused;

/// `ngx_http_uwsgi_module`: the `uwsgi_*` directives but those of its cache ([`UwsgiCache`]), and `uwsgi_pass` as the
/// content of a location.
pub struct Uwsgi;

/// The directives of one block.
#[derive(Default)]
pub struct Conf {
    pub cgi: CgiConf,
    modifier1: Option<u64>,
    modifier2: Option<u64>,
    string: Option<Word>,
}

impl HasCgi for Conf {
    fn cgi(&mut self) -> &mut CgiConf {
        &mut self.cgi
    }
}

const SCHEMES: &[Scheme] = &[
    Scheme { prefix: "suwsgi://", port: None, tls: true, has_uri: false },
    Scheme { prefix: "uwsgi://", port: None, tls: false, has_uri: false },
    Scheme { prefix: "", port: None, tls: false, has_uri: false },
];

const KIND: CgiProtocol = CgiProtocol {
    prefix: "uwsgi_",
    temp_directory: |layout| layout.uwsgi_temp,
    schemes: SCHEMES,
    packing: Packing::Uwsgi,
};

const ALL: Contexts = Contexts::HTTP_SERVER_LOCATION;

const OWN: &[Directive<Conf>] = &[
    row("uwsgi_modifier1", ALL, Arity::ONE, "0", "First modifier of packets.", |conf, args| {
        once(&mut conf.modifier1, args.number(0, 0..=255)?, args)
    }),
    row("uwsgi_modifier2", ALL, Arity::ONE, "0", "Second modifier of packets.", |conf, args| {
        once(&mut conf.modifier2, args.number(0, 0..=255)?, args)
    }),
    row(
        "uwsgi_string",
        ALL,
        Arity::ONE,
        "",
        "Text after the parameters in the packet, for modifiers that need one.",
        |conf, args| once(&mut conf.string, args.word(0).clone(), args),
    ),
];

/// The side of uwsgi towards its cache.
pub struct UwsgiCaller;

impl CacheCaller for UwsgiCaller {
    const NAME: &'static str = "uwsgi_cache";
    const PREFIX: &'static str = "uwsgi_";
    const TEMPORARY: fn(&Layout) -> &'static str = |layout| layout.uwsgi_temp;
    const ROWS: &'static [Directive<CacheConf>] = cache_rows!("uwsgi_");

    fn temp_path(http: &Outline) -> Option<&TempPath> {
        http.conf::<Uwsgi>()?.cgi.gateway.temp_path.as_ref()
    }
}

/// The `uwsgi_cache…` directives.
pub type UwsgiCache = Cache<UwsgiCaller>;

impl Module for Uwsgi {
    type Conf = Conf;
    const NAME: &'static str = "uwsgi";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[
        gateway_rows!(connection "uwsgi_", Conf),
        gateway_rows!(responses "uwsgi_", Conf),
        gateway_rows!("uwsgi_", Conf),
        gateway_store_rows!("uwsgi_", Conf),
        gateway_tls_rows!("uwsgi_", Conf),
        cgi_rows!("uwsgi_", Conf),
        OWN,
    ];

    fn close_block(conf: &mut Conf, block: BlockInfo<'_>) -> Result<(), Diagnostic> {
        conf.cgi.pass.note_block(block);
        Ok(())
    }

    fn inherit(child: &mut Conf, parent: &Conf, block: BlockInfo<'_>) {
        child.cgi.inherit(&parent.cgi, block);
        child.modifier1 = child.modifier1.or(parent.modifier1);
        child.modifier2 = child.modifier2.or(parent.modifier2);
        if child.string.is_none() {
            child.string.clone_from(&parent.string);
        }
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        let Some(cgi) = conf.cgi.compile::<UwsgiCaller>(KIND, location)? else { return Ok(()) };
        let settings = Settings {
            cgi,
            modifiers: (conf.modifier1.unwrap_or(0) as u8, conf.modifier2.unwrap_or(0) as u8),
            string: conf.string.as_ref().map(|word| word.bytes.clone()).unwrap_or_default(),
        };
        content::install::<_, UwsgiCaller>(Arc::new(settings), location)
    }
}

/// The settings of a location with `uwsgi_pass`.
#[derive(Debug)]
struct Settings {
    cgi: CgiSettings,
    modifiers: (u8, u8),
    string: Vec<u8>,
}

/// Capacity for common parameters.
const HEAD_BYTES: usize = 2048;

impl Protocol for Settings {
    fn needs_length(&self) -> bool {
        true
    }

    fn gateway(&self) -> &Arc<GatewaySettings> {
        &self.cgi.gateway
    }

    fn pass(&self) -> &Pass {
        &self.cgi.pass
    }

    fn tls(&self) -> Option<&GatewayTls> {
        self.cgi.tls.as_ref()
    }

    /// Makes the packet by the uwsgi protocol: four bytes (modifier 1, length, modifier 2), which are left open until
    /// the length is known, then the pairs and `uwsgi_string`; the body follows unframed. The length has two bytes: a
    /// longer packet is an error of the settings, 500, and no byte of it is sent.
    fn create(
        &self,
        x: &mut Exchange,
        target: &TargetRef<'_>,
        shape: RequestMode,
    ) -> Result<OriginRequest, Refused> {
        let payload = content::payload(x, &self.cgi.gateway, false);
        let mut head = Vec::with_capacity(HEAD_BYTES);
        let start = uwsgi_open(&mut head);
        self.cgi.write_params(x, shape, &mut head);
        head.extend_from_slice(&self.string);
        if let Err(length) = uwsgi_close(&mut head, start, self.modifiers) {
            let text = "is larger than the 65535 bytes of the protocol";
            x.log(Level::Error, format_args!("uwsgi request of {length} bytes {text}"));
            return Err(Refused::INTERNAL);
        }
        let scheme = if target.target().tls { "suwsgi" } else { "uwsgi" };
        Ok(self.cgi.request(x, target, shape, (head, payload), Wire::Cgi(scheme)))
    }
}

impl Rewriter for Settings {}
