//! Labels of containers, lists that are none, and the servers of a group beside its own.

use std::sync::Arc;

use tidegate_rt::clock;
use tidegate_upstream::{BalancingMethod, Group, GroupOptions, Keepalive, Member, ServerOptions};

use super::labels::{self, Found, elements};
use super::task::exchange;

const LABELS: &str = r#""angie.network":"net","angie.http.upstreams.u.port":"80",
    "angie.http.upstreams.u.weight":"2","angie.http.upstreams.u.max_conns":"20",
    "angie.http.upstreams.u.max_fails":"5","angie.http.upstreams.u.fail_timeout":"7s",
    "angie.http.upstreams.u.slow_start":"3s","angie.http.upstreams.u.backup":"true",
    "angie.http.upstreams.u.sid":"one","angie.http.upstreams.w.x.port":"81",
    "angie.stream.upstreams.u.port":"82","angie.http.upstreams.u.later":"?""#;

fn container(state: &str, labels: &str) -> String {
    format!(
        r#"{{"Id":"abc","Names":["/web-1"],"State":"{state}","Labels":{{{labels}}},"NetworkSettings":
        {{"Networks":{{"first":{{"IPAddress":""}},"net":{{"IPAddress":"172.18.0.2"}},
        "six":{{"IPAddress":"","GlobalIPv6Address":"fd00::2"}}}}}}}}"#
    )
}

fn read(containers: &[String]) -> Found {
    let list = format!("[{}]", containers.join(",\n"));
    labels::servers("http", list.as_bytes(), 4096).expect("a list")
}

fn servers(found: &Found, group: &str) -> Vec<String> {
    found.groups.get(group).into_iter().flatten().map(|one| one.server.clone()).collect()
}

#[test]
fn labels_make_a_container_a_server() {
    let found = read(&[container("running", LABELS)]);
    assert_eq!(found.problems, Vec::<String>::new());
    assert_eq!(servers(&found, "u"), ["172.18.0.2:80"]);
    assert_eq!(servers(&found, "w.x"), ["172.18.0.2:81"], "names of groups may have dots");
    let options = &found.groups["u"][0].options;
    assert_eq!((options.weight, options.max_conns, options.max_fails), (2, 20, 5));
    assert_eq!((options.fail_timeout.as_secs(), options.slow_start.as_secs()), (7, 3));
    assert_eq!(
        (options.route.as_deref(), options.backup, options.down),
        (Some("one"), true, false)
    );
    let list = format!("[{}]", container("running", LABELS));
    let stream = labels::servers("stream", list.as_bytes(), 4096).expect("a list");
    assert_eq!(servers(&stream, "u"), ["172.18.0.2:82"]);
}

#[test]
fn the_state_of_a_container_counts() {
    for (state, expected) in
        [("running", Some(false)), ("paused", Some(true)), ("exited", None), ("restarting", None)]
    {
        let found = read(&[container(state, r#""angie.http.upstreams.u.port":"80""#)]);
        let down = found.groups.get("u").map(|all| all[0].options.down);
        assert_eq!(down, expected, "{state}");
    }
}

#[test]
fn a_label_names_the_network() {
    let port = r#""angie.http.upstreams.u.port":"80""#;
    for (label, expected) in [
        ("", "172.18.0.2:80"),
        (r#","angie.network":"six""#, "[fd00::2]:80"),
        (r#","angie.network":"no","angie.http.upstreams.u.network":"net""#, "172.18.0.2:80"),
    ] {
        let found = read(&[container("running", &format!("{port}{label}"))]);
        assert_eq!(servers(&found, "u"), [expected], "{label}");
    }
    let found = read(&[container("running", &format!("{port},\"angie.network\":\"first\""))]);
    assert_eq!(found.groups.len(), 0);
    let expected = "container \"web-1\" is no server of upstream \"u\": it has no address in network \"first\"";
    assert_eq!(found.problems, [expected]);
}

#[test]
fn one_container_with_invalid_labels_leaves_the_others() {
    for (label, value) in [
        ("port", "0"),
        ("port", "65536"),
        ("port", "http"),
        ("weight", "0"),
        ("weight", "x"),
        ("backup", "maybe"),
        ("fail_timeout", "soon"),
        ("max_conns", "-1"),
    ] {
        let bad = format!(
            r#""angie.http.upstreams.u.port":"80","angie.http.upstreams.u.{label}":"{value}""#
        );
        let bad = if label == "port" {
            format!(r#""angie.http.upstreams.u.port":"{value}""#)
        } else {
            bad
        };
        let good = container("running", r#""angie.http.upstreams.u.port":"90""#);
        let found = read(&[container("running", &bad), good]);
        assert_eq!(servers(&found, "u"), ["172.18.0.2:90"], "{label}={value}");
        assert_eq!(found.problems.len(), 1, "{label}={value}");
    }
    let without = read(&[container("running", r#""angie.http.upstreams.u.weight":"2""#)]);
    assert!(without.problems[0].ends_with("it has no label \"port\""));
}

#[test]
fn a_description_that_is_too_large_is_left_out() {
    let filler = format!(r#","comment":"{}""#, "x".repeat(5000));
    let large = container("running", &format!(r#""angie.http.upstreams.u.port":"80"{filler}"#));
    let small = container("running", r#""angie.http.upstreams.u.port":"90""#);
    let found = read(&[large, small]);
    assert_eq!(servers(&found, "u"), ["172.18.0.2:90"]);
    assert!(found.problems[0].contains("docker_max_object_size"), "{:?}", found.problems);
}

#[test]
fn what_is_no_list_is_refused() {
    for list in ["", "{}", "<a/>", "[", "[{]", "[\"]", "[1]", "[{}}]", "[{},]", "[,]"] {
        assert!(labels::servers("http", list.as_bytes(), 4096).is_err(), "{list}");
    }
    assert_eq!(elements(b" [ ] "), Ok(Vec::new()));
    let parts: [&[u8]; 3] = [b"{\"a\":\"],\\\"[\"}", b"[1,[2]]", b"3"];
    assert_eq!(elements(&[b"[", &parts.join(&b" , "[..])[..], b"]"].concat()), Ok(parts.to_vec()));
}

fn member(server: &str) -> Member {
    let address = server.parse::<std::net::SocketAddr>().expect("an address");
    Member::fixed(server, vec![address.into()], ServerOptions::default())
}

#[test]
fn servers_of_the_configuration_stay() {
    let manner = (BalancingMethod::RoundRobin, Keepalive::DEFAULT, GroupOptions::default());
    let group = Arc::new(Group::with("u", manner, vec![member("10.0.0.1:80")], clock::now()));
    let names = || -> Vec<String> {
        group.members().iter().map(|member| member.server.to_string()).collect()
    };
    exchange(&group, &[], &[member("10.0.0.2:80"), member("10.0.0.3:80")]);
    assert_eq!(names(), ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"]);
    exchange(&group, &[member("10.0.0.2:80"), member("10.0.0.3:80")], &[member("10.0.0.3:80")]);
    assert_eq!(names(), ["10.0.0.1:80", "10.0.0.3:80"]);
    group.change_members(clock::now(), |members| members[1].options.drain = true);
    exchange(&group, &[member("10.0.0.3:80")], &[member("10.0.0.4:80"), member("10.0.0.3:80")]);
    assert_eq!(names(), ["10.0.0.1:80", "10.0.0.4:80", "10.0.0.3:80"]);
    assert!(group.members()[2].options.drain, "a command drains it");
}
