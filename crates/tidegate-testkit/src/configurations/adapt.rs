//! Adapts a published configuration to this machine: addresses, names, users, certificates and paths are replaced; the
//! rules for requests and responses stay.

use super::list::{Context, Mirror};
use super::places::Places;
use crate::bell::Failure;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate_conf::{Block, Loader, Parser, Span, Statement, Word};

/// Files of a packaged server that configurations include.
const STANDARD: [&str; 8] = [
    "mime.types",
    "fastcgi_params",
    "fastcgi.conf",
    "proxy_params",
    "scgi_params",
    "uwsgi_params",
    "koi-utf",
    "fastcgi-php.conf",
];

/// The base of relative includes, as in a packaged server.
const HOME: &str = "/etc/nginx";

/// Directives about processes and the machine, which the frame replaces.
const DROPPED: [&str; 18] = [
    "user",
    "pid",
    "daemon",
    "master_process",
    "worker_processes",
    "worker_cpu_affinity",
    "worker_priority",
    "worker_rlimit_nofile",
    "worker_rlimit_core",
    "working_directory",
    "lock_file",
    "load_module",
    "ssl_engine",
    "ssl_crl",
    "ssl_stapling_file",
    "ssl_password_file",
    "limit_rate",
    "auth_delay",
];

/// Longest silence of origins: some are silent, and a test must not wait for minutes.
const READ_TIMEOUTS: [&str; 4] =
    ["proxy_read_timeout", "fastcgi_read_timeout", "uwsgi_read_timeout", "scgi_read_timeout"];

/// The text of one configuration and how its includes are found.
#[derive(Debug)]
pub(super) struct Source<'a> {
    pub mirror: &'a Mirror,
    pub path: &'a str,
    pub text: &'a [u8],
    pub context: Context,
    /// Whether files of the repository are included; otherwise they count as empty.
    pub includes: bool,
    /// The directory of the standard files.
    pub standard: &'a Path,
}

impl Source<'_> {
    /// Returns the statements within the frame of the context; the error is the parser's first.
    pub(super) fn parse(&self) -> Result<Vec<Statement>, Failure> {
        let mut parser = Parser::new(self, HOME);
        let statements = parser.parse_file(Path::new("/frame"));
        match parser.diagnostics().first() {
            None => Ok(statements),
            Some(diagnostic) => Err(Failure::new(format!("{diagnostic:?}"))),
        }
    }

    fn frame(&self) -> &'static str {
        match self.context {
            Context::Main => "include /text;",
            Context::Http => "http { include /text; }",
            Context::Server => "http { server { include /text; } }",
            Context::Location => "http { server { location / { include /text; } } }",
            Context::Stream => "stream { include /text; }",
        }
    }
}

impl Loader for Source<'_> {
    fn read(&self, path: &Path) -> io::Result<Arc<[u8]>> {
        let text = path.to_string_lossy();
        match text.as_ref() {
            "/frame" => return Ok(self.frame().as_bytes().into()),
            "/text" => return Ok(self.text.into()),
            _ => {}
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if STANDARD.contains(&name.as_ref()) {
            let places = [
                self.standard.join(name.as_ref()),
                self.standard.join("snippets").join(name.as_ref()),
            ];
            let found = places.iter().find_map(|path| std::fs::read(path).ok());
            return Ok(found.unwrap_or_default().into());
        }
        let wanted = text.strip_prefix(HOME).unwrap_or(&text);
        let found = self.mirror.included(self.path, wanted).filter(|_| self.includes);
        Ok(found.and_then(|path| self.mirror.read(path).ok()).unwrap_or_default().into())
    }

    fn glob(&self, _pattern: &str) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

/// Parameters beside the configuration itself.
#[derive(Debug, Default)]
pub(super) struct Additions {
    /// The user of workers; `None` where the harness is not root.
    pub user: Option<String>,
    /// Statements for `http` that others of its files would have had.
    pub http: Vec<String>,
    /// Directives and parameters to leave out.
    pub without: Vec<String>,
}

/// Returns the adapted statements.
pub(super) fn adapt(
    statements: &[Statement],
    places: &mut Places,
    additions: &Additions,
) -> Result<Vec<Statement>, Failure> {
    survey(statements, places);
    let mut adapted = level(statements, places, additions, false)?;
    if !adapted.iter().any(|statement| statement.name.bytes == b"events") {
        adapted.insert(0, block("events", Vec::new()));
    }
    if !has(&adapted, "error_log") {
        adapted.insert(0, plain("error_log", &[&places.flat("logs", "error.log"), "info"]));
    }
    adapted.insert(0, plain("pid", &[&format!("{}/nginx.pid", places.scratch.display())]));
    adapted.insert(0, plain("daemon", &["off"]));
    adapted.insert(0, plain("worker_processes", &["1"]));
    if let Some(user) = &additions.user {
        let words: Vec<&str> = user.split(' ').collect();
        adapted.insert(0, plain("user", &words));
    }
    for statement in adapted.iter_mut().filter(|statement| statement.name.bytes == b"http") {
        if let Some(block) = &mut statement.block {
            complete_http(Arc::make_mut(&mut block.statements), places, additions)?;
        }
    }
    Ok(adapted)
}

/// Names of groups, and variables that are parts of paths.
fn survey(statements: &[Statement], places: &mut Places) {
    for statement in statements {
        let name = statement.name.bytes.as_slice();
        let first = statement.args.first().map(|word| word.display().into_owned());
        match (name, first) {
            (b"upstream", Some(first)) => {
                places.upstreams.insert(first.to_ascii_lowercase());
            }
            (b"root" | b"alias", Some(first)) => {
                let names = first.split('$').skip(1).map(|rest| {
                    let rest = rest.trim_start_matches('{');
                    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                    rest[..end.unwrap_or(rest.len())].to_owned()
                });
                places.root_variables.extend(names);
            }
            _ => {}
        }
        survey(statement.children(), places);
    }
}

/// Adapts one level of blocks and all below it.
fn level(
    statements: &[Statement],
    places: &mut Places,
    additions: &Additions,
    stream: bool,
) -> Result<Vec<Statement>, Failure> {
    let mut adapted = Vec::new();
    for statement in statements {
        let name = statement.name.display().into_owned();
        if DROPPED.contains(&name.as_str()) || additions.without.contains(&name) {
            continue;
        }
        let mut statement = statement.clone();
        if let Some(block) = &mut statement.block {
            if matches!(name.as_str(), "map" | "geo" | "types" | "split_clients" | "charset_map") {
                let statements: &mut Vec<_> = Arc::make_mut(&mut block.statements);
                sockets(statements, places);
            } else {
                let stream = stream || name == "stream";
                block.statements = Arc::new(level(&block.statements, places, additions, stream)?);
                if name == "server" && !has(&block.statements, "listen") && !stream {
                    let address = places.listen("80", &[], false)?.to_string();
                    Arc::make_mut(&mut block.statements).insert(0, plain("listen", &[&address]));
                }
            }
        } else {
            let words: Vec<String> =
                statement.args.iter().map(|word| word.display().into_owned()).collect();
            let Some(changed) = words_of(&name, &words, places, additions, stream)? else {
                continue;
            };
            for (index, text) in changed.iter().enumerate() {
                if words.get(index) != Some(text) {
                    statement.args.truncate(changed.len());
                    match statement.args.get_mut(index) {
                        Some(slot) => *slot = word(text),
                        None => statement.args.push(word(text)),
                    }
                }
            }
            statement.args.truncate(changed.len());
        }
        adapted.push(statement);
    }
    Ok(adapted)
}

/// Returns the adapted words of a simple directive; `None` where it is left out.
fn words_of(
    name: &str,
    words: &[String],
    places: &mut Places,
    additions: &Additions,
    stream: bool,
) -> Result<Option<Vec<String>>, Failure> {
    let mut words = words.to_vec();
    let Some(first) = words.first().cloned() else { return Ok(Some(words)) };
    let scratch = places.scratch.display().to_string();
    match name {
        // A `listen` for QUIC is removed as a whole: without the parameter it would be another address for TCP.
        "listen" if words.iter().any(|word| additions.without.contains(word) && word == "quic") => {
            return Ok(None);
        }
        "listen" => {
            words[0] = places.listen(&first, &words[1..], stream)?.to_string();
            words
                .retain(|word| !additions.without.contains(word) && !word.starts_with("ipv6only="));
        }
        "root" => words[0] = places.root(&first),
        "alias" => words[0] = places.alias(&first),
        "set" => return Ok(Some(set(words, places))),
        "access_log" | "error_log" | "rewrite_log" if first.starts_with("syslog:") => {
            words = vec![if name == "access_log" { "off".into() } else { "/dev/null".into() }];
        }
        "access_log" if first != "off" => words[0] = places.flat("logs", &first),
        "error_log" if first != "stderr" => words[0] = places.flat("logs", &first),
        "resolver" => {
            words = vec![places.stubs.names.to_string(), "ipv6=off".into(), "valid=30s".into()];
        }
        "proxy_pass" if !stream => words[0] = places.url(&first),
        "proxy_pass" | "fastcgi_pass" | "uwsgi_pass" | "scgi_pass" | "memcached_pass" => {
            let bare = first.rsplit("://").next().unwrap_or(&first);
            words[0] = places.peer(bare);
        }
        "grpc_pass" => words[0] = format!("grpc://{}", places.stubs.origin),
        "server" => member(&mut words, places, stream),
        "limit_req_zone" => {
            let swift = |word: &mut String| *word = "rate=100000r/s".into();
            words.iter_mut().filter(|word| word.starts_with("rate=")).for_each(swift);
        }
        // The result must not depend on requests within the same millisecond.
        "limit_req" => {
            words.retain(|word| word.starts_with("zone="));
            words.extend(["burst=1000".into(), "nodelay".into()]);
        }
        "limit_conn" if words.len() == 2 => words[1] = "1000".into(),
        // The client is this machine.
        "set_real_ip_from" => words[0] = "127.0.0.0/8".into(),
        _ if READ_TIMEOUTS.contains(&name) && !stream => words[0] = "1s".into(),
        "auth_basic_user_file" => words[0] = format!("{scratch}/htpasswd"),
        "ssl_dhparam" => words[0] = format!("{scratch}/dhparam.pem"),
        "ssl_session_ticket_key" => words[0] = format!("{scratch}/ticket.key"),
        _ if name.ends_with("_cache_path") || name.ends_with("_temp_path") => {
            words[0] = places.flat("cache", &first);
        }
        "proxy_store" if first.contains('/') => words[0] = places.flat("cache", &first),
        _ if name.ends_with("ssl_certificate_key") => words[0] = format!("{scratch}/key.pem"),
        _ if name.contains("ssl_") && name.ends_with("_certificate")
            || name == "ssl_certificate" =>
        {
            words[0] = format!("{scratch}/cert.pem");
        }
        _ => {}
    }
    Ok(Some(words))
}

/// Adapts a server of a group. A failed server stays failed until the end, however long the requests take.
fn member(words: &mut Vec<String>, places: &Places, stream: bool) {
    words[0] = places.stubs.origin.to_string();
    words.retain(|word| word != "resolve" && !word.starts_with("service="));
    if !stream {
        words.retain(|word| !word.starts_with("fail_timeout="));
        words.push("fail_timeout=600s".into());
    }
}

/// Paths that variables carry into `root`, and sockets that they carry into a pass.
fn set(mut words: Vec<String>, places: &mut Places) -> Vec<String> {
    let name = words[0].trim_start_matches('$').to_owned();
    if let Some(value) = words.get_mut(1) {
        if value.starts_with("unix:/") {
            *value = places.stubs.origin.to_string();
        } else if value.starts_with('/') && places.root_variables.contains(&name) {
            places.root(value);
        }
    }
    words
}

/// Sockets among the values of a map.
fn sockets(statements: &mut [Statement], places: &Places) {
    for value in statements.iter_mut().flat_map(|statement| statement.args.iter_mut()) {
        if value.bytes.starts_with(b"unix:/") {
            *value = word(&places.stubs.origin.to_string());
        }
    }
}

/// Adds parts that the configuration has in other files: logs and temporary files within the scratch
/// directory, a certificate, and a server that uses groups and variables where there is none.
fn complete_http(
    http: &mut Vec<Statement>,
    places: &mut Places,
    additions: &Additions,
) -> Result<(), Failure> {
    let scratch = places.scratch.display().to_string();
    let mut first = Vec::new();
    if !has(http, "access_log") {
        first.push(plain("access_log", &[&format!("{scratch}/logs/access.log")]));
    }
    for name in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        let name = format!("{name}_temp_path");
        if !has(http, &name) {
            first.push(plain(&name, &[&places.flat("cache", &name)]));
        }
    }
    for name in READ_TIMEOUTS.iter().filter(|name| !has(http, name)) {
        first.push(plain(name, &["1s"]));
    }
    if !has(http, "ssl_certificate") {
        first.push(plain("ssl_certificate", &[&format!("{scratch}/cert.pem")]));
    }
    if !has(http, "ssl_certificate_key") {
        first.push(plain("ssl_certificate_key", &[&format!("{scratch}/key.pem")]));
    }
    for text in &additions.http {
        let loader = Fragment(text.as_bytes());
        first.extend(Parser::new(&loader, HOME).parse_file(Path::new("/fragment")));
    }
    if !has(http, "server") {
        let address = places.listen("80", &[], false)?.to_string();
        http.push(viewer(http, &address));
    }
    first.append(http);
    *http = first;
    Ok(())
}

/// Returns a server that shows each variable defined here, and passes to each group.
fn viewer(http: &[Statement], address: &str) -> Statement {
    let mut shown = String::new();
    let mut locations = Vec::new();
    for statement in http {
        let words: Vec<_> = statement.args.iter().map(Word::display).collect();
        match (statement.name.bytes.as_slice(), words.as_slice()) {
            (b"map" | b"geo" | b"split_clients", [.., last]) => {
                shown.push_str(&format!("{}={last}\n", last.trim_start_matches('$')));
            }
            (b"upstream", [name, ..]) => {
                let pass = plain("proxy_pass", &[&format!("http://{name}")]);
                locations.push(block_of("location", &[&format!("/{name}/")], vec![pass]));
            }
            _ => {}
        }
    }
    if !shown.is_empty() {
        let text = plain("return", &["200", &shown]);
        locations.push(block_of("location", &["/variables"], vec![text]));
    }
    locations.insert(0, plain("listen", &[address]));
    block("server", locations)
}

struct Fragment<'a>(&'a [u8]);

impl Loader for Fragment<'_> {
    fn read(&self, _path: &Path) -> io::Result<Arc<[u8]>> {
        Ok(self.0.into())
    }

    fn glob(&self, _pattern: &str) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

fn has(statements: &[Statement], name: &str) -> bool {
    statements.iter().any(|statement| statement.name.bytes == name.as_bytes())
}

fn word(text: &str) -> Word {
    Word { bytes: text.as_bytes().to_vec(), span: Span::NONE, quoted: text.is_empty() }
}

fn plain(name: &str, words: &[&str]) -> Statement {
    let args = words.iter().map(|text| word(text)).collect();
    Statement { name: word(name), args, block: None, span: Span::NONE }
}

fn block(name: &str, statements: Vec<Statement>) -> Statement {
    block_of(name, &[], statements)
}

fn block_of(name: &str, words: &[&str], statements: Vec<Statement>) -> Statement {
    let statements = Arc::new(statements);
    let block = Block { statements, open: Span::NONE, close: Span::NONE };
    Statement { block: Some(block), ..plain(name, words) }
}
