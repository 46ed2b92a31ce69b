//! The files of an issuer: their names, their forms, and changes of them.
//!
//! | file | contents | written |
//! |---|---|---|
//! | `account.key` | the account's private key (PKCS #8, PEM), if the client made it | before the account is registered |
//! | `account.json` | the account's URL, and for which directory, key and contacts it was registered | before the first order |
//! | `STEM.order` | the order in flight with its private key, or the last failure | before newOrder, once the URL is known, after a failure |
//! | `STEM.pem` | the certificate's private key, the certificate, and those between it and its root | before `STEM.order` is removed |
//!
//! `STEM` is [`Wanted::stem`](crate::Wanted::stem). Key and certificate are one file, so that one rename replaces both; it
//! can be named in `ssl_certificate` and in `ssl_certificate_key`. The JSON files have a member `format`, 1; another
//! number is a file that is not understood. `STEM.order` has a member `state`:
//!
//! | `state` | meaning | after a restart |
//! |---|---|---|
//! | `intended` | newOrder may have been sent; the server may have an order whose URL is not known | the account's list of orders is searched, then newOrder |
//! | `placed` | the order has the URL `url` | the order is looked at, and goes on from its status |
//! | `failed` | no order is in flight; the next one begins at `until` | waits |

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::chain::Chain;
use crate::config::Wanted;
use crate::identifier::Identifier;
use crate::json::Object;
use crate::key::Key;
use crate::limits::IDENTIFIERS_MAX;
use crate::time::Time;

/// The file of the account's private key.
pub const ACCOUNT_KEY: &str = "account.key";
/// The file of the account.
pub const ACCOUNT: &str = "account.json";

/// The only form of the JSON files so far.
const FORMAT: u64 = 1;

/// A change of one file. It is durable before the next step: the contents are written to another file of the same
/// directory with mode 0600, which is flushed to the disk (`fsync`) and renamed, and then the directory is flushed.
#[derive(Clone, PartialEq, Eq)]
pub struct Change {
    /// The name of the file: letters, digits, `.`, `-` and `_`.
    pub file: String,
    /// The contents. They are secret. `None` removes the file; it may be absent already.
    pub contents: Option<Vec<u8>>,
}

/// What is to be ordered, with the key of the certificate.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Intent {
    pub names: Vec<Identifier>,
    pub key: Arc<Key>,
    pub profile: Option<String>,
    /// The certificate that is to be replaced (RFC 9773 section 5).
    pub replaces: Option<String>,
    /// Orders that have failed before this one.
    pub failures: u32,
}

/// An order that the server has.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Placed {
    pub intent: Intent,
    pub url: String,
}

/// The last failure of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    /// Failures in a row.
    pub failures: u32,
    /// When the next order begins.
    pub until: Time,
    pub reason: String,
}

/// The contents of `STEM.order`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum OrderFile {
    Intended(Intent),
    Placed(Placed),
    Failed(Failed),
}

/// The contents of `account.json`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Registered {
    pub directory: String,
    /// The thumbprint of the account's key.
    pub key: String,
    pub url: String,
    /// The URL of the account's list of orders, if the server has one.
    pub orders: Option<String>,
    pub contacts: Vec<String>,
}

impl Change {
    fn write(file: String, contents: String) -> Change {
        Change { file, contents: Some(contents.into_bytes()) }
    }

    pub(crate) fn remove(file: String) -> Change {
        Change { file, contents: None }
    }

    pub(crate) fn account_key(key: &Key) -> Change {
        Change::write(ACCOUNT_KEY.to_owned(), key.to_pem())
    }

    pub(crate) fn certificate(wanted: &Wanted, key: &Key, chain: &Chain) -> Change {
        Change::write(pem_file(wanted), key.to_pem() + chain.to_pem())
    }
}

impl fmt::Debug for Change {
    /// Writes the change without the contents.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.contents.as_ref().map(Vec::len);
        f.debug_struct("Change").field("file", &self.file).field("bytes", &bytes).finish()
    }
}

pub(crate) fn pem_file(wanted: &Wanted) -> String {
    format!("{}.pem", wanted.stem())
}

pub(crate) fn order_file(wanted: &Wanted) -> String {
    format!("{}.order", wanted.stem())
}

/// Parses `STEM.pem`.
pub(crate) fn certificate(contents: &[u8]) -> Option<(Key, Chain)> {
    let text = str::from_utf8(contents).ok()?;
    let key = Key::from_pem(text).ok()?;
    let chain = text.get(text.find("-----BEGIN CERTIFICATE-----")?..)?;
    Some((key, Chain::parse(chain.as_bytes()).ok()?))
}

impl OrderFile {
    pub(crate) fn change(&self, wanted: &Wanted) -> Change {
        let value = match self {
            OrderFile::Intended(intent) => intent.value("intended"),
            OrderFile::Placed(placed) => {
                let mut value = placed.intent.value("placed");
                value["url"] = placed.url.as_str().into();
                value
            }
            OrderFile::Failed(failed) => json!({
                "format": FORMAT, "state": "failed", "failures": failed.failures,
                "until": failed.until.0, "reason": failed.reason,
            }),
        };
        Change::write(order_file(wanted), format!("{value:#}\n"))
    }

    /// Parses the file; `None` if it is damaged, or of another form.
    pub(crate) fn parse(contents: &[u8]) -> Option<OrderFile> {
        let object = object(contents)?;
        let failures = u32::try_from(object.member("failures")?.as_u64()?).ok()?;
        match object.needed_text("state").ok()? {
            "intended" => Some(OrderFile::Intended(Intent::parse(&object, failures)?)),
            "placed" => {
                let intent = Intent::parse(&object, failures)?;
                let url = object.needed_url("url").ok()?;
                Some(OrderFile::Placed(Placed { intent, url }))
            }
            "failed" => {
                let until = Time(object.member("until")?.as_u64()?);
                let reason = object.needed_text("reason").ok()?.to_owned();
                Some(OrderFile::Failed(Failed { failures, until, reason }))
            }
            _ => None,
        }
    }
}

impl Intent {
    fn value(&self, state: &str) -> Value {
        let names: Vec<String> = self.names.iter().map(ToString::to_string).collect();
        json!({
            "format": FORMAT, "state": state, "names": names, "key": self.key.to_pem(),
            "profile": self.profile, "replaces": self.replaces, "failures": self.failures,
        })
    }

    fn parse(object: &Object, failures: u32) -> Option<Intent> {
        let names = object.list("names", IDENTIFIERS_MAX).ok()?.iter();
        let names: Option<Vec<Identifier>> =
            names.map(|name| Identifier::parse_wildcard(name.as_str()?).ok()).collect();
        let text = |name| object.text(name).ok().flatten().map(str::to_owned);
        Some(Intent {
            names: names.filter(|names| !names.is_empty())?,
            key: Arc::new(Key::from_pem(object.needed_text("key").ok()?).ok()?),
            profile: text("profile"),
            replaces: text("replaces"),
            failures,
        })
    }
}

impl Registered {
    pub(crate) fn change(&self) -> Change {
        let value = json!({
            "format": FORMAT, "directory": self.directory, "key": self.key, "url": self.url,
            "orders": self.orders, "contacts": self.contacts,
        });
        Change::write(ACCOUNT.to_owned(), format!("{value:#}\n"))
    }

    /// Parses the file; `None` if it is damaged, or of another form.
    pub(crate) fn parse(contents: &[u8]) -> Option<Registered> {
        let object = object(contents)?;
        let contacts = object.list("contacts", crate::CONTACTS_MAX).ok()?.iter();
        let contacts = contacts.map(|contact| contact.as_str().map(str::to_owned));
        let url = object.needed_url("url").ok()?;
        Some(Registered {
            directory: object.needed_text("directory").ok()?.to_owned(),
            key: object.needed_text("key").ok()?.to_owned(),
            url,
            orders: object.url("orders").ok()?,
            contacts: contacts.collect::<Option<_>>()?,
        })
    }
}

fn object(contents: &[u8]) -> Option<Object> {
    let object = Object::parse("file", contents).ok()?;
    (object.member("format")?.as_u64() == Some(FORMAT)).then_some(object)
}
