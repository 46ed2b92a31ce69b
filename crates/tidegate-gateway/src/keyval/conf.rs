//! The directives `keyval_zone` and `keyval`.

use std::time::Duration;

use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Span, Word};
use tidegate_conf::{parse_milliseconds, parse_size, row};
use tidegate_plan::made_variable;

use super::index::Matching;
use crate::zone_sync::Sync;

/// The directives of a block.
#[derive(Default)]
pub struct Conf {
    pub(super) zones: Vec<ZoneConf>,
    pub(super) variables: Vec<VariableConf>,
}

/// A `keyval_zone` as written.
pub(super) struct ZoneConf {
    pub(super) name: String,
    pub(super) bytes: usize,
    pub(super) state: Option<Word>,
    pub(super) timeout: Option<Duration>,
    pub(super) matching: Matching,
    /// The store by which servers share the zone.
    pub(super) sync: Option<Sync>,
    pub(super) span: Span,
}

/// A `keyval` as written.
pub(super) struct VariableConf {
    pub(super) key: Word,
    pub(super) name: String,
    pub(super) span: Span,
    pub(super) zone: String,
    pub(super) zone_span: Span,
}

/// Bytes of the smallest zone: nginx requires eight pages.
const ZONE_BYTES_MIN: u64 = 8 * 4096;

pub(super) const ROWS: &[Directive<Conf>] = &[
    row(
        "keyval_zone",
        Contexts::HTTP_STREAM,
        Arity::between(1, 6),
        "",
        "A zone of pairs that `keyval` looks up, which `api` and `set` change: `zone=NAME:SIZE [state=FILE] [timeout=TIME] \
         [type=string|ip|prefix]`. SIZE bounds the memory of the pairs, 160 bytes for each (224 with another type than \
         `string`) and its key and value; a pair that does not fit is refused, by `api` with 507 (`KeyvalOutOfMemory`). FILE \
         has the pairs as JSON: it is read at the start, and replaced as a whole with each change, before `api` responds; what \
         `set` changes is in it a second later. TIME removes pairs after it, counted from the last change of their value. \
         `string`: the key is that of a pair; `ip`: keys of pairs are addresses and networks, and the smallest one that has \
         the key's address or network is found; `prefix`: the longest key that the text begins with. Reloads keep the pairs, \
         unless the type changes. `sync` (`sync=NAME` with several stores): servers with the same `zone_sync_store` share the \
         pairs. Each has all of them, so that lookups never wait; a change goes to the store first, and reaches all servers within \
         an interval and a round trip. While the store is not available lookups go on, and changes get 503 \
         (`StoreUnavailable`). A store without pairs gets those of the first server that has some.",
        set_zone,
    ),
    row(
        "keyval",
        Contexts::HTTP_STREAM,
        Arity::THREE,
        "",
        "A variable whose value is that of a key in a zone: `keyval KEY $variable zone=NAME`. It is looked up at each use, and \
         empty where there is no pair. `set` and other directives that give variables values change the pair.",
        set_variable,
    ),
];

fn set_zone(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let span = args.word(0).span;
    let (mut zone, mut state, mut timeout, mut matching) = (None, None, None, None);
    let mut sync = None;
    for index in 0..args.len() {
        let text = args.text(index)?;
        match text.split_once('=') {
            Some(("zone", value)) => fill(&mut zone, parse_zone(args, index, value)?, args)?,
            Some(("state", path)) if !path.is_empty() => {
                let word = args.word(index);
                let word = Word { bytes: path.as_bytes().to_vec(), ..word.clone() };
                fill(&mut state, word, args)?;
            }
            Some(("timeout", time)) => {
                let time = parse_milliseconds(time.as_bytes()).filter(|time| !time.is_zero());
                let time =
                    time.ok_or_else(|| args.error(index, format!("invalid timeout \"{text}\"")))?;
                fill(&mut timeout, time, args)?;
            }
            Some(("type", name)) => {
                let known = match name {
                    "string" => Matching::Text,
                    "ip" => Matching::Network,
                    "prefix" => Matching::Prefix,
                    _ => {
                        let error = args.error(index, format!("invalid type \"{name}\""));
                        return Err(error.help("there are `string`, `ip` and `prefix`"));
                    }
                };
                fill(&mut matching, known, args)?;
            }
            None if text == "sync" => fill(&mut sync, Sync { store: None, span }, args)?,
            Some(("sync", name)) if !name.is_empty() => {
                let (store, span) = (Some(name.to_owned()), args.word(index).span);
                fill(&mut sync, Sync { store, span }, args)?;
            }
            _ => return Err(args.invalid_parameter(index)),
        }
    }
    let Some((name, bytes)) = zone else {
        let message = "\"keyval_zone\" must have \"zone\" parameter";
        return Err(args.error_here(message).help("name a zone, such as `zone=one:1m`"));
    };
    if conf.zones.iter().any(|known| known.name == name) {
        return Err(args.error_here(format!("duplicate zone \"{name}\"")));
    }
    let matching = matching.unwrap_or_default();
    conf.zones.push(ZoneConf { name, bytes, state, timeout, matching, sync, span });
    Ok(())
}

fn fill<T>(slot: &mut Option<T>, value: T, args: &Args<'_>) -> Result<(), Diagnostic> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(args.error_here("a parameter is there twice")),
    }
}

fn parse_zone(args: &Args<'_>, index: usize, value: &str) -> Result<(String, usize), Diagnostic> {
    let error = |what: String| args.error(index, what);
    let size =
        value.rsplit_once(':').and_then(|(name, size)| Some((name, parse_size(size.as_bytes())?)));
    let Some((name, bytes)) = size else {
        let error = error(format!("invalid zone size \"{value}\""));
        return Err(error.help("write the size behind the name, as in `zone=one:1m`"));
    };
    if name.is_empty() {
        return Err(error(format!("invalid zone name \"{value}\"")));
    }
    if bytes < ZONE_BYTES_MIN {
        return Err(error(format!("zone \"{value}\" is too small")).help("it has at least 32k"));
    }
    Ok((name.to_owned(), usize::try_from(bytes).unwrap_or(usize::MAX)))
}

fn set_variable(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let zone = args.text(2)?.strip_prefix("zone=").filter(|zone| !zone.is_empty());
    let zone = zone.ok_or_else(|| args.invalid_parameter(2))?;
    conf.variables.push(VariableConf {
        key: args.word(0).clone(),
        name: made_variable::name(args, 1)?,
        span: args.word(1).span,
        zone: zone.to_owned(),
        zone_span: args.word(2).span,
    });
    Ok(())
}
