//! Entries, the steps of a server that follows, and a model of servers and an engine with faults.

mod model;

use tidegate_cache::Scope;
use tidegate_store::Value;

use super::entry::{EntryId, Position, PurgeRule, PurgeWhat, entries, fields, read_reply};
use super::follow::{Copy, Own, Question, step};
use super::outbox::Outbox;
use crate::testing::Bench;

pub(super) fn text(text: &str) -> Value {
    Value::Text(text.as_bytes().to_vec())
}

fn entry(id: &str, words: &str) -> Value {
    Value::List(vec![text(id), Value::List(words.split(',').map(text).collect())])
}

fn at(id: u64, token: &str) -> Position {
    Position { id: EntryId { millis: id, number: 0 }, token: token.into() }
}

fn key(name: &str, soft: bool) -> PurgeRule {
    PurgeRule { what: PurgeWhat::Key(name.into()), soft, at: None }
}

#[test]
fn rules_are_read_as_they_were_written() {
    let tag =
        |soft| PurgeRule { what: PurgeWhat::Scope(Scope::Tag((*b"t u").into())), soft, at: None };
    let prefix =
        |soft| PurgeRule { what: PurgeWhat::Scope(Scope::Prefix((*b"").into())), soft, at: None };
    let rules =
        [key("a", false), key("b", true), tag(false), tag(true), prefix(false), prefix(true)];
    let words = [&b"token"[..], b"1", b"before", b"", b"node", b"n"].map(<[u8]>::to_vec);
    let words = words.into_iter().chain(fields(&rules)).map(Value::Text).collect();
    let list = Value::List(vec![Value::List(vec![text("7-1"), Value::List(words)])]);
    let read = entries(&list).unwrap().remove(0).unwrap();
    assert_eq!(read.rules, rules);
    assert_eq!(read.at.text(), b"7-1 1");
    assert_eq!(Position::read(b"7-1 1").as_ref(), Some(&read.at));
    for reply in [vec![text("stream"), list.clone()], vec![Value::List(vec![text("s"), list])]] {
        assert_eq!(read_reply(&Value::List(reply)).unwrap(), [Some(read.clone())]);
    }
    // More than an entry may have is sent as everything.
    let long = [key(&"x".repeat(70_000), false)];
    assert_eq!(fields(&long), [b"stale".to_vec(), Vec::new()]);
}

#[test]
fn what_others_have_written_is_not_an_entry() {
    for words in
        ["", "token,,before,,node,n", "token,1,before,,node,n,key", "before,,token,1,node,n", "a,b"]
    {
        let list = Value::List(vec![entry("1-0", words)]);
        assert_eq!(entries(&list), Some(vec![None]), "{words}");
    }
    for (reply, expected) in [(Value::Null, Some(0)), (Value::Integer(1), None), (text("x"), None)]
    {
        assert_eq!(read_reply(&reply).map(|list| list.len()), expected);
    }
    // A kind of a later version may be about any object.
    let list = Value::List(vec![entry("1-0", "token,1,before,,node,n,later,x,begin,")]);
    assert_eq!(entries(&list).unwrap()[0].as_ref().unwrap().rules, [PurgeRule::everything_stale()]);
    for kept in ["", "7-1", "7-1 ", "7 x", "-1 x", "7-1x y"] {
        assert_eq!(Position::read(kept.as_bytes()), None, "{kept}");
    }
}

#[test]
fn a_gap_is_seen() {
    let own = Own { node: b"me", unseen: &[] };
    let one = entry("1-0", "token,a,before,,node,x,key,one");
    let two = entry("2-0", "token,b,before,a,node,me,key,two");
    let three = entry("3-0", "token,c,before,b,node,x,key-soft,three");
    let verify = |first: &str, list: &[&Value]| {
        let list = Value::List(list.iter().map(|entry| (*entry).clone()).collect());
        let reply = Value::List(vec![text(first), list]);
        step(Question::Verify(at(1, "a")), &reply, own).unwrap()
    };
    // The server's own entry is not applied again.
    let step_on = verify("1-0", &[&one, &two, &three]);
    assert_eq!(
        (step_on.rules, step_on.next),
        (vec![key("three", true)], Copy::Following(at(3, "c")))
    );
    assert!(step_on.current);
    let other = entry("1-0", "token,z,before,,node,x,key,one");
    for (first, list, expected) in [
        ("", &[][..], Copy::Unknown),
        // Trimmed, or written anew.
        ("2-0", &[&two], Copy::Unknown),
        // It ends in front of the entry, or has another one there.
        ("1-0", &[&other], Copy::Older(at(1, "a").id)),
        ("0-1", &[], Copy::Older(at(1, "a").id)),
        // An entry is missing, or written by others.
        ("1-0", &[&one, &three], Copy::Unknown),
    ] {
        assert_eq!(verify(first, list).next, expected, "{first} {list:?}");
    }
    let list = Value::List(vec![text("s"), Value::List(vec![two.clone(), entry("3-0", "a,b")])]);
    let broken = step(Question::Read(at(1, "a")), &list, own).unwrap();
    assert_eq!((broken.next, broken.current), (Copy::Known(at(2, "b")), false));
    // An entry that was accepted from this server, and is not there.
    let lost = [EntryId { millis: 2, number: 5 }];
    let own = Own { unseen: &lost, ..own };
    let list = Value::List(vec![text("s"), Value::List(vec![two, three])]);
    assert_eq!(step(Question::Read(at(1, "a")), &list, own).unwrap().next, Copy::Older(lost[0]));
    let reply = Value::List(vec![text("1-0"), Value::List(vec![one])]);
    assert_eq!(step(Question::Verify(at(1, "a")), &reply, own).unwrap().next, Copy::Older(lost[0]));
    assert!(step(Question::Join, &Value::Integer(1), own).is_err());
}

#[test]
fn too_many_purges_that_wait_are_one_about_everything() {
    let mut outbox = Outbox::default();
    for _ in 0..1024 {
        outbox.keep(vec![key("a", false)]);
    }
    assert_eq!(outbox.len(), 1024);
    outbox.keep(vec![key("b", false)]);
    assert_eq!(outbox.first(), Some(&vec![PurgeRule::everything_stale()]));
    // What was sent meanwhile is another one.
    outbox.sent(&vec![key("a", false)]);
    assert_eq!(outbox.len(), 1);
    outbox.sent(&vec![PurgeRule::everything_stale()]);
    assert_eq!(outbox.len(), 0);
}

#[test]
fn errors() {
    let store = "zone_sync_store redis://h;";
    for (text, expected) in [
        ("purge_sync", "\"sync\" without \"zone_sync_store\""),
        ("purge_sync=", "invalid parameter \"purge_sync=\""),
        ("purge_sync=two", "zone_sync_store \"two\" is missing"),
        ("purge_sync purge_sync", "duplicate parameter \"purge_sync\""),
        ("purge_partition=serve", "\"purge_partition=serve\" without \"purge_sync\""),
        ("purge_sync purge_partition=drop", "invalid parameter \"purge_partition=drop\""),
        ("purge_sync after=2s", "\"after=2s\" without \"purge_partition=revalidate\""),
        ("purge_sync purge_partition=serve after=2s", "\"after=2s\" without"),
        ("purge_sync purge_partition=revalidate after=10ms", "invalid time \"after=10ms\""),
    ] {
        let store = if text == "purge_sync" { "" } else { store };
        let errors = Bench::errors(&format!("{store} proxy_cache_path c keys_zone=z:1m {text};"));
        assert!(
            errors.first().is_some_and(|error| error.starts_with(expected)),
            "{text}: {errors:?}"
        );
    }
}
