//! The compiled shared settings.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidegate_codec::{Headers, Known};
use tidegate_conf::Diagnostic;
use tidegate_core::{Exchange, Template};
use tidegate_os::layout::Layout;
use tidegate_plan::PlanBuilder;
use tidegate_plan::http_core::conf::TempPath;
use tidegate_upstream::{FetchSettings, LocalAddress, NextUpstream};

use super::options::{self, GatewayConf};
use super::store::StoreSettings;

/// Settings of a location that passes requests to origins.
#[derive(Debug)]
pub struct GatewaySettings {
    /// The limits of a fetch.
    pub fetch: Arc<FetchSettings>,
    /// `*_buffering`
    pub buffering: Buffering,
    /// `*_request_buffering`
    pub request_buffering: bool,
    /// `*_ignore_client_abort`
    pub ignore_client_abort: bool,
    /// `*_intercept_errors`
    pub intercept_errors: bool,
    /// A 404 is intercepted: the origin has no page for it.
    pub intercepts_absence: bool,
    /// `Date` and `Server` are added where the origin's are passed on and it sends none.
    pub completes_head: bool,
    pub pass_request_headers: bool,
    pub pass_request_body: bool,
    /// `*_force_ranges`
    pub force_ranges: bool,
    /// Bits of `options::IGNORABLE`.
    pub ignore: u16,
    bind: Option<(Template, bool)>,
    /// `*_limit_rate`, in bytes a second.
    pub limit_rate: Option<Template>,
    /// `*_hide_header` and `*_pass_header`.
    pub hidden: HiddenFields,
    pub spool: Arc<SpoolSettings>,
    /// Set by the module, which knows whether a cache takes its place.
    pub store: Option<StoreSettings>,
}

/// The place for a buffered response while a slow client reads it.
#[derive(Clone, Debug)]
pub struct SpoolSettings {
    /// Bytes of `*_buffers`.
    pub memory_bytes_max: u64,
    /// Bytes of `*_max_temp_file_size`; 0 for no file.
    pub file_bytes_max: u64,
    pub path: PathBuf,
    pub levels: Vec<usize>,
}

/// Fields of an origin's response that are not sent to the client.
#[derive(Clone, Debug, Default)]
pub struct HiddenFields {
    known: u64,
    others: Vec<Box<[u8]>>,
}

impl HiddenFields {
    fn hide(&mut self, name: &[u8]) {
        match Known::of(name) {
            Known::Other => self.others.push(name.into()),
            known => self.known |= 1 << known as u8,
        }
    }

    fn pass(&mut self, name: &[u8]) {
        match Known::of(name) {
            Known::Other => self.others.retain(|other| !other.eq_ignore_ascii_case(name)),
            known => self.known &= !(1 << known as u8),
        }
    }

    /// Returns whether a field is left out.
    pub fn contains(&self, known: Known, name: &[u8]) -> bool {
        match known {
            Known::Other => self.others.iter().any(|other| other.eq_ignore_ascii_case(name)),
            known => self.known & (1 << known as u8) != 0,
        }
    }
}

/// Fields that belong to a connection, not to a response (RFC 9110 section 7.6.1), or that the front side makes
/// itself.
pub(crate) const NEVER_PASSED: [Known; 4] =
    [Known::Connection, Known::KeepAlive, Known::TransferEncoding, Known::ContentLength];

const KIB: u64 = 1024;

/// Compiles the shared settings. `hidden` are the names that the protocol leaves out by default.
///
/// Here nginx's defaults of all gateway directives are filled in; a 0 that means "no limit" remains 0. The caller
/// sets what the protocol decides (`intercepts_absence`, `completes_head`, `store`).
///
/// # Errors
/// An invalid text with variables.
pub(crate) fn settings(
    conf: &GatewayConf,
    hidden: &[&str],
    temp_directory: Option<fn(&Layout) -> &'static str>,
    plan: &mut PlanBuilder<'_>,
) -> Result<GatewaySettings, Diagnostic> {
    let buffers = conf.buffers.unwrap_or((8, 4 * KIB));
    let second = Duration::from_secs(1);
    let fetch = FetchSettings {
        connect_timeout: conf.connect_timeout.unwrap_or(60 * second),
        send_timeout: conf.send_timeout.unwrap_or(60 * second),
        read_timeout: conf.read_timeout.unwrap_or(60 * second),
        head_timeout: None,
        head_bytes_max: conf.buffer_size.unwrap_or(4 * KIB) as usize,
        read_bytes: buffers.0.saturating_mul(buffers.1) as usize,
        next_upstream: conf.next_upstream.unwrap_or(NextUpstream::DEFAULT),
        next_upstream_tries: conf.next_upstream_tries.unwrap_or(0).min(u64::from(u32::MAX)) as u32,
        next_upstream_timeout: conf.next_upstream_timeout.unwrap_or_default(),
        socket_keepalive: conf.socket_keepalive.unwrap_or(false),
        receive_buffer: conf.socket_rcvbuf.filter(|bytes| *bytes > 0).map(|bytes| bytes as usize),
        send_buffer: conf.socket_sndbuf.filter(|bytes| *bytes > 0).map(|bytes| bytes as usize),
        pass_trailers: conf.pass_trailers.unwrap_or(false),
    };
    let temp = conf.temp_path.as_ref();
    Ok(GatewaySettings {
        fetch: Arc::new(fetch),
        buffering: Buffering::of(conf.buffering.unwrap_or(true), conf.ignore_headers.unwrap_or(0)),
        request_buffering: conf.request_buffering.unwrap_or(true),
        ignore_client_abort: conf.ignore_client_abort.unwrap_or(false),
        intercepts_absence: false,
        completes_head: false,
        intercept_errors: conf.intercept_errors.unwrap_or(false),
        pass_request_headers: conf.pass_request_headers.unwrap_or(true),
        pass_request_body: conf.pass_request_body.unwrap_or(true),
        force_ranges: conf.force_ranges.unwrap_or(false),
        ignore: conf.ignore_headers.unwrap_or(0),
        bind: bind(conf, plan)?,
        limit_rate: match &conf.limit_rate {
            Some(word) if word.bytes != b"0" => Some(plan.template(word)?),
            _ => None,
        },
        hidden: hidden_fields(conf, hidden),
        store: None,
        spool: Arc::new(SpoolSettings {
            memory_bytes_max: buffers.0.saturating_mul(buffers.1),
            file_bytes_max: conf.max_temp_file_size.unwrap_or(1024 * KIB * KIB),
            path: temp_directory.map_or(PathBuf::new(), |built_in| directory(temp, built_in, plan)),
            levels: temp.map_or_else(Vec::new, |temp| temp.levels.clone()),
        }),
    })
}

/// Returns the directory of temporary files, which the master makes.
fn directory(
    temp: Option<&TempPath>,
    built_in: fn(&Layout) -> &'static str,
    plan: &PlanBuilder<'_>,
) -> PathBuf {
    let built_in = built_in(plan.environment.layout);
    let directory = plan.path(temp.map_or(built_in, |temp| temp.path.as_str()));
    plan.environment.resources.directory(&directory);
    directory
}

fn hidden_fields(conf: &GatewayConf, defaults: &[&str]) -> HiddenFields {
    let mut hidden = HiddenFields::default();
    defaults.iter().for_each(|name| hidden.hide(name.as_bytes()));
    conf.hide_header.iter().flatten().for_each(|word| hidden.hide(&word.bytes));
    conf.pass_header.iter().flatten().for_each(|word| hidden.pass(&word.bytes));
    NEVER_PASSED.iter().for_each(|known| hidden.known |= 1 << *known as u8);
    hidden
}

/// Whether responses are buffered: `*_buffering`, unless the origin overrides it (`X-Accel-Buffering`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Buffering {
    on: bool,
    /// `*_ignore_headers X-Accel-Buffering` is set.
    fixed: bool,
}

impl Buffering {
    /// Makes the setting. `ignore`: bits of `options::IGNORABLE`.
    pub fn of(on: bool, ignore: u16) -> Buffering {
        Buffering { on, fixed: ignore & options::IGNORE_BUFFERING != 0 }
    }

    /// Returns whether responses are buffered where the origin does not override it.
    pub fn is_on(self) -> bool {
        self.on
    }

    /// Returns whether a response with these fields is buffered. Unbuffered ones are neither cached nor stored.
    pub fn applies(self, headers: &Headers) -> bool {
        match headers.first(Known::XAccelBuffering) {
            Some(word) if !self.fixed && word.eq_ignore_ascii_case(b"no") => false,
            Some(word) if !self.fixed && word.eq_ignore_ascii_case(b"yes") => true,
            _ => self.on,
        }
    }
}

impl GatewaySettings {
    /// Returns `*_bind` for this request.
    pub fn local_address(&self, x: &mut Exchange) -> Option<Box<LocalAddress>> {
        local_address(self.bind.as_ref(), x).map(Box::new)
    }

    /// Returns `*_limit_rate` for this request in bytes a second; 0 for no limit.
    pub fn rate(&self, x: &mut Exchange) -> u64 {
        let Some(template) = &self.limit_rate else { return 0 };
        tidegate_conf::parse_size(&template.value(x)).unwrap_or(0)
    }
}

/// Compiles a `*_bind`.
pub(crate) fn bind(
    conf: &GatewayConf,
    plan: &mut PlanBuilder<'_>,
) -> Result<Option<(Template, bool)>, Diagnostic> {
    let Some(Some((word, transparent))) = &conf.bind else { return Ok(None) };
    if *transparent {
        plan.environment.resources.send_from_anywhere();
    }
    Ok(Some((plan.template(word)?, *transparent)))
}

/// Returns the local address of a `*_bind` for this request or session.
pub(crate) fn local_address(
    bind: Option<&(Template, bool)>,
    x: &mut Exchange,
) -> Option<LocalAddress> {
    let (template, transparent) = bind?;
    let address = parse_local(&template.value(x))?;
    Some(LocalAddress { address, transparent: *transparent })
}

/// Parses a local address with an optional port.
pub(crate) fn parse_local(text: &[u8]) -> Option<SocketAddr> {
    let text = std::str::from_utf8(text).ok()?;
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some(address);
    }
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    bare.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, 0))
}
