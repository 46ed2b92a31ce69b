//! The `ssl_*` directives as written, and how servers inherit them from `http`.

use std::sync::Arc;
use std::time::Duration;

use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Kind, Word, once, parse_size};
use tidegate_tls::openssl_commands::{self, Command};
use tidegate_tls::{PairCache, StatusScope};

use super::ticket_keys::TicketKeyConf;

/// `ssl_protocols`: the versions that are supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlsVersions {
    /// TLS 1.2.
    pub tls12: bool,
    /// TLS 1.3.
    pub tls13: bool,
}

/// `ssl_session_cache`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionCacheConf {
    /// `off` and `none`: nothing is kept. (OpenSSL's messages to clients differ between the two; sessions cannot be
    /// resumed either way.)
    Off,
    /// A cache of this server alone; its size in entries.
    Builtin(usize),
    /// A named cache that survives reloads; its size in bytes.
    Shared { name: String, bytes: u64 },
}

/// `ssl_verify_client`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VerifyClient {
    #[default]
    Off,
    On,
    Optional,
    /// Requests any certificate, trusted or not.
    OptionalNoCa,
}

/// `ssl_ocsp_cache`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OcspCacheConf {
    Off,
    /// A named cache that survives reloads; its size in bytes.
    Shared {
        name: String,
        bytes: u64,
    },
}

/// The directives of one block.
#[derive(Clone, Default)]
pub struct Conf {
    pub certificates: Vec<Word>,
    pub keys: Vec<Word>,
    pub password_file: Option<Word>,
    /// `ssl_certificate_cache`; `Some(None)` is `off`. Blocks that inherit it share the cache.
    pub certificate_cache: Option<Option<Arc<PairCache>>>,
    pub protocols: Option<TlsVersions>,
    pub ciphers: Option<Word>,
    pub prefer_server_ciphers: Option<bool>,
    pub curves: Option<Word>,
    pub buffer_size: Option<u64>,
    pub reject_handshake: Option<bool>,
    pub session_cache: Option<SessionCacheConf>,
    pub session_timeout: Option<Duration>,
    pub session_tickets: Option<bool>,
    pub ticket_keys: Vec<TicketKeyConf>,
    pub verify_client: Option<VerifyClient>,
    pub client_certificate: Option<Word>,
    pub trusted_certificate: Option<Word>,
    pub crl: Option<Word>,
    pub verify_depth: Option<u64>,
    /// `ssl_conf_command`, with the words of the values.
    pub commands: Vec<(Command, Word)>,
    /// Suites of TLS 1.3 (`ssl_conf_command Ciphersuites`).
    pub suites_tls13: Option<Vec<u16>>,
    pub stapling: Option<bool>,
    pub stapling_file: Option<Word>,
    pub stapling_responder: Option<Word>,
    pub stapling_verify: Option<bool>,
    pub ocsp: Option<StatusScope>,
    pub ocsp_responder: Option<Word>,
    pub ocsp_cache: Option<OcspCacheConf>,
    pub key_log: Option<Word>,
    pub certificate_compression: Option<bool>,
    pub early_data: Option<bool>,
    pub dhparam: Option<()>,
    /// In `stream` only.
    pub handshake_timeout: Option<Duration>,
    /// In `stream` only: protocols for ALPN, the preferred ones first.
    pub alpn: Option<Vec<Word>>,
    /// Logged once, where they were written; not inherited.
    pub warnings: Vec<Diagnostic>,
}

/// Fills what the inner block leaves unset.
pub(super) fn inherit(child: &mut Conf, parent: &Conf) {
    if child.certificates.is_empty() {
        child.certificates.clone_from(&parent.certificates);
    }
    if child.keys.is_empty() {
        child.keys.clone_from(&parent.keys);
    }
    if child.ticket_keys.is_empty() {
        child.ticket_keys.clone_from(&parent.ticket_keys);
    }
    if child.commands.is_empty() {
        child.commands.clone_from(&parent.commands);
    }
    fill(&mut child.password_file, &parent.password_file);
    fill(&mut child.certificate_cache, &parent.certificate_cache);
    fill(&mut child.key_log, &parent.key_log);
    fill(&mut child.certificate_compression, &parent.certificate_compression);
    fill(&mut child.early_data, &parent.early_data);
    fill(&mut child.protocols, &parent.protocols);
    fill(&mut child.ciphers, &parent.ciphers);
    fill(&mut child.prefer_server_ciphers, &parent.prefer_server_ciphers);
    fill(&mut child.curves, &parent.curves);
    fill(&mut child.buffer_size, &parent.buffer_size);
    fill(&mut child.reject_handshake, &parent.reject_handshake);
    fill(&mut child.session_cache, &parent.session_cache);
    fill(&mut child.session_timeout, &parent.session_timeout);
    fill(&mut child.session_tickets, &parent.session_tickets);
    fill(&mut child.handshake_timeout, &parent.handshake_timeout);
    fill(&mut child.alpn, &parent.alpn);
    fill(&mut child.verify_client, &parent.verify_client);
    fill(&mut child.client_certificate, &parent.client_certificate);
    fill(&mut child.trusted_certificate, &parent.trusted_certificate);
    fill(&mut child.crl, &parent.crl);
    fill(&mut child.verify_depth, &parent.verify_depth);
    fill(&mut child.stapling, &parent.stapling);
    fill(&mut child.stapling_file, &parent.stapling_file);
    fill(&mut child.stapling_responder, &parent.stapling_responder);
    fill(&mut child.stapling_verify, &parent.stapling_verify);
    fill(&mut child.ocsp, &parent.ocsp);
    fill(&mut child.ocsp_responder, &parent.ocsp_responder);
    fill(&mut child.ocsp_cache, &parent.ocsp_cache);
}

impl Conf {
    /// Returns the settings with the changes that commands make to the directives.
    pub fn after_commands(&self) -> Conf {
        let mut conf = self.clone();
        let (mut certificate, mut key) = (None, None);
        for (command, word) in &self.commands {
            match command {
                Command::Protocols(tls12, tls13) => {
                    let old = conf.protocols.unwrap_or_default();
                    let (tls12, tls13) = (old.tls12 && *tls12, old.tls13 && *tls13);
                    conf.protocols = Some(TlsVersions { tls12, tls13 });
                }
                Command::CipherList => conf.ciphers = Some(word.clone()),
                Command::Suites(suites) => conf.suites_tls13 = Some(suites.clone()),
                Command::Groups => conf.curves = Some(word.clone()),
                Command::Certificate => certificate = Some(word.clone()),
                Command::PrivateKey => key = Some(word.clone()),
                Command::SessionTickets(on) => conf.session_tickets = Some(*on),
                Command::ServerPreference(on) => conf.prefer_server_ciphers = Some(*on),
                Command::Nothing => {}
            }
        }
        if let (Some(certificate), Some(key)) = (certificate, key) {
            (conf.certificates, conf.keys) = (vec![certificate], vec![key]);
        }
        conf
    }
}

impl Default for TlsVersions {
    fn default() -> TlsVersions {
        TlsVersions { tls12: true, tls13: true }
    }
}

fn fill<T: Clone>(child: &mut Option<T>, parent: &Option<T>) {
    if child.is_none() {
        child.clone_from(parent);
    }
}

pub(super) const fn row(
    name: &'static str,
    args: Arity,
    default: &'static str,
    doc: &'static str,
    set: fn(&mut Conf, &Args<'_>) -> Result<(), Diagnostic>,
) -> Directive<Conf> {
    let contexts = Contexts::HTTP_SERVER.union(Contexts::STREAM_AND_SERVER);
    Directive { name, contexts, args, kind: Kind::Simple, default, doc, has_effect: true, set }
}

/// The directives that only `http` has.
pub(super) const HTTP_ROWS: &[Directive<Conf>] = &[
    Directive {
        contexts: Contexts::HTTP_SERVER,
        ..row(
            "ssl_buffer_size",
            Arity::ONE,
            "16k",
            "Most bytes of data in one TLS record that is sent.",
            |conf, args| {
                let bytes = args.size(0)?;
                if bytes == 0 {
                    return Err(invalid_value(args, 0));
                }
                once(&mut conf.buffer_size, bytes, args)
            },
        )
    },
    Directive {
        contexts: Contexts::HTTP_SERVER,
        ..row(
            "ssl_early_data",
            Arity::FLAG,
            "off",
            "Whether requests in the first flight of a resumed TLS 1.3 session are served before the handshake is \
             complete, 16 KB at most. An attacker can send them again, to other servers: `$ssl_early_data` is 1 for them, \
             and an origin that gets it as `Early-Data` may respond 425 (RFC 8470). Sessions are kept in \
             `ssl_session_cache`, or in one of 20480 sessions, and each is resumed once; \
             `ssl_session_ticket_key` is not used.",
            |conf, args| once(&mut conf.early_data, args.flag(0)?, args),
        )
    },
];

/// The directives that only `stream` has.
pub(super) const SESSION_ONLY_ROWS: &[Directive<Conf>] = &[
    Directive {
        contexts: Contexts::STREAM_AND_SERVER,
        ..row(
            "ssl_handshake_timeout",
            Arity::ONE,
            "60s",
            "Longest time for a handshake.",
            |conf, args| once(&mut conf.handshake_timeout, args.milliseconds(0)?, args),
        )
    },
    Directive {
        contexts: Contexts::STREAM_AND_SERVER,
        ..row(
            "ssl_alpn",
            Arity::AT_LEAST_ONE,
            "",
            "Protocols for ALPN; a client that offers none of them is refused.",
            |conf, args| once(&mut conf.alpn, args.words().to_vec(), args),
        )
    },
];

pub(super) const CERTIFICATE_ROWS: &[Directive<Conf>] = &[
    row(
        "ssl_certificate",
        Arity::ONE,
        "",
        "PEM file with the server's certificate, then intermediate ones. May be given several times, \
         for keys of different kinds (RSA and ECDSA). With variables in its name, or in that of its key, it is \
         read by the worker for each handshake; `data:TEXT` is the text itself.",
        |conf, args| {
            conf.certificates.push(args.word(0).clone());
            Ok(())
        },
    ),
    row(
        "ssl_certificate_key",
        Arity::ONE,
        "",
        "PEM file with the private key of the `ssl_certificate` with the same number. Its name may have variables; \
         `data:TEXT` is the text itself.",
        |conf, args| {
            conf.keys.push(args.word(0).clone());
            Ok(())
        },
    ),
    row(
        "ssl_certificate_cache",
        Arity::ONE_TO_THREE,
        "off",
        "Cache of certificates and keys whose names have variables: `max=N` of them, the least recently used are \
         removed; also those not used for `inactive=TIME` (10s). After `valid=TIME` (60s) they are compared with their \
         files.",
        |conf, args| once(&mut conf.certificate_cache, PairCache::of_directive(args)?, args),
    ),
    row(
        "ssl_certificate_compression",
        Arity::FLAG,
        "off",
        "Whether certificates are sent compressed to clients of TLS 1.3 that allow it (RFC 8879): by Brotli, Zstandard or \
         zlib.",
        |conf, args| once(&mut conf.certificate_compression, args.flag(0)?, args),
    ),
    row(
        "ssl_password_file",
        Arity::ONE,
        "",
        "File with pass phrases for private keys, one a line, tried in turn.",
        |conf, args| once(&mut conf.password_file, args.word(0).clone(), args),
    ),
    row(
        "ssl_reject_handshake",
        Arity::FLAG,
        "off",
        "Whether TLS handshakes for this server are refused.",
        |conf, args| once(&mut conf.reject_handshake, args.flag(0)?, args),
    ),
];

pub(super) const PROTOCOL_ROWS: &[Directive<Conf>] = &[
    row(
        "ssl_protocols",
        Arity::AT_LEAST_ONE,
        "TLSv1.2 TLSv1.3",
        "Enabled protocol versions. Older ones than TLSv1.2 are not available: they are named in a \
         warning and left out.",
        set_protocols,
    ),
    row(
        "ssl_ciphers",
        Arity::ONE,
        "HIGH:!aNULL:!MD5",
        "Cipher suites of TLS 1.2 in OpenSSL's format. Only ECDHE suites with AES-GCM or ChaCha20 are \
         available; those of TLS 1.3 are always on.",
        |conf, args| once(&mut conf.ciphers, args.word(0).clone(), args),
    ),
    row(
        "ssl_prefer_server_ciphers",
        Arity::FLAG,
        "off",
        "Whether the server's order of cipher suites is preferred over the client's.",
        |conf, args| once(&mut conf.prefer_server_ciphers, args.flag(0)?, args),
    ),
    row(
        "ssl_ecdh_curve",
        Arity::ONE,
        "auto",
        "Groups for key exchange, separated by colons: X25519MLKEM768, X25519, prime256v1, secp384r1.",
        |conf, args| once(&mut conf.curves, args.word(0).clone(), args),
    ),
    row(
        "ssl_conf_command",
        Arity::TWO,
        "",
        "A configuration command of OpenSSL: MinProtocol, MaxProtocol, CipherString, Ciphersuites, Groups, \
         Certificate with PrivateKey, Options. May be given several times.",
        |conf, args| {
            conf.commands.extend(openssl_commands::of_directive(args)?);
            Ok(())
        },
    ),
    row(
        "ssl_dhparam",
        Arity::ONE,
        "",
        "Parameters for DHE suites. There are none here: accepted with a warning.",
        |conf, args| {
            let message = "\"ssl_dhparam\" is ignored, there are no DHE cipher suites";
            conf.warnings.push(warning(args, 0, message));
            once(&mut conf.dhparam, (), args)
        },
    )
    .without_effect(),
];

pub(super) const SESSION_ROWS: &[Directive<Conf>] = &[
    row(
        "ssl_session_cache",
        Arity::ONE_OR_TWO,
        "none",
        "Storage of sessions for resumption: `off`, `none`, `builtin[:entries]`, `shared:name:size`.",
        |conf, args| {
            let cache = session_cache(args)?;
            // A repeated directive replaces the earlier one, as in nginx.
            conf.session_cache = Some(cache);
            Ok(())
        },
    ),
    row(
        "ssl_session_timeout",
        Arity::ONE,
        "5m",
        "How long a session can be resumed.",
        |conf, args| once(&mut conf.session_timeout, args.seconds(0)?, args),
    ),
    row(
        "ssl_session_tickets",
        Arity::FLAG,
        "on",
        "Whether sessions are resumed by tickets that the client stores.",
        |conf, args| once(&mut conf.session_tickets, args.flag(0)?, args),
    ),
    row(
        "ssl_session_ticket_key",
        Arity::ONE_OR_TWO,
        "",
        "File of 48 or 80 random bytes with a key for tickets. The first encrypts, all decrypt. `derived:FILE` is a secret \
         of 32 bytes or more, from which keys are derived that change after `rotate` (12h): servers with one secret resume \
         each other's sessions while their clocks differ by less than that. A ticket is valid in the time of its key and \
         the next.",
        |conf, args| {
            conf.ticket_keys.push(TicketKeyConf::parse(args)?);
            Ok(())
        },
    ),
];

fn set_protocols(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let mut protocols = TlsVersions { tls12: false, tls13: false };
    for index in 0..args.len() {
        let duplicate = match args.bytes(index) {
            b"TLSv1.2" => std::mem::replace(&mut protocols.tls12, true),
            b"TLSv1.3" => std::mem::replace(&mut protocols.tls13, true),
            b"SSLv2" | b"SSLv3" | b"TLSv1" | b"TLSv1.1" => {
                let name = args.word(index).display();
                let message = format!("protocol \"{name}\" is not available, ignored");
                conf.warnings
                    .push(warning(args, index, message).help(openssl_commands::OLD_PROTOCOLS));
                continue;
            }
            _ => return Err(invalid_value(args, index)),
        };
        if duplicate {
            let message = format!("duplicate value \"{}\"", args.word(index).display());
            conf.warnings.push(warning(args, index, message));
        }
    }
    if !protocols.tls12 && !protocols.tls13 {
        // A configuration with these old versions wants to let all clients in; all current clients speak 1.2 or 1.3.
        protocols = TlsVersions { tls12: true, tls13: true };
        let message = "no available protocol in \"ssl_protocols\", TLSv1.2 and TLSv1.3 are used";
        conf.warnings.push(warning(args, usize::MAX, message.to_owned()));
    }
    // Several directives add up, as in nginx.
    if let Some(before) = conf.protocols {
        protocols.tls12 |= before.tls12;
        protocols.tls13 |= before.tls13;
    }
    conf.protocols = Some(protocols);
    Ok(())
}

/// Entries of `builtin` without a number, OpenSSL's default.
const BUILTIN_ENTRIES: usize = 20_480;
/// nginx's minimum of a shared zone: eight pages, bytes.
pub(super) const SHARED_BYTES_MIN: u64 = 8 * 4096;

fn session_cache(args: &Args<'_>) -> Result<SessionCacheConf, Diagnostic> {
    let mut found = None;
    for index in 0..args.len() {
        let invalid = || {
            let message = format!("invalid session cache \"{}\"", args.word(index).display());
            args.error(index, message).label("`off`, `none`, `builtin` or `shared:name:size`")
        };
        let text = args.text(index)?;
        let (kind, rest) = text.split_once(':').map_or((text, None), |(k, rest)| (k, Some(rest)));
        let cache = match (kind, rest) {
            ("off" | "none", None) => SessionCacheConf::Off,
            ("builtin", None) => SessionCacheConf::Builtin(BUILTIN_ENTRIES),
            ("builtin", Some(entries)) => {
                SessionCacheConf::Builtin(entries.parse().map_err(|_| invalid())?)
            }
            ("shared", Some(rest)) => {
                let (name, size) = rest.split_once(':').ok_or_else(invalid)?;
                let bytes = parse_size(size.as_bytes()).ok_or_else(invalid)?;
                if name.is_empty() {
                    return Err(invalid());
                }
                if bytes < SHARED_BYTES_MIN {
                    let message = format!("session cache \"{text}\" is too small");
                    return Err(args.error(index, message));
                }
                SessionCacheConf::Shared { name: name.to_owned(), bytes }
            }
            _ => return Err(invalid()),
        };
        // With both, the shared one is enough: it is in the same process.
        if !matches!(found, Some(SessionCacheConf::Shared { .. })) {
            found = Some(cache);
        }
    }
    Ok(found.unwrap_or(SessionCacheConf::Off))
}

pub(super) fn invalid_value(args: &Args<'_>, index: usize) -> Diagnostic {
    args.error(index, format!("invalid value \"{}\"", args.word(index).display()))
}

fn warning(args: &Args<'_>, index: usize, message: impl Into<String>) -> Diagnostic {
    args.error(index, message).as_warning()
}
