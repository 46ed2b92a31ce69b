//! The directives as written.

use std::sync::Arc;
use std::time::Duration;

use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Span, Word, once, row};

use super::keys::{KeyCache, Origin};
use super::state::{Part, TokenKind};
use tidegate_plan::made_variable;

/// The directives of one block.
#[derive(Default)]
pub(crate) struct Conf {
    pub(super) access: Option<AccessConf>,
    pub(super) kind: Option<TokenKind>,
    pub(super) sets: Vec<SetConf>,
    pub(super) sources: Vec<SourceConf>,
    pub(super) key_cache: Option<Duration>,
    pub(super) leeway: Option<Duration>,
    pub(super) requires: Vec<RequireConf>,
}

/// `auth_jwt`.
#[derive(Clone)]
pub(super) struct AccessConf {
    pub(super) realm: Word,
    /// The variable of `token=`.
    pub(super) token: Option<Word>,
}

/// `auth_jwt_claim_set` or `auth_jwt_header_set`.
pub(super) struct SetConf {
    pub(super) name: String,
    pub(super) span: Span,
    pub(super) part: Part,
    pub(super) path: Arc<[String]>,
}

/// `auth_jwt_key_file` or `auth_jwt_key_request`. Blocks that inherit it share its cache.
#[derive(Clone)]
pub(super) struct SourceConf {
    pub(super) origin: Origin,
    pub(super) name: Word,
    pub(super) cache: Arc<KeyCache>,
}

/// `auth_jwt_require`.
#[derive(Clone)]
pub(super) struct RequireConf {
    pub(super) values: Vec<Word>,
    pub(super) status: u16,
}

impl Conf {
    pub(super) fn inherit(&mut self, parent: &Conf) {
        if self.access.is_none() {
            self.access.clone_from(&parent.access);
        }
        // Files and requests are one list: a block that names keys accepts no others.
        if self.sources.is_empty() {
            self.sources.clone_from(&parent.sources);
        }
        if self.requires.is_empty() {
            self.requires.clone_from(&parent.requires);
        }
        self.kind = self.kind.or(parent.kind);
        self.key_cache = self.key_cache.or(parent.key_cache);
        self.leeway = self.leeway.or(parent.leeway);
    }
}

const ALL: Contexts = Contexts::HTTP_SERVER_LOCATION;
const WITH_LIMIT_EXCEPT: Contexts = ALL.union(Contexts::LIMIT_EXCEPT);

/// The directives of the module.
pub(super) const ROWS: &[Directive<Conf>] = &[
    row(
        "auth_jwt",
        WITH_LIMIT_EXCEPT,
        Arity::ONE_OR_TWO,
        "off",
        "Requires a JSON Web Token, of `Authorization: Bearer` or of the variable `token=$name`; the realm, or `off`.",
        set_access,
    ),
    row(
        "auth_jwt_claim_set",
        Contexts::HTTP,
        Arity::AT_LEAST_TWO,
        "",
        "Define a variable as the claim at a path of names. The elements of an array are joined by commas.",
        |conf, args| set_variable(conf, args, Part::Claims),
    ),
    row(
        "auth_jwt_header_set",
        Contexts::HTTP,
        Arity::AT_LEAST_TWO,
        "",
        "Define a variable as the member of the token's header at a path of names.",
        |conf, args| set_variable(conf, args, Part::Header),
    ),
    row(
        "auth_jwt_key_cache",
        ALL,
        Arity::ONE,
        "0",
        "Time for which keys of files and subrequests are used without asking again, if no variable names them.",
        |conf, args| once(&mut conf.key_cache, args.seconds(0)?, args),
    ),
    row(
        "auth_jwt_key_file",
        WITH_LIMIT_EXCEPT,
        Arity::ONE,
        "",
        "File with a JSON Web Key Set whose keys verify or decrypt tokens. Several are used together, with those of \
         `auth_jwt_key_request`. A token with `kid` is tried with the keys of that name and those without one.",
        |conf, args| add_source(conf, args, Origin::File),
    ),
    row(
        "auth_jwt_key_request",
        WITH_LIMIT_EXCEPT,
        Arity::ONE,
        "",
        "URI of a subrequest whose response, of up to 1 MB, is a JSON Web Key Set. A status other than 200 is an error.",
        |conf, args| add_source(conf, args, Origin::Request),
    ),
    row(
        "auth_jwt_leeway",
        ALL,
        Arity::ONE,
        "0s",
        "Difference between clocks that is tolerated when `exp` and `nbf` are checked.",
        |conf, args| once(&mut conf.leeway, args.seconds(0)?, args),
    ),
    row(
        "auth_jwt_require",
        WITH_LIMIT_EXCEPT,
        Arity::AT_LEAST_ONE,
        "",
        "Values that begin with a variable, none of which may be empty or `0`; else the status is 401, or that of \
         `error=401|403`.",
        set_require,
    ),
    row(
        "auth_jwt_type",
        WITH_LIMIT_EXCEPT,
        Arity::ONE,
        "signed",
        "Type of tokens: `signed` (JWS), `encrypted` (JWE), or `nested` (signed, then encrypted). Signatures: HS, RS, PS \
         and ES with 256, 384 and 512; EdDSA with Ed25519. Keys of contents: dir, A128KW, A192KW, A256KW, A128GCMKW, \
         A192GCMKW, A256GCMKW; RSA-OAEP, with 256, 384 and 512 as well. Contents: A128CBC-HS256, A192CBC-HS384, \
         A256CBC-HS512, A128GCM, A192GCM, A256GCM.",
        |conf, args| {
            let kinds = [
                ("signed", TokenKind::Signed),
                ("encrypted", TokenKind::Encrypted),
                ("nested", TokenKind::Nested),
            ];
            once(&mut conf.kind, args.choice(0, &kinds)?, args)
        },
    ),
];

fn set_access(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let realm = args.word(0).clone();
    let token = match args.len() {
        1 => None,
        _ => {
            let word = args.word(1);
            let is_off = realm.bytes == b"off";
            let value =
                word.bytes.strip_prefix(b"token=").filter(|value| begins_with_variable(value));
            let value = value.filter(|_| !is_off).ok_or_else(|| args.invalid_parameter(1))?;
            Some(Word { bytes: value.to_vec(), ..word.clone() })
        }
    };
    once(&mut conf.access, AccessConf { realm, token }, args)
}

fn set_variable(conf: &mut Conf, args: &Args<'_>, part: Part) -> Result<(), Diagnostic> {
    let names = (1..args.len()).map(|index| args.text(index).map(str::to_owned));
    let path = names.collect::<Result<Arc<[String]>, Diagnostic>>()?;
    let (name, span) = (made_variable::name(args, 0)?, args.word(0).span);
    conf.sets.push(SetConf { name, span, part, path });
    Ok(())
}

fn add_source(conf: &mut Conf, args: &Args<'_>, origin: Origin) -> Result<(), Diagnostic> {
    let name = args.word(0).clone();
    if name.bytes.is_empty() {
        return Err(args.invalid_value(0));
    }
    conf.sources.push(SourceConf { origin, name, cache: Arc::default() });
    Ok(())
}

fn set_require(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let (mut values, mut status) = (Vec::new(), None);
    for (index, word) in args.words().iter().enumerate() {
        match word.bytes.as_slice() {
            b"error=401" => once(&mut status, 401, args)?,
            b"error=403" => once(&mut status, 403, args)?,
            value if begins_with_variable(value) => values.push(word.clone()),
            _ => return Err(args.invalid_parameter(index)),
        }
    }
    if values.is_empty() {
        return Err(args.error_here("\"auth_jwt_require\" directive has no value"));
    }
    conf.requires.push(RequireConf { values, status: status.unwrap_or(401) });
    Ok(())
}

fn begins_with_variable(value: &[u8]) -> bool {
    value.first() == Some(&b'$')
}
