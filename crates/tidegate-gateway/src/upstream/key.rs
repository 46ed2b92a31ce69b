//! The inputs of a choice in a group, taken from the request.

use std::sync::Arc;
use std::time::Instant;

use tidegate_core::client::Address;
use tidegate_core::{Exchange, Template};
use tidegate_upstream::Group;
use tidegate_upstream::peers::Choice;

use super::sticky::{self, Sticky};

/// The inputs of a group's choice.
#[derive(Debug, Clone)]
pub struct GroupKey {
    pub hash: Option<HashKey>,
    pub sticky: Option<Arc<Sticky>>,
}

/// The text that is hashed.
#[derive(Debug, Clone)]
pub enum HashKey {
    /// `hash KEY`.
    Text(Template),
    /// `ip_hash`.
    Client,
}

impl GroupKey {
    /// Begins a request's choice in the group, at `now`.
    pub fn choice(&self, x: &mut Exchange, group: &Arc<Group>, now: Instant) -> Choice {
        let mut choice = match &self.hash {
            Some(hash) => Choice::by_key(hash.value(x)),
            None => Choice::default(),
        };
        if let Some(sticky) = &self.sticky {
            choice.bound = sticky::begin(x, sticky, group, now);
        }
        choice
    }
}

impl GroupKey {
    /// Waits for what the choice needs to know of other servers (`sticky learn … sync`).
    pub(crate) async fn prepare(&self, x: &mut Exchange) {
        if let Some(sticky) = &self.sticky {
            sticky::prepare(x, sticky).await;
        }
    }
}

impl HashKey {
    fn value(&self, x: &mut Exchange) -> Vec<u8> {
        match self {
            HashKey::Text(template) => template.value(x),
            HashKey::Client => match x.client_address() {
                Address::Inet(address) => match address.ip() {
                    std::net::IpAddr::V4(ip) => ip.octets()[..3].to_vec(),
                    std::net::IpAddr::V6(ip) => ip.octets().to_vec(),
                },
                // All Unix clients are one client.
                Address::Unix(_) => vec![0; 3],
            },
        }
    }
}
