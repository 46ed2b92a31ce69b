//! The API: paths, commands, errors.

use serde_json::{Value, json};

use crate::testing::{Bench, TestResponse};

const CONFIG: &str = "
    upstream u { zone z 64k; server 127.0.0.1:1 weight=3; server 127.0.0.1:2 backup route=b; }
    upstream fixed { server 127.0.0.1:1; }
    server { location /api { api write=on; } location /see { api; } }";

fn ask(bench: &Bench, method: &str, target: &str, body: &str) -> (u16, Value) {
    let length = body.len();
    let request =
        format!("{method} {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}");
    let reply: TestResponse = bench.send(&request);
    (reply.status, serde_json::from_slice(&reply.body).unwrap_or(Value::Null))
}

/// Servers are written some at a time: no size of a group breaks the text, of one or of all.
#[test]
fn groups_of_any_size_are_shown() {
    for count in [0, 1, 31, 32, 33, 64, 65] {
        let servers: String = (1..=count).map(|port| format!("server 127.0.0.1:{port};")).collect();
        let bench = Bench::new(&format!(
            "upstream u {{ zone z 1m; {servers} }} upstream v {{ zone y 1m; server 127.0.0.1:1; queue 5; }}
            server {{ location /api {{ api; }} }}"
        ));
        let get = |target: &str| ask(&bench, "GET", target, "").1;
        let group = get("/api/9/http/upstreams/u");
        assert_eq!(group["peers"].as_array().map(Vec::len), Some(count), "{group}");
        assert_eq!(group["zone"], json!("z"));
        let all = get("/api/9/http/upstreams");
        assert_eq!((&all["u"], &all["v"]["queue"]["max_size"]), (&group, &json!(5)));
        assert_eq!(get("/api/9/tidegate/snapshot")["http/upstreams"], all);
        assert_eq!(get("/api/9/http/upstreams/u?fields=zone"), json!({ "zone": "z" }));
    }
}

#[test]
fn groups_are_shown() {
    let bench = Bench::new(CONFIG);
    let get = |target: &str| ask(&bench, "GET", target, "").1;
    assert_eq!(get("/api/"), json!([1, 2, 3, 4, 5, 6, 7, 8, 9]));
    let all = [
        "nginx",
        "processes",
        "connections",
        "slabs",
        "http",
        "stream",
        "resolvers",
        "ssl",
        "workers",
        "tidegate",
    ];
    assert_eq!(get("/api/9/"), json!(all));
    let of_http = [
        "requests",
        "server_zones",
        "location_zones",
        "caches",
        "limit_conns",
        "limit_reqs",
        "upstreams",
        "keyvals",
    ];
    assert_eq!(get("/api/9/http/"), json!(of_http));
    assert_eq!(
        get("/api/9/stream"),
        json!(["server_zones", "limit_conns", "upstreams", "keyvals", "zone_sync"])
    );
    let groups = get("/api/9/http/upstreams");
    assert_eq!(groups.as_object().map(serde_json::Map::len), Some(1), "only those with a zone");
    let group = get("/see/9/http/upstreams/u/");
    assert_eq!(groups["u"], group);
    assert_eq!((&group["zone"], &group["peers"][0]["state"]), (&json!("z"), &json!("up")));
    assert_eq!(group["peers"][1]["backup"], json!(true));
    assert_eq!(get("/api/3/http/upstreams/u?fields=zone,x"), json!({ "zone": "z" }));
    assert_eq!(get("/api/9/http/upstreams?a&fields="), json!(["u"]), "names alone");
    assert_eq!(get("/api/9/http/upstreams?fields=zombies"), json!({ "u": { "zombies": 0 } }));
    assert_eq!(get("/api/9/http/upstreams/u?fields="), json!({}));
    assert_eq!(get("/api/9/stream/upstreams"), json!({}), "there is no such block");
    let first = json!({
        "id": 0, "server": "127.0.0.1:1", "weight": 3, "max_conns": 0, "max_fails": 1,
        "fail_timeout": "10s", "slow_start": "0s", "route": "", "backup": false, "down": false,
    });
    assert_eq!(get("/api/9/http/upstreams/u/servers/0"), first);
    assert_eq!(get("/api/9/http/upstreams/u/servers")[0], first);
}

#[test]
fn servers_are_added_changed_and_removed() {
    let bench = Bench::new(CONFIG);
    let servers = "/api/9/http/upstreams/u/servers";
    let new = r#"{"server":"127.0.0.1:3","weight":2,"down":true,"fail_timeout":"5s"}"#;
    let (status, added) = ask(&bench, "POST", servers, new);
    assert_eq!((status, &added["id"], &added["weight"]), (201, &json!(2), &json!(2)));
    let third = &format!("{servers}/2");
    let (status, changed) =
        ask(&bench, "PATCH", third, r#"{"down":false,"drain":true,"route":"c"}"#);
    assert_eq!((status, &changed["drain"], &changed["route"]), (200, &json!(true), &json!("c")));
    assert_eq!(changed["fail_timeout"], json!("5s"), "what is not named stays");
    let (_, group) = ask(&bench, "GET", "/api/9/http/upstreams/u", "");
    assert_eq!(group["peers"][1]["state"], json!("draining"));
    let (status, left) = ask(&bench, "DELETE", &format!("{servers}/0"), "");
    assert_eq!((status, left.as_array().map(Vec::len)), (200, Some(2)));
    assert_eq!(ask(&bench, "GET", &format!("{servers}/0"), "").0, 404);
    assert_eq!(ask(&bench, "DELETE", "/api/9/http/upstreams/u", "").0, 204);
}

#[test]
fn paths_and_methods_that_are_not_there_have_codes() {
    let bench = Bench::new(CONFIG);
    for (method, target, body, status, code) in [
        ("GET", "/api/10/", "", 404, "UnknownVersion"),
        ("GET", "/api/09/", "", 404, "UnknownVersion"),
        ("GET", "/api/9/license", "", 404, "PathNotFound"),
        ("GET", "/api/9/nginx/x", "", 404, "PathNotFound"),
        ("GET", "/api/9/slabs/none", "", 404, "SlabNotFound"),
        ("GET", "/api/9/http/server_zones/none", "", 404, "ServerZoneNotFound"),
        ("GET", "/api/9/http/location_zones/none", "", 404, "LocationZoneNotFound"),
        ("GET", "/api/9/http/caches/none", "", 404, "CacheNotFound"),
        ("GET", "/api/9/http/limit_conns/none", "", 404, "LimitConnNotFound"),
        ("GET", "/api/9/http/limit_reqs/none", "", 404, "LimitReqNotFound"),
        ("GET", "/api/9/stream/server_zones/none", "", 404, "ServerZoneNotFound"),
        ("GET", "/api/9/stream/upstreams/none", "", 404, "UpstreamNotFound"),
        ("GET", "/api/9/resolvers/none", "", 404, "ResolverZoneNotFound"),
        ("GET", "/api/9/workers/none", "", 404, "WorkerNotFound"),
        ("DELETE", "/api/9/http/caches/none", "", 404, "CacheNotFound"),
        ("DELETE", "/api/9/http/caches", "", 405, "MethodNotSupported"),
        ("DELETE", "/api/9/nginx", "", 405, "MethodNotSupported"),
        ("DELETE", "/see/9/connections", "", 405, "MethodDisabled"),
        ("DELETE", "/see/9/http/upstreams/none/servers/none/", "", 405, "MethodDisabled"),
        ("POST", "/api/9/http/upstreams/u", "", 405, "MethodNotSupported"),
    ] {
        let (found, error) = ask(&bench, method, target, body);
        let found = (found, &error["error"]["code"]);
        assert_eq!(found, (status, &json!(code)), "{method} {target}");
    }
}

#[test]
fn mistakes_have_codes() {
    let bench = Bench::new(CONFIG);
    let servers = "/api/9/http/upstreams/u/servers";
    let first = "/api/9/http/upstreams/u/servers/0";
    for (method, target, body, status, code) in [
        ("GET", "/api/9/http/upstreams/none", "", 404, "UpstreamNotFound"),
        ("GET", "/api/9/http/upstreams/fixed", "", 400, "UpstreamStatic"),
        ("GET", "/api/9/http/upstreams/u/servers/9", "", 404, "UpstreamServerNotFound"),
        ("GET", "/api/9/http/upstreams/u/servers/x", "", 400, "UpstreamBadServerId"),
        ("GET", "/api/9/http/upstreams/u/servers/0/x", "", 404, "PathNotFound"),
        ("POST", "/api/9/nginx", "", 405, "MethodNotSupported"),
        ("PUT", servers, "", 405, "MethodNotSupported"),
        ("DELETE", "/see/9/http/upstreams/u/servers/0", "", 405, "MethodDisabled"),
        ("POST", servers, "{", 415, "JsonError"),
        ("POST", servers, "[]", 415, "JsonError"),
        ("POST", servers, "{}", 400, "UpstreamConfFormatError"),
        ("POST", servers, r#"{"server":"127.0.0.1:0"}"#, 400, "UpstreamBadAddress"),
        ("POST", servers, r#"{"server":"a.example"}"#, 400, "UpstreamBadAddress"),
        ("POST", servers, r#"{"server":"127.0.0.1","service":"x"}"#, 400, "UpstreamBadService"),
        ("POST", servers, r#"{"server":"127.0.0.1:1","speed":1}"#, 400, "UpstreamConfFormatError"),
        ("POST", servers, r#"{"server":{"a":1}}"#, 400, "UpstreamConfFormatError"),
        ("PATCH", first, r#"{"weight":0}"#, 400, "UpstreamBadWeight"),
        ("PATCH", first, r#"{"weight":-1}"#, 400, "UpstreamBadWeight"),
        ("PATCH", first, r#"{"max_conns":"many"}"#, 400, "UpstreamBadMaxConns"),
        ("PATCH", first, r#"{"fail_timeout":"soon"}"#, 400, "UpstreamBadFailTimeout"),
        (
            "PATCH",
            first,
            r#"{"route":"123456789012345678901234567890123"}"#,
            400,
            "UpstreamBadRoute",
        ),
        ("PATCH", first, r#"{"down":1}"#, 400, "UpstreamConfFormatError"),
        ("PATCH", first, r#"{"server":"127.0.0.1:9"}"#, 400, "UpstreamServerImmutable"),
        ("PATCH", "/api/9/http/upstreams/u/servers/7", "{}", 404, "UpstreamServerNotFound"),
    ] {
        let (found, error) = ask(&bench, method, target, body);
        assert_eq!(
            (found, &error["error"]["code"]),
            (status, &json!(code)),
            "{method} {target} {body}"
        );
        assert_eq!(error["error"]["status"], json!(status));
    }
    let (_, server) = ask(&bench, "GET", first, "");
    assert_eq!(server["weight"], json!(3), "nothing has changed");
    assert!(
        Bench::errors("server { location / { api write=maybe; } }")[0]
            .contains("invalid parameter")
    );
}

#[test]
fn the_process_is_shown() {
    let bench = Bench::new(CONFIG);
    let get = |target: &str| ask(&bench, "GET", target, "").1;
    let nginx = get("/api/9/nginx");
    assert_eq!((&nginx["build"], &nginx["address"]), (&json!("tidegate-r32"), &json!("192.0.2.1")));
    assert_eq!(nginx["load_timestamp"].as_str().map(str::len), Some(24));
    assert_eq!(get("/api/9/processes"), json!({ "respawned": 0 }));
    assert_eq!(get("/api/9/ssl")["verify_failures"]["no_cert"], json!(0));
    assert!(get("/api/9/workers/").is_array());
    assert!(get("/api/9/connections")["accepted"].is_u64());
    let (status, body) = ask(&bench, "DELETE", "/api/9/http/requests", "");
    assert_eq!((status, body), (204, Value::Null));
}

#[test]
fn large_groups_are_written_on_a_pool_thread() {
    let servers: String = (0..3000)
        .map(|number| format!("server 127.0.{}.{}:1;", number / 250, number % 250 + 1))
        .collect();
    let bench = Bench::new(&format!(
        "upstream a {{ zone a 1m; {servers} }} upstream b {{ zone b 1m; {servers} }}
         server {{ location /api {{ api; }} }}"
    ));
    let (status, groups) = ask(&bench, "GET", "/api/9/http/upstreams", "");
    let peers = |group: &str| groups[group]["peers"].as_array().map(Vec::len);
    assert_eq!((status, peers("a"), peers("b")), (200, Some(3000), Some(3000)));
    let (_, servers) = ask(&bench, "GET", "/api/9/http/upstreams/a/servers", "");
    assert_eq!(servers.as_array().map(Vec::len), Some(3000));
}

#[test]
fn the_description_has_all_paths_and_their_methods() {
    let bench = Bench::new(CONFIG);
    let (status, document) = ask(&bench, "GET", "/api/openapi.json", "");
    assert_eq!((status, &document["openapi"]), (200, &json!("3.0.3")));
    let paths = document["paths"].as_object().unwrap();
    for (path, item) in paths {
        let target = format!("/api/9{}", path.replace("{id}", "0").replace("{name}", "none"));
        for method in ["GET", "POST", "PATCH", "DELETE", "PUT"] {
            let documented = item.get(method.to_ascii_lowercase()).is_some();
            let (_, value) = ask(&bench, method, &target, "{}");
            let code = value["error"]["code"].as_str().unwrap_or_default();
            assert_ne!(code, "PathNotFound", "{method} {path}");
            assert_eq!(code != "MethodNotSupported", documented, "{method} {path}: {code}");
        }
    }
    // Everything that directories name is described.
    let mut directories = vec![String::new()];
    while let Some(directory) = directories.pop() {
        for name in ask(&bench, "GET", &format!("/api/9{directory}"), "").1.as_array().unwrap() {
            let path = format!("{directory}/{}", name.as_str().unwrap());
            assert!(paths.contains_key(&path), "{path}");
            if ["http", "stream", "tidegate"].iter().any(|name| path == format!("/{name}")) {
                directories.push(path);
            }
        }
    }
}

#[test]
fn slow_requests_are_a_list() {
    let bench = Bench::new(CONFIG);
    let slow = |text: &str| tidegate_core::timeline::slow::keep(text.as_bytes());
    slow("{\"n\":1}");
    slow("{\"n\":2}");
    assert_eq!(ask(&bench, "GET", "/api/9/tidegate/slow", "").1, json!([{ "n": 2 }, { "n": 1 }]));
    (0..300).for_each(|number| slow(&format!("{{\"n\":{number}}}")));
    let latest = ask(&bench, "GET", "/api/9/tidegate/slow", "").1;
    assert_eq!((latest.as_array().map(Vec::len), &latest[0]["n"]), (Some(256), &json!(299)));
    slow(&" ".repeat(1024 * 1024));
    let latest = tidegate_core::timeline::slow::latest();
    assert_eq!((latest.len(), latest[0].len()), (1, 1024 * 1024), "not too many bytes");
}

/// Where there are many objects, a pool thread looks for one by its name.
#[test]
fn one_of_many_objects_is_found_on_a_pool_thread() {
    let servers: String = (1..=100).map(|port| format!("server 127.0.0.1:{port};")).collect();
    let bench = Bench::new(&format!(
        "upstream a {{ zone a/b 1m; {servers} }}
         server {{ location /api {{ api write=on; }} location /status/ {{ api /status/; }} }}"
    ));
    let get = |target: &str| ask(&bench, "GET", target, "");
    let jobs = || {
        let pools = get("/api/9/tidegate/pools").1;
        let all = pools.as_object().into_iter().flat_map(|pools| pools.values());
        all.filter_map(|pool| pool["finished"].as_u64()).sum::<u64>()
    };
    // A job is counted behind its result.
    let await_job = |before: u64| {
        while jobs() <= before {
            std::thread::yield_now();
        }
    };
    let all = get("/api/9/slabs").1;
    let before = jobs();
    assert_eq!(get("/api/9/slabs/a/b"), (200, all["a/b"].clone()));
    await_job(before);
    let of_api = jobs();
    let pages = "/status/slabs/a/b/pages/used";
    assert_eq!(get(pages), (200, all["a/b"]["pages"]["used"].clone()));
    await_job(of_api);
    assert_eq!(get("/status/slabs/a/b").1, all["a/b"]);
    assert_eq!(ask(&bench, "DELETE", "/api/9/slabs/a/b", ""), (204, Value::Null));
    let (status, value) = get("/api/9/slabs/a");
    assert_eq!((status, &value["error"]["code"]), (404, &json!("SlabNotFound")));
    assert_eq!(get("/status/slabs/a").0, 404);
}
