//! `acme auto`: one line for a certificate, HTTPS with HTTP/2 and HTTP/3, and a redirect to it. It is replaced by the
//! statements that it stands for before the configuration is compiled:
//!
//! ```nginx
//! server { server_name example.com; acme auto contact=admin@example.com; root /srv/www; }
//! # is
//! acme_issuer acme-v02.api.letsencrypt.org {
//!     uri https://acme-v02.api.letsencrypt.org/directory;
//!     contact admin@example.com;
//!     accept_terms_of_service;
//! }
//! server {
//!     acme_certificate acme-v02.api.letsencrypt.org;
//!     ssl_certificate $acme_certificate;
//!     ssl_certificate_key $acme_certificate_key;
//!     ssl_certificate_cache max=4 inactive=1d valid=1d;
//!     http2 on;
//!     http3_alt_svc on;
//!     listen 443 ssl;
//!     listen [::]:443 ssl;
//!     listen 80;
//!     listen [::]:80;
//!     listen 443 quic;
//!     listen [::]:443 quic;
//!     if ($scheme = http) { return 301 https://$host$request_uri; }
//!     server_name example.com;
//!     root /srv/www;
//! }
//! ```

use std::sync::Arc;

use tidegate_acme::Identifier;
use tidegate_conf::{
    Args, Arity, Block, Contexts, Diagnostic, Directive, Span, Statement, Word, once, row,
};

use super::https::Url;
use super::rows::Conf;

/// The authority without `issuer=` and `uri=`.
const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

pub(super) const ROWS: &[Directive<Conf>] = &[row(
    "acme",
    Contexts::HTTP_SERVER,
    Arity::AT_LEAST_ONE,
    "off",
    "`auto`: certificates from Let's Encrypt, or from another authority, for the names of the server or, in `http`, of all \
     servers without a certificate; with HTTPS on port 443, HTTP/2, HTTP/3, and a redirect from port 80, unless the \
     server has such listeners. It agrees to the authority's terms of service. Parameters: `issuer=` (of `acme_issuer`), or `uri=`, \
     `contact=`, `challenge=`, `ssl_trusted_certificate=`, `state_path=`; `key=`.",
    |conf, args| {
        if let Err((index, reason)) = Auto::parse(args.words()) {
            return Err(mistake(args, index, reason));
        }
        once(&mut conf.auto, (), args)
    },
)];

fn mistake(args: &Args<'_>, index: usize, reason: &str) -> Diagnostic {
    let found = args.invalid_parameter(index);
    if reason.is_empty() { found } else { found.label(reason) }
}

/// The parameters of one `acme auto`.
#[derive(Clone, Default, PartialEq, Eq)]
struct Auto {
    /// `issuer=`, or the host of `uri`.
    issuer: String,
    /// Settings of an issuer of its own; none with `issuer=`.
    own: Option<OwnIssuer>,
    key: Option<String>,
}

/// An issuer that `acme auto` makes.
#[derive(Clone, Default, PartialEq, Eq)]
struct OwnIssuer {
    uri: String,
    /// Directives with their values.
    settings: Vec<(&'static str, String)>,
}

impl Auto {
    /// Parses the words; `None` for `off`.
    ///
    /// # Errors
    /// The position of the wrong word, and the reason.
    fn parse(words: &[Word]) -> Result<Option<Auto>, (usize, &'static str)> {
        match words.first().map(|word| &word.bytes[..]) {
            Some(b"auto") => {}
            Some(b"off") if words.len() == 1 => return Ok(None),
            Some(b"off") => return Err((1, "nothing follows `off`")),
            _ => return Err((0, "expected `auto` or `off`")),
        }
        let (mut auto, mut uri) = (Auto::default(), None);
        let mut settings: Vec<(&'static str, String)> = Vec::new();
        for (index, word) in words.iter().enumerate().skip(1) {
            let text = word.display();
            let (name, value) = text.split_once('=').ok_or((index, "expected `name=value`"))?;
            let value = value.to_owned();
            if value.is_empty() {
                return Err((index, "a value is missing"));
            }
            let setting = match name {
                "issuer" => {
                    auto.issuer = value;
                    continue;
                }
                "uri" => {
                    Url::parse(&value).map_err(|reason| (index, reason))?;
                    uri = Some(value);
                    continue;
                }
                "key" => {
                    auto.key = Some(value);
                    continue;
                }
                "contact" => "contact",
                "challenge" => "challenge",
                "ssl_trusted_certificate" => "ssl_trusted_certificate",
                "state_path" => "state_path",
                _ => return Err((index, "")),
            };
            settings.push((setting, value));
        }
        match auto.issuer.is_empty() {
            false if uri.is_some() || !settings.is_empty() => {
                Err((1, "`issuer=` has these settings in its `acme_issuer` block"))
            }
            false => Ok(Some(auto)),
            true => {
                let uri = uri.unwrap_or_else(|| LETS_ENCRYPT.to_owned());
                auto.issuer = Url::parse(&uri).map_err(|reason| (0, reason))?.name();
                auto.own = Some(OwnIssuer { uri, settings });
                Ok(Some(auto))
            }
        }
    }
}

/// Replaces `acme auto` by what it stands for, in the statements of `http`; `None` where there is none. `ipv6` says whether
/// the machine has that.
pub(super) fn expand(
    http: &[Statement],
    ipv6: bool,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Vec<Statement>> {
    let outer = find(http, "acme");
    let has = |server: &Statement| find(server.children(), "acme").is_some();
    if outer.is_none() && !http.iter().any(|child| is(child, "server") && has(child)) {
        return None;
    }
    // What holds for all servers, without the servers themselves: each of them searches it.
    let common: Vec<Statement> =
        http.iter().filter(|child| !is(child, "server")).cloned().collect();
    let mut issuers: Vec<(String, OwnIssuer)> = Vec::new();
    let mut expanded = Vec::with_capacity(http.len() + 1);
    for child in http {
        let mut child = child.clone();
        if is(&child, "server")
            && let Some((form, auto)) = form(&child, outer)
        {
            let span = form.span;
            if let Some(own) = &auto.own {
                let known = issuers.iter().find(|(name, _)| *name == auto.issuer);
                match known {
                    Some((_, known)) if known != own => diagnostics.push(
                        Diagnostic::emerg(
                            "\"acme auto\" with other parameters for the same server of ACME",
                        )
                        .at(span)
                        .help("write an `acme_issuer` block, and name it by `issuer=`"),
                    ),
                    Some(_) => {}
                    None => {
                        expanded.push(issuer(&auto.issuer, own, span));
                        issuers.push((auto.issuer.clone(), own.clone()));
                    }
                }
            }
            let names = match has(&child) {
                true => Some(Vec::new()),
                false => exact_names(&child, diagnostics),
            };
            if let (Some(names), Some(block)) = (names, &mut child.block) {
                let around = Around { own: &block.statements, http: &common, ipv6 };
                let added = added(&auto, &names, &around, span);
                // In front: a redirect comes before the other rules of the server.
                Arc::make_mut(&mut block.statements).splice(0..0, added);
            }
        }
        expanded.push(child);
    }
    Some(expanded)
}

/// Returns the `acme auto` that applies to a server: its own, or that of `http` for servers without a certificate. Mistakes
/// in its parameters are reported where it is applied.
fn form<'a>(server: &'a Statement, outer: Option<&'a Statement>) -> Option<(&'a Statement, Auto)> {
    let statements = server.children();
    let certified = ["ssl_certificate", "ssl_reject_handshake", "acme_certificate"];
    let form = match find(statements, "acme") {
        Some(own) => own,
        None if certified.iter().any(|name| find(statements, name).is_some()) => return None,
        None => outer?,
    };
    Some((form, Auto::parse(&form.args).ok()??))
}

/// Returns the names of a server that a certificate can have; `None` without any. Others get a warning.
fn exact_names(server: &Statement, diagnostics: &mut Vec<Diagnostic>) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let statements = server.children().iter().filter(|child| is(child, "server_name"));
    for word in statements.flat_map(|statement| &statement.args) {
        let text = word.display();
        let name = text.strip_prefix('.').unwrap_or(&text);
        match Identifier::parse(name) {
            Ok(Identifier::Dns(name)) if name.contains('.') => names.push(text.into_owned()),
            // The machine's own names: no authority on the network has them.
            Ok(_) => {}
            Err(_) if matches!(&*text, "" | "_" | "$hostname") => {}
            Err(_) => {
                let message =
                    format!("server name \"{text}\" gets no certificate by \"acme auto\"");
                let found = Diagnostic::warn(message).at(word.span);
                diagnostics.push(
                    found.label("neither a wildcard nor a regular expression can be validated"),
                );
            }
        }
    }
    if names.is_empty() && find(server.children(), "server_name").is_none() {
        let message = "a server without \"server_name\" gets no certificate by \"acme auto\"";
        diagnostics.push(Diagnostic::warn(message).at(server.name.span));
    }
    (!names.is_empty()).then_some(names)
}

/// What decides about the statements that a server gets.
struct Around<'a> {
    /// The statements of the server.
    own: &'a [Statement],
    /// Those of `http`, without its servers.
    http: &'a [Statement],
    ipv6: bool,
}

/// Returns the statements that a server gets.
fn added(auto: &Auto, names: &[String], around: &Around<'_>, span: Span) -> Vec<Statement> {
    let mut certificate = vec!["acme_certificate", &auto.issuer];
    certificate.extend(names.iter().map(String::as_str));
    let key = auto.key.as_ref().map(|key| format!("key={key}"));
    certificate.extend(key.as_deref());
    let mut added = vec![
        simple(&certificate, span),
        simple(&["ssl_certificate", "$acme_certificate"], span),
        simple(&["ssl_certificate_key", "$acme_certificate_key"], span),
    ];
    let mut unless_written = |words: &[&str]| {
        if around.find(words[0]).is_none() {
            added.push(simple(words, span));
        }
    };
    unless_written(&["ssl_certificate_cache", "max=4", "inactive=1d", "valid=1d"]);
    unless_written(&["http2", "on"]);
    let listeners = listeners(around, span);
    let datagrams = datagram_listeners(around, &listeners, span);
    if !datagrams.is_empty() {
        unless_written(&["http3_alt_svc", "on"]);
    }
    added.extend(listeners);
    added.extend(datagrams);
    added
}

impl<'a> Around<'a> {
    /// Finds a statement of the server or, without one, of `http`.
    fn find(&self, name: &str) -> Option<&'a Statement> {
        find(self.own, name).or_else(|| find(self.http, name))
    }

    fn listens(&self) -> impl Iterator<Item = &'a Statement> {
        self.own.iter().filter(|statement| is(statement, "listen"))
    }

    /// Whether the server has TLS 1.3, without which there is no QUIC. The versions of several directives add up; where all
    /// are too old, those of the default are used.
    fn has_tls13(&self) -> bool {
        let own = |statements: &'a [Statement]| {
            statements.iter().filter(|statement| is(statement, "ssl_protocols"))
        };
        let nearest = if own(self.own).next().is_some() { self.own } else { self.http };
        let written = |version| own(nearest).any(|protocols| has(protocols, version));
        written("TLSv1.3") || !written("TLSv1.2")
    }

    /// Returns the address of a port for each version of IP that the machine has.
    fn addresses(&self, port: u16) -> impl Iterator<Item = String> + use<> {
        let ipv6 = self.ipv6.then(|| format!("[::]:{port}"));
        std::iter::once(port.to_string()).chain(ipv6)
    }
}

/// Returns the listeners of TCP that are missing: HTTPS beside those of port 80, or on port 443; and port 80, whose requests
/// are redirected, where the server has no plain listener.
fn listeners(around: &Around<'_>, span: Span) -> Vec<Statement> {
    let is_plain = |listen: &&Statement| !has(listen, "ssl") && !has(listen, "quic");
    let mut added = Vec::new();
    if !around.listens().any(|listen| has(listen, "ssl")) {
        for listen in around.listens().filter(is_plain) {
            let address = listen.args.first().map(Word::display).unwrap_or_default();
            let Some(secure) = secure(&address) else { continue };
            let mut words = vec!["listen", &secure, "ssl"];
            words.extend(default_server(listen));
            words.extend(with_ipv4(listen));
            added.push(simple(&words, span));
        }
        if added.is_empty() {
            let secure = around.addresses(443);
            added.extend(secure.map(|address| simple(&["listen", &address, "ssl"], span)));
        }
    }
    if !around.listens().any(|listen| is_plain(&listen)) {
        let plain = around.addresses(80);
        added.extend(plain.map(|address| simple(&["listen", &address], span)));
        let mut redirect = simple(&["if", "($scheme", "=", "http)"], span);
        let to = simple(&["return", "301", "https://$host$request_uri"], span);
        let statements = Arc::new(vec![to]);
        redirect.block = Some(Block { statements, open: span, close: span });
        added.push(redirect);
    }
    added
}

/// Returns the listeners of HTTP/3 beside those of HTTPS on port 443, which `listeners` are as well, unless the server has
/// others. Of another port the number may be different for clients (a firewall passes it on), who would get this one.
fn datagram_listeners(around: &Around<'_>, listeners: &[Statement], span: Span) -> Vec<Statement> {
    let is_off = |http3: &Statement| has(http3, "off");
    if around.listens().any(|listen| has(listen, "quic"))
        || around.find("http3").is_some_and(is_off)
        || !around.has_tls13()
    {
        return Vec::new();
    }
    let secure = around.listens().chain(listeners.iter().filter(|added| is(added, "listen")));
    // With the PROXY protocol another server is in front, to which datagrams do not come.
    let secure = secure.filter(|listen| has(listen, "ssl") && !has(listen, "proxy_protocol"));
    let beside = |listen: &Statement| {
        let address = listen.args.first()?.display();
        let is_https = &*address == "443" || address.ends_with(":443");
        let mut words = vec!["listen", &address, "quic"];
        words.extend(default_server(listen));
        words.extend(with_ipv4(listen));
        is_https.then(|| simple(&words, span))
    };
    secure.filter_map(beside).collect()
}

fn has(statement: &Statement, word: &str) -> bool {
    statement.args.iter().any(|arg| arg.bytes == word.as_bytes())
}

fn default_server(listen: &Statement) -> Option<&'static str> {
    (has(listen, "default_server") || has(listen, "default")).then_some("default_server")
}

/// Returns the parameter by which a listener of IPv6 has IPv4 as well.
fn with_ipv4(listen: &Statement) -> Option<&'static str> {
    has(listen, "ipv6only=off").then_some("ipv6only=off")
}

/// Returns the address of HTTPS beside a plain one on port 80.
fn secure(address: &str) -> Option<String> {
    if address.starts_with("unix:") {
        return None;
    }
    if address == "80" {
        return Some("443".to_owned());
    }
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port),
        _ if address.bytes().all(|byte| byte.is_ascii_digit()) => return None,
        _ => (address, "80"),
    };
    (port == "80").then(|| format!("{host}:443"))
}

fn issuer(name: &str, own: &OwnIssuer, span: Span) -> Statement {
    let mut statements = vec![simple(&["uri", &own.uri], span)];
    statements.extend(own.settings.iter().map(|(setting, value)| simple(&[*setting, value], span)));
    statements.push(simple(&["accept_terms_of_service"], span));
    let mut issuer = simple(&["acme_issuer", name], span);
    let statements = Arc::new(statements);
    issuer.block = Some(Block { statements, open: span, close: span });
    issuer
}

fn simple(words: &[&str], span: Span) -> Statement {
    let mut words =
        words.iter().map(|word| Word { bytes: word.as_bytes().to_vec(), span, quoted: false });
    let empty = Word { bytes: Vec::new(), span, quoted: false };
    Statement { name: words.next().unwrap_or(empty), args: words.collect(), block: None, span }
}

fn is(statement: &Statement, name: &str) -> bool {
    statement.name.bytes == name.as_bytes()
}

fn find<'a>(statements: &'a [Statement], name: &str) -> Option<&'a Statement> {
    statements.iter().find(|statement| is(statement, name))
}
