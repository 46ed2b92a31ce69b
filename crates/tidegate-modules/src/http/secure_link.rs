//! `secure_link`: links that cannot be made without a secret, with or without an expiry.
//!
//! ```nginx
//! location /s/ {
//!     secure_link     $arg_md5,$arg_expires;
//!     secure_link_md5 "$secure_link_expires$uri$remote_addr secret";
//!     if ($secure_link = "")  { return 403; }
//!     if ($secure_link = "0") { return 410; }
//! }
//! location /p/ {
//!     secure_link_secret secret;
//!     if ($secure_link = "") { return 403; }
//!     rewrite ^ /secure/$secure_link;
//! }
//! ```
//! The check is made when `$secure_link` is first evaluated, and its result is kept for the rest of the request,
//! also when the path is rewritten meanwhile.

mod check;
#[cfg(test)]
mod tests;

use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Word, once, row};
use tidegate_core::variables::Variable;
use tidegate_core::{Exchange, Template};
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::{BlockInfo, Module};

use check::LinkStatus;

/// `ngx_http_secure_link_module`.
pub(crate) struct SecureLink;

/// The directives of one block as written.
#[derive(Default)]
pub(crate) struct Conf {
    link: Option<Word>,
    signed: Option<Word>,
    secret: Option<Vec<u8>>,
}

impl Module for SecureLink {
    type Conf = Conf;
    const NAME: &'static str = "secure_link";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];
    const VARIABLES: &'static [Variable] = &[
        Variable::fixed(
            "secure_link",
            "Result of `secure_link`: empty if the link is wrong, `0` if it has expired, \
            else `1` or the path that the hash covers.",
            |x, out| put(checked(x).and_then(|checked| checked.link.as_deref()), out),
        ),
        Variable::fixed(
            "secure_link_expires",
            "Time at which the link expires, as the request names it.",
            |x, out| {
                put(
                    x.modules
                        .extensions
                        .of::<CheckedLink>()
                        .and_then(|checked| checked.expires.as_deref()),
                    out,
                )
            },
        ),
    ];

    fn close_block(conf: &mut Conf, _block: BlockInfo<'_>) -> Result<(), Diagnostic> {
        match (&conf.secret, conf.link.as_ref().or(conf.signed.as_ref())) {
            (Some(_), Some(word)) => {
                let message = "\"secure_link_secret\" cannot be mixed with \"secure_link\" and \
                               \"secure_link_md5\"";
                Err(Diagnostic::emerg(message).at(word.span))
            }
            _ => Ok(()),
        }
    }

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        if child.secret.is_some() {
            return;
        }
        if child.link.is_none() && child.signed.is_none() {
            child.secret.clone_from(&parent.secret);
        }
        if child.link.is_none() {
            child.link.clone_from(&parent.link);
        }
        if child.signed.is_none() {
            child.signed.clone_from(&parent.signed);
        }
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        let rule = match (&conf.secret, &conf.link, &conf.signed) {
            (Some(secret), ..) => LinkCheck::Secret(secret.clone()),
            (None, Some(link), Some(signed)) => {
                let link = location.plan.template(link)?;
                LinkCheck::Signed { link, signed: location.plan.template(signed)? }
            }
            _ => return Ok(()),
        };
        location.location.extensions.insert(rule);
        Ok(())
    }
}

const ALL: Contexts = Contexts::HTTP_SERVER_LOCATION;

const ROWS: &[Directive<Conf>] = &[
    row(
        "secure_link",
        ALL,
        Arity::ONE,
        "",
        "Text with the checksum of a link and, after a comma, its expiry in Unix seconds.",
        |conf, args| once(&mut conf.link, args.word(0).clone(), args),
    ),
    row(
        "secure_link_md5",
        ALL,
        Arity::ONE,
        "",
        "Text whose MD5 sum in base64url the checksum must be.",
        |conf, args| once(&mut conf.signed, args.word(0).clone(), args),
    ),
    row(
        "secure_link_secret",
        Contexts::LOCATION,
        Arity::ONE,
        "",
        "Secret word of links such as `/prefix/hash/link`, where hash is the MD5 sum of link and word.",
        set_secret,
    ),
];

fn set_secret(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    once(&mut conf.secret, args.bytes(0).to_vec(), args)
}

/// The check of a location.
enum LinkCheck {
    Secret(Vec<u8>),
    Signed { link: Template, signed: Template },
}

/// The values of the variables for the rest of the request.
#[derive(Default)]
struct CheckedLink {
    link: Option<Vec<u8>>,
    expires: Option<Vec<u8>>,
}

fn put(value: Option<&[u8]>, out: &mut Vec<u8>) -> bool {
    out.extend_from_slice(value.unwrap_or_default());
    value.is_some()
}

fn checked(x: &mut Exchange) -> Option<&CheckedLink> {
    if x.modules.extensions.of::<CheckedLink>().is_none() {
        // Stored before the check, for a signed text that contains `$secure_link`: it has no value yet.
        x.modules.extensions.insert(CheckedLink::default());
        let link = check(x);
        x.modules.extensions.of_mut::<CheckedLink>()?.link = link;
    }
    x.modules.extensions.of()
}

/// Computes `$secure_link`. The expiry is stored before the signed text is made, which may contain it.
fn check(x: &mut Exchange) -> Option<Vec<u8>> {
    match x.location_ref().extensions.of::<LinkCheck>()? {
        LinkCheck::Secret(secret) => check::by_secret(&x.request.path, secret).map(<[u8]>::to_vec),
        LinkCheck::Signed { link, signed } => {
            let link = link.value(x);
            let (checksum, expires) = check::split(&link);
            let ends = match expires {
                None => None,
                Some(text) => Some(check::ends(text)?),
            };
            x.modules.extensions.of_mut::<CheckedLink>()?.expires = expires.map(<[u8]>::to_vec);
            let checksum = check::decode_checksum(checksum)?;
            let now = tidegate_rt::clock::unix_millis() / 1000;
            match check::link_status(&checksum, &signed.value(x), ends, now) {
                LinkStatus::Wrong => None,
                LinkStatus::Expired => Some(b"0".to_vec()),
                LinkStatus::Good => Some(b"1".to_vec()),
            }
        }
    }
}
