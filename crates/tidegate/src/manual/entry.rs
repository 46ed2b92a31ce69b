//! One directive of one module, with everything that the manual prints about it.

use tidegate_conf::{Contexts, Kind, KnownDirective, Row, known_directives};
use tidegate_plan::ErasedModule;

use super::notes::{Notes, notes};

/// Directives that nginx Plus has and nginx lacks, one name per line.
const PLUS: &str = include_str!("../../data/nginx-plus-directives.txt");

/// The blocks of `stream`.
const STREAM: Contexts = Contexts::STREAM_AND_SERVER.union(Contexts::STREAM_UPSTREAM);

/// The origin of a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DirectiveOrigin {
    /// This module of nginx has it.
    Nginx(&'static str),
    /// nginx Plus has it.
    Plus,
    /// This module has it, which is not nginx's.
    Other(&'static str),
    /// Tidegate alone has it.
    Own,
}

/// A directive of a module.
pub(super) struct Entry {
    /// Tidegate's name of the module.
    pub(super) module: &'static str,
    pub(super) row: Row,
    pub(super) origin: DirectiveOrigin,
    pub(super) notes: &'static Notes,
}

impl Entry {
    fn new(module: &'static str, row: Row) -> Entry {
        let origin = match (module, row.name) {
            // A module of nginx outside of its source tree; `acme` alone is not of it.
            ("acme", name) if name != "acme" => DirectiveOrigin::Nginx("ngx_http_acme_module"),
            (module, name) => origin(module, name, row.contexts),
        };
        let stream = !row.contexts.intersects(!STREAM);
        Entry { module, row, origin, notes: notes(row.name, stream) }
    }

    pub(super) fn name(&self) -> &'static str {
        self.row.name
    }

    /// Returns how the directive ends, where that is not a semicolon.
    pub(super) fn ending(&self) -> &'static str {
        match self.row.kind {
            Kind::Simple => "",
            Kind::Block => ", and a block",
            Kind::Either => ", and a block or none",
        }
    }

    pub(super) fn default(&self) -> &'static str {
        if self.row.default.is_empty() { "none" } else { self.row.default }
    }

    /// Returns the sentence about a directive without effect, or nothing.
    pub(super) fn effect(&self) -> &'static str {
        if self.row.has_effect { "" } else { "A valid value is accepted and has no effect." }
    }

    /// Returns the nginx module of the directive, or its other origin.
    pub(super) fn provenance(&self) -> &'static str {
        match self.origin {
            DirectiveOrigin::Nginx(module) => module,
            DirectiveOrigin::Plus => "nginx Plus",
            DirectiveOrigin::Other(module) => module,
            DirectiveOrigin::Own => "Tidegate's own",
        }
    }
}

/// Returns all directives, by name and then in the order of the modules.
pub(super) fn all() -> Vec<Entry> {
    let of_module = |module: &&'static dyn ErasedModule| {
        let name = module.name();
        module.rows().into_iter().map(move |row| Entry::new(name, row))
    };
    let mut entries: Vec<Entry> = tidegate_modules::MODULES.iter().flat_map(of_module).collect();
    entries.sort_by_key(Entry::name);
    entries
}

fn origin(module: &str, name: &str, contexts: Contexts) -> DirectiveOrigin {
    let same = |known: &&KnownDirective| known.name == name && known.contexts.intersects(contexts);
    match known_directives().find(same) {
        Some(known) => DirectiveOrigin::Nginx(known.module),
        None if PLUS.lines().any(|plus| plus == name) => DirectiveOrigin::Plus,
        None => other(module, name).map_or(DirectiveOrigin::Own, DirectiveOrigin::Other),
    }
}

/// Returns the module of others whose syntax a directive has, by Tidegate's name of the module and its own.
fn other(module: &str, name: &str) -> Option<&'static str> {
    match module {
        "headers_more" => Some("the module headers-more"),
        "upsync" => Some("the module nginx-upsync-module"),
        "docker" => Some("Angie"),
        "geoip2" => Some("the module ngx_http_geoip2_module"),
        // All other directives of the module are nginx's.
        "rewrite" => Some("the module set-misc"),
        "gzip" | "gzip_static" if name.starts_with("brotli") => Some("the module ngx_brotli"),
        "gzip" | "gzip_static" if name.starts_with("zstd") => Some("the module zstd-nginx-module"),
        _ => None,
    }
}
