//! Servers are found again by their numbers: by commands, after a reload, and on the ring by their names.

use super::*;

fn named(name: &str, addresses: &[&str]) -> Member {
    let host = ServerName { host: name.into(), port: 80, service: None };
    let mut member = Member::named(name, host, weight(1));
    member.places = addresses.iter().map(|text| MemberAddress::of(address(text))).collect();
    member
}

fn fixed(text: &str, options: ServerOptions) -> Member {
    Member::fixed(text, vec![address(text)], options)
}

fn address(text: &str) -> Addr {
    Addr::Inet(text.parse().expect("an address"))
}

fn made(members: Vec<Member>) -> Group {
    let settings = (BalancingMethod::RoundRobin, Keepalive::DEFAULT, GroupOptions::default());
    Group::with("g", settings, members, tidegate_rt::clock::now())
}

fn numbers(group: &Group) -> Vec<u32> {
    let mut numbers: Vec<u32> = group.members().iter().filter_map(|it| it.number).collect();
    let view = group.view(tidegate_rt::clock::now());
    numbers.extend(view.iter().map(|slot| slot.number));
    numbers
}

#[test]
fn a_server_with_a_name_is_changed_and_removed_by_its_number() {
    let now = tidegate_rt::clock::now();
    let group = made(vec![fixed(A, weight(1))]);
    let number = group.add(named("b.test", &[B, C]), now).expect("its number");
    assert!(group.change(number, now, |options| options.down = true));
    let downs: Vec<bool> = group.view(now).iter().map(|slot| slot.options.down).collect();
    assert_eq!(downs, [false, true, true]);
    assert!(group.remove(number, now));
    assert_eq!(group.members(), [fixed(A, weight(1))]);
    assert!(!group.remove(number, now));
}

#[test]
fn of_servers_that_are_written_the_same_each_has_its_number() {
    let now = tidegate_rt::clock::now();
    let group = made(vec![fixed(A, weight(1)), fixed(A, weight(5))]);
    let backup = ServerOptions { backup: true, ..weight(7) };
    let added = group.add(fixed(A, backup.clone()), now).expect("its number");
    let last = group.add(fixed(A, weight(6)), now).expect("its number");
    let find = |number| {
        let view = group.view(now);
        view.iter().find(|slot| slot.number == number).map(|slot| slot.options.weight)
    };
    let all = [find(0), find(1), find(added), find(last)];
    assert_eq!(all, [Some(1), Some(5), Some(7), Some(6)]);
    assert!(group.change(1, now, |options| options.down = true));
    assert_eq!(group.members()[1].options, ServerOptions { down: true, ..weight(5) });
    assert!(group.remove(1, now));
    assert!(group.remove(last, now));
    let left: Vec<u32> = group.members().iter().map(|member| member.options.weight).collect();
    assert_eq!(left, [1, 7]);
}

#[test]
fn names_keep_their_numbers_over_a_reload() {
    let now = tidegate_rt::clock::now();
    let same = || fixed("127.0.0.1:9", weight(1));
    let a = |places: &[&str]| named("a.test", places);
    let before = made(vec![a(&[A, B]), a(&[C]), a(&[]), same(), same()]);
    let known = numbers(&before);
    let mut group = made(vec![
        named("new.test", &[]),
        a(&[]),
        same(),
        a(&[]),
        named("other.test", &[]),
        a(&[]),
        same(),
    ]);
    let of_fixed = |group: &Group| -> Vec<u32> {
        let view = group.view(now);
        let fixed = view.iter().filter(|slot| slot.parent.is_none());
        fixed.map(|slot| slot.number).collect()
    };
    group.inherit(&before, now);
    let members: Vec<Option<u32>> = group.members().iter().map(|member| member.number).collect();
    let kept = [members[1], members[3], members[5]];
    assert_eq!(kept, [Some(known[0]), Some(known[1]), Some(known[2])]);
    assert_eq!(of_fixed(&group), of_fixed(&before));
    let added = group.add(named("last.test", &[]), now).expect("its number");
    let mut all = numbers(&group);
    assert!(all.contains(&added));
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count, "numbers are of one server each");
}

#[test]
fn groups_of_single_requests_take_no_numbers() {
    let now = tidegate_rt::clock::now();
    let before = made(vec![fixed(A, weight(1))]).id;
    for _ in 0..10_000 {
        assert_eq!(Group::transient("t", vec![address(B)], now).id, 0);
    }
    // Other tests make some at the same time.
    assert!(made(vec![fixed(A, weight(1))]).id - before < 10_000);
}

#[test]
fn a_check_has_its_own_result() {
    let now = tidegate_rt::clock::now();
    let group = made(vec![fixed(A, weight(1)), fixed(B, weight(1))]);
    let rule = |name: &str| CheckRule { name: name.into(), mandatory: false, persistent: false };
    let (one, other) = (group.add_check(rule("one"), now), group.add_check(rule("other"), now));
    let peer = group.view(now)[0].peer.clone();
    group.judge(&peer, one, Health::Unhealthy, now);
    let results = [group.check_result(&peer, one), group.check_result(&peer, other)];
    assert_eq!(results, [Health::Unhealthy, Health::Fine]);
}

#[test]
fn names_without_a_port_are_on_the_ring_as_they_are_written() {
    let now = tidegate_rt::clock::now();
    let names = ["127.0.0.11", "127.0.0.12", "127.0.0.13", "[::1]"];
    let member = |name: &&str| {
        let ip = name.trim_matches(['[', ']']).parse().expect("an address");
        Member::fixed(name, vec![Addr::Inet(std::net::SocketAddr::new(ip, 80))], weight(1))
    };
    let method = BalancingMethod::HashConsistent;
    let settings = (method, Keepalive::DEFAULT, GroupOptions::default());
    let group = Group::with("g", settings, names.iter().map(member).collect(), now);
    let group = Arc::new(group);
    let chosen = |number: usize| {
        let mut choice = Choice::by_key(format!("key{number}").into_bytes());
        let lease = group.choose(&mut choice, now).expect("a server");
        names.iter().position(|name| **name == *lease.peer().server).expect("its name").to_string()
    };
    // Those of nginx 1.31.
    assert_eq!((0..24).map(chosen).collect::<String>(), "010302300333231331322230");
}
