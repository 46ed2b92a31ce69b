//! `geo`: a variable whose value depends on an address, the client's or that of another variable.
//!
//! ```nginx
//! geo $country {
//!     default      ZZ;
//!     proxy        192.168.100.0/24;
//!     include      countries.conf;
//!     127.0.0.0/24 US;
//!     2001:db8::/32 DE;
//! }
//! ```
//! The most specific network decides. With `ranges` in front the addresses are IPv4 ranges, which may be nested. An
//! invalid address counts as 255.255.255.255.

mod build;
mod table;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tidegate_codec::Known;
use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Kind, Span, Statement};
use tidegate_core::client::Address;
use tidegate_core::{Exchange, Template};
use tidegate_plan::module::Module;
use tidegate_plan::{PlanBuilder, made_variable};

use super::realip::{self, Trusted};
use table::Table;

/// `ngx_http_geo_module`.
pub(crate) struct Geo;

/// All `geo` blocks as written.
#[derive(Default)]
pub(crate) struct Conf {
    blocks: Vec<Block>,
}

struct Block {
    /// The variable that holds the address, with its `$`; `None` for the client's address.
    source: Option<(Vec<u8>, Span)>,
    name: String,
    span: Span,
    entries: Arc<Vec<Statement>>,
}

impl Module for Geo {
    type Conf = Conf;
    const NAME: &'static str = "geo";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];

    fn prepare_http(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        made_variable::define_all(&conf.blocks, plan, define)
    }

    fn prepare_stream(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        Geo::prepare_http(conf, plan)
    }
}

const ROWS: &[Directive<Conf>] = &[Directive {
    name: "geo",
    contexts: Contexts::HTTP_STREAM,
    args: Arity::ONE_OR_TWO,
    kind: Kind::Block,
    default: "",
    doc: "Define a variable by a table of addresses; the address is the client's or another variable's.",
    has_effect: true,
    set: set_geo,
}];

fn set_geo(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let last = args.len() - 1;
    for index in 0..=last {
        made_variable::name(args, index)?;
    }
    conf.blocks.push(Block {
        source: (last == 1).then(|| (args.bytes(0).to_vec(), args.word(0).span)),
        name: made_variable::name(args, last)?,
        span: args.word(last).span,
        entries: args.shared_entries()?,
    });
    Ok(())
}

fn define(block: &Block, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
    made_variable::check_free(plan, &block.name, block.span)?;
    let source = match &block.source {
        Some((text, span)) => Some(plan.template_text(text, *span)?),
        None => None,
    };
    let built = build::build(&block.entries, &mut plan.diagnostics);
    let lookup = Lookup {
        source,
        table: built.table,
        proxies: built.proxies,
        proxy_recursive: built.proxy_recursive,
    };
    let compute = move |x: &mut Exchange, out: &mut Vec<u8>| {
        out.extend_from_slice(lookup.value(x));
        true
    };
    plan.variables.define_computed(&block.name, Arc::new(compute), !built.volatile);
    Ok(())
}

/// The data that the variable is computed from.
struct Lookup {
    source: Option<Template>,
    table: Table,
    proxies: Vec<Trusted>,
    proxy_recursive: bool,
}

impl Lookup {
    fn value(&self, x: &mut Exchange) -> &[u8] {
        let mut address = match &self.source {
            None => inet(x.client_address()),
            Some(source) => {
                let text = source.value(x);
                std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok())
            }
        }
        .unwrap_or(NO_ADDRESS);
        if !self.proxies.is_empty() && self.is_trusted(address) {
            let fields = &x.request.head.headers;
            let values: Vec<&[u8]> = fields.all(Known::XForwardedFor).collect();
            let client = realip::client(values.into_iter(), &self.proxies, self.proxy_recursive);
            address = client.map_or(address, |client| client.ip());
        }
        self.table.find(address)
    }

    fn is_trusted(&self, address: IpAddr) -> bool {
        realip::is_trusted(&self.proxies, &Address::Inet(SocketAddr::new(address, 0)))
    }
}

/// Stands in for an invalid or absent address.
const NO_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::BROADCAST);

fn inet(address: &Address) -> Option<IpAddr> {
    match address {
        Address::Inet(address) => Some(address.ip()),
        Address::Unix(_) => None,
    }
}
