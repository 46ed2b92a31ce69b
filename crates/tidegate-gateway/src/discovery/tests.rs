//! Responses of engines, in each form and in wrong ones; empty ones; and the servers of groups.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tidegate_rt::clock;
use tidegate_upstream::{BalancingMethod, Group, GroupOptions, Keepalive, Member, ServerOptions};

use super::consul::{self, Cursor, Kind};
use super::empty::EmptyRule;
use super::endpoint::{self, Endpoint};
use super::login::Login;
use super::{etcd, kept, members};

fn pair(key: &str, value: &str) -> String {
    let value = endpoint::encoded(value.as_bytes());
    format!("{{\"Key\":\"{key}\",\"Value\":\"{value}\",\"ModifyIndex\":7}}")
}

fn of_keys(pairs: &[(&str, &str)]) -> Result<Vec<Endpoint>, String> {
    let pairs: Vec<String> = pairs.iter().map(|(key, value)| pair(key, value)).collect();
    consul::endpoints(Kind::Keys, "upstreams/u/", format!("[{}]", pairs.join(",")).as_bytes())
}

fn options(value: &str) -> Result<ServerOptions, String> {
    endpoint::options(value.as_bytes())
}

#[test]
fn a_value_has_the_defaults_of_the_module() {
    let plain = options("").expect("no value");
    assert_eq!((plain.weight, plain.max_fails, plain.fail_timeout.as_secs()), (1, 2, 10));
    assert!(!plain.down && !plain.backup);
    assert_eq!(options(" {} \n"), Ok(plain));
    let full = options(
        "{\"weight\":5,\"max_fails\":\"0\",\"fail_timeout\":\"7s\",\"down\":1,\"backup\":true,\
         \"max_conns\":9,\"slow_start\":30,\"comment\":[1]}",
    );
    let full = full.expect("valid");
    assert_eq!((full.weight, full.max_fails, full.max_conns), (5, 0, 9));
    assert_eq!((full.fail_timeout.as_secs(), full.slow_start.as_secs()), (7, 30));
    assert!(full.down && full.backup);
}

#[test]
fn an_invalid_value_is_refused() {
    for value in [
        "x",
        "[]",
        "1",
        "null",
        "{\"weight\":0}",
        "{\"weight\":-1}",
        "{\"weight\":1.5}",
        "{\"weight\":4294967296}",
        "{\"weight\":null}",
        "{\"fail_timeout\":\"soon\"}",
        "{\"down\":2}",
        "{\"backup\":\"yes\"}",
        "{\"weight\":1",
        "<a/>",
    ] {
        assert!(options(value).is_err(), "{value}");
    }
}

#[test]
fn keys_of_consul_are_servers() {
    let all = of_keys(&[
        ("upstreams/u/", ""),
        ("upstreams/u/10.0.0.1:80", "{\"weight\":3}"),
        ("upstreams/u/[::1]:81", ""),
        ("upstreams/u/notes/10.0.0.9:80", ""),
        ("upstreams/u2/10.0.0.2:80", "garbage of others"),
    ]);
    let foreign = b"[{\"Key\":\"upstreams/u2/x\",\"Value\":\"no base64\"}]";
    assert_eq!(consul::endpoints(Kind::Keys, "upstreams/u/", foreign), Ok(Vec::new()));
    let all = all.expect("valid");
    let servers: Vec<&str> = all.iter().map(|one| one.server.as_str()).collect();
    assert_eq!(servers, ["10.0.0.1:80", "[::1]:81"]);
    assert_eq!(all[0].options.weight, 3);
    let empty =
        consul::endpoints(Kind::Keys, "u/", b"[{\"Key\":\"u/10.0.0.1:80\",\"Value\":null}]");
    assert_eq!(empty.expect("no value").len(), 1);
    assert!(of_keys(&[("upstreams/u/10.0.0.1:80", "{\"down\":9}")]).is_err());
}

#[test]
fn keys_are_read_however_they_are_written() {
    let server = |body: &str| {
        let all = consul::endpoints(Kind::Keys, "u/", body.as_bytes())?;
        Ok::<_, String>(all.into_iter().map(|one| one.server).collect::<Vec<_>>())
    };
    // A letter by its number, other fields of all kinds, another order, a name by its letters' numbers.
    for entry in [
        r#"{"Key":"u\/a\u003a1","Value":null}"#,
        r#"{"Flags":0,"x":[1,{"Key":"u/b:1"}],"y":{"Key":[]},"z":-1.5,"Value":"","Key":"u/a:1"}"#,
        r#"{"\u004bey":"u/a:1","t":true}"#,
        r#"{"Key":"u/b:1","Key":"u/a:1"}"#,
    ] {
        assert_eq!(server(&format!("[{entry}]")), Ok(vec!["a:1".to_owned()]), "{entry}");
    }
    assert_eq!(server("null"), Ok(Vec::new()));
    for body in
        ["[{\"Key\":\"u/a:1\"}", "[{\"Key\":\"u/a:1\"}] x", "[{\"Key\":\"u/a:1\"},]", "[{}]"]
    {
        assert!(server(body).is_err(), "{body}");
    }
    let many = format!("[{}]", vec!["{\"Key\":\"u/a:1\"}"; 65_537].join(","));
    assert_eq!(server(&many), Err("more than 65536 servers".to_owned()));
}

#[test]
fn what_is_no_response_is_refused_as_a_whole() {
    let table: [&[u8]; 7] = [
        b"",
        b"{}",
        b"<html/>",
        b"[1]",
        b"[{\"Key\":\"upstreams/u/a:1\",\"Value\":1}]",
        b"[{\"Key\":\"upstreams/u/a:1\",\"Value\":\"***\"}]",
        b"[{\"Key\":7}]",
    ];
    for body in table {
        let read = consul::endpoints(Kind::Keys, "upstreams/u/", body);
        assert!(read.is_err(), "{}", String::from_utf8_lossy(body));
    }
    assert_eq!(consul::endpoints(Kind::Health, "", b"null"), Ok(Vec::new()));
    let deep = [b"[".repeat(100_000), b"]".repeat(100_000)].concat();
    assert!(consul::endpoints(Kind::Keys, "u/", &deep).is_err());
    let many =
        format!("[{}]", vec!["{\"ServiceAddress\":\"a\",\"ServicePort\":1}"; 65_537].join(","));
    let many = consul::endpoints(Kind::Catalog, "", many.as_bytes());
    assert_eq!(many, Err("more than 65536 servers".to_owned()));
}

#[test]
fn an_instance_beside_its_successor_is_one_server() {
    let instance = |status: &str, weight: u32| {
        format!(
            r#"{{"Node":{{"Address":"10.0.0.1"}},"Service":{{"Port":80,"Weights":{{"Passing":{weight}}}}},"Checks":[{{"Status":"{status}"}}]}}"#
        )
    };
    for (first, second) in [("critical", "passing"), ("passing", "critical")] {
        let other = instance("passing", 9).replace("10.0.0.1", "10.0.0.2");
        let body = format!("[{},{other},{}]", instance(first, 1), instance(second, 2));
        let all = consul::endpoints(Kind::Health, "", body.as_bytes()).expect("valid");
        let servers: Vec<_> = all.iter().map(|it| (&*it.server, it.options.down)).collect();
        assert_eq!(servers, [("10.0.0.1:80", false), ("10.0.0.2:80", false)], "{first}");
    }
}

#[test]
fn instances_of_the_catalog_are_servers() {
    let body = br#"[{"Address":"10.0.0.7","ServiceAddress":"10.1.0.1","ServicePort":8080,
        "ServiceWeights":{"Passing":4,"Warning":1}},
        {"Address":"fe80::1","ServiceAddress":"","ServicePort":8081}]"#;
    let all = consul::endpoints(Kind::Catalog, "", body).expect("valid");
    let shown: Vec<_> = all.iter().map(|one| (one.server.as_str(), one.options.weight)).collect();
    assert_eq!(shown, [("10.1.0.1:8080", 4), ("[fe80::1]:8081", 1)]);
    for body in [
        &br#"[{"ServicePort":1}]"#[..],
        br#"[{"Address":"a","ServicePort":0}]"#,
        br#"[{"Address":"a","ServicePort":65536}]"#,
        br#"[{"Address":"a"}]"#,
    ] {
        assert!(consul::endpoints(Kind::Catalog, "", body).is_err());
    }
}

#[test]
fn failing_checks_take_a_server_out() {
    let body = br#"[
        {"Node":{"Address":"10.0.0.1"},"Service":{"Address":"","Port":80},
         "Checks":[{"Status":"passing"},{"Status":"passing"}]},
        {"Node":{"Address":"10.0.0.2"},"Service":{"Address":"10.9.0.2","Port":80},
         "Checks":[{"Status":"passing"},{"Status":"critical"}]},
        {"Node":{"Address":"10.0.0.3"},
         "Service":{"Address":"","Port":80,"Weights":{"Passing":10,"Warning":2}},
         "Checks":[{"Status":"warning"}]}]"#;
    let all = consul::endpoints(Kind::Health, "", body).expect("valid");
    let shown: Vec<_> =
        all.iter().map(|one| (one.server.as_str(), one.options.weight, one.options.down)).collect();
    let expected = [("10.0.0.1:80", 1, false), ("10.9.0.2:80", 1, true), ("10.0.0.3:80", 2, false)];
    assert_eq!(shown, expected);
}

#[test]
fn an_index_leads_the_next_question() {
    let wait = Duration::from_secs(300);
    let mut cursor = Cursor::default();
    assert_eq!(cursor.target(Kind::Keys, "/v1/kv/u/", wait), "/v1/kv/u/?recurse");
    assert_eq!(
        cursor.target(Kind::Health, "/v1/health/service/u?passing", wait),
        "/v1/health/service/u?passing"
    );
    assert!(cursor.advance(Some(7), Duration::ZERO));
    let expected = "/v1/kv/u/?dc=b&recurse&index=7&wait=300000ms";
    assert_eq!(cursor.target(Kind::Keys, "/v1/kv/u/?dc=b", wait), expected);
    // The same one, held for a while, and at once: such an engine does not hold responses.
    assert!(cursor.advance(Some(7), Duration::from_secs(10)));
    assert!(!cursor.advance(Some(7), Duration::ZERO));
    // One that goes back, and none.
    assert!(cursor.advance(Some(3), Duration::ZERO));
    assert_eq!(cursor.index, None);
    assert!(!cursor.advance(Some(0), Duration::ZERO));
    assert!(!cursor.advance(None, Duration::ZERO));
    assert_eq!(cursor.index, None);
}

#[test]
fn an_engine_gets_less_time_than_the_request() {
    for (timeout, wait) in [(360, 300), (6000, 300), (6, 5)] {
        assert_eq!(consul::wait(Duration::from_secs(timeout)), Duration::from_secs(wait));
    }
}

#[test]
fn paths_of_version_two_are_prefixes_of_version_three() {
    for (path, prefix) in [
        ("/v2/keys/upstreams/test", Some("/upstreams/test/")),
        ("/v2/keys/upstreams/test/", Some("/upstreams/test/")),
        ("/v3/kv/a", Some("/a/")),
        ("/v1/kv/a/b", Some("/a/b/")),
        ("/v2/keysx", None),
        ("/v1/catalog/service/a", None),
    ] {
        assert_eq!(etcd::prefix(path).as_deref(), prefix, "{path}");
    }
    let end = endpoint::encoded(b"/a0");
    assert!(etcd::range_request("/a/").contains(&format!("\"range_end\":\"{end}\"")));
}

#[test]
fn keys_of_etcd_are_servers() {
    let entry = |key: &str, value: &str| {
        let (key, value) = (endpoint::encoded(key.as_bytes()), endpoint::encoded(value.as_bytes()));
        format!("{{\"key\":\"{key}\",\"value\":\"{value}\",\"mod_revision\":\"4\"}}")
    };
    let body = format!(
        "{{\"header\":{{\"revision\":\"12\"}},\"kvs\":[{},{}],\"count\":\"2\"}}",
        entry("/u/10.0.0.1:80", "{\"weight\":2}"),
        entry("/u/10.0.0.2:80", "")
    );
    let (revision, all) = etcd::range("/u/", body.as_bytes()).expect("valid");
    assert_eq!((revision, all.len(), all[0].options.weight), (12, 2, 2));
    let none = etcd::range("/u/", b"{\"header\":{\"revision\":\"3\"}}");
    assert_eq!(none, Ok((3, Vec::new())));
    for body in [
        &b"{}"[..],
        b"[]",
        b"x",
        b"{\"header\":{\"revision\":\"3\"},\"kvs\":{}}",
        b"{\"header\":{\"revision\":\"3\"},\"kvs\":[{}]}",
        b"{\"header\":{\"revision\":\"3\"},\"kvs\":[{\"key\":\"*\"}]}",
    ] {
        assert!(etcd::range("/u/", body).is_err(), "{}", String::from_utf8_lossy(body));
    }
}

#[test]
fn lines_of_a_watch() {
    for (line, expected) in [
        ("{\"result\":{\"created\":true}}", Some(false)),
        ("{\"result\":{\"events\":[]}}", Some(false)),
        ("{\"result\":{\"events\":[{\"kv\":{}}]}}", Some(true)),
        ("{\"result\":{\"canceled\":true,\"compact_revision\":\"9\"}}", Some(true)),
        ("{\"error\":{\"grpc_code\":16,\"message\":\"who?\"}}", None),
        ("{\"result\":7}", None),
        ("{}", None),
        ("x", None),
    ] {
        assert_eq!(etcd::event(line.as_bytes()).ok(), expected, "{line}");
    }
}

#[test]
fn nothing_is_believed_after_a_while() {
    let (mut rule, start) = (EmptyRule::new(Duration::from_secs(30)), clock::now());
    let at = |seconds: u64| start + Duration::from_secs(seconds);
    assert_eq!(rule.left(at(0)), None);
    assert!(rule.accepts(false, at(0)));
    assert!(!rule.accepts(true, at(1)));
    assert_eq!(rule.left(at(11)), Some(Duration::from_secs(20)));
    assert!(!rule.accepts(true, at(30)));
    assert!(rule.accepts(false, at(31)), "a server in between begins anew");
    assert!(!rule.accepts(true, at(32)));
    assert_eq!(rule.left(at(70)), Some(Duration::ZERO), "it is to be asked for once more");
    assert!(rule.accepts(true, at(62)));
    assert_eq!(rule.left(at(62)), None);
    assert!(rule.accepts(true, at(63)));
    assert!(EmptyRule::new(Duration::ZERO).accepts(true, at(0)));
}

#[test]
fn a_failure_begins_the_time_of_nothing_anew() {
    let (mut rule, start) = (EmptyRule::new(Duration::from_secs(30)), clock::now());
    let at = |seconds: u64| start + Duration::from_secs(seconds);
    assert!(!rule.accepts(true, at(0)));
    rule.interrupt();
    assert_eq!(rule.left(at(1)), None);
    assert!(!rule.accepts(true, at(100)), "the engine was away, and has lost its data");
    assert_eq!(rule.left(at(101)), Some(Duration::from_secs(29)));
    assert!(rule.accepts(true, at(130)));
    rule.interrupt();
    assert!(rule.accepts(true, at(131)), "what was believed stays so");
}

fn group(method: BalancingMethod, servers: &[&str]) -> Arc<Group> {
    let members = servers.iter().map(|server| {
        let address = server.parse::<std::net::SocketAddr>().expect("an address");
        Member::fixed(server, vec![address.into()], ServerOptions::default())
    });
    let options = GroupOptions::default();
    let manner = (method, Keepalive::DEFAULT, options);
    Arc::new(Group::with("u", manner, members.collect(), clock::now()))
}

fn endpoints(servers: &[&str]) -> Vec<Endpoint> {
    let one =
        |server: &&str| Endpoint { server: (*server).to_owned(), options: endpoint::defaults() };
    servers.iter().map(one).collect()
}

#[test]
fn servers_that_cannot_be_used_refuse_the_whole_response() {
    let own = group(BalancingMethod::RoundRobin, &["10.0.0.1:80"]);
    for servers in [
        &["10.0.0.1:80", "10.0.0.1:80"][..],
        &["10.0.0.1"],
        &["a.example:80"],
        &["unix:/x"],
        &["10.0.0.1:0"],
        &["10.0.0.1:80:90"],
        &[":80"],
        &["[::1:80"],
        &["10.0.0.1:99999"],
        &["a b.test:80"],
        &["a;}.test:80"],
        &["a\n.test:80"],
    ] {
        assert!(members::members(endpoints(servers), &own).is_err(), "{servers:?}");
    }
    let mut backup = endpoints(&["10.0.0.1:80"]);
    backup[0].options.backup = true;
    assert!(members::members(backup.clone(), &own).is_ok());
    let by_hash = group(BalancingMethod::IpHash, &["10.0.0.1:80"]);
    assert!(members::members(backup, &by_hash).is_err());
    let mut heavy = endpoints(&["10.0.0.1:80", "10.0.0.2:80"]);
    heavy[0].options.weight = endpoint::WEIGHT_MAX;
    assert!(members::members(heavy.clone(), &own).is_ok());
    heavy[1].options.weight = 2;
    let ring = group(BalancingMethod::HashConsistent, &["10.0.0.1:80"]);
    assert!(members::members(heavy.clone(), &ring).is_err());
    heavy[0].options.weight = endpoint::WEIGHT_MAX + 1;
    assert!(members::members(heavy, &own).is_err());
}

#[test]
fn a_server_that_a_command_drains_remains_drained() {
    let own = group(BalancingMethod::RoundRobin, &["10.0.0.1:80", "10.0.0.2:80"]);
    own.change_members(clock::now(), |members| members[0].options.drain = true);
    let wanted = members::members(endpoints(&["10.0.0.3:80", "10.0.0.1:80"]), &own);
    members::replace(&own, &wanted.expect("valid"), clock::now());
    let drained: Vec<bool> = own.members().iter().map(|member| member.options.drain).collect();
    assert_eq!(drained, [false, true]);
}

#[test]
fn servers_that_remain_keep_their_numbers() {
    let own = group(BalancingMethod::RoundRobin, &["10.0.0.1:80", "10.0.0.2:80"]);
    let now = clock::now();
    let numbers = || -> Vec<(String, u32)> {
        own.view(now).iter().map(|slot| (slot.peer.server.to_string(), slot.number)).collect()
    };
    let before = numbers();
    let wanted = members::members(endpoints(&["10.0.0.3:80", "10.0.0.2:80"]), &own);
    let wanted = wanted.expect("valid");
    members::replace(&own, &wanted, now);
    let after = numbers();
    assert_eq!(after.len(), 2);
    assert!(after.contains(&before[1]), "{before:?} {after:?}");
    assert!(after.contains(&("10.0.0.3:80".to_owned(), 2)));
    let state = kept::Kept::default();
    let wanted = Arc::new(wanted);
    state.note(wanted.clone(), true);
    state.note(wanted.clone(), false);
    assert_eq!(state.last().as_deref(), Some(&*wanted));
    assert_eq!(
        state.figures(),
        kept::Figures { servers: 2, responses: 2, changes: 1, ..Default::default() }
    );
}

proptest! {
    #[test]
    fn no_response_causes_a_panic(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        super::fuzz_discovery(&body);
    }

    #[test]
    fn what_is_encoded_is_decoded(body in proptest::collection::vec(any::<u8>(), 0..100)) {
        prop_assert_eq!(endpoint::decoded(&endpoint::encoded(&body)), Some(body));
    }
}

#[test]
fn a_login_is_one_line() {
    for (text, reason) in [
        (&b""[..], "it is empty"),
        (b" \n", "it is empty"),
        (b"a\nb", "it has more than one line"),
        (b"\xff", "it is not UTF-8"),
    ] {
        assert_eq!(Login::consul(text).err(), Some(reason));
        assert_eq!(Login::etcd(text).err(), Some(reason));
    }
    let spaces = "a token has no spaces and no letters outside of ASCII";
    assert_eq!(Login::consul(b"a b").err(), Some(spaces));
    for text in ["user", ":password", "user:"] {
        assert_eq!(Login::etcd(text.as_bytes()).err(), Some("expected `USER:PASSWORD`"), "{text}");
    }
    let token = Login::consul(b" t-1\n").expect("a token");
    assert_eq!(token.field(), Some(("X-Consul-Token", "t-1".to_owned())));
    assert_eq!((token.question(), token.refused()), (None, false));
}

#[test]
fn a_login_of_etcd_is_exchanged_for_a_token() {
    let login = Login::etcd(b"root:p\"w:d\n").expect("a login");
    assert_eq!(login.field(), None);
    let question = login.question();
    assert_eq!(question.as_deref(), Some(r#"{"name":"root","password":"p\"w:d"}"#));
    for (status, body, reason) in [
        (400, r#"{"message":"authentication\nfailed"}"#, "HTTP status 400: authenticationfailed"),
        (503, "", "HTTP status 503: no reason"),
        (200, "{}", "no token"),
        (200, r#"{"token":"a\r\nb"}"#, "no token"),
    ] {
        let refused = login.take_over(status, body.as_bytes()).expect_err(reason);
        assert!(refused.ends_with(reason), "{refused}");
    }
    assert_eq!(login.take_over(200, br#"{"token":"t.1"}"#), Ok(()));
    assert_eq!(login.field(), Some(("Authorization", "t.1".to_owned())));
    assert_eq!(login.question(), None);
    // Once: a second refusal is a failure.
    assert!(login.refused() && !login.refused());
    assert_eq!(login.question(), question);
}
