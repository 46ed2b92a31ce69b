//! Further forms of requests to the names of a configuration: bodies, names, ranges, validators, odd paths; and the
//! commands for origins in the query.

use super::requests::{Request, Shape};
use tidegate_conf::Statement;

/// Paths of a configuration that get each form.
const PATHS_MAX: usize = 4;

/// Commands for origins: see `stubs`.
const BEHAVIOURS: [&str; 16] = [
    "s=301",
    "s=302",
    "s=307",
    "s=200&cookie",
    "s=401",
    "s=404",
    "s=500",
    "s=503",
    "o=chunked",
    "o=gzip",
    "o=accel",
    "o=early",
    "o=large",
    "o=empty",
    "o=cut",
    "o=close",
];

/// Each path, in each form.
pub(super) fn forms(base: &Request, paths: &[String]) -> Vec<Request> {
    let mut found = names(base);
    let root = "/".to_owned();
    for path in paths.iter().filter(|path| !path.contains('?')).take(PATHS_MAX).chain([&root]) {
        found.extend(of_path(base, path));
    }
    let shaped =
        |method: &str, shape: Shape| Request { method: method.into(), shape, ..base.clone() };
    found.extend([shaped("POST", Shape::Large), shaped("PUT", Shape::Chunked)]);
    found
}

/// Ways to write a name, and to leave it out.
fn names(base: &Request) -> Vec<Request> {
    let main = base.name.clone().unwrap_or_default();
    let capital = main.to_ascii_uppercase();
    let mut names = vec![format!("{main}:8080"), format!("{main}."), format!("{main}.:81")];
    names.extend([capital, String::new(), "a b".into(), "[::1]:80".into()]);
    let named = |name: String| Request { name: Some(name), ..base.clone() };
    let mut found: Vec<Request> = names.into_iter().map(named).collect();
    found.push(Request { name: None, shape: Shape::Nameless, ..base.clone() });
    let field = |name: &str| (name.to_owned(), main.clone());
    found.push(Request { fields: vec![field("Host")], ..base.clone() });
    found
}

fn of_path(base: &Request, path: &str) -> Vec<Request> {
    let ask = |method: &str, target: String, fields: &[(&str, &str)], shape: Shape| Request {
        method: method.into(),
        target,
        fields: fields.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
        shape,
        ..base.clone()
    };
    let get = |fields: &[(&str, &str)]| ask("GET", path.to_owned(), fields, Shape::Plain);
    let at = |target: String| ask("GET", target, &[], Shape::Plain);
    let send = |method: &str, shape: Shape| ask(method, path.to_owned(), &[], shape);
    vec![
        at(format!("{path}?q=1&r=%20&%2f")),
        at(format!("/{path}")),
        at(format!("{path}/../{}", path.trim_start_matches('/'))),
        at(format!("{path}//")),
        at(format!("{path}%2f")),
        at(format!("{path}/%2e%2e/%2e%2e/")),
        at(format!("{path};a=b")),
        at(format!("{path}%3Fx")),
        at(format!("{path}%0d%0aX")),
        send("HEAD", Shape::Plain),
        send("OPTIONS", Shape::Plain),
        send("DELETE", Shape::Plain),
        send("POST", Shape::Plain),
        send("POST", Shape::Chunked),
        send("POST", Shape::Expecting),
        send("GET", Shape::Upgrade),
        get(&[("Range", "bytes=0-1")]),
        get(&[("Range", "bytes=0-1,3-4")]),
        get(&[]),
        get(&[("If-None-Match", "{etag}")]),
        get(&[("If-Modified-Since", "{modified}")]),
        get(&[("If-Range", "{etag}"), ("Range", "bytes=-3")]),
        get(&[("If-Match", "\"other\"")]),
        get(&[("Accept-Encoding", "gzip"), ("Via", "1.1 other")]),
        get(&[
            ("X-Forwarded-For", "192.0.2.9"),
            ("X-Real-IP", "192.0.2.8"),
            ("CF-Connecting-IP", "192.0.2.7"),
        ]),
        get(&[("X-Forwarded-Proto", "https"), ("X-Forwarded-Host", "outer.test")]),
        get(&[("Cookie", "a=1"), ("Cookie", "b=2; PHPSESSID=x")]),
        get(&[("Authorization", "Basic dXNlcjp3cm9uZw==")]),
        get(&[("Content-Length", "0")]),
        get(&[("Cache-Control", "no-cache"), ("Pragma", "no-cache")]),
    ]
}

/// Whether an nginx before 1.29 treats a request in another way than newer ones: it passed interim responses of origins
/// on as if they were the response, and `Cookie` fields separately.
pub(super) fn has_changed(request: &Request) -> bool {
    let cookies = request.fields.iter().filter(|(name, _)| name == "Cookie").count();
    request.target.contains("o=early") || cookies > 1
}

/// Whether anything is passed to an origin.
pub(super) fn passes(statements: &[Statement]) -> bool {
    statements
        .iter()
        .any(|statement| statement.name.bytes.ends_with(b"_pass") || passes(statement.children()))
}

/// Behaviour of an origin, for the paths that may lead to one. Behaviour that counts as a failure is last.
pub(super) fn of_origins(base: &Request, paths: &[String], server: &[Statement]) -> Vec<Request> {
    let root = "/".to_owned();
    let paths: Vec<&String> =
        [&root].into_iter().chain(paths.iter().filter(|path| !path.contains('?'))).collect();
    let mut found = Vec::new();
    for behaviour in BEHAVIOURS {
        for path in paths.iter().take(PATHS_MAX) {
            found.push(Request { target: format!("{path}?{behaviour}"), ..base.clone() });
        }
    }
    let post = |behaviour: &str| Request {
        method: "POST".into(),
        target: format!("/?{behaviour}"),
        ..base.clone()
    };
    found.extend(["s=302", "s=500", "o=close"].map(post));
    if waits(server) {
        found.push(Request { target: "/?o=silent".into(), ..base.clone() });
    }
    found
}

/// Whether the configuration handles a silent origin: only then the wait is useful.
fn waits(statements: &[Statement]) -> bool {
    statements.iter().any(|statement| {
        let name = &statement.name.bytes;
        let pages = name == b"error_page" && statement.args.iter().any(|word| word.bytes == b"504");
        pages || name.ends_with(b"_next_upstream") || waits(statement.children())
    })
}
