//! The shared `*_ssl_*` directives: TLS towards origins.

use std::sync::Arc;

use tidegate_conf::{Args, Contexts, Diagnostic, Span, Word, once};
use tidegate_core::{Exchange, Template};
use tidegate_plan::PlanBuilder;
use tidegate_tls::openssl_commands::{self, Command};
use tidegate_tls::{
    KeyLog, PairCache, Protocols, TlsOptions, TlsSettings, TlsTarget, cipher_suites, key_files,
};

use super::chosen_certificate::ChosenCertificate;
use super::options::HasGateway;
use tidegate_core::Refused;

/// The directives of one block as written.
#[derive(Clone, Default)]
pub struct TlsConf {
    session_reuse: Option<bool>,
    /// TLS 1.2 and TLS 1.3.
    protocols: Option<(bool, bool)>,
    ciphers: Option<Word>,
    name: Option<Word>,
    server_name: Option<bool>,
    verify: Option<bool>,
    verify_depth: Option<u64>,
    trusted_certificate: Option<Word>,
    crl: Option<Word>,
    certificate: Option<Word>,
    key: Option<Word>,
    password_file: Option<Word>,
    key_log: Option<Word>,
    /// `*_ssl_certificate_cache`; `Some(None)` is `off`.
    certificate_cache: Option<Option<Arc<PairCache>>>,
    alpn: Option<Vec<Word>>,
    /// `*_ssl_conf_command`, with the words of their values.
    commands: Option<Vec<(Command, Word)>>,
    /// Suites of TLS 1.3 that these commands name.
    suites_tls13: Vec<u16>,
    /// Reported when the block is used.
    warnings: Vec<Diagnostic>,
}

/// TLS of one location.
#[derive(Debug)]
pub struct GatewayTls {
    settings: Arc<TlsSettings>,
    /// `*_ssl_name`; `None` is the requested host.
    name: Option<Template>,
    /// `*_ssl_alpn`.
    alpn: Vec<Template>,
    /// What is offered where it is not written.
    default_alpn: Protocols,
    /// The client certificate where variables name it.
    chosen: Option<Arc<ChosenCertificate>>,
}

/// nginx's default.
const CIPHERS_DEFAULT: &str = "DEFAULT";
/// nginx's default.
const VERIFY_DEPTH_DEFAULT: u64 = 1;

/// Makes the rows for a prefix and a module's settings.
macro_rules! gateway_tls_rows {
    ($prefix:literal, $conf:ty) => {
        $crate::common::tls::gateway_tls_rows!(
            $prefix, $conf, tidegate_conf::Contexts::HTTP_SERVER_LOCATION)
    };
    ($prefix:literal, $conf:ty, $contexts:expr) => {
        &[
            $crate::common::tls::gateway_tls_rows!(@row $prefix, $conf, $contexts,
                ["proxy_ssl_session_reuse", "uwsgi_ssl_session_reuse", "grpc_ssl_session_reuse"], FLAG, "on",
                "Whether sessions are resumed in later connections.", set_session_reuse),
            $crate::common::tls::gateway_tls_rows!(@row $prefix, $conf, $contexts,
                ["proxy_ssl_protocols", "uwsgi_ssl_protocols", "grpc_ssl_protocols"], AT_LEAST_ONE,
                "TLSv1.2 TLSv1.3", "Enabled protocol versions; older ones are not available and left out.",
                set_protocols),
            $crate::common::tls::gateway_tls_rows!(@row $prefix, $conf, $contexts,
                ["proxy_ssl_ciphers", "uwsgi_ssl_ciphers", "grpc_ssl_ciphers"], ONE, "DEFAULT",
                "Cipher suites of TLS 1.2 in OpenSSL's format.", set_ciphers),
            $crate::common::tls::gateway_tls_rows!(@row $prefix, $conf, $contexts,
                ["proxy_ssl_name", "uwsgi_ssl_name", "grpc_ssl_name"], ONE, $crate::common::tls::name_default($prefix, $contexts),
                "Name that the origin's certificate is verified for and that is sent to it.", set_name),
            $crate::common::tls::gateway_tls_rows!(@row $prefix, $conf, $contexts,
                ["proxy_ssl_server_name", "uwsgi_ssl_server_name", "grpc_ssl_server_name"], FLAG, "off",
                "Whether the name is sent to the origin (SNI).", set_server_name),
            $crate::common::tls::gateway_tls_rows!(@row $prefix, $conf, $contexts,
                ["proxy_ssl_verify", "uwsgi_ssl_verify", "grpc_ssl_verify"], FLAG, "off",
                "Whether the origin's certificate is verified.", set_verify),
            $crate::common::tls::gateway_tls_rows!(@row $prefix, $conf, $contexts,
                ["proxy_ssl_verify_depth", "uwsgi_ssl_verify_depth", "grpc_ssl_verify_depth"], ONE, "1",
                "Most certificates between the origin's and a trusted one.", set_verify_depth),
            $crate::common::tls::gateway_tls_rows!(@row $prefix, $conf, $contexts,
                ["proxy_ssl_trusted_certificate", "uwsgi_ssl_trusted_certificate", "grpc_ssl_trusted_certificate"], ONE, "",
                "PEM file with the certificates that are trusted.", set_trusted_certificate),
            $crate::common::tls::gateway_tls_rows!(@row $prefix, $conf, $contexts,
                ["proxy_ssl_crl", "uwsgi_ssl_crl", "grpc_ssl_crl"], ONE, "",
                "PEM file with lists of revoked certificates, one of each issuer in an origin's chain.", set_crl),
            $crate::common::tls::gateway_tls_rows!(@row $prefix, $conf, $contexts,
                ["proxy_ssl_certificate", "uwsgi_ssl_certificate", "grpc_ssl_certificate"], ONE, "",
                "PEM file with the certificate sent to origins that request one. Its name may have variables.", set_certificate),
            $crate::common::tls::gateway_tls_rows!(@row $prefix, $conf, $contexts,
                ["proxy_ssl_certificate_key", "uwsgi_ssl_certificate_key", "grpc_ssl_certificate_key"], ONE, "",
                "PEM file with the private key of our own certificate. Its name may have variables.", set_key),
            $crate::common::tls::gateway_tls_rows!(@row $prefix, $conf, $contexts,
                ["proxy_ssl_certificate_cache", "uwsgi_ssl_certificate_cache", "grpc_ssl_certificate_cache"], ONE_TO_THREE, "off",
                "Cache of certificates and keys whose names have variables: `max=N` of them, the least recently used are \
                 removed; also those not used for `inactive=TIME` (10s). After `valid=TIME` (60s) they are compared with \
                 their files.", set_certificate_cache),
            $crate::common::tls::gateway_tls_rows!(@row $prefix, $conf, $contexts,
                ["proxy_ssl_password_file", "uwsgi_ssl_password_file", "grpc_ssl_password_file"], ONE, "",
                "File with pass phrases for the private key, one a line.", set_password_file),
            $crate::common::tls::gateway_tls_rows!(@row $prefix, $conf, $contexts,
                ["proxy_ssl_key_log", "uwsgi_ssl_key_log", "grpc_ssl_key_log"], ONE, "",
                "File to which the secrets of connections to origins are written, in the format SSLKEYLOGFILE. The master \
                 creates it with mode 0600, and reopens it as it does logs.", set_key_log),
            $crate::common::tls::gateway_tls_rows!(@row $prefix, $conf, $contexts,
                ["proxy_ssl_conf_command", "uwsgi_ssl_conf_command", "grpc_ssl_conf_command"], TWO, "",
                "A configuration command of OpenSSL: MinProtocol, MaxProtocol, CipherString, Ciphersuites, \
                 Certificate with PrivateKey, Options.", set_conf_command),
        ]
    };
    (@row $prefix:literal, $conf:ty, $contexts:expr, $names:expr, $arity:ident, $default:expr, $doc:literal, $set:ident) => {
        tidegate_conf::row::<$conf>(tidegate_conf::with_prefix($prefix, $names),
            $contexts, tidegate_conf::Arity::$arity, $default, $doc,
            $crate::common::tls::$set::<$conf>)
    };
}
pub(crate) use gateway_tls_rows;

/// Returns the text for the default of `*_ssl_name`. `$proxy_host` is a variable of `proxy_pass` in `http`.
pub(crate) const fn name_default(prefix: &str, contexts: Contexts) -> &'static str {
    match (prefix.as_bytes(), contexts.contains(Contexts::HTTP)) {
        (b"proxy_", true) => "$proxy_host",
        (b"proxy_", false) => "host from proxy_pass",
        (b"grpc_", _) => "host from grpc_pass",
        _ => "host from uwsgi_pass",
    }
}

/// Makes the setter of a flag or of a word.
macro_rules! setters {
    ($($set:ident $field:ident $value:expr;)*) => {
        $(pub(crate) fn $set<C: HasGateway>(conf: &mut C, args: &Args<'_>) -> Result<(), Diagnostic> {
            let value: fn(&Args<'_>) -> Result<_, Diagnostic> = $value;
            once(&mut conf.gateway().tls.$field, value(args)?, args)
        })*
    };
}

setters! {
    set_session_reuse session_reuse |args| args.flag(0);
    set_ciphers ciphers |args| Ok(args.word(0).clone());
    set_name name |args| Ok(args.word(0).clone());
    set_server_name server_name |args| args.flag(0);
    set_verify verify |args| args.flag(0);
    set_verify_depth verify_depth |args| args.number(0, 0..=u64::MAX);
    set_trusted_certificate trusted_certificate |args| Ok(args.word(0).clone());
    set_crl crl |args| Ok(args.word(0).clone());
    set_certificate certificate |args| Ok(args.word(0).clone());
    set_key key |args| Ok(args.word(0).clone());
    set_password_file password_file |args| Ok(args.word(0).clone());
    set_key_log key_log |args| Ok(args.word(0).clone());
    set_certificate_cache certificate_cache PairCache::of_directive;
    set_alpn alpn |args| Ok(args.words().to_vec());
}

pub(crate) fn set_protocols<C: HasGateway>(
    conf: &mut C,
    args: &Args<'_>,
) -> Result<(), Diagnostic> {
    let conf = &mut conf.gateway().tls;
    let (mut tls12, mut tls13) = (false, false);
    for index in 0..args.len() {
        match args.bytes(index) {
            b"TLSv1.2" => tls12 = true,
            b"TLSv1.3" => tls13 = true,
            b"SSLv2" | b"SSLv3" | b"TLSv1" | b"TLSv1.1" => {
                let name = args.word(index).display();
                let message = format!("protocol \"{name}\" is not available, ignored");
                let found = args.error(index, message).as_warning();
                conf.warnings.push(found.help(openssl_commands::OLD_PROTOCOLS));
            }
            _ => {
                let message = format!("invalid value \"{}\"", args.word(index).display());
                return Err(args.error(index, message));
            }
        }
    }
    if !tls12 && !tls13 {
        (tls12, tls13) = (true, true);
        let name = args.name();
        let message = format!("no available protocol in \"{name}\", TLSv1.2 and TLSv1.3 are used");
        conf.warnings.push(args.error_here(message).as_warning());
    }
    // Several directives add up, as in nginx.
    let before = conf.protocols.unwrap_or_default();
    conf.protocols = Some((before.0 || tls12, before.1 || tls13));
    Ok(())
}

/// Sets a directive that may be given several times.
pub(crate) fn set_conf_command<C: HasGateway>(
    conf: &mut C,
    args: &Args<'_>,
) -> Result<(), Diagnostic> {
    let commands = openssl_commands::of_directive(args)?;
    if commands.iter().any(|(command, _)| *command == Command::Groups) {
        let message = format!("\"{} {}\" is not supported yet", args.name(), args.text(0)?);
        return Err(args.error(0, message));
    }
    conf.gateway().tls.commands.get_or_insert_default().extend(commands);
    Ok(())
}

impl TlsConf {
    /// Returns the settings after commands have changed what directives set.
    fn after_commands(&self) -> TlsConf {
        let mut conf = self.clone();
        for (command, word) in self.commands.iter().flatten() {
            match command {
                Command::Protocols(tls12, tls13) => {
                    let old = conf.protocols.unwrap_or((true, true));
                    conf.protocols = Some((old.0 && *tls12, old.1 && *tls13));
                }
                Command::CipherList => conf.ciphers = Some(word.clone()),
                Command::Suites(suites) => conf.suites_tls13.clone_from(suites),
                Command::Certificate => conf.certificate = Some(word.clone()),
                Command::PrivateKey => conf.key = Some(word.clone()),
                Command::SessionTickets(on) => {
                    conf.session_reuse = Some(*on && conf.session_reuse.unwrap_or(true));
                }
                Command::Groups | Command::ServerPreference(_) | Command::Nothing => {}
            }
        }
        conf
    }
}

/// Inherits settings: http → server → location.
pub(crate) fn inherit(child: &mut TlsConf, parent: &TlsConf) {
    macro_rules! take_over {
        ($($field:ident),*) => {
            $(if child.$field.is_none() { child.$field.clone_from(&parent.$field); })*
        };
    }
    if child.protocols.is_none() {
        child.warnings.clone_from(&parent.warnings);
    }
    take_over!(
        session_reuse,
        protocols,
        ciphers,
        name,
        server_name,
        verify,
        verify_depth,
        trusted_certificate,
        crl,
        certificate,
        key,
        password_file,
        key_log,
        certificate_cache,
        alpn,
        commands
    );
}

/// Compiles the directives of a location that connects to origins by TLS.
pub(crate) fn compile(
    conf: &TlsConf,
    prefix: &str,
    plan: &mut PlanBuilder<'_>,
    span: Span,
) -> Result<GatewayTls, Diagnostic> {
    plan.diagnostics.extend_from_slice(&conf.warnings);
    let conf = &conf.after_commands();
    let (options, chosen) = options(conf, prefix, plan, span)?;
    plan.show(&options);
    let make = || {
        TlsSettings::new(&options).map_err(|reason| {
            let span = conf.key.as_ref().map_or(span, |word| word.span);
            let name = conf.key.as_ref().map(|word| plan.conf_path(&word.display()));
            let name = name.unwrap_or_default();
            let message =
                format!("SSL_CTX_use_PrivateKey(\"{}\") failed (SSL: {reason})", name.display());
            Diagnostic::emerg(message).at(span)
        })
    };
    let reload_state = plan.environment.reload_state;
    let settings = reload_state.get_or_make(&format!("origin tls {}", options.identity()), make)?;
    let name = conf.name.as_ref().map(|word| plan.template(word)).transpose()?;
    let alpn = plan.templates(conf.alpn.as_deref().unwrap_or_default())?;
    let default_alpn = Protocols::default();
    Ok(GatewayTls { settings, name, alpn, default_alpn, chosen })
}

/// Returns the directives as plain values, and the client certificate where variables name it.
///
/// Invariant: files are read only where they are used (`*_ssl_verify` for trust and revocation), so that a directive
/// without effect cannot fail; an empty name cancels an inherited certificate.
///
/// # Errors
/// Verification without trusted certificates, a certificate without a key, files that cannot be read or are invalid.
fn options(
    conf: &TlsConf,
    prefix: &str,
    plan: &mut PlanBuilder<'_>,
    span: Span,
) -> Result<(TlsOptions, Option<Arc<ChosenCertificate>>), Diagnostic> {
    let (tls12, tls13) = conf.protocols.unwrap_or((true, true));
    let list = conf.ciphers.as_ref().map(Word::display);
    let list = list.as_deref().unwrap_or(CIPHERS_DEFAULT);
    let suites = cipher_suites::tls12(list);
    if let (true, true, Some(word)) = (suites.is_empty(), tls12, &conf.ciphers) {
        plan.note(cipher_suites::no_suite(word, tls13))?;
    }
    let verify = conf.verify.unwrap_or(false);
    let trusted = match &conf.trusted_certificate {
        Some(word) if verify => key_files::certificates(plan, word)?,
        None if verify => {
            let message = format!("no {prefix}ssl_trusted_certificate for {prefix}ssl_verify");
            return Err(Diagnostic::emerg(message).at(span));
        }
        _ => Vec::new(),
    };
    let revocation_lists = match &conf.crl {
        Some(word) if verify => key_files::revocation_lists(plan, word)?,
        _ => Vec::new(),
    };
    let mut options = TlsOptions {
        tls12,
        tls13,
        suites,
        suites_tls13: conf.suites_tls13.clone(),
        session_reuse: conf.session_reuse.unwrap_or(true),
        server_name: conf.server_name.unwrap_or(false),
        verify,
        trusted,
        revocation_lists,
        verify_depth: conf.verify_depth.unwrap_or(VERIFY_DEPTH_DEFAULT),
        certificate: Vec::new(),
        key: Vec::new(),
        key_log: key_log(conf, plan)?,
    };
    // An empty name cancels an inherited certificate.
    let Some(word) = conf.certificate.as_ref().filter(|word| !word.bytes.is_empty()) else {
        return Ok((options, None));
    };
    let Some(key_word) = &conf.key else {
        let name = word.display();
        let message =
            format!("no \"{prefix}ssl_certificate_key\" is defined for certificate \"{name}\"");
        return Err(Diagnostic::emerg(message).at(word.span));
    };
    let passwords = match &conf.password_file {
        Some(file) => key_files::passwords(&plan.read_file(file)?),
        None => Vec::new(),
    };
    if [word, key_word].iter().any(|word| word.bytes.contains(&b'$')) {
        let cache = conf.certificate_cache.clone().flatten();
        let words = (word, key_word);
        let chosen = ChosenCertificate::compile(words, passwords, cache, &options, plan)?;
        return Ok((options, Some(Arc::new(chosen))));
    }
    options.certificate = key_files::certificates(plan, word)?;
    let key = key_files::private_key(plan, key_word, &passwords)?.1;
    options.key = key.der().to_vec();
    Ok((options, None))
}

/// Opens the log of connections' secrets.
fn key_log(conf: &TlsConf, plan: &PlanBuilder<'_>) -> Result<Option<KeyLog>, Diagnostic> {
    let Some(word) = &conf.key_log else { return Ok(None) };
    let path = plan.path(&word.display());
    let file = plan.private_log_file(&path, word.span)?;
    Ok(Some(KeyLog::new(&path.to_string_lossy(), move |line| file.write(line))))
}

impl GatewayTls {
    /// Offers a protocol by ALPN unless `*_ssl_alpn` is written.
    pub fn offering(self, protocol: &[u8]) -> GatewayTls {
        GatewayTls { default_alpn: Protocols::from([protocol.to_vec()]), ..self }
    }

    /// Returns the TLS target of a request without a client: names made of variables count as not written.
    pub fn fixed_target(&self, host: &[u8]) -> TlsTarget {
        let name = self.name.as_ref().and_then(Template::literal).unwrap_or(host);
        TlsTarget::new(self.settings.clone(), without_port(name).into(), self.default_alpn.clone())
    }

    /// Reads the client certificate where variables name it; to be awaited before [`GatewayTls::target`].
    ///
    /// # Errors
    /// The certificate cannot be used; the reason was logged.
    pub async fn choose_certificate(&self, x: &mut Exchange) -> Result<(), Refused> {
        match &self.chosen {
            // Boxed: the future of a common request has no room for it.
            Some(chosen) => Box::pin(chosen.choose(x)).await,
            None => Ok(()),
        }
    }

    /// Returns the TLS target of a request to `host`, which may have a port.
    pub fn target(&self, x: &mut Exchange, host: &[u8]) -> TlsTarget {
        let value = self.name.as_ref().map(|template| template.value(x));
        let name = without_port(value.as_deref().unwrap_or(host));
        let name = name.into();
        let alpn = match self.alpn.is_empty() {
            true => self.default_alpn.clone(),
            // Those without a value are not offered.
            false => {
                let values = self.alpn.iter().map(|protocol| protocol.value(x));
                values.filter(|protocol| !protocol.is_empty()).collect()
            }
        };
        let chosen = self.chosen.as_ref().and_then(|_| ChosenCertificate::of(x));
        TlsTarget::new(chosen.unwrap_or_else(|| self.settings.clone()), name, alpn)
    }
}

/// Returns a host without its port; an IPv6 address keeps its brackets.
fn without_port(host: &[u8]) -> &[u8] {
    let start = match host.first() {
        Some(b'[') => host.iter().position(|byte| *byte == b']').unwrap_or(host.len()),
        _ => 0,
    };
    let colon = host.iter().skip(start).rposition(|byte| *byte == b':');
    &host[..colon.map_or(host.len(), |colon| start + colon)]
}
