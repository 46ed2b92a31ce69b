//! Networks of IP addresses in directives: an address, or an address and a number of bits.

use std::net::IpAddr;

use crate::{Args, Diagnostic, parse_number};

/// A network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// Parses `address` or `address/bits`. The flag is whether all bits beyond those were zero.
    pub fn parse(text: &str) -> Option<(Network, bool)> {
        let (address, bits) = match text.split_once('/') {
            None => (text, None),
            Some((address, bits)) => (address, Some(parse_number(bits.as_bytes())?)),
        };
        let written: IpAddr = address.parse().ok()?;
        let bits_max = if written.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(bits_max);
        let bits = u8::try_from(bits).ok().filter(|bits| u64::from(*bits) <= bits_max)?;
        let address = masked(written, bits);
        Some((Network { address, bits }, address == written))
    }

    /// Makes the network of one address.
    pub fn single(address: IpAddr) -> Network {
        Network { address, bits: if address.is_ipv4() { 32 } else { 128 } }
    }

    /// Returns its first address.
    pub fn address(self) -> IpAddr {
        self.address
    }

    /// Returns the number of bits that its addresses have in common.
    pub fn bits(self) -> u8 {
        self.bits
    }

    /// Returns the network of `bits` bits that it lies in; itself where it has fewer.
    pub fn widened(self, bits: u8) -> Network {
        let bits = bits.min(self.bits);
        Network { address: masked(self.address, bits), bits }
    }

    /// Returns whether it contains an address; an IPv4-mapped IPv6 address counts as its IPv4 address.
    pub fn contains(self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.address.is_ipv4() && masked(address, self.bits) == self.address
    }
}

/// Makes nginx's warning for a network with bits beyond its own.
pub fn meaningless_bits(args: &Args<'_>, index: usize) -> Diagnostic {
    let word = args.word(index);
    let message = format!("low address bits of {} are meaningless", word.display());
    Diagnostic::warn(message).at(word.span)
}

fn masked(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            IpAddr::V4((address.to_bits() & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            IpAddr::V6((address.to_bits() & mask).into())
        }
    }
}
