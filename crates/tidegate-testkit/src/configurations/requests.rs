//! The requests to a configuration: its names, its locations, the inputs of its conditions and maps, and
//! common requests of clients and attackers.

use super::forms;
use super::places::{Listen, Places};
use super::samples;
use std::collections::BTreeSet;
use tidegate_conf::Statement;

/// Most requests for one `server` block, and for one configuration.
const SERVER_MAX: usize = 260;
const ROW_MAX: usize = 700;

/// Bytes of a large body: more than `client_max_body_size` is by default.
const LARGE_BYTES: usize = 1_200_000;

/// Most samples of one expression or of one map.
const SAMPLES_MAX: usize = 3;

/// Requests that every server gets, besides those for its locations.
const TARGETS: [&str; 24] = [
    "/",
    "/index.html",
    "/a.txt",
    "/a.txt?x=1&y=%20",
    "/dir",
    "/dir/",
    "/dir/b.txt",
    "/empty/",
    "/none",
    "/none/",
    "/index.php",
    "/index.php/more/info?q=1",
    "/none.php",
    "/app.js",
    "/style.css?v=1",
    "/img.png",
    "/favicon.ico",
    "/robots.txt",
    "/.htaccess",
    "/.git/config",
    "/.well-known/acme-challenge/token",
    "/a%20b.txt",
    "//dir//b.txt",
    "/dir/../a.txt",
];

/// Fields, one at a time, with targets that exist.
const FIELDS: [(&str, &str, &str); 17] = [
    ("/a.txt", "Range", "bytes=2-5"),
    ("/a.txt", "Range", "bytes=900-"),
    ("/a.txt", "If-Modified-Since", "Tue, 02 Jan 2024 00:00:00 GMT"),
    ("/a.txt", "If-Modified-Since", "Sun, 01 Jan 2023 00:00:00 GMT"),
    ("/index.html", "If-None-Match", "*"),
    ("/index.html", "Accept-Encoding", "gzip"),
    ("/app.js", "Accept-Encoding", "gzip, deflate, br"),
    ("/", "Accept-Encoding", "gzip"),
    ("/", "Origin", "https://elsewhere.test"),
    ("/img.png", "Referer", "http://thief.test/"),
    ("/", "User-Agent", "Mozilla/5.0 (iPhone; like Mac OS X) Mobile"),
    ("/", "User-Agent", "Googlebot/2.1"),
    ("/", "Authorization", "Basic dXNlcjpzZWNyZXQ="),
    ("/", "Cookie", "a=1; wordpress_logged_in_x=1; session=2"),
    ("/", "X-Forwarded-Proto", "https"),
    ("/", "X-Forwarded-For", "192.0.2.1, 198.51.100.2"),
    ("/?s=404", "Accept", "text/html"),
];

/// Methods beside GET, with a target each.
const METHODS: [(&str, &str); 11] = [
    ("HEAD", "/"),
    ("HEAD", "/a.txt"),
    ("POST", "/"),
    ("POST", "/a.txt"),
    ("OPTIONS", "/"),
    ("PUT", "/new.txt"),
    ("DELETE", "/none"),
    ("PATCH", "/a.txt"),
    ("TRACE", "/"),
    ("PROPFIND", "/"),
    ("FOO", "/a.txt"),
];

/// One request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    pub listen: Listen,
    /// The name in `Host` and in the TLS handshake; without one, HTTP/1.0 is spoken.
    pub name: Option<String>,
    pub method: String,
    pub target: String,
    pub fields: Vec<(String, String)>,
    pub shape: Shape,
}

/// How a request is sent, besides its line and fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Shape {
    /// With a short body of known length where the method has one.
    #[default]
    Plain,
    /// With a body in chunks.
    Chunked,
    /// With a body that is sent when the server asks for it.
    Expecting,
    /// With a body larger than the default limit of servers.
    Large,
    /// Requests another protocol, without `Connection: close`.
    Upgrade,
    /// Of HTTP/1.1 and without `Host`.
    Nameless,
}

impl Request {
    /// The name for TLS: without the parts that only `Host` has.
    pub fn tls_name(&self) -> Option<&str> {
        let name = self.name.as_deref()?;
        Some(name.split(':').next().unwrap_or(name).trim_end_matches('.'))
    }

    /// The same request with the validators of a response in place of `{etag}` and `{modified}`.
    pub fn again(&self, etag: &str, modified: &str) -> Self {
        let fields = self.fields.iter().map(|(name, value)| {
            (name.clone(), value.replace("{etag}", etag).replace("{modified}", modified))
        });
        Self { fields: fields.collect(), ..self.clone() }
    }

    /// Returns the bytes to send; the connection ends after the response.
    pub fn bytes(&self) -> Vec<u8> {
        let modern = self.name.is_some() || self.shape == Shape::Nameless;
        let version = if modern { "1.1" } else { "1.0" };
        let mut text = format!("{} {} HTTP/{version}\r\n", self.method, self.target);
        if let Some(name) = &self.name {
            text.push_str(&format!("Host: {name}\r\n"));
        }
        for (name, value) in &self.fields {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        let form = "Content-Type: application/x-www-form-urlencoded\r\n";
        let body = match self.shape {
            Shape::Chunked => "5\r\na=1&b\r\n4\r\n=two\r\n0\r\n\r\n".to_owned(),
            Shape::Large => "large=1&".repeat(LARGE_BYTES / 8),
            _ if matches!(self.method.as_str(), "POST" | "PUT") => "a=1&b=two".to_owned(),
            _ => String::new(),
        };
        match self.shape {
            Shape::Chunked => text.push_str(&format!("{form}Transfer-Encoding: chunked\r\n")),
            _ if body.is_empty() => {}
            _ => text.push_str(&format!("{form}Content-Length: {}\r\n", body.len())),
        }
        if self.shape == Shape::Expecting {
            text.push_str("Expect: 100-continue\r\n");
        }
        text.push_str(match self.shape {
            Shape::Upgrade => "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
            _ => "Connection: close\r\n\r\n",
        });
        text.push_str(&body);
        text.into_bytes()
    }
}

impl std::fmt::Display for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.listen.tls { "https" } else { "http" };
        let target = self.target.get(..120).unwrap_or(&self.target);
        write!(f, "{} {scheme}://{} {target}", self.method, self.name.as_deref().unwrap_or("-"))?;
        if self.shape != Shape::Plain {
            write!(f, " ({:?})", self.shape)?;
        }
        self.fields.iter().try_for_each(|(name, value)| {
            write!(f, " {name}: {}", value.get(..80).unwrap_or(value))
        })
    }
}

/// The requests for the statements of a whole configuration, in the order of its servers.
pub(super) fn requests(statements: &[Statement], places: &Places) -> Vec<Request> {
    let mut all = Vec::new();
    for statement in statements {
        if statement.name.bytes == b"http" {
            let http = statement.children();
            let shared = conditions(http, false);
            for server in http.iter().filter(|inner| inner.name.bytes == b"server") {
                all.extend(server_requests(server.children(), &shared, places));
            }
        }
    }
    for listen in places.listens.values().filter(|listen| listen.stream) {
        let name = Some("stream.test".to_owned());
        let (method, target) = ("GET".to_owned(), "/stream".to_owned());
        let shape = Shape::Plain;
        all.push(Request { listen: *listen, name, method, target, fields: Vec::new(), shape });
    }
    let mut seen = BTreeSet::new();
    all.retain(|request| seen.insert(request.clone()));
    all.truncate(ROW_MAX);
    all
}

/// The input of a condition, and a value for it.
type Condition = (String, String);

fn server_requests(server: &[Statement], shared: &[Condition], places: &Places) -> Vec<Request> {
    let mut listens: Vec<Listen> = Vec::new();
    for statement in server.iter().filter(|statement| statement.name.bytes == b"listen") {
        let address = statement.args.first().and_then(|word| word.display().parse().ok());
        let known = places.listens.values().find(|listen| Some(listen.address) == address);
        listens.extend(known.filter(|listen| !listens.contains(listen)));
    }
    let Some(first) = listens.first().copied() else { return Vec::new() };
    let names = names(server);
    let main = names.first().cloned().unwrap_or_else(|| "some.test".into());
    let ask = |method: &str, target: &str, fields: &[(&str, &str)]| Request {
        listen: first,
        name: Some(main.clone()),
        method: method.into(),
        target: target.into(),
        fields: fields.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
        shape: Shape::Plain,
    };
    let mut found: Vec<Request> = Vec::new();
    let mut paths = Vec::new();
    location_paths(server, &mut paths);
    for path in &paths {
        found.push(ask("GET", path, &[]));
    }
    for (variable, value) in conditions(server, true).iter().chain(shared) {
        found.extend(conditioned(&ask("GET", "/", &[]), variable, value));
    }
    found.truncate(SERVER_MAX / 2);
    found.extend(TARGETS.iter().map(|target| ask("GET", target, &[])));
    found.extend(METHODS.iter().map(|(method, target)| ask(method, target, &[])));
    found.extend(FIELDS.iter().map(|(target, name, value)| ask("GET", target, &[(name, value)])));
    for path in paths.iter().take(SAMPLES_MAX * 2) {
        found.push(ask("HEAD", path, &[]));
        found.push(ask("POST", path, &[]));
        found.push(ask("GET", path, &[("Accept-Encoding", "gzip")]));
    }
    found.push(ask("GET", &format!("/{}", "l".repeat(4000)), &[]));
    found.push(ask("GET", &format!("/{}", "l".repeat(40_000)), &[]));
    found.push(ask("GET", &format!("http://{main}/a.txt"), &[]));
    found.push(ask("GET", "/%2e%2e/%2fetc/passwd", &[]));
    found.push(ask("GET", "/bad%zzescape", &[]));
    found.push(ask("GET", "/a.txt%00", &[]));
    found.push(Request { name: None, ..ask("GET", "/a.txt", &[]) });
    let others =
        names.iter().skip(1).map(String::as_str).chain(["unknown.test", "127.0.0.1", "bad/host"]);
    for name in others {
        found.push(Request { name: Some(name.into()), ..ask("GET", "/", &[]) });
    }
    for listen in listens.into_iter().skip(1).take(SAMPLES_MAX) {
        for target in ["/", "/a.txt", "/none", "/dir"] {
            found.push(Request { listen, ..ask("GET", target, &[]) });
        }
    }
    found.truncate(SERVER_MAX / 2);
    found.extend(forms::forms(&ask("GET", "/", &[]), &paths));
    if forms::passes(server) {
        found.extend(forms::of_origins(&ask("GET", "/", &[]), &paths, server));
    }
    found.truncate(SERVER_MAX);
    found
}

/// Samples of the server's names.
fn names(server: &[Statement]) -> Vec<String> {
    let mut names = Vec::new();
    let statements = server.iter().filter(|statement| statement.name.bytes == b"server_name");
    for word in statements.flat_map(|statement| &statement.args) {
        let text = word.display();
        let samples = match text.as_ref() {
            "" | "_" => continue,
            _ if text.contains('$') => continue,
            _ if text.starts_with('~') => {
                samples::samples(text.trim_start_matches(['~', '*']), true)
            }
            _ if text.starts_with("*.") => vec![format!("a{}", &text[1..])],
            _ if text.starts_with('.') => vec![text[1..].to_owned(), format!("a{text}")],
            _ if text.ends_with(".*") => vec![text.replace(".*", ".test")],
            _ => vec![text.into_owned()],
        };
        let valid = |name: &String| name.bytes().all(|byte| byte.is_ascii_graphic());
        names.extend(samples.into_iter().filter(valid).take(SAMPLES_MAX));
    }
    names.truncate(SAMPLES_MAX * 2);
    names
}

/// Paths for locations and rewrites, nested ones too.
fn location_paths(statements: &[Statement], paths: &mut Vec<String>) {
    for statement in statements {
        let words: Vec<_> = statement.args.iter().map(|word| word.display().into_owned()).collect();
        match (statement.name.bytes.as_slice(), words.as_slice()) {
            (b"location", words) => location(words, paths),
            (b"rewrite", [pattern, ..]) => {
                paths.extend(samples::paths(pattern, false).into_iter().take(SAMPLES_MAX));
            }
            _ => {}
        }
        if matches!(statement.name.bytes.as_slice(), b"location" | b"if") {
            location_paths(statement.children(), paths);
        }
    }
    let mut seen = BTreeSet::new();
    paths.retain(|path| {
        let sendable = path.bytes().all(|byte| byte.is_ascii_graphic());
        sendable && seen.insert(path.clone())
    });
}

fn location(words: &[String], paths: &mut Vec<String>) {
    let (kind, path) = match words {
        [kind, path, ..] => (kind.as_str(), path.as_str()),
        [word] => match ["~*", "~", "^~", "="].iter().find(|kind| word.starts_with(**kind)) {
            Some(kind) => (*kind, &word[kind.len()..]),
            None => ("", word.as_str()),
        },
        [] => return,
    };
    match kind {
        "~" | "~*" => {
            paths.extend(samples::paths(path, kind == "~*").into_iter().take(SAMPLES_MAX));
        }
        "=" => paths.extend([path.to_owned(), format!("{path}/")]),
        _ if path.starts_with('/') => {
            let bare = path.trim_end_matches('/');
            paths.extend([path.to_owned(), format!("{bare}/a.txt"), format!("{bare}/x?s=1")]);
            paths.push(if bare.is_empty() || path.ends_with('/') {
                bare.to_owned()
            } else {
                format!("{bare}/")
            });
            paths.retain(|path| !path.is_empty());
        }
        _ => {}
    }
}

/// Values that conditions (`if`) and sources of maps are compared with; only at this level unless `deep`.
fn conditions(statements: &[Statement], deep: bool) -> Vec<Condition> {
    let mut found = Vec::new();
    for statement in statements {
        let words: Vec<_> = statement.args.iter().map(|word| word.display().into_owned()).collect();
        match statement.name.bytes.as_slice() {
            b"if" => found.extend(condition(&words.join(" "))),
            b"map" => {
                let source = words.first().cloned().unwrap_or_default();
                let keys = statement.children().iter().map(|entry| entry.name.display());
                let values = keys.flat_map(|key| match key.strip_prefix('~') {
                    Some(pattern) => samples::samples(pattern.trim_start_matches('*'), true),
                    None => vec![key.trim_start_matches('\\').into()],
                });
                found.extend(values.take(SAMPLES_MAX * 2).map(|value| (source.clone(), value)));
            }
            _ => {}
        }
        if deep {
            found.extend(conditions(statement.children(), true));
        }
    }
    found
}

/// The variable of a condition, and values for which it holds.
fn condition(text: &str) -> Vec<Condition> {
    let text = text.trim().trim_start_matches('(').trim_end_matches(')').trim();
    let mut words = text.splitn(3, ' ');
    let variable = words.next().unwrap_or_default().to_owned();
    let values = match (words.next(), words.next()) {
        (Some("=" | "!="), Some(value)) => vec![value.trim().to_owned()],
        (Some("~" | "~*" | "!~" | "!~*"), Some(value)) => samples::samples(value.trim(), true),
        (None, _) => vec!["1".to_owned()],
        _ => Vec::new(),
    };
    values.into_iter().take(SAMPLES_MAX).map(|value| (variable.clone(), value)).collect()
}

/// Returns a request for which a variable has a value, where a client can cause that.
fn conditioned(base: &Request, variable: &str, value: &str) -> Option<Request> {
    if value.bytes().any(|byte| !(b' '..0x7f).contains(&byte)) {
        return None;
    }
    let graphic = !value.contains(' ') && !value.is_empty();
    let mut request = base.clone();
    let name = variable.trim_start_matches('$').trim_matches(['{', '}']);
    match name {
        "request_method" if graphic => request.method = value.to_owned(),
        "host" | "http_host" if graphic => request.name = Some(value.to_owned()),
        "args" | "query_string" if graphic => request.target = format!("/?{value}"),
        "uri" | "document_uri" | "request_uri" if value.starts_with('/') && graphic => {
            request.target = value.to_owned();
        }
        _ => match (name.split_once('_'), graphic) {
            (Some(("arg", key)), true) => request.target = format!("/?{key}={value}"),
            (Some(("cookie", key)), _) => {
                request.fields.push(("Cookie".into(), format!("{key}={value}")));
            }
            (Some(("http", key)), _) => {
                request.fields.push((key.replace('_', "-"), value.to_owned()));
            }
            _ => return None,
        },
    }
    Some(request)
}
