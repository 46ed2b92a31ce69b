//! Tests of the pure parts: the list, frames, places, samples, and the comparison.

use super::adapt::{Additions, Source, adapt};
use super::client::{Response, parse};
use super::compare::compare;
use super::list::{self, Context, Mirror};
use super::logs::{Logs, differences};
use super::places::{Listen, Places};
use super::requests::{Request, Shape, requests};
use super::samples;
use super::stubs::Stubs;
use super::{complaint, repair, unbuilt};
use std::net::SocketAddr;
use std::path::Path;
use tidegate_conf::print_statements;

fn places() -> Places {
    let origin = SocketAddr::from(([127, 0, 0, 1], 7));
    Places::new(Path::new("/s"), Stubs { origin, names: SocketAddr::from(([127, 0, 0, 1], 53)) })
}

#[test]
fn samples_match_their_expressions() {
    let check = |pattern: &str, expected: &[&str]| {
        assert_eq!(samples::paths(pattern, false), expected, "{pattern}");
    };
    check("^/a(b|c)$", &["/ab", "/ac"]);
    check(r"\.php$", &["/.php"]);
    check(r"^(.+\.php)(/.*)?$", &["/x.php/x", "/x.php"]);
    check(r"^/([0-9]{3})/?$", &["/000/", "/000"]);
    check(r"^/(?<name>[^/]+)/x$", &["/x/x"]);
    check(r"^/(?!no)\w+$", &["/w"]);
    check("[", &[]);
}

#[test]
fn lists_are_read() {
    let rows = list::parse(
        "repository\tpath\tcontext\na/b\tx.conf\thttp\na/b\tR.md.0001.conf\tserver\na/b\tR.md.0002.conf\tmain\n",
    );
    let rows = rows.unwrap_or_else(|failure| panic!("{failure}"));
    let names: Vec<String> = rows.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["a/b x.conf", "a/b R.md"]);
    assert_eq!(rows[0].contexts, [Context::Http]);
    assert!(list::parse("head\na/b\tx\tnowhere\n").is_err());
    let text = "a\n```nginx\none;\n```\n```bash\ntwo\n```\n  ```\nthree;\n  ```\n";
    assert_eq!(list::fenced(text), ["one;\n", "three;\n"]);
}

#[test]
fn addresses_and_paths_are_mapped() {
    let mut places = places();
    places.upstreams.insert("app".into());
    let check =
        |written: &str, expected: &str| assert_eq!(places.url(written), expected, "{written}");
    check("http://app", "http://app");
    check("https://app/x", "http://app/x");
    check("http://elsewhere:3000/x/", "http://127.0.0.1:7/x/");
    check("http://unix:/run/a.sock:/x", "http://127.0.0.1:7/x");
    check("http://$host:8080$uri", "http://$host:8080$uri");
    check("http://$host:8080", "http://$host:7");
    check("http://a.test$request_uri", "http://127.0.0.1:7$request_uri");
    check("$scheme://a.test", "$scheme://127.0.0.1:7");
    check("$all", "$all");
    assert_eq!(places.root("/srv/www/$host/x"), "/s/root/srv/www/$host/x");
    assert!(places.roots.contains(Path::new("/s/root/srv/www")));
    assert_eq!(places.alias("/srv/icon.ico"), "/s/root/srv/icon.ico");
    assert!(places.files.contains(Path::new("/s/root/srv/icon.ico")));
    let one = places.listen("80", &[], false);
    let address =
        |written: &str, places: &mut Places| places.listen(written, &["ssl".into()], false);
    assert_eq!(address("*:80", &mut places), one);
    assert_eq!(address("0.0.0.0:80", &mut places), one);
    assert_ne!(address("10.0.0.1:80", &mut places), one);
    assert!(places.listens["*:80"].tls);
}

#[test]
fn configurations_are_framed_and_adapted() {
    let directory = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    let home = directory.path().join("a+b");
    let failed = std::fs::create_dir_all(home.join("inc"))
        .and_then(|()| std::fs::write(home.join("inc/more.conf"), "index x.html;"));
    assert!(failed.is_ok());
    let mirror =
        Mirror::open(directory.path(), "a/b").unwrap_or_else(|failure| panic!("{failure}"));
    let text = b"limit_req zone=a burst=5; root /srv; include inc/more.conf; include none/*.conf; location /a { proxy_pass http://x; \
        access_log /var/log/a.log; } if ($arg_q = 1) { return 204; }";
    let source = Source {
        mirror: &mirror,
        path: "site.conf",
        text,
        context: Context::Server,
        includes: true,
        standard: Path::new("/none"),
    };
    let tree = source.parse().unwrap_or_else(|failure| panic!("{failure}"));
    let mut places = places();
    let additions = Additions { without: vec!["return".into()], ..Additions::default() };
    let adapted =
        adapt(&tree, &mut places, &additions).unwrap_or_else(|failure| panic!("{failure}"));
    let text = String::from_utf8_lossy(&print_statements(&adapted)).into_owned();
    for expected in [
        "daemon off;",
        "events {",
        "root /s/root/srv;",
        "index x.html;",
        "limit_req zone=a burst=1000 nodelay;",
        "proxy_pass http://127.0.0.1:7;",
        "access_log /s/logs/var_log_a.log;",
        &format!("listen {};", places.listens["*:80"].address),
    ] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
    assert!(!text.contains("return"), "{text}");
    let targets: Vec<Request> = requests(&tree_with_return(&source, &mut places), &places);
    for target in ["/a", "/a/", "/a/x?s=1", "/?q=1", "/.htaccess"] {
        assert!(targets.iter().any(|request| request.target == target), "{target}");
    }
}

fn tree_with_return(source: &Source<'_>, places: &mut Places) -> Vec<tidegate_conf::Statement> {
    let tree = source.parse().unwrap_or_default();
    adapt(&tree, places, &Additions::default()).unwrap_or_default()
}

#[test]
fn what_servers_say_is_understood() {
    let output =
        "nginx: [emerg] unknown \"wanted\" variable\nnginx: configuration file x test failed\n";
    assert_eq!(complaint(output), "unknown \"wanted\" variable");
    let addition = repair(&complaint(output), &[]);
    assert_eq!(addition.as_deref(), Some("map $request_method $wanted { default \"\"; }"));
    assert_eq!(complaint("nginx: [emerg] bad \"x\" in /s/nginx.conf:3\n"), "bad \"x\"");
    let output = "nginx: [emerg] \"perl\" directive is not supported yet in /s/nginx.conf:3\n\
        nginx: [emerg] invalid parameter \"http2\" in /s/nginx.conf:4\n\
        nginx: [emerg] invalid parameter \"other\" in /s/nginx.conf:5\n";
    assert_eq!(unbuilt(output), ["http2", "perl"]);
}

fn request(method: &str) -> Request {
    let address = SocketAddr::from(([127, 0, 0, 1], 80));
    Request {
        listen: Listen { address, tls: false, proxied: false, stream: false },
        name: None,
        method: method.into(),
        target: "/".into(),
        fields: Vec::new(),
        shape: Shape::Plain,
    }
}

#[test]
fn responses_are_compared() {
    let check = |method: &str, a: &str, b: &str, expected: &[&str]| {
        let (a, b) = (parse(a.as_bytes()), parse(b.as_bytes()));
        let found = compare(&request(method), &a, &b);
        let unmeant = found.iter().filter(|(_, reason)| reason.is_none());
        let names: Vec<&str> = unmeant.map(|(difference, _)| difference.what.as_str()).collect();
        assert_eq!(names, expected, "{a:?} {b:?}");
    };
    let ok = "HTTP/1.1 200 OK\r\n";
    check("GET", &format!("{ok}A: 1\r\nB: 2\r\n\r\nx"), &format!("{ok}b: 2\r\na: 1\r\n\r\nx"), &[]);
    check(
        "GET",
        &format!("{ok}Server: nginx/1.9\r\n\r\n"),
        &format!("{ok}Server: tidegate/0.1.0\r\n\r\n"),
        &[],
    );
    check(
        "GET",
        &format!("{ok}A: 1\r\n\r\nx"),
        "HTTP/1.1 404 Not Found\r\n\r\ny",
        &["status", "a", "body"],
    );
    let chunked = format!("{ok}Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n");
    check("GET", &chunked, &format!("{ok}Content-Length: 1\r\n\r\nx"), &[]);
    let dated =
        |expires: &str, date: &str| format!("{ok}Expires: {expires}\r\nDate: {date}\r\n\r\n");
    let one = dated("Wed, 03 Jan 2024 00:00:10 GMT", "Tue, 02 Jan 2024 00:00:10 GMT");
    let two = dated("Thu, 29 Feb 2024 00:00:20 GMT", "Wed, 28 Feb 2024 00:00:20 GMT");
    check("GET", &one, &two, &[]);
    check(
        "GET",
        &one,
        &dated("Wed, 03 Jan 2024 00:00:10 GMT", "Tue, 02 Jan 2024 00:01:10 GMT")
            .replace("03 Jan", "05 Jan"),
        &["expires"],
    );
    let head = |server: &str, length: u16| {
        format!("HTTP/1.1 404 Not Found\r\nServer: {server}\r\nContent-Length: {length}\r\n\r\n")
    };
    check("HEAD", &head("nginx/1.31.5", 153), &head("tidegate/0.1.0", 155), &[]);
    check("HEAD", &head("nginx/1.31.5", 153), &head("tidegate/0.1.0", 156), &["content-length"]);
    assert_eq!(Response::default().code(), 0);
}

#[test]
fn intended_differences_depend_on_the_request() {
    let ok = "HTTP/1.1 200 OK\r\n";
    let refused = |target: &str| {
        let request = Request { target: target.into(), ..request("GET") };
        let page = "HTTP/1.1 403 Forbidden\r\n\r\nb";
        let found = compare(&request, &parse(ok.as_bytes()), &parse(page.as_bytes()));
        found.iter().all(|(_, reason)| reason.is_some())
    };
    for (target, expected) in [
        ("//../", true),
        ("/a/%2e%2e/%2e%2e/", true),
        ("/a/../", false),
        ("/bad%zz", true),
        ("/a%00", true),
        ("/a%20?b=%zz", false),
    ] {
        assert_eq!(refused(target), expected, "{target}");
    }
    let echo = |fields: &str| format!("{ok}\r\n{fields}\n\nbody");
    let (counted, unbuffered) = (echo("Content-Length: 9"), echo("Transfer-Encoding: chunked"));
    let (counted, unbuffered) = (parse(counted.as_bytes()), parse(unbuffered.as_bytes()));
    let unmeant = |shape: Shape| {
        let request = Request { shape, ..request("POST") };
        let found = compare(&request, &counted, &unbuffered);
        found.iter().filter(|(_, reason)| reason.is_none()).count()
    };
    assert_eq!((unmeant(Shape::Chunked), unmeant(Shape::Plain)), (0, 1));
}

#[test]
fn logs_are_compared() {
    let logs = |text: &str| {
        let directory = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
        let written = std::fs::write(directory.path().join("access.log"), text);
        assert!(written.is_ok());
        Logs::read(directory.path(), &[40_001, 40_002].into())
    };
    let check = |nginx: &str, tidegate: &str, expected: usize| {
        let meant = ["GET /meant ".to_owned()].into();
        let found = differences(logs(nginx), logs(tidegate), &meant);
        assert_eq!(found.len(), expected, "{found:?}");
    };
    check("a 200 153 40001\n", "a 200 155 40002\n", 0);
    check("a 200 153\n", "a 200 0\n", 1);
    check("a 200 153\n", "b 200 153\n", 2);
    check("a 200 153\na 200 153\n", "a 200 153\n", 1);
    check("a [23/Nov/2026:17:11:35 +0000] 0.003\n", "a [23/Nov/2026:17:11:36 +0000] 0.000\n", 0);
    let error = |number: &str, text: &str| {
        format!("2026/11/23 17:11:35 [error] {number}: *1 {text}, client: 127.0.0.1, server: a\n")
    };
    check(&error("1#1", "open()"), &error("2#3", "open()"), 0);
    check(&error("1#1", "open()"), &error("2#3", "read()"), 2);
    check("", "2026/11/23 17:11:35 [notice] 1#1: start\n", 0);
    // A message with a line end within.
    check("2026/11/23 17:11:35 [debug] 1#1: *1 in:'A:\n'\n", "", 0);
    check("GET /meant HTTP/1.1 200\n", "", 0);
    check("GET /meant/a HTTP/1.1 200\n", "", 1);
}

#[test]
fn requests_are_written_in_their_shape() {
    let address = SocketAddr::from(([127, 0, 0, 1], 80));
    let listen = Listen { address, tls: false, proxied: false, stream: false };
    let check = |shape: Shape, expected: &str| {
        let fields = vec![("A".to_owned(), "{etag}".to_owned())];
        let (name, method) = (Some("a.test.:81".to_owned()), "POST".to_owned());
        let request = Request { listen, name, method, target: "/".into(), fields, shape };
        let text = String::from_utf8_lossy(&request.again("\"x\"", "").bytes()).into_owned();
        assert!(text.starts_with("POST / HTTP/1.1\r\nHost: a.test.:81\r\nA: \"x\"\r\n"), "{text}");
        assert!(text.ends_with(expected), "{text}");
        assert_eq!(request.tls_name(), Some("a.test"));
    };
    check(Shape::Plain, "Content-Length: 9\r\nConnection: close\r\n\r\na=1&b=two");
    check(
        Shape::Chunked,
        "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\na=1&b\r\n4\r\n=two\r\n0\r\n\r\n",
    );
    check(Shape::Expecting, "Expect: 100-continue\r\nConnection: close\r\n\r\na=1&b=two");
    let interim = parse(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!((interim.code(), interim.field("(interim)")), (204, Some("HTTP/1.1 100 Continue")));
}
