//! `map`: a variable whose value depends on that of others.
//!
//! ```nginx
//! map $http_user_agent $is_robot {
//!     default     0;
//!     ~*bot|crawl 1;
//! }
//! ```
//! Keys are tried as nginx documents it: exact text without regard to case, with `hostnames` the longest leading
//! and then the longest trailing wildcard, regular expressions in order, `default`.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_conf::{
    Args, Arity, Contexts, Diagnostic, Directive, Kind, Span, Statement, Word, once, row,
};
use tidegate_core::host_names::{AddNameError, HostNames};
use tidegate_core::regex::{Regex, RegexList};
use tidegate_core::{Exchange, Template};
use tidegate_plan::module::Module;
use tidegate_plan::{PlanBuilder, made_variable};

/// `ngx_http_map_module`.
pub(crate) struct Map;

/// All maps as written.
#[derive(Default)]
pub(crate) struct Conf {
    maps: Vec<MapConf>,
    hash_max_size: Option<u64>,
    hash_bucket_size: Option<u64>,
}

struct MapConf {
    source: Word,
    name: String,
    span: Span,
    entries: Arc<Vec<Statement>>,
}

impl Module for Map {
    type Conf = Conf;
    const NAME: &'static str = "map";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];

    fn prepare_http(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        check_tables(conf)?;
        made_variable::define_all(&conf.maps, plan, define)
    }

    fn prepare_stream(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        Map::prepare_http(conf, plan)
    }
}

const ROWS: &[Directive<Conf>] = &[
    Directive {
        name: "map",
        contexts: Contexts::HTTP_STREAM,
        args: Arity::TWO,
        kind: Kind::Block,
        default: "",
        doc: "Define a variable by a table of values of others.",
        has_effect: true,
        set: set_map,
    },
    row::<Conf>(
        "map_hash_max_size",
        Contexts::HTTP_STREAM,
        Arity::ONE,
        "2048",
        "Largest hash table of a map; tables grow as needed, so it has no effect.",
        |conf, args| once(&mut conf.hash_max_size, args.number(0, 0..=u64::MAX)?, args),
    )
    .without_effect(),
    row::<Conf>(
        "map_hash_bucket_size",
        Contexts::HTTP_STREAM,
        Arity::ONE,
        "32|64|128",
        "Bucket size of a map's hash table; without effect.",
        |conf, args| once(&mut conf.hash_bucket_size, args.number(0, 0..=u64::MAX)?, args),
    )
    .without_effect(),
];

fn set_map(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    conf.maps.push(MapConf {
        source: args.word(0).clone(),
        name: made_variable::name(args, 1)?,
        span: args.word(1).span,
        entries: args.shared_entries()?,
    });
    Ok(())
}

/// Checks that tables of size 0 need not hold a key, as in nginx.
fn check_tables(conf: &Conf) -> Result<(), Diagnostic> {
    let is_key = |entry: &&Statement| {
        let flag =
            entry.args.is_empty() && matches!(&entry.name.bytes[..], b"hostnames" | b"volatile");
        !flag && entry.name.bytes != b"default" && !entry.name.bytes.starts_with(b"~")
    };
    let sizes = [("max_size", conf.hash_max_size), ("bucket_size", conf.hash_bucket_size)];
    let empty = sizes.iter().find(|(_, size)| *size == Some(0));
    let key = conf.maps.iter().flat_map(|map| map.entries.iter()).find(is_key);
    match (empty, key) {
        (Some((name, _)), Some(key)) => {
            let message =
                format!("could not build map_hash, you should increase map_hash_{name}: 0");
            Err(Diagnostic::emerg(message).at(key.name.span))
        }
        _ => Ok(()),
    }
}

/// A compiled map. Many entries have the same value, so they have places in the list of values.
#[derive(Default)]
struct Table {
    source: Template,
    hostnames: bool,
    names: HostNames<usize>,
    regexes: RegexList<usize>,
    default: Option<usize>,
    values: Vec<Template>,
}

/// A table that is being built.
#[derive(Default)]
struct Building {
    table: Table,
    regexes: Vec<(Arc<Regex>, usize)>,
    /// The places of values by their texts.
    places: HashMap<Box<[u8]>, usize>,
}

impl Building {
    /// Returns the place of a value.
    fn value(&mut self, text: &Word, plan: &mut PlanBuilder<'_>) -> Result<usize, Diagnostic> {
        if let Some(place) = self.places.get(&text.bytes[..]) {
            return Ok(*place);
        }
        let place = self.table.values.len();
        self.table.values.push(plan.template(text)?);
        self.places.insert(text.bytes[..].into(), place);
        Ok(place)
    }
}

fn define(map: &MapConf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
    made_variable::check_free(plan, &map.name, map.span)?;
    let source = plan.template(&map.source)?;
    let mut building = Building::default();
    let is = |entry: &Statement, word: &[u8]| entry.args.is_empty() && entry.name.bytes == word;
    building.table.hostnames = map.entries.iter().any(|entry| is(entry, b"hostnames"));
    let volatile = map.entries.iter().any(|entry| is(entry, b"volatile"));
    for entry in map.entries.iter() {
        if is(entry, b"hostnames") || is(entry, b"volatile") {
            continue;
        }
        if let Err(diagnostic) = add(&mut building, entry, plan) {
            plan.diagnostics.push(diagnostic);
        }
    }
    let Building { table, regexes, .. } = building;
    let table = Table { source, regexes: regexes.into_iter().collect(), ..table };
    let compute = move |x: &mut Exchange, out: &mut Vec<u8>| look_up(&table, x, out);
    plan.variables.define_computed(&map.name, Arc::new(compute), !volatile);
    Ok(())
}

/// Adds one line of the block: the default, a regular expression, or a key.
///
/// Invariant: keys are in lower case and unique; regular expressions keep their order, as the first that matches
/// decides, and are tried after keys. The text behind a backslash is a key, whatever it is. Source: `map`.
fn add(
    building: &mut Building,
    entry: &Statement,
    plan: &mut PlanBuilder<'_>,
) -> Result<(), Diagnostic> {
    let error = |message: String| {
        Err(Diagnostic::emerg(message).at(entry.name.span).line_at(entry.terminator()))
    };
    let [value] = &entry.args[..] else {
        return error("invalid number of the map parameters".to_owned());
    };
    let value = building.value(value, plan)?;
    let key = &entry.name.bytes[..];
    let shown = entry.name.display();
    let conflict = || error(format!("conflicting parameter \"{shown}\""));
    // In quotes as well: nginx does not distinguish quoted words.
    if key == b"default" {
        if building.table.default.is_some() {
            return error("duplicate default map parameter".to_owned());
        }
        building.table.default = Some(value);
        return Ok(());
    }
    if let Some(regex) = key.strip_prefix(b"~") {
        let (regex, caseless) = match regex.strip_prefix(b"*") {
            Some(regex) => (regex, true),
            None => (regex, false),
        };
        let regex = plan.regex(regex, caseless, entry.name.span)?;
        building.regexes.push((regex, value));
        return Ok(());
    }
    // A backslash escapes keys with another meaning: `\default`, `\include`, `\~x`.
    let key = key.strip_prefix(b"\\").unwrap_or(key).to_ascii_lowercase();
    let table = &mut building.table;
    let added = match table.hostnames {
        true => table.names.add(key.strip_suffix(b".").unwrap_or(&key), value),
        false => table.names.add_exact(&key, value),
    };
    match added {
        Ok(()) => Ok(()),
        Err(AddNameError::Known(_)) => conflict(),
        Err(AddNameError::Invalid) => error(format!("invalid hostname or wildcard \"{shown}\"")),
    }
}

fn look_up(table: &Table, x: &mut Exchange, out: &mut Vec<u8>) -> bool {
    let source = table.source.value(x);
    // Host names may end in a dot.
    let subject = match table.hostnames {
        true => source.strip_suffix(b".").unwrap_or(&source),
        false => &source[..],
    };
    let place = match plain_value(table, subject) {
        Some(place) => Some(place),
        None => match matching_value(table, subject, x) {
            Ok(place) => place.or(table.default),
            // As in nginx no further one is tried.
            Err(tidegate_core::regex::MatchLimit) => table.default,
        },
    };
    if let Some(value) = place.and_then(|place| table.values.get(place)) {
        value.write(x, out);
    }
    // Without a default the value is the empty text, which counts as a value.
    true
}

fn plain_value(table: &Table, subject: &[u8]) -> Option<usize> {
    let lowered;
    let key = match subject.iter().any(u8::is_ascii_uppercase) {
        true => {
            lowered = subject.to_ascii_lowercase();
            &lowered[..]
        }
        false => subject,
    };
    // Without `hostnames` there are no wildcards.
    table.names.find(key).copied()
}

fn matching_value(
    table: &Table,
    subject: &[u8],
    x: &mut Exchange,
) -> Result<Option<usize>, tidegate_core::regex::MatchLimit> {
    let first = table.regexes.first(subject, |regex| regex.capture(x, subject))?;
    Ok(first.map(|(_, place)| *place))
}
