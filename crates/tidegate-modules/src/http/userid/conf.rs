//! The directives of `userid`, and their compiled form.

use std::time::Duration;

use tidegate_codec::date;
use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, once, row};

use super::cookie::IdFormat;

/// What is done with the cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CookieMode {
    Off,
    /// Only read.
    Log,
    /// Set for clients that have none.
    Set(IdFormat),
}

/// How long clients keep the cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CookieExpiry {
    /// Until the browser is closed.
    Off,
    Max,
    In(Duration),
}

/// The attributes of `userid_flags`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Flags {
    secure: bool,
    http_only: bool,
    same_site: Option<&'static str>,
}

/// The directives of one block. An inner `None` is `none` or `off` as written.
#[derive(Default)]
pub(crate) struct Conf {
    pub mode: Option<CookieMode>,
    name: Option<Box<[u8]>>,
    domain: Option<Option<Box<[u8]>>>,
    path: Option<Box<[u8]>>,
    expires: Option<CookieExpiry>,
    flags: Option<Flags>,
    mark: Option<Option<u8>>,
    p3p: Option<Option<Box<[u8]>>>,
    service: Option<u32>,
}

/// The settings of a location.
#[derive(Debug)]
pub(crate) struct Settings {
    pub mode: CookieMode,
    pub name: Box<[u8]>,
    pub mark: Option<u8>,
    pub p3p: Option<Box<[u8]>>,
    pub service: Option<u32>,
    domain: Option<Box<[u8]>>,
    path: Box<[u8]>,
    expires: CookieExpiry,
    flags: Flags,
}

impl Conf {
    pub(crate) fn inherit(&mut self, parent: &Conf) {
        let text = |own: &mut Option<Box<[u8]>>, parent: &Option<Box<[u8]>>| {
            *own = own.take().or_else(|| parent.clone());
        };
        self.mode = self.mode.or(parent.mode);
        text(&mut self.name, &parent.name);
        text(&mut self.path, &parent.path);
        self.domain = self.domain.take().or_else(|| parent.domain.clone());
        self.p3p = self.p3p.take().or_else(|| parent.p3p.clone());
        self.expires = self.expires.or(parent.expires);
        self.flags = self.flags.or(parent.flags);
        self.mark = self.mark.or(parent.mark);
        self.service = self.service.or(parent.service);
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings {
            mode: self.mode.unwrap_or(CookieMode::Off),
            name: self.name.clone().unwrap_or_else(|| b"uid"[..].into()),
            mark: self.mark.flatten(),
            p3p: self.p3p.clone().flatten(),
            service: self.service,
            domain: self.domain.clone().flatten(),
            path: self.path.clone().unwrap_or_else(|| b"/"[..].into()),
            expires: self.expires.unwrap_or(CookieExpiry::Off),
            flags: self.flags.unwrap_or_default(),
        }
    }
}

impl Settings {
    /// Appends what follows the value in `Set-Cookie`; `now` in seconds since 1970.
    pub(crate) fn write_attributes(&self, now: i64, out: &mut Vec<u8>) {
        match self.expires {
            CookieExpiry::Off => {}
            CookieExpiry::Max => out.extend_from_slice(b"; expires=Thu, 31-Dec-37 23:55:55 GMT"),
            CookieExpiry::In(time) => {
                let at = now.saturating_add(i64::try_from(time.as_secs()).unwrap_or(i64::MAX));
                out.extend_from_slice(b"; expires=");
                date::write_cookie(at, out);
            }
        }
        if let Some(domain) = &self.domain {
            out.extend_from_slice(b"; domain=");
            out.extend_from_slice(domain);
        }
        out.extend_from_slice(b"; path=");
        out.extend_from_slice(&self.path);
        if self.flags.secure {
            out.extend_from_slice(b"; secure");
        }
        if self.flags.http_only {
            out.extend_from_slice(b"; httponly");
        }
        if let Some(same_site) = self.flags.same_site {
            out.extend_from_slice(b"; samesite=");
            out.extend_from_slice(same_site.as_bytes());
        }
    }
}

const CONTEXTS: Contexts = Contexts::HTTP_SERVER_LOCATION;

pub(super) const ROWS: &[Directive<Conf>] = &[
    row(
        "userid",
        CONTEXTS,
        Arity::ONE,
        "off",
        "`on` or `v1`: give clients a cookie of version 2 or 1; `log`: only read it; `off`.",
        |conf, args| {
            let modes = [
                ("off", CookieMode::Off),
                ("log", CookieMode::Log),
                ("v1", CookieMode::Set(IdFormat::One)),
                ("on", CookieMode::Set(IdFormat::Two)),
            ];
            once(&mut conf.mode, args.choice(0, &modes)?, args)
        },
    ),
    row("userid_name", CONTEXTS, Arity::ONE, "uid", "Name of the cookie.", |conf, args| {
        once(&mut conf.name, args.bytes(0).into(), args)
    }),
    row(
        "userid_domain",
        CONTEXTS,
        Arity::ONE,
        "none",
        "Domain of the cookie; `none` for that of the request.",
        |conf, args| once(&mut conf.domain, unless_none(args), args),
    ),
    row("userid_path", CONTEXTS, Arity::ONE, "/", "Path of the cookie.", |conf, args| {
        once(&mut conf.path, args.bytes(0).into(), args)
    }),
    row(
        "userid_expires",
        CONTEXTS,
        Arity::ONE,
        "off",
        "How long the cookie is kept; `max` for until 2037, `off` for as long as the browser runs.",
        expires,
    ),
    row(
        "userid_flags",
        CONTEXTS,
        Arity::ONE_TO_THREE,
        "off",
        "Attributes: `secure`, `httponly`, `samesite=strict|lax|none`; `off`.",
        flags,
    ),
    row(
        "userid_mark",
        CONTEXTS,
        Arity::ONE,
        "off",
        "A letter, digit or `=`: clients whose cookie has another mark get the same identifier anew, with \
         the present attributes.",
        mark,
    ),
    row(
        "userid_p3p",
        CONTEXTS,
        Arity::ONE,
        "none",
        "Value of the field `P3P` that is sent with the cookie; `none` for no field.",
        |conf, args| once(&mut conf.p3p, unless_none(args), args),
    ),
    row(
        "userid_service",
        CONTEXTS,
        Arity::ONE,
        "IP address of the server",
        "Number of the server that gives out identifiers; for version 1 the default is 0.",
        |conf, args| once(&mut conf.service, args.number(0, 0..=u32::MAX.into())? as u32, args),
    ),
];

fn unless_none(args: &Args<'_>) -> Option<Box<[u8]>> {
    (args.bytes(0) != b"none").then(|| args.bytes(0).into())
}

fn expires(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let expires = match args.bytes(0) {
        b"max" => CookieExpiry::Max,
        b"off" => CookieExpiry::Off,
        _ => CookieExpiry::In(args.seconds(0)?),
    };
    once(&mut conf.expires, expires, args)
}

fn flags(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let flags = conf.flags.get_or_insert_default();
    for index in 0..args.len() {
        match args.bytes(index) {
            b"off" => *flags = Flags::default(),
            b"secure" => flags.secure = true,
            b"httponly" => flags.http_only = true,
            b"samesite=strict" => flags.same_site = Some("strict"),
            b"samesite=lax" => flags.same_site = Some("lax"),
            b"samesite=none" => flags.same_site = Some("none"),
            _ => {
                let shown = args.word(index).display();
                return Err(args.error(index, format!("invalid value \"{shown}\"")));
            }
        }
    }
    Ok(())
}

fn mark(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let mark = match args.bytes(0) {
        b"off" => None,
        [mark] if mark.is_ascii_alphanumeric() || *mark == b'=' => Some(*mark),
        _ => {
            let rule = "value must be \"off\" or a single letter, digit or \"=\"";
            return Err(args.error(0, format!("\"userid_mark\" directive {rule}")));
        }
    };
    once(&mut conf.mark, mark, args)
}
