//! The directive `*_cache_peers`.

use std::sync::Arc;

use tidegate_conf::{Args, Diagnostic, Word};
use tidegate_plan::PlanBuilder;
use tidegate_rt::net::Addr;
use tidegate_upstream::Group;
use tidegate_upstream::resolve::{self, HostPort};

use super::{Ring, RingKept, Rings, enter};
use crate::upstream::Groups;

/// Default of `hot`.
const HOT_DEFAULT: u32 = 8;
/// Port of a `server` without one.
const PORT: u16 = 80;

/// The directive as written.
#[derive(Clone)]
pub struct PeersConf {
    /// `None` for `off`.
    ring: Option<RingConf>,
}

#[derive(Clone)]
struct RingConf {
    /// The name of the group.
    group: Word,
    own: Word,
    /// The value of `own`.
    own_text: String,
    hot: u32,
}

/// Reads `GROUP self=ADDRESS [hot=USES] | off`.
///
/// # Errors
/// A parameter that is invalid, missing or written twice.
pub(crate) fn read(args: &Args<'_>) -> Result<PeersConf, Diagnostic> {
    if args.len() == 1 && args.bytes(0) == b"off" {
        return Ok(PeersConf { ring: None });
    }
    let variable = (0..args.len()).find(|index| args.bytes(*index).contains(&b'$'));
    if let Some(index) = variable {
        return Err(args.error(index, format!("\"{}\" cannot have variables", args.name())));
    }
    let (mut own, mut hot) = (None, None);
    for index in 1..args.len() {
        let (name, value) = args.parameter(index)?;
        let value = value.filter(|value| !value.is_empty());
        let is_again = match (name, value) {
            ("self", Some(text)) if text.bytes().all(is_plain) => {
                own.replace((args.word(index).clone(), text.to_owned())).is_some()
            }
            ("hot", Some(text)) => {
                let uses = tidegate_conf::parse_number(text.as_bytes()).filter(|uses| *uses > 0);
                let uses = uses.and_then(|uses| u32::try_from(uses).ok());
                hot.replace(uses.ok_or_else(|| args.invalid_parameter(index))?).is_some()
            }
            _ => return Err(args.invalid_parameter(index)),
        };
        if is_again {
            return Err(args.error(index, format!("duplicate parameter \"{name}\"")));
        }
    }
    let Some((own, own_text)) = own else {
        let error = args.error(0, format!("\"{}\" must have \"self\" parameter", args.name()));
        return Err(error.help("name this server as the group does: `self=10.0.0.1:8080`"));
    };
    let hot = hot.unwrap_or(HOT_DEFAULT);
    Ok(PeersConf { ring: Some(RingConf { group: args.word(0).clone(), own, own_text, hot }) })
}

/// Returns whether a byte may be in a name that is sent in a field.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte)
}

/// Compiles the directive; `None` for `off`.
///
/// # Errors
/// An unknown group, or one without this server.
pub(crate) fn compile(
    prefix: &'static str,
    conf: &PeersConf,
    plan: &mut PlanBuilder<'_>,
) -> Result<Option<Arc<Ring>>, Diagnostic> {
    let Some(RingConf { group, own, own_text, hot }) = &conf.ring else { return Ok(None) };
    let name = group.display().into_owned();
    let groups = plan.shared::<Groups>().clone();
    let Some(found) = groups.find(&name, false).filter(|_| groups.is_named(&name)) else {
        let message = format!("no upstream \"{name}\" in \"{prefix}cache_peers\"");
        let error = Diagnostic::emerg(message).at(group.span);
        return Err(error.help("an `upstream` with all servers of the ring, also this one"));
    };
    let make = || Ok::<_, Diagnostic>(RingKept::default());
    let kept = format!("cache peers {name}");
    let kept = plan.environment.reload_state.get_or_make(&kept, make)?;
    let own_address = match resolve::parse(own_text, PORT) {
        Ok(HostPort::Inet { literal, .. }) => literal,
        _ => None,
    };
    let (own_name, hot) = (own_text.as_str().into(), *hot);
    let ring = Ring { group: found.clone(), own: own_name, own_address, hot, kept: kept.clone() };
    if !may_have(&found, &ring) {
        let message = format!("\"{own_text}\" is not a server of upstream \"{name}\"");
        let error = Diagnostic::emerg(message).at(own.span);
        return Err(error.help("`self` is the address that the other servers know this one by"));
    }
    plan.extensions.entry::<Rings>().0.insert(name, kept);
    enter::trust(&found, plan);
    Ok(Some(Arc::new(ring)))
}

/// Returns whether this server is in the group, or may be later.
fn may_have(group: &Group, ring: &Ring) -> bool {
    let is_own = |address: &Addr| match address {
        Addr::Inet(address) => Some(*address) == ring.own_address,
        Addr::Unix(_) => false,
    };
    let changes = group.is_changing() || group.options().resolves;
    changes
        || group.members().iter().any(|member| {
            let is_unknown = member.places.is_empty();
            let has_own = member.places.iter().any(|place| is_own(&place.address));
            is_unknown || has_own || *member.server == *ring.own
        })
}
