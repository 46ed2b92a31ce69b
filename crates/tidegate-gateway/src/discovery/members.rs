//! From servers that an engine names to the members of a group.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use tidegate_upstream::peers::ServerName;
use tidegate_upstream::resolve::{self, HostPort};
use tidegate_upstream::{Group, Member};

use super::endpoint::Endpoint;
use crate::upstream::options::{PORT, knows_no_rank};

/// Makes the members of a group: addresses with a port, or names where the group has a `resolver`.
///
/// # Errors
/// A server is invalid, or named twice, or is a backup of a method without backups: the reason in words. Then none is used.
pub(super) fn members(endpoints: Vec<Endpoint>, group: &Group) -> Result<Vec<Member>, String> {
    let mut known = HashSet::new();
    let mut members = Vec::with_capacity(endpoints.len());
    for Endpoint { server, options } in endpoints {
        if !known.insert(server.to_ascii_lowercase()) {
            return Err(format!("server \"{server}\" is named twice"));
        }
        if options.backup && knows_no_rank(group.method()) {
            return Err(format!("server \"{server}\" is a backup, which the method does not have"));
        }
        let host = resolve::parse(&server, PORT);
        members.push(match host {
            Err(error) => return Err(format!("{error} in \"{server}\"")),
            Ok(HostPort::Unix(_) | HostPort::Inet { port: None, .. }) => {
                return Err(format!("no port in \"{server}\""));
            }
            Ok(HostPort::Inet { literal: Some(address), .. }) => {
                Member::fixed(&server, vec![address.into()], options)
            }
            Ok(HostPort::Inet { host, port: Some(port), literal: None }) => {
                if !group.options().resolves {
                    return Err(format!("no resolver defined to resolve \"{server}\""));
                }
                let host = host.to_ascii_lowercase().into();
                Member::named(&server, ServerName { host, port, service: None }, options)
            }
        });
    }
    Ok(members)
}

/// Gives a group these servers in place of all others. Names that remain keep their addresses.
pub(super) fn replace(group: &Group, wanted: &[Member], now: Instant) {
    group.change_members(now, |members| {
        let named = members.drain(..).filter(|member| member.name.is_some());
        let mut named: HashMap<Box<str>, Member> =
            named.map(|member| (member.server.clone(), member)).collect();
        members.extend(wanted.iter().cloned());
        for member in members.iter_mut() {
            if let Some(before) = named.remove(&member.server).filter(|old| old.name == member.name)
            {
                (member.number, member.places) = (before.number, before.places);
            }
        }
    });
}
