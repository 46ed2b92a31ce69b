//! Building locations: arguments of `location`, the search structure, and the additions of modules.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tidegate_conf::{Contexts, Diagnostic, Span, Word};
use tidegate_core::location::LocationSet;
use tidegate_core::phases::PhaseHandlers;
use tidegate_core::plan::LocationId;
use tidegate_core::plan::{Location, PlanExtensions};
use tidegate_core::regex::Regex;

use crate::http_core::{self, HttpCore};
use crate::location_builder::LocationBuilder;
use crate::outline::Outline;
use crate::plan_builder::PlanBuilder;

/// The warning about a `stream` server without a content handler: its sessions end behind the preread phase, as in
/// nginx since 1.25.5, which accepts it silently.
pub(crate) const NO_HANDLER: &str = "no handler for server";

/// The name of a `location`, by its modifier.
enum LocationName {
    Prefix(Vec<u8>),
    Exact(Vec<u8>),
    Regex(Arc<Regex>),
    Named(Vec<u8>),
}

/// The locations of one level while it is built.
#[derive(Default)]
struct LocationLevel {
    exact: HashMap<Vec<u8>, LocationId>,
    prefixes: BTreeMap<Vec<u8>, LocationId>,
    regexes: Vec<(Arc<Regex>, LocationId)>,
    named: HashMap<Vec<u8>, LocationId>,
}

impl PlanBuilder<'_> {
    /// Builds a block that requests can be in, with all inner blocks; named locations are added to `named`.
    pub(crate) fn location(
        &mut self,
        outline: &Outline,
        named: &mut HashMap<Vec<u8>, LocationId>,
    ) -> (LocationId, LocationSet) {
        let id = LocationId(self.locations.len() as u32);
        self.locations.push(None);
        let mut ifs = Vec::new();
        let mut limit_except = None;
        for child in &outline.children {
            match child.name {
                "if" => ifs.push(self.location(child, named).0),
                "limit_except" => {
                    let methods = self.limit_except_methods(child);
                    limit_except = Some((methods, self.location(child, named).0));
                }
                _ => {}
            }
        }
        let nested = self.level(outline, named);
        let server_level = outline.context.intersects(Contexts::SERVER | Contexts::STREAM_SERVER);
        let (set, nested) = if server_level {
            (nested, None)
        } else {
            (LocationSet::default(), (!nested.is_empty()).then(|| Box::new(nested)))
        };
        let location = self.empty_location(outline, nested, limit_except);
        let location = self.prepared(outline, location, ifs.clone());
        self.locations[id.0 as usize] = location;
        if outline.context.intersects(Contexts::LOCATION) {
            for inner in ifs {
                if let Some(inner) = &mut self.locations[inner.0 as usize] {
                    inner.outer = Some(id);
                }
            }
        }
        (id, set)
    }

    fn empty_location(
        &mut self,
        outline: &Outline,
        nested: Option<Box<LocationSet>>,
        limit_except: Option<(u32, LocationId)>,
    ) -> Option<Location> {
        let conf = outline.conf::<HttpCore>()?;
        let settings = match http_core::settings(conf, self) {
            Ok(settings) => settings,
            Err(diagnostic) => {
                self.diagnostics.push(diagnostic);
                return None;
            }
        };
        let (modifier, name) = match &outline.args[..] {
            [name] => split_modifier(&name.bytes),
            [modifier, name] => (&modifier.bytes[..], &name.bytes[..]),
            _ => (&b""[..], &b""[..]),
        };
        let mut extensions = PlanExtensions::default();
        if let Some(written) = &outline.written {
            extensions.insert(written.clone());
        }
        let is_location = outline.context.intersects(Contexts::LOCATION);
        Some(Location {
            settings,
            auto_redirect: false,
            exact: is_location && modifier == b"=",
            no_regex: is_location && modifier == b"^~",
            is_regex: is_location && modifier.starts_with(b"~"),
            is_named: is_location && modifier == b"@",
            name: name.to_vec(),
            nested,
            limit_except,
            phases: PhaseHandlers::default(),
            content: None,
            outer: None,
            filters: Vec::new(),
            trailers: Vec::new(),
            loggers: Vec::new(),
            zone: None,
            extensions,
            warn_uninitialized: true,
        })
    }

    fn prepared(
        &mut self,
        outline: &Outline,
        location: Option<Location>,
        ifs: Vec<LocationId>,
    ) -> Option<Location> {
        let modules = self.environment.modules;
        let mut builder = LocationBuilder { plan: self, outline, location: location?, ifs };
        for (module, conf) in modules.iter().zip(outline.confs.iter()) {
            let prepared = match builder.plan.in_stream() {
                false => module.prepare(conf, &mut builder),
                true => module.prepare_session(conf, &mut builder),
            };
            if let Err(diagnostic) = prepared {
                builder.plan.diagnostics.push(diagnostic);
            }
        }
        if builder.plan.in_stream() && builder.location.content.is_none() {
            let missing = Diagnostic::warn(NO_HANDLER).at(outline.span);
            builder.plan.diagnostics.push(
                missing.help("its sessions are closed; `proxy_pass`, `return` or `pass` is one"),
            );
        }
        let mut location = builder.location;
        let has_prefix = !location.is_regex && !location.is_named;
        location.auto_redirect &= has_prefix && location.name.ends_with(b"/");
        // There may be very many locations.
        location.phases.shrink();
        location.filters.shrink_to_fit();
        location.loggers.shrink_to_fit();
        Some(location)
    }

    /// Builds the `location` blocks directly inside `outline`.
    fn level(
        &mut self,
        outline: &Outline,
        named: &mut HashMap<Vec<u8>, LocationId>,
    ) -> LocationSet {
        let mut level = LocationLevel::default();
        for child in outline.blocks("location") {
            let name = match self.location_name(&child.args, child.span) {
                Ok(name) => name,
                Err(diagnostic) => {
                    self.diagnostics.push(diagnostic);
                    continue;
                }
            };
            if let Err(diagnostic) = check_nesting(outline, (&name, &child.args), child.span) {
                self.diagnostics.push(diagnostic);
            }
            let (id, _) = self.location(child, named);
            if let Err(diagnostic) = level.add(name, id, child.span) {
                self.diagnostics.push(diagnostic);
            }
        }
        named.extend(level.named);
        // Of an exact one and a prefix with the same name, the exact one would be found: it comes last.
        let named_paths = level.prefixes.iter().chain(&level.exact);
        let redirects = named_paths.filter(|&(_, id)| {
            self.locations[id.0 as usize].as_ref().is_some_and(|location| location.auto_redirect)
        });
        let redirects =
            redirects.map(|(name, id)| (name[..name.len() - 1].to_vec(), *id)).collect();
        LocationSet::new(
            level.exact,
            level.prefixes.into_iter().collect(),
            level.regexes,
            redirects,
        )
    }

    fn location_name(&mut self, args: &[Word], span: Span) -> Result<LocationName, Diagnostic> {
        let (modifier, name): (&[u8], &[u8]) = match args {
            [name] => split_modifier(&name.bytes),
            [modifier, name] => (&modifier.bytes, &name.bytes),
            _ => {
                return Err(Diagnostic::emerg(
                    "invalid number of arguments in \"location\" directive",
                )
                .at(span));
            }
        };
        match modifier {
            b"=" => Ok(LocationName::Exact(name.to_vec())),
            b"~" | b"~*" => {
                let regex = self.regex(name, modifier == b"~*", span)?;
                Ok(LocationName::Regex(regex))
            }
            b"@" => Ok(LocationName::Named(name.to_vec())),
            b"" | b"^~" => Ok(LocationName::Prefix(name.to_vec())),
            _ => {
                let modifier = String::from_utf8_lossy(modifier).into_owned();
                Err(Diagnostic::emerg(format!("invalid location modifier \"{modifier}\""))
                    .at(args.first().map_or(span, |word| word.span))
                    .help("modifiers are `=`, `^~`, `~` and `~*`"))
            }
        }
    }

    fn limit_except_methods(&mut self, outline: &Outline) -> u32 {
        let mut methods = 0;
        for word in &outline.args {
            let method = tidegate_codec::request::Method::of(&word.bytes);
            if method == tidegate_codec::request::Method::Other {
                let message = format!("invalid method \"{}\"", word.display());
                self.diagnostics.push(Diagnostic::emerg(message).at(word.span));
            }
            methods |= method.bit();
            if method == tidegate_codec::request::Method::Get {
                methods |= tidegate_codec::request::Method::Head.bit();
            }
        }
        methods
    }
}

/// Splits modifier and name, which may be written without a space: `=/path`, `~regex`.
fn split_modifier(text: &[u8]) -> (&[u8], &[u8]) {
    match text {
        [b'=', rest @ ..] => (b"=", rest),
        [b'^', b'~', rest @ ..] => (b"^~", rest),
        [b'~', b'*', rest @ ..] => (b"~*", rest),
        [b'~', rest @ ..] => (b"~", rest),
        [b'@', ..] => (b"@", text),
        _ => (b"", text),
    }
}

/// Checks nginx's rules for nested locations.
///
/// `inner` is a location with its words.
fn check_nesting(
    outer: &Outline,
    (inner, words): (&LocationName, &[Word]),
    span: Span,
) -> Result<(), Diagnostic> {
    if !outer.context.intersects(Contexts::LOCATION) {
        return Ok(());
    }
    let (modifier, outer_name) = match &outer.args[..] {
        [name] => split_modifier(&name.bytes),
        [modifier, name] => (&modifier.bytes[..], &name.bytes[..]),
        _ => return Ok(()),
    };
    let shown = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    let inner_name = match inner {
        LocationName::Prefix(name) | LocationName::Exact(name) => &name[..],
        // It is searched where the outer one leaves the choice open.
        LocationName::Regex(_) if !matches!(modifier, b"=" | b"@") => return Ok(()),
        LocationName::Regex(_) => match words {
            [one] => split_modifier(&one.bytes).1,
            words => words.last().map_or(&[][..], |last| &last.bytes),
        },
        LocationName::Named(name) => {
            let name = shown(name);
            let message = format!("named location \"{name}\" can be on the server level only");
            return Err(Diagnostic::emerg(message).at(span));
        }
    };
    match modifier {
        b"=" | b"@" => {}
        // As in nginx, an outer regular expression's text is compared like a prefix.
        _ if !inner_name.starts_with(outer_name) => {
            let (inner, outer) = (shown(inner_name), shown(outer_name));
            let message = format!("location \"{inner}\" is outside location \"{outer}\"");
            let error = Diagnostic::emerg(message).at(span);
            return Err(match modifier {
                b"~" | b"~*" => error.help(
                    "inside a location by expression stand locations by expression: `location ~ …`",
                ),
                _ => error,
            });
        }
        _ => return Ok(()),
    }
    let kind = if modifier == b"=" { "exact" } else { "named" };
    let (inner, outer) = (shown(inner_name), shown(outer_name));
    let message = format!("location \"{inner}\" cannot be inside the {kind} location \"{outer}\"");
    Err(Diagnostic::emerg(message).at(span))
}

impl LocationLevel {
    fn add(&mut self, name: LocationName, id: LocationId, span: Span) -> Result<(), Diagnostic> {
        let duplicate = |name: &[u8]| {
            let name = String::from_utf8_lossy(name);
            Err(Diagnostic::emerg(format!("duplicate location \"{name}\"")).at(span))
        };
        match name {
            LocationName::Exact(name) => match self.exact.contains_key(&name) {
                true => return duplicate(&name),
                false => drop(self.exact.insert(name, id)),
            },
            LocationName::Prefix(name) => {
                if self.prefixes.contains_key(&name) {
                    return duplicate(&name);
                }
                self.prefixes.insert(name, id);
            }
            LocationName::Regex(regex) => self.regexes.push((regex, id)),
            // Of several named locations of one name the first is used, as in nginx.
            LocationName::Named(name) => {
                self.named.entry(name).or_insert(id);
            }
        }
        Ok(())
    }
}
