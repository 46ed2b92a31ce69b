//! Name servers that fail, send wrong answers, loop or send long answers.

use std::cell::Cell;
use std::net::Ipv4Addr;
use std::rc::Rc;

use tidegate_rt::net::{ListenOptions, Listener};
use tidegate_rt::spawn_local;

use super::*;
use crate::resolve::{OUTCOMES, QUESTIONS};

const A: u16 = 1;
const CNAME: u16 = 5;
const AAAA: u16 = 28;
const SRV: u16 = 33;
const CUT: u16 = 0x8380;
const GOOD: u16 = 0x8180;

/// A name server's answer to a question (name and kind): flags and records.
type AnswerFunction = fn(&str, u16) -> (u16, Vec<(u16, Vec<u8>)>);

fn name_bytes(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in name.split('.') {
        bytes.push(label.len() as u8);
        bytes.extend_from_slice(label.as_bytes());
    }
    bytes.push(0);
    bytes
}

fn reply(question: &[u8], answers: AnswerFunction) -> Vec<u8> {
    let (mut name, mut at) = (String::new(), 12);
    while question[at] > 0 {
        let length = usize::from(question[at]);
        if !name.is_empty() {
            name.push('.');
        }
        name.push_str(&String::from_utf8_lossy(&question[at + 1..=at + length]));
        at += length + 1;
    }
    let kind = u16::from_be_bytes([question[at + 1], question[at + 2]]);
    let (flags, records) = answers(&name, kind);
    let mut bytes = question.to_vec();
    bytes[2..4].copy_from_slice(&flags.to_be_bytes());
    bytes[6..8].copy_from_slice(&(records.len() as u16).to_be_bytes());
    for (kind, data) in records {
        bytes.extend_from_slice(&[0xc0, 12]);
        bytes.extend_from_slice(&kind.to_be_bytes());
        bytes.extend_from_slice(&[0, 1, 0, 0, 0, 60]);
        bytes.extend_from_slice(&(data.len() as u16).to_be_bytes());
        bytes.extend_from_slice(&data);
    }
    bytes
}

/// Runs a name server with these answers, which counts the queries.
async fn serve(socket: Datagram, answers: AnswerFunction, count: Rc<Cell<u32>>) {
    let mut buffer = vec![0; 512];
    while let Ok((length, from)) = socket.receive_from(&mut buffer).await {
        count.set(count.get() + 1);
        let answer = reply(&buffer[..length], answers);
        // Answers that another host might have forged: another id, then another question.
        let mut foreign = answer.clone();
        foreign[0] ^= 1;
        let _ = socket.send(&foreign, from.as_ref()).await;
        let mut other = answer.clone();
        other[13] ^= 1;
        let _ = socket.send(&other, from.as_ref()).await;
        let _ = socket.send(&answer, from.as_ref()).await;
    }
}

/// Resolves `a.example` at a server with these answers; returns the result and the number of queries.
fn ask(
    answers: AnswerFunction,
    over_tcp: AnswerFunction,
    words: &[&str],
) -> (Result<usize, ResolveError>, u32) {
    let asked = Rc::new(Cell::new(0));
    let count = asked.clone();
    let found = tidegate_rt::block_on(async {
        let any = Addr::Inet(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        // A port that is free for both.
        let (listener, socket) = loop {
            let listener = Listener::bind(&any, &ListenOptions::default()).expect("a port");
            let address = listener.local_addr().expect("an address");
            if let Ok(socket) = Datagram::bind(&address, &ListenOptions::default()) {
                break (listener, socket);
            }
        };
        let address = listener.local_addr().expect("an address");
        spawn_local(serve(socket, answers, count));
        spawn_local(async move {
            while let Ok(stream) = listener.accept().await {
                let mut question = Vec::with_capacity(512);
                let _ = stream.read_append(&mut question).await;
                let answer = reply(&question[2..], over_tcp);
                let _ = stream.write_all(&(answer.len() as u16).to_be_bytes()).await;
                let _ = stream.write_all(&answer).await;
            }
        });
        let Addr::Inet(address) = address else { unreachable!("it is bound to one") };
        let words: Vec<String> =
            [address.to_string()].into_iter().chain(words.iter().map(|w| (*w).into())).collect();
        let resolver = Resolver::parse(&words, Duration::from_secs(20), |_| unreachable!())
            .expect("a resolver");
        resolver.look_up("a.example").await.map(|(addresses, _)| addresses.len())
    });
    (found.expect("a loop"), asked.get())
}

fn nothing(_: &str, _: u16) -> (u16, Vec<(u16, Vec<u8>)>) {
    (GOOD, Vec::new())
}

#[test]
fn servers_that_fail() {
    let (found, _) = ask(|_, _| (0x8182, Vec::new()), nothing, &["ipv6=off"]);
    assert_eq!(found, Err(ResolveError::FAILED));
    let (found, _) = ask(|_, _| (0x8183, Vec::new()), nothing, &[]);
    assert!(found.is_err_and(ResolveError::is_not_found));
    let (found, _) = ask(nothing, nothing, &[]);
    assert!(found.is_err_and(ResolveError::is_not_found), "a name without addresses");
}

#[test]
fn questions_are_counted_in_their_zone() {
    let zone = ["ipv6=off", "status_zone=counted"];
    let _ = ask(|_, _| (GOOD, vec![(1, vec![192, 0, 2, 1])]), nothing, &zone);
    let _ = ask(nothing, nothing, &zone);
    let _ = ask(|_, _| (0x8185, Vec::new()), nothing, &zone);
    let totals = ResolverZone::named("counted").tally.totals();
    let (questions, outcomes) = totals.split_at(QUESTIONS.len());
    assert_eq!(questions, [3, 0, 0]);
    let (outcomes, sent) = outcomes.split_at(OUTCOMES.len());
    assert_eq!(outcomes, [1, 0, 0, 1, 0, 1, 0, 0], "found, not found, refused");
    assert_eq!(sent, [3, 0, 0, 0], "`ipv6=off`");
    let resolver = |word: &str| {
        let words = ["127.0.0.1".to_owned(), word.to_owned()];
        Resolver::parse(&words, Duration::from_secs(1), |_| unreachable!())
    };
    assert!(resolver("status_zone=z").is_ok_and(|resolver| resolver.zone.is_some()));
    assert!(resolver("status_zone=").is_err());
}

#[test]
fn answers_of_both_families_are_merged() {
    type FamilyResult = Result<(&'static [&'static str], Option<&'static str>), ResolveError>;
    let check = |four: FamilyResult, six: FamilyResult, expected: FamilyResult| {
        let answer = |said: FamilyResult| {
            said.map(|(addresses, alias)| dns::DnsAnswer {
                addresses: addresses.iter().map(|text| text.parse().expect("one")).collect(),
                alias: alias.map(str::to_owned),
                ..dns::DnsAnswer::default()
            })
        };
        assert_eq!(of_both(answer(four), answer(six)), answer(expected), "{four:?} {six:?}");
    };
    let failed = Err(ResolveError::FAILED);
    let (one, six): (FamilyResult, FamilyResult) =
        (Ok((&["10.0.0.1"], None)), Ok((&["::1"], None)));
    let (b, c): (FamilyResult, FamilyResult) =
        (Ok((&[], Some("b.example"))), Ok((&[], Some("c.example"))));
    let empty: FamilyResult = Ok((&[], None));
    check(one, six, Ok((&["10.0.0.1", "::1"], None)));
    check(one, failed, one);
    check(failed, six, failed);
    check(empty, failed, failed);
    check(failed, Err(ResolveError::NOT_FOUND), Err(ResolveError::NOT_FOUND));
    check(b, failed, b);
    check(b, empty, b);
    check(empty, c, c);
    check(b, c, c);
}

#[test]
fn servers_rotate_by_name_and_not_by_family() {
    let asked = tidegate_rt::block_on(async {
        let (mut words, mut counts) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            let any = Addr::Inet(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
            let socket = Datagram::bind(&any, &ListenOptions::default()).expect("a port");
            let Ok(Addr::Inet(address)) = socket.local_addr() else { unreachable!("it is bound") };
            let count = Rc::new(Cell::new(0));
            spawn_local(serve(socket, nothing, count.clone()));
            words.push(address.to_string());
            counts.push(count);
        }
        let resolver = Resolver::parse(&words, Duration::from_secs(20), |_| unreachable!())
            .expect("a resolver");
        let mut asked = Vec::new();
        for name in ["a.example", "b.example", "c.example"] {
            let _ = resolver.look_up(name).await;
            asked.push(counts.iter().map(|count| count.get()).collect::<Vec<_>>());
        }
        asked
    });
    assert_eq!(asked.expect("a loop"), [[2, 0], [2, 2], [4, 2]]);
}

/// As nginx queries: a server that counts its failures by query has the same ones.
#[test]
fn ipv4_is_asked_for_first() {
    let kinds = tidegate_rt::block_on(async {
        let any = Addr::Inet(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let socket = Datagram::bind(&any, &ListenOptions::default()).expect("a port");
        let Ok(Addr::Inet(address)) = socket.local_addr() else { unreachable!("it is bound") };
        let words = [address.to_string()];
        let resolver = Resolver::parse(&words, Duration::from_secs(20), |_| unreachable!())
            .expect("a resolver");
        spawn_local(async move { resolver.look_up("a.example").await });
        let mut kinds = Vec::new();
        let mut buffer = [0; 512];
        for _ in 0..2 {
            let (length, _) = socket.receive_from(&mut buffer).await.expect("a question");
            kinds.push(u16::from_be_bytes([buffer[length - 4], buffer[length - 3]]));
        }
        kinds
    });
    assert_eq!(kinds.expect("a loop"), [A, AAAA]);
}

#[test]
fn a_thousand_addresses() {
    let many = |_: &str, _: u16| {
        let address = |number: u16| (A, [[10, 0], number.to_be_bytes()].concat());
        (GOOD, (0..1000).map(address).collect())
    };
    let (found, _) = ask(|_, _| (CUT, Vec::new()), many, &["ipv6=off"]);
    assert_eq!(found, Ok(1000));
}

#[test]
fn aliases_are_followed_in_both_families_and_not_for_ever() {
    let looped = |name: &str, _: u16| {
        let next = if name == "a.example" { "b.example" } else { "a.example" };
        (GOOD, vec![(CNAME, name_bytes(next))])
    };
    let (found, questions) = ask(looped, nothing, &[]);
    assert!(found.is_err_and(ResolveError::is_not_found));
    assert_eq!(questions, 2 * ALIASES_MAX as u32);
    let one_sided = |name: &str, kind: u16| match (name, kind) {
        ("a.example", AAAA) => (GOOD, vec![(CNAME, name_bytes("b.example"))]),
        ("b.example", A) => (GOOD, vec![(A, vec![10, 0, 0, 1])]),
        _ => (GOOD, Vec::new()),
    };
    assert_eq!(ask(one_sided, nothing, &[]).0, Ok(1));
}

#[test]
fn servers_that_are_silent() {
    let found = tidegate_rt::block_on(async {
        let any = Addr::Inet(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let silent = Datagram::bind(&any, &ListenOptions::default()).expect("a port");
        let Ok(Addr::Inet(address)) = silent.local_addr() else { unreachable!("it is bound") };
        let words = [address.to_string()];
        let resolver = Resolver::parse(&words, Duration::from_millis(1), |_| unreachable!())
            .expect("a resolver");
        resolver.look_up("a.example").await
    });
    assert!(found.expect("a loop").is_err_and(ResolveError::is_timeout));
}

#[test]
fn a_name_is_asked_for_once_however_many_wait_for_it() {
    for (answers, ends_well) in
        [(here as AnswerFunction, true), (|_, _| (0x8183, Vec::new()), false)]
    {
        let asked = Rc::new(Cell::new(0));
        let count = asked.clone();
        let (well, ill) = tidegate_rt::block_on(async {
            let any = Addr::Inet(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
            let socket = Datagram::bind(&any, &ListenOptions::default()).expect("a port");
            let Ok(Addr::Inet(address)) = socket.local_addr() else { unreachable!("it is bound") };
            let words = [address.to_string()];
            let resolver = Resolver::parse(&words, Duration::from_secs(20), |_| unreachable!())
                .expect("a resolver");
            // The first one is dropped before there is an answer.
            let mut first = Box::pin(resolver.resolve("A.example", clock::now()));
            std::future::poll_fn(|context| {
                assert!(first.as_mut().poll(context).is_pending());
                std::task::Poll::Ready(())
            })
            .await;
            let others = (0..100).map(|_| {
                let resolver = resolver.clone();
                spawn_local(async move { resolver.resolve("a.example", clock::now()).await })
            });
            let others: Vec<_> = others.collect();
            drop(first);
            spawn_local(serve(socket, answers, count));
            let (mut well, mut ill) = (0, 0);
            for other in others {
                match other.await.expect("a task") {
                    Ok(_) => well += 1,
                    Err(_) => ill += 1,
                }
            }
            (well, ill)
        })
        .expect("a loop");
        assert_eq!((well, ill), if ends_well { (100, 0) } else { (0, 100) });
        assert_eq!(asked.get(), 2, "one for each family");
    }
}

#[test]
fn a_service_is_asked_for_once_however_many_wait_for_it() {
    let asked = Rc::new(Cell::new(0));
    let count = asked.clone();
    let found = tidegate_rt::block_on(async {
        let any = Addr::Inet(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let socket = Datagram::bind(&any, &ListenOptions::default()).expect("a port");
        let Ok(Addr::Inet(address)) = socket.local_addr() else { unreachable!("it is bound") };
        let words = [address.to_string()];
        let resolver = Resolver::parse(&words, Duration::from_secs(20), |_| unreachable!())
            .expect("a resolver");
        let all = ["_http._tcp.example", "_HTTP._tcp.example"].into_iter().cycle().take(100).map(
            |name| {
                let resolver = resolver.clone();
                spawn_local(async move { resolver.services(name).await })
            },
        );
        let all: Vec<_> = all.collect();
        tidegate_rt::yield_now().await;
        spawn_local(serve(socket, service, count));
        let mut found = 0;
        for one in all {
            let (services, _) = one.await.expect("a task").expect("an answer");
            found += services.len();
        }
        found
    });
    assert_eq!((found.expect("a loop"), asked.get()), (100, 1));
}

fn service(_: &str, _: u16) -> (u16, Vec<(u16, Vec<u8>)>) {
    let place = [&[0, 1, 0, 1, 0, 80][..], &name_bytes("a.example")].concat();
    (GOOD, vec![(SRV, place)])
}

fn here(_: &str, kind: u16) -> (u16, Vec<(u16, Vec<u8>)>) {
    (GOOD, if kind == A { vec![(A, vec![10, 0, 0, 1])] } else { Vec::new() })
}

#[test]
fn errors_in_the_directive_are_in_nginx_words() {
    let check = |words: &[&str], expected: &str| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let unknown = |_: &str| Err(io::ErrorKind::NotFound.into());
        let error = Resolver::parse(&words, Duration::from_secs(1), unknown).err();
        assert_eq!(error.map(|error| error.to_string()).as_deref(), Some(expected), "{words:?}");
    };
    check(&["127.0.0.1", "valid=soon"], "invalid parameter: valid=soon");
    check(&["127.0.0.1", "ipv6=no"], "invalid parameter: ipv6=no");
    check(&["127.0.0.1:0"], "invalid port in resolver \"127.0.0.1:0\"");
    check(&["ns.example"], "host not found in resolver \"ns.example\"");
    let neither = "\"ipv4\" and \"ipv6\" cannot both be \"off\"";
    check(&["127.0.0.1", "ipv4=off", "ipv6=off"], neither);
    check(&["valid=1s"], "no name servers defined");
}

#[test]
fn refusals_have_the_texts_of_rfc_1035() {
    let texts = [1, 2, 3, 4, 5, 6].map(|code| ResolveError::refused(code).to_string());
    let expected = [
        "1: Format error",
        "2: Server failure",
        "3: Host not found",
        "4: Unimplemented",
        "5: Operation refused",
        "6: Unknown error",
    ];
    assert_eq!(texts, expected);
}
