//! The directives of nginx itself, to distinguish those that are not supported yet from unknown names.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::contexts::Contexts;
use crate::registry::{Arity, Kind};

/// Module, name, contexts and arguments of each directive of nginx's own modules, separated by tabs.
const TABLE: &str = include_str!("../data/nginx-directives.tsv");

/// A directive of nginx.
#[derive(Clone, Copy, Debug)]
pub struct KnownDirective {
    /// nginx's module, such as `ngx_http_proxy_module`.
    pub module: &'static str,
    /// First word of the statement.
    pub name: &'static str,
    /// The contexts in which nginx allows it.
    pub contexts: Contexts,
    /// Number of arguments.
    pub arity: Arity,
    /// Whether it ends with `;` or with a block.
    pub kind: Kind,
}

/// Returns all directives of nginx.
pub fn known_directives() -> impl Iterator<Item = &'static KnownDirective> {
    table().values().flatten()
}

/// Returns all directives of a name; several modules may have one.
pub(crate) fn find(name: &[u8]) -> &'static [KnownDirective] {
    table().get(name).map_or(&[], Vec::as_slice)
}

/// Directives that are not planned: the reason, and what to do instead.
const ADVICE: &[(&str, &str)] = &[
    (
        "ssl_ech_file",
        "the TLS library has no Encrypted Client Hello for servers; remove the directive: clients then send their hello \
         as without it",
    ),
    (
        "ssl_engine",
        "there are no engines of OpenSSL; remove the directive, and name keys as PEM files",
    ),
];

/// Returns the advice for a directive that is refused.
pub(crate) fn advice(name: &[u8]) -> Option<&'static str> {
    let found = ADVICE.iter().find(|(refused, _)| refused.as_bytes() == name);
    found.map(|(_, advice)| *advice)
}

type Table = HashMap<&'static [u8], Vec<KnownDirective>>;

fn table() -> &'static Table {
    static PARSED: OnceLock<Table> = OnceLock::new();
    PARSED.get_or_init(|| {
        let mut table = Table::new();
        for known in TABLE.lines().skip(1).filter_map(parse_line) {
            table.entry(known.name.as_bytes()).or_default().push(known);
        }
        table
    })
}

fn parse_line(line: &'static str) -> Option<KnownDirective> {
    let mut fields = line.split('\t');
    let (module, name) = (fields.next()?, fields.next()?);
    let names = fields.next()?.split(',');
    let contexts = names.fold(Contexts::empty(), |sum, name| sum | context(module, name));
    let mut kind = Kind::Simple;
    let mut arity = Arity::NONE;
    for flag in fields.next()?.split('|') {
        match flag {
            "BLOCK" => kind = Kind::Block,
            "FLAG" | "TAKE1" => arity = Arity::ONE,
            "TAKE2" => arity = Arity::TWO,
            "TAKE3" => arity = Arity::THREE,
            "TAKE12" => arity = Arity::ONE_OR_TWO,
            "TAKE123" => arity = Arity::ONE_TO_THREE,
            "TAKE1234" => arity = Arity::ONE_TO_FOUR,
            "TAKE23" => arity = Arity::TWO_OR_THREE,
            "1MORE" => arity = Arity::AT_LEAST_ONE,
            "2MORE" => arity = Arity::AT_LEAST_TWO,
            _ => {}
        }
    }
    Some(KnownDirective { module, name, contexts, arity, kind })
}

/// Returns one context; `server` and `upstream` are another one for each kind of module.
fn context(module: &str, name: &str) -> Contexts {
    let stream = module.starts_with("ngx_stream_");
    let mail = module.starts_with("ngx_mail_");
    match name {
        "any" => Contexts::ANY,
        "main" => Contexts::MAIN,
        "events" => Contexts::EVENTS,
        "http" => Contexts::HTTP,
        "server" if stream => Contexts::STREAM_SERVER,
        "server" if mail => Contexts::MAIL_SERVER,
        "server" => Contexts::SERVER,
        "upstream" if stream => Contexts::STREAM_UPSTREAM,
        "upstream" => Contexts::UPSTREAM,
        "location" => Contexts::LOCATION,
        "if in server" => Contexts::SERVER_IF,
        "if in location" => Contexts::LOCATION_IF,
        "limit_except" => Contexts::LIMIT_EXCEPT,
        "stream" => Contexts::STREAM,
        "mail" => Contexts::MAIL,
        _ => Contexts::empty(),
    }
}
