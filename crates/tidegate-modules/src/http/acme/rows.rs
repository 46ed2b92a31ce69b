//! The directives.

use std::time::Duration;

use tidegate_acme::{ChallengeKind, KeyKind, Profile};
use tidegate_conf::{
    Args, Arity, Contexts, Diagnostic, Directive, Kind, Span, Word, once, parse_seconds,
    parse_size, row,
};

/// The directives of one block.
#[derive(Default)]
pub(crate) struct Conf {
    /// Bytes of `acme_shared_zone`, which has no effect.
    zone: Option<u64>,
    /// In `acme_issuer`.
    pub(super) issuer: IssuerConf,
    /// `acme`, which was expanded before.
    pub(super) auto: Option<()>,
    /// `acme_certificate`.
    pub(super) certificate: Option<CertificateConf>,
}

/// An `acme_issuer` block.
#[derive(Default)]
pub(super) struct IssuerConf {
    pub(super) uri: Option<Word>,
    pub(super) account_key: Option<AccountKeyConf>,
    pub(super) challenge: Option<ChallengeKind>,
    /// `exec=` and `timeout=` of `challenge dns-01`.
    pub(super) dns: Option<(Word, Duration)>,
    pub(super) common_name: Option<bool>,
    pub(super) contacts: Vec<String>,
    pub(super) external: Option<(Word, Word)>,
    pub(super) preferred_chain: Option<String>,
    pub(super) profile: Option<Profile>,
    pub(super) trusted: Option<Word>,
    pub(super) verify: Option<bool>,
    pub(super) state_path: Option<Word>,
    pub(super) accepts_terms: Option<()>,
}

/// `account_key`.
pub(super) enum AccountKeyConf {
    Generated(KeyKind),
    File(Word),
}

/// `acme_certificate`.
#[derive(Clone)]
pub(super) struct CertificateConf {
    pub(super) issuer: Word,
    pub(super) names: Vec<Word>,
    pub(super) key: Option<KeyKind>,
    pub(super) span: Span,
}

const ISSUER: Contexts = Contexts::ACME_ISSUER;

/// The longest time of a program of `challenge dns-01`.
const DNS_TIME_DEFAULT: Duration = Duration::from_secs(60);
/// The least size of a zone: nginx's is 8 pages.
const ZONE_BYTES_MIN: u64 = 8 * 4096;

pub(super) const HTTP_ROWS: &[Directive<Conf>] = &[
    Directive {
        name: "acme_issuer",
        contexts: Contexts::HTTP,
        args: Arity::ONE,
        kind: Kind::Block,
        default: "",
        doc: "An issuer of certificates, by ACME (RFC 8555): its server, and an account there.",
        has_effect: true,
        set: |_, _| Ok(()),
    },
    row::<Conf>(
        "acme_shared_zone",
        Contexts::HTTP,
        Arity::ONE,
        "zone=ngx_acme_shared:256k",
        "A zone for certificates and keys. Accepted and checked: their memory has no limit of its own.",
        zone,
    ).without_effect(),
];

pub(super) const SERVER_ROWS: &[Directive<Conf>] = &[row(
    "acme_certificate",
    Contexts::SERVER,
    Arity::AT_LEAST_ONE,
    "",
    "A certificate from an issuer, for these names or those of `server_name`: `$acme_certificate`; \
     `key=` sets the kind of its key.",
    certificate,
)];

pub(super) const ISSUER_ROWS: &[Directive<Conf>] = &[
    row(
        "uri",
        ISSUER,
        Arity::ONE,
        "",
        "URL of the ACME server's directory (`https://…`).",
        |conf, args| {
            args.text(0)?;
            once(&mut conf.issuer.uri, args.word(0).clone(), args)
        },
    ),
    row(
        "account_key",
        ISSUER,
        Arity::ONE,
        "ecdsa:256",
        "Private key of the account: a kind (`ecdsa:256`, `ecdsa:384`, `ecdsa:521`, `rsa:2048`, `rsa:3072`, `rsa:4096`) \
         of which one is made, or a file.",
        account_key,
    ),
    row(
        "challenge",
        ISSUER,
        Arity::ONE_TO_THREE,
        "http-01",
        "How names are validated: `http-01` (`http`), by requests to port 80; `tls-alpn-01` (`tls-alpn`), by handshakes on \
         port 443; or `dns-01 exec=PROGRAM [timeout=60s]` (own), by records that a program sets: `PROGRAM set|clear NAME VALUE`.",
        |conf, args| {
            let text = args.text(0)?;
            let kind = ChallengeKind::parse(text).ok_or_else(|| {
                args.error(0, format!("unsupported challenge \"{text}\""))
                    .label("expected `http-01`, `tls-alpn-01` or `dns-01`")
            })?;
            conf.issuer.dns = dns_program(kind, args)?;
            once(&mut conf.issuer.challenge, kind, args)
        },
    ),
    row(
        "common_name_in_csr",
        ISSUER,
        Arity::FLAG,
        "off",
        "Whether requests for certificates have a common name: the first name.",
        |conf, args| once(&mut conf.issuer.common_name, args.flag(0)?, args),
    ),
    row(
        "contact",
        ISSUER,
        Arity::AT_LEAST_ONE,
        "",
        "Addresses or URLs at which the account's owner can be reached; `mailto:` is added to an address.",
        contact,
    ),
    row(
        "external_account_key",
        ISSUER,
        Arity::TWO,
        "",
        "Binding to an account outside of ACME: the identifier of its key, and a file with the key in base64url, or \
         `data:` and the key.",
        |conf, args| {
            let words = (args.word(0).clone(), args.word(1).clone());
            once(&mut conf.issuer.external, words, args)
        },
    ),
    row(
        "preferred_chain",
        ISSUER,
        Arity::ONE,
        "",
        "Common name of the issuer of the topmost certificate, by which one of several chains is chosen.",
        |conf, args| once(&mut conf.issuer.preferred_chain, args.text(0)?.to_owned(), args),
    ),
    row(
        "profile",
        ISSUER,
        Arity::ONE_OR_TWO,
        "",
        "Profile of the certificates; `require`: nothing is ordered where the server does not offer it.",
        |conf, args| {
            let required = match args.len() {
                2 if args.bytes(1) == b"require" => true,
                2 => return Err(args.invalid_parameter(1).label("expected `require`")),
                _ => false,
            };
            let profile = Profile { name: args.text(0)?.to_owned(), required };
            once(&mut conf.issuer.profile, profile, args)
        },
    ),
    row(
        "ssl_trusted_certificate",
        ISSUER,
        Arity::ONE,
        "",
        "File with the certificates (PEM) by which the ACME server's own certificate is verified; without it, those that \
         the system trusts.",
        |conf, args| once(&mut conf.issuer.trusted, args.word(0).clone(), args),
    ),
    row(
        "ssl_verify",
        ISSUER,
        Arity::FLAG,
        "on",
        "Whether the ACME server's certificate is verified.",
        |conf, args| once(&mut conf.issuer.verify, args.flag(0)?, args),
    ),
    row(
        "state_path",
        ISSUER,
        Arity::ONE,
        "acme_NAME",
        "Directory of the account's key, orders, certificates and their keys, or `off`: then they end with the process.",
        |conf, args| once(&mut conf.issuer.state_path, args.word(0).clone(), args),
    ),
    row(
        "accept_terms_of_service",
        ISSUER,
        Arity::NONE,
        "",
        "Agrees to the terms of service of the ACME server.",
        |conf, args| once(&mut conf.issuer.accepts_terms, (), args),
    ),
];

fn dns_program(
    kind: ChallengeKind,
    args: &Args<'_>,
) -> Result<Option<(Word, Duration)>, Diagnostic> {
    let (mut program, mut time) = (None, DNS_TIME_DEFAULT);
    for index in 1..args.len() {
        match args.parameter(index)? {
            ("exec", Some(path)) if kind == ChallengeKind::Dns01 && path.starts_with('/') => {
                program =
                    Some(Word { bytes: path.as_bytes().to_vec(), ..args.word(index).clone() });
            }
            ("timeout", Some(text)) if kind == ChallengeKind::Dns01 => {
                let parsed = parse_seconds(text.as_bytes()).filter(|time| !time.is_zero());
                time = parsed.ok_or_else(|| args.invalid_parameter(index))?;
            }
            ("exec", Some(_)) if kind == ChallengeKind::Dns01 => {
                return Err(args.invalid_parameter(index).label("expected an absolute path"));
            }
            _ => return Err(args.invalid_parameter(index)),
        }
    }
    if kind == ChallengeKind::Dns01 && program.is_none() {
        let message = "\"challenge dns-01\" needs \"exec=PROGRAM\"";
        return Err(args
            .error(0, message)
            .label("the program that changes the records is missing"));
    }
    Ok(program.map(|program| (program, time)))
}

fn zone(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let ("zone", Some(value)) = args.parameter(0)? else {
        let message = format!("\"{}\" must have \"zone\" parameter", args.name());
        return Err(args.error(0, message).label("expected `zone=NAME:SIZE`"));
    };
    let (name, size) = value.split_once(':').unwrap_or((value, ""));
    if name.is_empty() {
        return Err(args.error(0, format!("invalid zone name \"{value}\"")));
    }
    let bytes = parse_size(size.as_bytes());
    let bytes = bytes.ok_or_else(|| args.error(0, format!("invalid zone size \"{size}\"")))?;
    if bytes < ZONE_BYTES_MIN {
        return Err(args.error(0, format!("zone \"{name}\" is too small")).label("at least `32k`"));
    }
    once(&mut conf.zone, bytes, args)
}

fn account_key(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let key = match key_kind(args, 0, args.text(0)?)? {
        Some(kind) => AccountKeyConf::Generated(kind),
        None => AccountKeyConf::File(args.word(0).clone()),
    };
    once(&mut conf.issuer.account_key, key, args)
}

/// Parses a kind of key; `None` for another text.
fn key_kind(args: &Args<'_>, index: usize, text: &str) -> Result<Option<KeyKind>, Diagnostic> {
    if let Some(kind) = KeyKind::parse(text) {
        return Ok(Some(kind));
    }
    match text.split_once(':') {
        Some(("ecdsa", size)) => Err(args
            .error(index, format!("unsupported curve \"{size}\""))
            .label("expected 256, 384 or 521")),
        Some(("rsa", size)) => Err(args
            .error(index, format!("unsupported key size \"{size}\""))
            .label("expected 2048, 3072 or 4096")),
        _ => Ok(None),
    }
}

fn contact(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    for index in 0..args.len() {
        let text = args.text(index)?;
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(args.invalid_value(index));
        }
        let url = if has_scheme(text) { text.to_owned() } else { format!("mailto:{text}") };
        conf.issuer.contacts.push(url);
        if conf.issuer.contacts.len() > tidegate_acme::CONTACTS_MAX {
            let most = tidegate_acme::CONTACTS_MAX;
            return Err(args.error(index, format!("an account has at most {most} contacts")));
        }
    }
    Ok(())
}

/// Returns whether the text begins with a scheme (RFC 3986 section 3.1).
fn has_scheme(text: &str) -> bool {
    let Some((scheme, _)) = text.split_once(':') else { return false };
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    scheme.starts_with(|first: char| first.is_ascii_alphabetic()) && scheme.bytes().all(inner)
}

fn certificate(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let (mut names, mut key) = (Vec::new(), None);
    for index in 1..args.len() {
        match args.parameter(index)? {
            ("key", Some(text)) => {
                let kind = key_kind(args, index, text)?;
                let kind = kind.ok_or_else(|| {
                    args.error(index, format!("unsupported key \"{text}\""))
                        .label("expected a kind such as `ecdsa:256` or `rsa:2048`")
                })?;
                once(&mut key, kind, args)?;
            }
            (_, Some(_)) if !args.bytes(index).starts_with(b"~") => {
                return Err(args.invalid_parameter(index));
            }
            _ => names.push(args.word(index).clone()),
        }
    }
    let span = args.word(0).span;
    let certificate = CertificateConf { issuer: args.word(0).clone(), names, key, span };
    once(&mut conf.certificate, certificate, args)
}
