//! `*_cache_purge` as written, in either syntax: conditions, as in nginx's commercial edition, or a method and the
//! addresses that may use it, as in the module ngx_cache_purge.
//!
//! ```nginx
//! proxy_cache_purge $purge;                            # conditions
//! proxy_cache_purge PURGE from 127.0.0.1 10.0.0.0/8;   # a method; `from all`: any client
//! proxy_cache_purge BAN purge_all from 127.0.0.1;      # empties the whole cache
//! proxy_cache_purge on;                                # PURGE from all
//! location ~ ^/purge(/.*) { proxy_cache_purge zone $1$is_args$args; }
//! ```

use tidegate_conf::{Args, Diagnostic, Word};
use tidegate_core::client::Address;
use tidegate_core::template::any_is_true;
use tidegate_core::{Exchange, Template};

use tidegate_conf::network::Network;

/// The purge setting of a block.
#[derive(Clone)]
pub enum PurgeConf {
    Off,
    Conditions(Vec<Word>),
    Method(ByMethod),
    /// A location whose requests purge a key of their own.
    Separate {
        zone: Word,
        key: Word,
    },
}

/// Purges by requests with one method.
#[derive(Clone, Debug)]
pub struct ByMethod {
    method: Vec<u8>,
    /// Purges the complete cache, whatever the key.
    pub everything: bool,
    /// `None`: from all addresses.
    from: Option<Vec<Network>>,
}

impl ByMethod {
    /// Returns whether a client at this address may purge.
    pub fn allows(&self, client: &Address) -> bool {
        match (&self.from, client) {
            (None, _) => true,
            (Some(networks), Address::Inet(address)) => {
                networks.iter().any(|network| network.contains(address.ip()))
            }
            (Some(_), Address::Unix(_)) => false,
        }
    }
}

/// Takes one directive. Several lists of conditions are joined.
///
/// # Errors
/// A value that is valid in neither syntax: above all a condition without a variable, by which every request would be
/// a purge.
pub(crate) fn set(conf: &mut Option<PurgeConf>, args: &Args<'_>) -> Result<(), Diagnostic> {
    match (conf.as_mut(), read(args)?) {
        (None, read) => *conf = Some(read),
        (Some(PurgeConf::Conditions(known)), PurgeConf::Conditions(more)) => known.extend(more),
        (Some(_), _) => return Err(args.duplicate()),
    }
    Ok(())
}

fn read(args: &Args<'_>) -> Result<PurgeConf, Diagnostic> {
    let words: Vec<&[u8]> = args.words().iter().map(|word| &word.bytes[..]).collect();
    let is_variable = |word: &[u8]| word.contains(&b'$');
    let from = words.iter().position(|word| *word == b"from");
    let head = &words[..from.unwrap_or(words.len())];
    match *head {
        [name] if name == b"off" => Ok(PurgeConf::Off),
        [name] if name == b"on" => method(b"PURGE", false, from, args),
        [name] if from.is_some() && !is_variable(name) => method(name, false, from, args),
        [name, all] if all == b"purge_all" && !is_variable(name) => {
            let name = if name == b"on" { b"PURGE" } else { name };
            let Some(_) = from else { return Err(open_to_all(args, 1)) };
            method(name, true, from, args)
        }
        _ if from.is_some() => Err(args.invalid_parameter(head.len().min(1))),
        [zone, _] if !is_variable(zone) => {
            Ok(PurgeConf::Separate { zone: args.word(0).clone(), key: args.word(1).clone() })
        }
        _ => match words.iter().position(|word| !is_variable(word)) {
            Some(constant) => Err(open_to_all(args, constant)),
            None => Ok(PurgeConf::Conditions(args.words().to_vec())),
        },
    }
}

fn method(
    name: &[u8],
    everything: bool,
    from: Option<usize>,
    args: &Args<'_>,
) -> Result<PurgeConf, Diagnostic> {
    let first = from.map_or(args.len(), |from| from + 1);
    if first == args.len() && from.is_some() {
        return Err(args
            .error(first - 1, "no addresses behind \"from\"")
            .help("`from all`, or addresses and networks"));
    }
    let mut networks = Some(Vec::new()).filter(|_| from.is_some());
    for index in first..args.len() {
        if args.bytes(index) == b"all" {
            networks = None;
            continue;
        }
        let text = String::from_utf8_lossy(args.bytes(index));
        let Some((network, _)) = Network::parse(&text) else {
            return Err(args.invalid_parameter(index));
        };
        if let Some(networks) = &mut networks {
            networks.push(network);
        }
    }
    Ok(PurgeConf::Method(ByMethod { method: name.to_vec(), everything, from: networks }))
}

/// Returns the error for a text that is no condition and restricts the purge to no addresses.
fn open_to_all(args: &Args<'_>, index: usize) -> Diagnostic {
    let shown = args.word(index).display();
    let message = format!("\"{}\" does not say which clients may purge: \"{shown}\"", args.name());
    args.error(index, message)
        .label("the same for every request")
        .help("a method: `PURGE from 127.0.0.1`, or `PURGE from all`")
        .help("a condition has a variable: `map $request_method $purge { PURGE 1; default 0; }`")
}

/// The condition that makes a request a purge.
#[derive(Debug, Default)]
pub(crate) enum PurgeTrigger {
    #[default]
    Nothing,
    /// Any value neither empty nor `0`.
    Conditions(Vec<Template>),
    Method(ByMethod),
}

/// The purge settings of a location.
#[derive(Debug, Default)]
pub(crate) struct PurgeSettings {
    pub by: PurgeTrigger,
    pub tags: Vec<Template>,
    pub soft: Vec<Template>,
}

impl PurgeSettings {
    /// Returns whether a request is a purge, allowed or not.
    pub(crate) fn wants(&self, x: &mut Exchange) -> bool {
        match &self.by {
            PurgeTrigger::Nothing => false,
            PurgeTrigger::Conditions(conditions) => any_is_true(conditions, x),
            PurgeTrigger::Method(by) => by.method == x.request.head.method_bytes(),
        }
    }
}
