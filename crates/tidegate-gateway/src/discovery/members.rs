//! From servers that an engine names to the members of a group.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::time::Instant;

use foldhash::fast::RandomState;
use tidegate_upstream::peers::ServerName;
use tidegate_upstream::resolve::{self, HostPort};
use tidegate_upstream::{BalancingMethod, Group, Member};

use super::endpoint::{Endpoint, WEIGHT_MAX};
use crate::upstream::options::{PORT, knows_no_rank};

/// The largest sum of weights on a ring, which has 160 points for each.
const RING_WEIGHT_MAX: u64 = 65_536;

/// Makes the members of a group: addresses with a port, or names where the group has a `resolver`.
///
/// # Errors
/// A server is invalid, or named twice, or too heavy, or a backup of a method without backups: the reason in words. Then none
/// is used.
pub(super) fn members(endpoints: Vec<Endpoint>, group: &Group) -> Result<Vec<Member>, String> {
    if let Some(server) = named_twice(&endpoints) {
        return Err(format!("server \"{server}\" is named twice"));
    }
    let mut members = Vec::with_capacity(endpoints.len());
    let mut weights = 0;
    for Endpoint { server, options } in endpoints {
        if options.backup && knows_no_rank(group.method()) {
            return Err(format!("server \"{server}\" is a backup, which the method does not have"));
        }
        // It is written to files of directives, and to logs.
        if !server.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-:[]".contains(&byte)) {
            return Err(format!("invalid host in \"{}\"", server.escape_debug()));
        }
        if options.weight > WEIGHT_MAX {
            return Err(format!("the weight of \"{server}\" is above {WEIGHT_MAX}"));
        }
        weights += u64::from(options.weight);
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
    if group.method() == BalancingMethod::HashConsistent && weights > RING_WEIGHT_MAX {
        return Err(format!("the sum of weights is {weights}, above {RING_WEIGHT_MAX} for a ring"));
    }
    Ok(members)
}

fn named_twice(endpoints: &[Endpoint]) -> Option<&str> {
    let mut known: HashSet<Cow<'_, str>, RandomState> = HashSet::default();
    known.reserve(endpoints.len());
    let servers = endpoints.iter().map(|endpoint| endpoint.server.as_str());
    let mut again = servers.filter(|server| {
        let has_capitals = server.bytes().any(|byte| byte.is_ascii_uppercase());
        !known.insert(match has_capitals {
            true => Cow::Owned(server.to_ascii_lowercase()),
            false => Cow::Borrowed(*server),
        })
    });
    again.next()
}

/// Gives a group these servers in place of all others. Names that remain keep their addresses, and a server that a command
/// drains remains drained.
pub(super) fn replace(group: &Group, wanted: &[Member], now: Instant) {
    group.change_members(now, |members| {
        // Mostly few of many are different: what is the same at both ends stays as it is.
        let same = |pairs: &(&Member, &Member)| pairs.0 == pairs.1;
        let front = members.iter().zip(wanted).take_while(same).count();
        let behind = members[front..].iter().rev().zip(wanted[front..].iter().rev());
        let back = behind.take_while(same).count();
        let between = front..members.len() - back;
        let wanted = wanted[front..wanted.len() - back].to_vec();
        let before: Vec<Member> = members.splice(between, wanted).collect();
        let changed = front..members.len() - back;
        let known = before.into_iter().map(|member| (member.server.clone(), member));
        let mut known: HashMap<Box<str>, Member> = known.collect();
        for member in &mut members[changed] {
            let Some(before) = known.remove(&member.server) else { continue };
            member.options.drain |= before.options.drain;
            if member.name.is_some() && before.name == member.name {
                (member.number, member.places) = (before.number, before.places);
            }
        }
    });
}
