//! The directive `zone_sync_store`.

use std::time::Duration;

use tidegate_conf::{
    Args, Arity, Contexts, Diagnostic, Directive, Span, Word, parse_milliseconds, row,
};
use tidegate_store::{Address, Sentinel};

use super::WAIT;

/// The directives of a block.
#[derive(Default)]
pub struct Conf {
    pub(super) stores: Vec<StoreConf>,
}

/// A `zone_sync_store` as written.
pub(super) struct StoreConf {
    pub(super) name: String,
    pub(super) url: String,
    pub(super) sentinel: Option<String>,
    pub(super) address: Address,
    pub(super) interval: Duration,
    pub(super) timeout: Duration,
    pub(super) prefix: String,
    pub(super) verify: bool,
    pub(super) trusted: Option<Word>,
    pub(super) span: Span,
}

/// The name of a store without one.
pub(super) const NAME_DEFAULT: &str = "default";
const PREFIX_DEFAULT: &str = "tidegate:";
/// Bytes of the longest prefix: it is a part of each record's name.
const PREFIX_BYTES_MAX: usize = 64;
const INTERVAL_DEFAULT: Duration = Duration::from_millis(50);
const TIMEOUT_DEFAULT: Duration = Duration::from_millis(50);
/// Shorter ones would keep the thread and the engine busy, longer ones are no limits.
const TIMES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(10));

pub(super) const ROWS: &[Directive<Conf>] = &[row(
    "zone_sync_store",
    Contexts::HTTP_STREAM,
    Arity::between(1, 8),
    "",
    "An engine (Redis from 5 on, Valkey) by which servers share the zones that have `sync`: \
     `zone_sync_store redis[s]://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…][/DATABASE] [name=NAME] [interval=TIME] \
     [timeout=TIME] [prefix=TEXT] [sentinel=[USER:PASSWORD@]NAME] [ssl_verify=on|off] [ssl_trusted_certificate=FILE]`. \
     Special characters of a password are written as `%` and two digits. Of several hosts the first one is used that accepts writes. With `sentinel=` the hosts are \
     Sentinels (port 26379), which are asked, by the login that is written there, for the engine that they know by NAME: at each \
     connection, so that another one that has taken over is used as soon as they say so; until then zones decide as without a store. `rediss` is TLS, verified by \
     the system's certificates or those in FILE. In each interval (50 ms, 10 ms to 10 s) what has changed is sent; a reply \
     that takes longer than the timeout (50 ms, 10 ms to 10 s) counts as a failure. The names of all records begin with the \
     prefix (`tidegate:`): servers with the same prefix and the same zones share them. NAME is for `sync=NAME`, where a block \
     has several stores. The protocol of the commercial nginx between servers (`zone_sync` and its directives) is refused.",
    store,
)];

fn store(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let url = args.text(0)?;
    // The hosts mean something else with it, wherever it is written.
    let sentinel = (1..args.len()).find_map(|index| match args.parameter(index) {
        Ok(("sentinel", Some(text))) => Some((index, text)),
        _ => None,
    });
    let address = match sentinel {
        Some((index, text)) => {
            let sentinel = Sentinel::parse(text).map_err(|reason| {
                args.error(index, "invalid \"sentinel\" in \"zone_sync_store\"").help(reason)
            })?;
            Address::parse_sentinels(url, sentinel)
        }
        None => Address::parse(url),
    };
    let address = address.map_err(|reason| {
        // The text may have a password.
        args.error(0, "invalid URL in \"zone_sync_store\"").help(reason)
    })?;
    let mut store = StoreConf {
        name: NAME_DEFAULT.to_owned(),
        url: url.to_owned(),
        sentinel: sentinel.map(|(_, text)| text.to_owned()),
        address,
        interval: INTERVAL_DEFAULT,
        timeout: TIMEOUT_DEFAULT,
        prefix: PREFIX_DEFAULT.to_owned(),
        verify: true,
        trusted: None,
        span: args.word(0).span,
    };
    let mut known: Vec<&str> = Vec::new();
    for index in 1..args.len() {
        let (name, Some(value)) = args.parameter(index)? else {
            return Err(args.invalid_parameter(index));
        };
        if known.contains(&name) {
            return Err(args.error(index, format!("duplicate parameter \"{name}\"")));
        }
        known.push(name);
        match (name, value) {
            ("name", value) if value.split(':').next() == Some(WAIT) => {
                return Err(args.invalid_parameter(index).help("`sync=wait` is no store's name"));
            }
            ("name", value) if !value.is_empty() => value.clone_into(&mut store.name),
            ("interval", value) => store.interval = time(args, index, value)?,
            ("timeout", value) => store.timeout = time(args, index, value)?,
            ("prefix", value) if value.len() <= PREFIX_BYTES_MAX => {
                value.clone_into(&mut store.prefix);
            }
            ("sentinel", _) => {}
            ("ssl_verify", "on") => store.verify = true,
            ("ssl_verify", "off") => store.verify = false,
            ("ssl_trusted_certificate", path) if !path.is_empty() => {
                let word = args.word(index);
                store.trusted = Some(Word { bytes: path.as_bytes().to_vec(), ..word.clone() });
            }
            _ => return Err(args.invalid_parameter(index)),
        }
    }
    if conf.stores.iter().any(|other| other.name == store.name) {
        let message = format!("duplicate zone_sync_store \"{}\"", store.name);
        return Err(args.error_here(message).help("give each one a name: `name=NAME`"));
    }
    conf.stores.push(store);
    Ok(())
}

fn time(args: &Args<'_>, index: usize, value: &str) -> Result<Duration, Diagnostic> {
    let time = parse_milliseconds(value.as_bytes());
    time.filter(|time| (TIMES.0..=TIMES.1).contains(time)).ok_or_else(|| {
        let shown = args.word(index).display();
        args.error(index, format!("invalid time \"{shown}\"")).help("it is between 10ms and 10s")
    })
}
