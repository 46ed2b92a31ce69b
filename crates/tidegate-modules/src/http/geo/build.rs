//! From the entries of a `geo` block to its table. Errors and warnings are worded as nginx's.

use std::net::{IpAddr, Ipv4Addr};

use tidegate_conf::{Diagnostic, Statement};

use super::table::{Networks, Ranges, Table, ValueId, Values};
use crate::http::realip::Trusted;
use tidegate_conf::network::Network;

/// The result of a block.
pub(super) struct GeoBlock {
    pub table: Table,
    pub proxies: Vec<Trusted>,
    pub proxy_recursive: bool,
    pub volatile: bool,
}

/// Reads the entries; errors are appended to `diagnostics`.
pub(super) fn build(entries: &[Statement], diagnostics: &mut Vec<Diagnostic>) -> GeoBlock {
    let mut builder = Builder::new(diagnostics);
    for entry in entries {
        if let Err(diagnostic) = builder.add(entry) {
            builder.diagnostics.push(diagnostic);
        }
    }
    let table = match builder.ranges {
        Some(ranges) => Table::of_ranges(ranges, builder.default, builder.values),
        None => Table::of_networks(builder.networks, builder.values),
    };
    GeoBlock {
        table,
        proxies: builder.proxies,
        proxy_recursive: builder.proxy_recursive,
        volatile: builder.volatile,
    }
}

struct Builder<'d> {
    /// Present if the addresses are ranges.
    ranges: Option<Ranges>,
    networks: Networks,
    /// The value of addresses outside of all ranges.
    default: Option<ValueId>,
    values: Values,
    proxies: Vec<Trusted>,
    proxy_recursive: bool,
    volatile: bool,
    diagnostics: &'d mut Vec<Diagnostic>,
}

impl<'d> Builder<'d> {
    fn new(diagnostics: &'d mut Vec<Diagnostic>) -> Builder<'d> {
        Builder {
            ranges: None,
            networks: Networks::default(),
            default: None,
            values: Values::default(),
            proxies: Vec::new(),
            proxy_recursive: false,
            volatile: false,
            diagnostics,
        }
    }

    /// Adds one line of the block: an option, a range, or a network.
    ///
    /// Invariant: `ranges` comes before all networks, as the two notations exclude each other; from then on lines
    /// are ranges. An error affects its line alone, later lines are still read. `default` of networks is a network
    /// of all addresses, that of ranges has a field of its own. Source: `geo`.
    fn add(&mut self, entry: &Statement) -> Result<(), Diagnostic> {
        match (&entry.name.bytes[..], &entry.args[..]) {
            (b"ranges", []) => {
                if !self.networks.v4.is_empty() || !self.networks.v6.is_empty() {
                    let rule = "must be the first directive inside \"geo\" block";
                    return Err(error(entry, format!("the \"ranges\" directive {rule}")));
                }
                self.ranges.get_or_insert_default();
                Ok(())
            }
            (b"proxy_recursive", []) => {
                self.proxy_recursive = true;
                Ok(())
            }
            (b"volatile", []) => {
                self.volatile = true;
                Ok(())
            }
            (b"proxy", [network]) => {
                let network = self.network(entry, &network.bytes)?;
                self.proxies.push(Trusted::Network(network));
                Ok(())
            }
            (b"delete", [net]) if self.ranges.is_some() => self.delete_range(entry, &net.bytes),
            (b"delete", [net]) => self.delete_network(entry, &net.bytes),
            (b"default", [value]) if self.ranges.is_some() => {
                self.set_range_default(entry, &value.bytes);
                Ok(())
            }
            (b"default", [value]) => {
                // Any other network is more specific than these.
                for all in ["0.0.0.0/0", "::/0"] {
                    let network = self.network(entry, all.as_bytes())?;
                    self.put_network(entry, network, &value.bytes);
                }
                Ok(())
            }
            (range, [value]) if self.ranges.is_some() => self.put_range(entry, range, &value.bytes),
            (network, [value]) => {
                let network = self.network(entry, network)?;
                self.put_network(entry, network, &value.bytes);
                Ok(())
            }
            _ => Err(error(entry, "invalid number of the geo parameters".to_owned())),
        }
    }

    fn network(&mut self, entry: &Statement, text: &[u8]) -> Result<Network, Diagnostic> {
        let shown = String::from_utf8_lossy(text);
        let Some((network, exact)) = Network::parse(&shown) else {
            return Err(error(entry, format!("invalid network \"{shown}\"")));
        };
        if !exact {
            self.warn(entry, format!("low address bits of {shown} are meaningless"));
        }
        Ok(network)
    }

    fn put_network(&mut self, entry: &Statement, network: Network, text: &[u8]) {
        let value = self.values.id(text);
        let bits = network.bits();
        let before = match network.address() {
            IpAddr::V4(address) => self.networks.v4.insert((address.to_bits(), bits), value),
            IpAddr::V6(address) => self.networks.v6.insert((address.to_bits(), bits), value),
        };
        if let Some(before) = before {
            let (name, text) = (entry.name.display(), String::from_utf8_lossy(text));
            let what = format!("duplicate network \"{name}\", value: \"{text}\"");
            self.warn_replaced(entry, &what, before);
        }
    }

    fn delete_network(&mut self, entry: &Statement, text: &[u8]) -> Result<(), Diagnostic> {
        let network = self.network(entry, text)?;
        let bits = network.bits();
        let before = match network.address() {
            IpAddr::V4(address) => self.networks.v4.remove(&(address.to_bits(), bits)),
            IpAddr::V6(address) => self.networks.v6.remove(&(address.to_bits(), bits)),
        };
        if before.is_none() {
            let shown = String::from_utf8_lossy(text);
            self.warn(entry, format!("no network \"{shown}\" to delete"));
        }
        Ok(())
    }

    fn set_range_default(&mut self, entry: &Statement, text: &[u8]) {
        let value = self.values.id(text);
        if let Some(before) = self.default.replace(value) {
            let shown = String::from_utf8_lossy(text);
            let what = format!("duplicate default geo range value: \"{shown}\"");
            self.warn_replaced(entry, &what, before);
        }
    }

    /// Adds a range. One that lies inside another splits it.
    fn put_range(
        &mut self,
        entry: &Statement,
        range: &[u8],
        text: &[u8],
    ) -> Result<(), Diagnostic> {
        let (first, last) = parse_range(entry, range)?;
        let value = self.values.id(text);
        let ranges = self.ranges.get_or_insert_default();
        if ranges.append(first, last, value) {
            return Ok(());
        }
        let ranges = ranges.tree();
        let met =
            ranges.range(..=last).next_back().map(|(first, (last, value))| (*first, *last, *value));
        let Some((around_first, around_last, around)) = met.filter(|(_, end, _)| *end >= first)
        else {
            ranges.insert(first, (last, value));
            return Ok(());
        };
        if around_first > first || around_last < last {
            let (range, known) = (String::from_utf8_lossy(range), shown(around_first, around_last));
            return Err(error(entry, format!("range \"{range}\" overlaps \"{known}\"")));
        }
        if (around_first, around_last) == (first, last) {
            let (range, text) = (String::from_utf8_lossy(range), String::from_utf8_lossy(text));
            let what = format!("duplicate range \"{range}\", value: \"{text}\"");
            self.warn_replaced(entry, &what, around);
        }
        let ranges = self.ranges.get_or_insert_default().tree();
        if around_first < first {
            ranges.insert(around_first, (first - 1, around));
        }
        if last < around_last {
            ranges.insert(last + 1, (around_last, around));
        }
        ranges.insert(first, (last, value));
        Ok(())
    }

    fn delete_range(&mut self, entry: &Statement, range: &[u8]) -> Result<(), Diagnostic> {
        let (first, last) = parse_range(entry, range)?;
        let ranges = self.ranges.get_or_insert_default().tree();
        if ranges.get(&first).is_some_and(|(end, _)| *end == last) {
            ranges.remove(&first);
        } else {
            let range = String::from_utf8_lossy(range);
            self.warn(entry, format!("no address range \"{range}\" to delete"));
        }
        Ok(())
    }

    fn warn_replaced(&mut self, entry: &Statement, what: &str, before: ValueId) {
        let before = String::from_utf8_lossy(self.values.text(before)).into_owned();
        self.warn(entry, format!("{what}, old value: \"{before}\""));
    }

    fn warn(&mut self, entry: &Statement, message: String) {
        let warning = Diagnostic::warn(message).at(entry.name.span).line_at(entry.terminator());
        self.diagnostics.push(warning);
    }
}

fn parse_range(entry: &Statement, text: &[u8]) -> Result<(u32, u32), Diagnostic> {
    let shown = String::from_utf8_lossy(text);
    let parse = |text: &str| text.parse::<Ipv4Addr>().ok().map(Ipv4Addr::to_bits);
    let range = shown.split_once('-').and_then(|(first, last)| Some((parse(first)?, parse(last)?)));
    let range = range.filter(|(first, last)| first <= last);
    range.ok_or_else(|| error(entry, format!("invalid range \"{shown}\"")))
}

fn shown(first: u32, last: u32) -> String {
    format!("{}-{}", Ipv4Addr::from_bits(first), Ipv4Addr::from_bits(last))
}

fn error(entry: &Statement, message: String) -> Diagnostic {
    Diagnostic::emerg(message).at(entry.name.span).line_at(entry.terminator())
}
