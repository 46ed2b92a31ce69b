//! `memcached_pass`: responses with values that other programs have stored in memcached.
//!
//! ```nginx
//! location / {
//!     set            $memcached_key "$uri?$args";
//!     memcached_pass 192.0.2.1:11211;
//!     error_page     404 502 504 = @application;
//! }
//! ```
//! Connections are kept, as those of other gateways. A missing value is a 404, which `error_page` handles.

use std::sync::Arc;

use tidegate_codec::request::Method;
use tidegate_codec::uri::{Escape, escape};
use tidegate_conf::{Arity, Contexts, Diagnostic, Directive, once, row};
use tidegate_core::{Exchange, Level, Template};
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::{BlockInfo, Module};
use tidegate_upstream::{
    ConnectionReuse, MemcachedGet, NextUpstream, OriginRequest, RequestPayload, Wire,
};

use super::common::content::{self, Protocol, RequestMode};
use super::common::options::{self, GatewayConf, HasGateway, gateway_rows};
use super::common::pass::{self, Pass, TargetRef};
use super::common::pass_conf::PassConf;
use super::common::respond::Rewriter;
use super::common::settings::{self, GatewaySettings};
use super::common::target;
use tidegate_core::Refused;

/// `ngx_http_memcached_module`: the `memcached_*` directives, and `memcached_pass` as the content of a location,
/// which serves stored values. It has no cache of its own.
pub struct Memcached;

/// The directives of one block.
#[derive(Default)]
pub struct Conf {
    gateway: GatewayConf,
    pass: PassConf,
    gzip_flag: Option<u64>,
}

impl HasGateway for Conf {
    fn gateway(&mut self) -> &mut GatewayConf {
        &mut self.gateway
    }
}

/// The cases of `memcached_next_upstream`.
const CASES: &[(&str, NextUpstream)] = &[
    ("error", NextUpstream::ERROR),
    ("timeout", NextUpstream::TIMEOUT),
    ("invalid_response", NextUpstream::INVALID_HEADER),
    ("not_found", NextUpstream::HTTP_404),
    ("off", NextUpstream::OFF),
];

const OWN: &[Directive<Conf>] = &[
    row(
        "memcached_pass",
        Contexts::LOCATION.union(Contexts::LOCATION_IF),
        Arity::ONE,
        "",
        "Server, as an address with a port, a path behind `unix:`, or a group's name.",
        |conf, args| once(&mut conf.pass.word, args.word(0).clone(), args),
    ),
    row(
        "memcached_gzip_flag",
        Contexts::HTTP_SERVER_LOCATION,
        Arity::ONE,
        "",
        "Bits of a value's flags that say that it is compressed by gzip.",
        |conf, args| once(&mut conf.gzip_flag, args.number(0, 0..=u64::from(u32::MAX))?, args),
    ),
    row(
        "memcached_next_upstream",
        Contexts::HTTP_SERVER_LOCATION,
        Arity::AT_LEAST_ONE,
        "error timeout",
        "Cases in which the request is passed to another server.",
        |conf, args| options::set_cases(&mut conf.gateway, args, CASES),
    ),
];

impl Module for Memcached {
    type Conf = Conf;
    const NAME: &'static str = "memcached";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] =
        &[gateway_rows!(connection "memcached_", Conf), OWN];

    fn close_block(conf: &mut Conf, block: BlockInfo<'_>) -> Result<(), Diagnostic> {
        conf.pass.note_block(block);
        Ok(())
    }

    fn inherit(child: &mut Conf, parent: &Conf, block: BlockInfo<'_>) {
        options::inherit(&mut child.gateway, &parent.gateway);
        child.gzip_flag = child.gzip_flag.or(parent.gzip_flag);
        child.pass.inherit(&parent.pass, block);
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        let Some(word) = conf.pass.target(location) else { return Ok(()) };
        let pass = Pass::compile(word, target::ADDRESS, Ok(()), location)?;
        let key = location.plan.template_text(b"$memcached_key", word.span)?;
        let mut gateway = settings::settings(&conf.gateway, &[], None, location.plan)?;
        // No body is passed on, and the response carries its length.
        gateway.request_buffering = false;
        gateway.intercepts_absence = true;
        // A value has no fields, and is complete.
        gateway.completes_head = true;
        gateway.force_ranges = true;
        let protocol = Settings {
            gateway: Arc::new(gateway),
            pass,
            key,
            gzip_flag: conf.gzip_flag.unwrap_or(0) as u32,
            location_tag: pass::location_tag(&conf.pass.block.name),
        };
        content::install_uncached(Arc::new(protocol), location);
        Ok(())
    }
}

/// The settings of a location with `memcached_pass`.
#[derive(Debug)]
struct Settings {
    gateway: Arc<GatewaySettings>,
    pass: Pass,
    key: Template,
    gzip_flag: u32,
    location_tag: u64,
}

impl Protocol for Settings {
    fn gateway(&self) -> &Arc<GatewaySettings> {
        &self.gateway
    }

    fn pass(&self) -> &Pass {
        &self.pass
    }

    fn sends_body(&self) -> bool {
        false
    }

    fn create(
        &self,
        x: &mut Exchange,
        target: &TargetRef<'_>,
        _shape: RequestMode,
    ) -> Result<OriginRequest, Refused> {
        if !matches!(x.request.method, Method::Get | Method::Head) {
            return Err(Refused::METHOD_NOT_ALLOWED);
        }
        let mut key = Vec::new();
        // Spaces and line ends would be read as commands: they are encoded, as nginx does it.
        escape(&self.key.value(x), Escape::Memcached, &mut key);
        if key.is_empty() {
            x.log(Level::Error, format_args!("the \"$memcached_key\" variable is not set"));
            return Err(Refused::INTERNAL);
        }
        let head = [b"get ", &key[..], b"\r\n"].concat();
        let ask = MemcachedGet { key, gzip_flag: self.gzip_flag };
        Ok(OriginRequest {
            choice: content::choice(x, target),
            group: target.target().group.clone(),
            method: x.request.method,
            target: 0..0,
            head: head.into(),
            payload: RequestPayload::None,
            local: self.gateway.local_address(x),
            paced: false,
            interim: None,
            reuse: ConnectionReuse::AsGroup,
            upgrade: false,
            location_tag: self.location_tag,
            tls: None,
            wire: Wire::Memcached(Arc::new(ask)),
        })
    }

    fn write_key(&self, x: &mut Exchange, out: &mut Vec<u8>) {
        self.key.write(x, out);
    }
}

impl Rewriter for Settings {
    /// Sets the default media type: a value has none of its own.
    fn rewrite(&self, x: &mut Exchange) {
        x.set_media_type();
    }
}
