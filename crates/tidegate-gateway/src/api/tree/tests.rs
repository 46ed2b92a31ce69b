//! The tree: paths, parts, errors, dates.

use serde_json::{Value, json};

use crate::testing::Bench;

const CONFIG: &str = "
    upstream u { zone z 64k; server 127.0.0.1:1 weight=3 sid=one slow_start=2s; server 127.0.0.1:2 backup max_conns=4; }
    upstream empty { zone z; }
    server { location /status/ { api /status/; api_config_files on; } location = /exact { api /status/connections/; }
        location ~ ^/re/(.*)$ { api /status/$arg_part/upstreams/$1; } location /all/ { api /; } }";

fn ask(bench: &Bench, method: &str, target: &str) -> (u16, Value) {
    let reply = bench.send(&format!("{method} {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
    (reply.status, serde_json::from_slice(&reply.body).unwrap_or(Value::Null))
}

fn names(value: &Value) -> Vec<&str> {
    value.as_object().map(|fields| fields.keys().map(String::as_str).collect()).unwrap_or_default()
}

#[test]
fn objects_have_paths_down_to_numbers() {
    let bench = Bench::new(CONFIG);
    let get = |target: &str| ask(&bench, "GET", target).1;
    let whole = get("/status/");
    assert_eq!(names(&whole), ["angie", "connections", "http", "resolvers", "slabs"], "no stream");
    assert_eq!(get("/all/")["status"]["http"], whole["http"]);
    let group = &whole["http"]["upstreams"]["u"];
    assert_eq!(get("/status/http/upstreams/u"), *group);
    assert_eq!(get("/re/u/peers/127.0.0.1:1?part=http"), group["peers"]["127.0.0.1:1"]);
    assert_eq!(get("/status/http/upstreams/u/peers/127.0.0.1:1/weight"), json!(3));
    assert_eq!(get("/exact"), whole["connections"]);
    assert_eq!(get("/status/http/upstreams/empty"), json!({ "peers": {}, "keepalive": 0 }));
    let first = &group["peers"]["127.0.0.1:1"];
    let expected = json!({ "server": "127.0.0.1:1", "backup": false, "weight": 3, "state": "up",
        "selected": { "current": 0, "total": 0 }, "data": { "sent": 0, "received": 0 },
        "health": { "fails": 0, "unavailable": 0, "downtime": 0, "header_time": 0, "response_time": 0 },
        "sid": "one", "slow_start": 2, "responses": {} });
    assert_eq!(*first, expected);
    let second = &group["peers"]["127.0.0.1:2"];
    let sid = second["sid"].as_str().map(str::len);
    assert_eq!((&second["max_conns"], sid), (&json!(4), Some(32)), "the MD5 of the address");
}

/// Values of variables are names of zones, so they may have slashes.
#[test]
fn the_name_of_the_most_parts_wins() {
    let path: Vec<String> = "a/b/c".split('/').map(str::to_owned).collect();
    let longest = |names: &[&str]| super::longest(names.iter().copied(), &path);
    assert_eq!(longest(&["a", "", "/", "a/x", "a/b/c/d", "b"]), Some((0, 1)));
    assert_eq!(longest(&["a", "/a//b/", "a/b"]), Some((1, 2)), "paths have no repeated slashes");
    assert_eq!(longest(&["c/b/a", "a/b/c", "a"]), Some((1, 3)));
    assert_eq!(longest(&["ab", "b", ""]), None);
    let bench = Bench::new(
        "upstream one { zone a/b 1m; server 127.0.0.1:1; } upstream two { zone a 1m; server 127.0.0.1:1; }
         server { location /status/ { api /status/; } }",
    );
    let get = |target: &str| ask(&bench, "GET", target);
    let whole = get("/status/slabs").1;
    assert_eq!(get("/status/slabs/a/b"), (200, whole["a/b"].clone()));
    assert_eq!(get("/status/slabs/a//b/pages/used").1, whole["a/b"]["pages"]["used"]);
    assert_eq!(get("/status/slabs/a/pages").1, whole["a"]["pages"]);
    assert_eq!(get("/status/slabs/a/x").0, 404);
}

#[test]
fn other_requests_are_errors() {
    let bench = Bench::new(CONFIG);
    for path in [
        "/status/none",
        "/status/http/upstreams/x",
        "/status/connections/accepted/x",
        "/status/stream",
        "/status/http/upstreams/u/peers/9",
    ] {
        let description = format!("Requested API entity \"{path}\" doesn't exist.");
        let expected = json!({ "error": "PathNotFound", "description": description });
        assert_eq!(ask(&bench, "GET", path), (404, expected));
    }
    let description = "The PUT method is not allowed for the requested API entity \"/x/\".";
    let expected = json!({ "error": "MethodNotAllowed", "description": description });
    assert_eq!(ask(&bench, "PUT", "/all/x/"), (405, expected), "before the path is looked at");
    let errors = Bench::errors("server { location / { api status; } }");
    assert!(errors[0].contains("invalid parameter \"status\""), "{errors:?}");
}

#[test]
fn the_server_shows_itself_and_its_files() {
    let bench = Bench::new(CONFIG);
    let get = |target: &str| ask(&bench, "GET", target).1;
    let server = get("/status/tidegate");
    let fields = ["address", "build_time", "config_files", "generation", "load_time", "version"];
    assert_eq!(names(&server), fields);
    assert!(server["load_time"].as_str().is_some_and(|time| time.ends_with('Z')), "{server}");
    let texts: Vec<_> = server["config_files"].as_object().into_iter().flatten().collect();
    assert!(
        texts[0].0.ends_with("bench.conf")
            && texts[0].1.as_str().is_some_and(|text| text.contains("slow_start=2s"))
    );
    assert!(
        get("/status/angie/load_time?date=epoch").as_u64().is_some_and(|time| time > 1_700_000_000)
    );
    assert_eq!(get("/all/status/angie").get("config_files"), None, "off where it is not written");
}
