//! `userid`: a cookie that identifies clients, in the format of Apache's mod_uid.
//!
//! ```nginx
//! userid         on;
//! userid_name    uid;
//! userid_domain  example.com;
//! userid_expires 365d;
//! log_format     ids "$remote_addr $uid_got $uid_set";
//! ```

mod conf;
mod cookie;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use tidegate_codec::Known;
use tidegate_conf::{Diagnostic, Directive};
use tidegate_core::client::Address;
use tidegate_core::variables::Variable;
use tidegate_core::{Exchange, Level};
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::{BlockInfo, Module};
use tidegate_rt::clock;

use conf::{Conf, CookieMode, ROWS, Settings};
use cookie::{Id, IdFormat};

/// `ngx_http_userid_filter_module`.
pub(crate) struct UserId;

impl Module for UserId {
    type Conf = Conf;
    const NAME: &'static str = "userid";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];
    const VARIABLES: &'static [Variable] = &[
        Variable::fixed(
            "uid_got",
            "Name of the `userid` cookie and the identifier that the client sent.",
            |x, out| show(x, out, |ids| ids.got),
        ),
        Variable::fixed(
            "uid_set",
            "Name of the `userid` cookie and the identifier that was sent to the client.",
            |x, out| show(x, out, |ids| ids.set),
        ),
        // Set by the configuration: a value other than `0` asks for a new cookie, `log` for a log line too.
        Variable::replaceable(
            "uid_reset",
            "Has `userid` set a new identifier if not empty and not `0`; with `log`, that \
            is logged too.",
            |_, _| false,
        ),
    ];

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        child.inherit(parent);
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        let settings = conf.settings();
        if settings.mode == CookieMode::Off {
            return Ok(());
        }
        location.plan.show(&settings);
        location.location.extensions.insert(Arc::new(settings));
        if matches!(conf.mode, Some(CookieMode::Set(_))) {
            location.filter(Box::new(|x, body| {
                set_cookie(x);
                body
            }));
        }
        Ok(())
    }
}

/// The identifiers that a request's cookie had and gets; computed once, by a variable or by the filter.
#[derive(Clone, Copy, Default)]
struct RequestIds {
    got: Option<Id>,
    set: Option<Id>,
}

fn set_cookie(x: &mut Exchange) {
    let location = x.location_ref();
    let settings = location.extensions.of::<Arc<Settings>>();
    let Some(settings) = settings.filter(|_| !x.is_subrequest()) else { return };
    let Some(id) = ids(x, settings).set else { return };
    let cookie = settings.cookie(&id, clock::unix_seconds());
    x.response.headers.push_known(Known::SetCookie, &cookie);
    if let Some(p3p) = &settings.p3p {
        x.response.headers.push(b"P3P", p3p);
    }
}

fn show(x: &mut Exchange, out: &mut Vec<u8>, choose: fn(&RequestIds) -> Option<Id>) -> bool {
    let location = x.location_ref();
    let Some(settings) = location.extensions.of::<Arc<Settings>>() else { return false };
    let Some(id) = choose(&ids(x, settings)) else { return false };
    out.extend_from_slice(&settings.name);
    out.extend_from_slice(id.shown().as_bytes());
    true
}

/// Returns the identifiers of the request, the same for it and its subrequests.
fn ids(x: &mut Exchange, settings: &Settings) -> RequestIds {
    if let Some(ids) = x.lineage.inherited.of::<RequestIds>() {
        return *ids;
    }
    let mut ids = RequestIds { got: got(x, settings), set: None };
    if let CookieMode::Set(version) = settings.mode {
        let kept = ids.got.filter(|id| !was_reset(x, settings, id));
        ids.set = match kept {
            None => Some(new_id(x, settings, version, clock::unix_seconds())),
            // The same identifier with another mark, so that the cookie is sent again with its attributes.
            Some(id) => settings.mark.filter(|mark| id.mark != *mark).map(|_| id),
        };
    }
    x.lineage.inherited.insert(Rc::new(ids));
    ids
}

fn got(x: &Exchange, settings: &Settings) -> Option<Id> {
    let value = tidegate_codec::cookie::find(&x.request.head.headers, &settings.name)?;
    match Id::parse(value) {
        Ok(id) => Some(id),
        Err(error) => {
            let name = String::from_utf8_lossy(&settings.name);
            let value = String::from_utf8_lossy(value);
            x.log(Level::Error, format_args!("client sent {error} \"{name}={value}\""));
            None
        }
    }
}

fn was_reset(x: &mut Exchange, settings: &Settings, id: &Id) -> bool {
    let mut reset = Vec::new();
    x.variable_named(b"uid_reset", &mut reset);
    if matches!(&reset[..], b"" | b"0") {
        return false;
    }
    if reset == b"log" {
        let (name, id) = (String::from_utf8_lossy(&settings.name), id.shown());
        x.log(Level::Notice, format_args!("userid cookie \"{name}{id}\" was reset"));
    }
    true
}

/// Makes a new identifier; `now` is seconds since 1970.
fn new_id(x: &Exchange, settings: &Settings, version: IdFormat, now: i64) -> Id {
    let service = settings.service.unwrap_or(match (version, &x.connection.local) {
        (IdFormat::One, _) | (_, Address::Unix(_)) => 0,
        (IdFormat::Two, Address::Inet(address)) => match address.ip().to_canonical() {
            IpAddr::V4(address) => address.to_bits(),
            IpAddr::V6(address) => address.to_bits() as u32,
        },
    });
    let mut id = Id::new(version, service, now as u32);
    id.mark = settings.mark.unwrap_or(b'=');
    id
}

impl Settings {
    fn cookie(&self, id: &Id, now: i64) -> Vec<u8> {
        let mut out = Vec::with_capacity(128);
        out.extend_from_slice(&self.name);
        out.push(b'=');
        id.write(self.mark, &mut out);
        self.write_attributes(now, &mut out);
        out
    }
}
