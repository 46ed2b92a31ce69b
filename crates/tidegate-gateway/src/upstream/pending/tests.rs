//! Names that can be resolved later.

use tidegate_rt::clock;
use tidegate_upstream::peers::ServerName;
use tidegate_upstream::{BalancingMethod, GroupOptions, Keepalive, Member, ServerOptions};

use super::*;

fn group(name: &str) -> Arc<Group> {
    let server = ServerName { host: name.into(), port: 80, service: None };
    let member = Member::named(name, server, ServerOptions::default());
    let (method, options) = (BalancingMethod::RoundRobin, GroupOptions::default());
    Arc::new(Group::with("u", (method, Keepalive::DEFAULT, options), vec![member], clock::now()))
}

#[test]
fn names_are_asked_for_until_they_are_known() {
    let pending = Pending::default();
    let (known, unknown) = (group("localhost:81"), group("no-such-host.invalid"));
    for group in [&known, &unknown] {
        assert!(group.view(clock::now()).is_empty());
        pending.add(group, 80);
    }
    let asking = ResolveService { pending: pending.clone(), log: ErrorLog::default() };
    assert_eq!(asking.step(), RETRY);
    assert!(unknown.view(clock::now()).is_empty());
    let texts: Vec<_> =
        known.view(clock::now()).iter().map(|slot| slot.peer.text.to_string()).collect();
    assert!(texts.iter().any(|text| text.ends_with(":81")), "{texts:?}");
    assert!(known.choose(&mut Default::default(), tidegate_rt::clock::now()).is_some());
    assert_eq!(pending.lock().len(), 1, "what is known is not asked for again");
    pending.lock().clear();
    assert_eq!(asking.step(), PAUSE);
}
