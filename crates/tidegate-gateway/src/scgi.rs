//! `scgi_pass`: requests are passed to SCGI applications.
//!
//! ```nginx
//! location / {
//!     include   scgi_params;
//!     scgi_pass 192.0.2.1:9000;
//! }
//! ```
//! The protocol has one request on a connection. The body's length is sent first, so a chunked body is read
//! completely whatever `scgi_request_buffering` sets.

use std::sync::Arc;

use tidegate_codec::cgi::{scgi_close, scgi_pair};
use tidegate_codec::range::write_number;
use tidegate_conf::{Diagnostic, Directive};
use tidegate_core::Exchange;
use tidegate_os::layout::Layout;
use tidegate_plan::http_core::conf::TempPath;
use tidegate_plan::module::{BlockInfo, Module};
use tidegate_plan::{LocationBuilder, Outline};
use tidegate_upstream::{OriginRequest, RequestPayload, Wire};

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
use super::common::target;
use tidegate_core::Refused;

/// `ngx_http_scgi_module`: the `scgi_*` directives but those of its cache ([`ScgiCache`]), and `scgi_pass` as the
/// content of a location.
pub struct Scgi;

/// The directives of one block.
#[derive(Default)]
pub struct Conf {
    pub cgi: CgiConf,
}

impl HasCgi for Conf {
    fn cgi(&mut self) -> &mut CgiConf {
        &mut self.cgi
    }
}

const KIND: CgiProtocol = CgiProtocol {
    prefix: "scgi_",
    temp_directory: |layout| layout.scgi_temp,
    schemes: target::ADDRESS,
    packing: Packing::Scgi,
};

/// SCGI's side of its cache.
pub struct ScgiCaller;

impl CacheCaller for ScgiCaller {
    const NAME: &'static str = "scgi_cache";
    const PREFIX: &'static str = "scgi_";
    const TEMPORARY: fn(&Layout) -> &'static str = |layout| layout.scgi_temp;
    const ROWS: &'static [Directive<CacheConf>] = cache_rows!("scgi_");

    fn temp_path(http: &Outline) -> Option<&TempPath> {
        http.conf::<Scgi>()?.cgi.gateway.temp_path.as_ref()
    }
}

/// The `scgi_cache…` directives.
pub type ScgiCache = Cache<ScgiCaller>;

impl Module for Scgi {
    type Conf = Conf;
    const NAME: &'static str = "scgi";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[
        gateway_rows!(connection "scgi_", Conf),
        gateway_rows!(responses "scgi_", Conf),
        gateway_rows!("scgi_", Conf),
        gateway_store_rows!("scgi_", Conf),
        cgi_rows!("scgi_", Conf),
    ];

    fn close_block(conf: &mut Conf, block: BlockInfo<'_>) -> Result<(), Diagnostic> {
        conf.cgi.pass.note_block(block);
        Ok(())
    }

    fn inherit(child: &mut Conf, parent: &Conf, block: BlockInfo<'_>) {
        child.cgi.inherit(&parent.cgi, block);
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        let Some(cgi) = conf.cgi.compile::<ScgiCaller>(KIND, location)? else { return Ok(()) };
        content::install::<_, ScgiCaller>(Arc::new(Settings(cgi)), location)
    }
}

/// The settings of a location with `scgi_pass`.
#[derive(Debug)]
struct Settings(CgiSettings);

/// Capacity for common parameters.
const HEAD_BYTES: usize = 2048;

impl Protocol for Settings {
    fn needs_length(&self) -> bool {
        true
    }

    fn gateway(&self) -> &Arc<GatewaySettings> {
        &self.0.gateway
    }

    fn pass(&self) -> &Pass {
        &self.0.pass
    }

    /// Makes the request by the SCGI specification: `CONTENT_LENGTH` is the first of the pairs and describes the body
    /// sent, so a body of unknown length was read before (`needs_length`); the netstring around the pairs is closed
    /// last, when its length is known; the body follows unframed.
    fn create(
        &self,
        x: &mut Exchange,
        target: &TargetRef<'_>,
        shape: RequestMode,
    ) -> Result<OriginRequest, Refused> {
        let payload = content::payload(x, &self.0.gateway, false);
        let length = match &payload {
            RequestPayload::None => 0,
            RequestPayload::Bytes(bytes) => bytes.len() as u64,
            RequestPayload::Stored(body) => body.length,
            RequestPayload::Stream { .. } => x.request.body.length.unwrap_or(0),
        };
        let mut head = Vec::with_capacity(HEAD_BYTES);
        scgi_pair(b"CONTENT_LENGTH", &mut head, |out| write_number(length, out));
        self.0.write_params(x, shape, &mut head);
        scgi_close(&mut head, 0);
        Ok(self.0.request(x, target, shape, (head, payload), Wire::Cgi("scgi")))
    }
}

impl Rewriter for Settings {}
