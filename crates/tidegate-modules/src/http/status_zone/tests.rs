//! What zones count, inheritance, values of variables, how `api` shows them, mistakes.

use serde_json::{Value, json};
use tidegate_core::figures::{Kind, Totals};

use crate::testing::Bench;

fn totals(bench: &Bench, kind: Kind, name: &str) -> Totals {
    bench.plan.figures.zones(kind)[name].totals()
}

fn requests(bench: &Bench, kind: Kind, name: &str) -> u64 {
    totals(bench, kind, name).requests()
}

#[test]
fn servers_and_locations_count_what_ends_in_them() {
    let bench = Bench::new(
        "server {
            status_zone s;
            location / { status_zone root; return 200 hello; }
            location /in/ { status_zone outer;
                location /in/off { status_zone off; return 204; }
                location /in/deep { return 404; }
                if ($arg_a) { status_zone iffy; return 403; } }
            location /to { status_zone first; rewrite ^ /elsewhere; }
            location /gone { return 444; }
        }",
    );
    for target in ["/a", "/in/off", "/in/deep", "/in/x?a=1", "/to", "/gone"] {
        bench.get(target);
    }
    let location = |name| requests(&bench, Kind::Location, name);
    assert_eq!(["root", "outer", "iffy", "first"].map(location), [2, 1, 1, 0]);
    let server = totals(&bench, Kind::Server, "s");
    assert_eq!((server.requests(), server.responses(), server.discarded()), (6, 5, 1));
    assert_eq!(server.classes(), [0, 3, 0, 2, 0]);
    assert_eq!(server.codes().collect::<Vec<_>>(), [(200, 2), (204, 1), (403, 1), (404, 1)]);
    assert_eq!(server.processing, 0);
    assert_eq!(server.times.iter().sum::<u64>(), 6);
}

#[test]
fn a_request_is_in_progress_until_it_is_logged_or_given_up() {
    let bench = Bench::new("server { status_zone s; location / { return 200; } }");
    let mut x = bench.received("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let zone = bench.plan.figures.zones(Kind::Server)["s"];
    x.processing = zone.begin();
    assert_eq!((zone.totals().processing, zone.totals().requests()), (1, 1));
    drop(x);
    assert_eq!((zone.totals().processing, zone.totals().requests()), (0, 0));
    bench.get("/");
    assert_eq!((zone.totals().processing, zone.totals().requests()), (0, 1));
}

#[test]
fn refused_requests_and_bodies_count() {
    let bench = Bench::new("server { status_zone s; location / { return 200; } }");
    bench.refuse(bench.received("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
    let x = bench.received("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
    let length = x.outcome.request_length;
    bench.run(x);
    let server = totals(&bench, Kind::Server, "s");
    assert_eq!(server.codes().collect::<Vec<_>>(), [(200, 1), (400, 1)]);
    assert!(server.received > length, "{} {length}", server.received);
}

#[test]
fn values_have_zones_of_their_own() {
    let bench = Bench::new(
        "server { status_zone $arg_s zone=servers:2; location / {
            status_zone $arg_a zone=rest:1; return 200; } }",
    );
    for target in ["/?a=1&s=x", "/?a=2&s=y", "/?a=1&s=z", "/?s=y", "/?a=3"] {
        bench.get(target);
    }
    let all = |kind| -> Vec<(String, u64)> {
        let zones = bench.plan.figures.zones(kind).into_iter();
        zones.map(|(name, zone)| (name, zone.totals().requests())).collect()
    };
    let pair = |name: &str, count| (name.to_owned(), count);
    assert_eq!(all(Kind::Location), [pair("1", 2), pair("rest", 2)]);
    assert_eq!(all(Kind::Server), [pair("servers", 1), pair("x", 1), pair("y", 2)]);
}

#[test]
fn directives_of_the_same_zone_share_it() {
    let bench = Bench::new(
        "server { location /a { status_zone $arg_a zone=z; return 200; }
            location /b { status_zone b$arg_a zone=z:3; return 200; } }",
    );
    for target in ["/a?a=1", "/b?a=1", "/a?a=2", "/b?a=9", "/a?a=1"] {
        bench.get(target);
    }
    let zones = bench.plan.figures.zones(Kind::Location).into_iter();
    let counts: Vec<_> = zones.map(|(name, zone)| (name, zone.totals().requests())).collect();
    let expected = [("1", 2), ("2", 1), ("b1", 1), ("z", 1)];
    assert_eq!(counts, expected.map(|(name, count)| (name.to_owned(), count)));
}

#[test]
fn without_zones_nothing_is_added() {
    let bench =
        Bench::new("server { location / { return 200; } location /off { status_zone off; } }");
    let handlers = |location: &tidegate_core::plan::Location| {
        location.handlers(tidegate_core::Phase::PostRead).len() + location.loggers.len()
    };
    let of_log = bench.plan.locations.iter().map(handlers).max();
    assert_eq!(of_log, Some(1), "the access log alone");
}

#[test]
fn mistakes_are_refused() {
    for (directive, message) in [
        ("status_zone \"\"", "invalid zone name \"\""),
        ("status_zone $host", "no \"zone=\" parameter in \"status_zone\""),
        ("status_zone $host all", "invalid parameter \"all\""),
        ("status_zone $host zone=:1", "invalid zone name \":1\""),
        ("status_zone $host zone=a:0", "invalid number of zones \"a:0\""),
        ("status_zone $host zone=a:100001", "invalid number of zones \"a:100001\""),
        ("status_zone $host zone=a:x", "invalid number of zones \"a:x\""),
        ("status_zone a; status_zone b", "\"status_zone\" directive is duplicate"),
        ("status_zone $nothing zone=a", "unknown \"nothing\" variable"),
    ] {
        let errors = Bench::errors(&format!("server {{ {directive}; }}"));
        assert!(errors[0].contains(message), "{directive}: {errors:?}");
    }
}

#[test]
fn the_api_shows_and_resets_zones() {
    let bench = Bench::new(
        "limit_req_zone $scheme zone=r:1m rate=1r/m; limit_conn_zone $scheme zone=c:1m;
        server { status_zone s; location /api { api write=on; }
            location / { status_zone l; return 200 hello; }
            location /limited { status_zone $arg_z zone=z:5; limit_req zone=r; limit_conn c 1; } }",
    );
    let get = |target: &str| -> Value { serde_json::from_str(&bench.text(target)).unwrap() };
    bench.get("/");
    bench.get("/limited?z=a/b");
    bench.get("/limited?z=a/b");
    let location = get("/api/9/http/location_zones/l");
    let responses = json!({ "1xx": 0, "2xx": 1, "3xx": 0, "4xx": 0, "5xx": 0, "codes": { "200": 1 },
        "total": 1 });
    assert_eq!((&location["requests"], &location["responses"]), (&json!(1), &responses));
    assert!(location.get("processing").is_none() && location.get("ssl").is_none());
    let slashes = get("/api/9/http/location_zones/a/b/?fields=requests");
    assert_eq!(slashes, json!({ "requests": 2 }), "values may have slashes");
    assert_eq!(get("/api/9/http/location_zones?fields="), json!(["a/b", "l", "z"]));
    let server = get("/api/9/http/server_zones/s");
    assert_eq!(server["requests"], json!(7), "four of them asked the API, one is in progress");
    assert_eq!(server["processing"], json!(1));
    assert_eq!(server["ssl"]["handshakes"], json!(0));
    let limits = json!({ "r": { "passed": 1, "delayed": 0, "rejected": 1, "delayed_dry_run": 0,
        "rejected_dry_run": 0 } });
    assert_eq!(get("/api/9/http/limit_reqs"), limits);
    let limits = json!({ "c": { "passed": 1, "rejected": 0, "rejected_dry_run": 0 } });
    assert_eq!(get("/api/9/http/limit_conns"), limits);
    assert_eq!(get("/api/9/slabs/r")["pages"], json!({ "used": 1, "free": 255 }));
    let delete = bench.send("DELETE /api/9/http/location_zones/l HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(delete.status, 204);
    assert_eq!(get("/api/9/http/location_zones/l")["requests"], json!(0));
}

#[test]
fn parts_of_the_tree_may_have_slashes() {
    let bench = Bench::new(
        "server { location /status/ { api /status/; }
            location / { status_zone $uri zone=z:9; return 200; } }",
    );
    for target in ["/a/b", "/a", "//a//c/"] {
        bench.get(target);
    }
    let total =
        |path: &str| bench.text(&format!("/status/http/location_zones/{path}/requests/total"));
    assert_eq!(["a/b", "a", "a/c", "z"].map(total), ["1", "1", "1", "0"]);
    assert!(total("a/d").contains("PathNotFound"));
}
