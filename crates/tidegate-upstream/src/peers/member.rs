//! The configured servers of a group: each with its addresses, which may change.

use tidegate_rt::net::Addr;

use super::options::{PeerSpec, ServerOptions};

/// One `server`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Id of a server with a name: the parent of its addresses on status pages.
    pub number: Option<u32>,
    /// As written.
    pub server: Box<str>,
    /// Parameters of the `server`, which all of its addresses have.
    pub options: ServerOptions,
    /// The name that name servers resolve again and again (`resolve`).
    pub name: Option<ServerName>,
    /// Its addresses; none as long as its name is not resolved.
    pub places: Vec<MemberAddress>,
}

/// A name whose addresses change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerName {
    /// As written, without a port.
    pub host: Box<str>,
    /// Port of its addresses, unless a service's record has another.
    pub port: u16,
    /// The name of a service, whose records contain hosts, ports, weights and ranks (`service`).
    pub service: Option<Box<str>>,
}

/// One address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberAddress {
    /// With its port.
    pub address: Addr,
    /// Weight from a service's record, in place of the server's own.
    pub weight: Option<u32>,
    /// Whether it is a backup, from a service's record, in place of the server's own.
    pub backup: Option<bool>,
}

impl MemberAddress {
    /// Makes an address with the parameters of its server.
    pub fn of(address: Addr) -> MemberAddress {
        MemberAddress { address, weight: None, backup: None }
    }
}

impl Member {
    /// Makes a server with fixed addresses.
    pub fn fixed(server: &str, addresses: Vec<Addr>, options: ServerOptions) -> Member {
        let places = addresses.into_iter().map(MemberAddress::of).collect();
        Member { number: None, server: server.into(), options, name: None, places }
    }

    /// Makes a server whose addresses are not resolved yet.
    pub fn named(server: &str, name: ServerName, options: ServerOptions) -> Member {
        let (name, places) = (Some(name), Vec::new());
        Member { number: None, server: server.into(), options, name, places }
    }

    /// Returns the places of a server with the same name in an earlier configuration, where it has some.
    pub(super) fn places_of(&self, before: &Member) -> Option<Vec<MemberAddress>> {
        let (own, known) = (self.name.as_ref()?, before.name.as_ref()?);
        if (&own.host, &own.service) != (&known.host, &known.service) {
            return None;
        }
        let mut places = before.places.clone();
        if own.service.is_none() {
            for place in &mut places {
                if let Addr::Inet(address) = &mut place.address {
                    address.set_port(own.port);
                }
            }
        }
        Some(places)
    }

    pub(super) fn specs(&self) -> impl Iterator<Item = PeerSpec<'_>> {
        self.places.iter().map(|place| {
            let mut options = self.options.clone();
            options.weight = place.weight.unwrap_or(options.weight);
            options.backup = place.backup.unwrap_or(options.backup);
            PeerSpec { server: &self.server, address: &place.address, options, parent: self.number }
        })
    }
}
