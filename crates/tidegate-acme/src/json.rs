//! Members of JSON objects, read with limits. The errors name the message and the member.

use std::fmt;

use serde_json::{Map, Value};

use crate::limits::{BODY_BYTES_MAX, TEXT_BYTES_MAX, URL_BYTES_MAX};
use crate::time::Time;

/// The reason why a response of the server cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The message: `order`, `directory`.
    pub message: &'static str,
    /// The member or the field, if one is at fault.
    pub member: &'static str,
    /// The fault.
    pub fault: String,
}

/// A JSON object of a response.
pub(crate) struct Object {
    message: &'static str,
    members: Map<String, Value>,
}

impl Malformed {
    pub(crate) fn new(message: &'static str, member: &'static str, fault: &str) -> Malformed {
        Malformed { message, member, fault: fault.to_owned() }
    }
}

impl Object {
    pub(crate) fn parse(message: &'static str, body: &[u8]) -> Result<Object, Malformed> {
        if body.len() > BODY_BYTES_MAX {
            let fault = format!("it is longer than {BODY_BYTES_MAX} bytes");
            return Err(Malformed::new(message, "", &fault));
        }
        match serde_json::from_slice(body) {
            Ok(Value::Object(members)) => Ok(Object { message, members }),
            Ok(_) => Err(Malformed::new(message, "", "it is not a JSON object")),
            Err(error) => Err(Malformed::new(message, "", &format!("it is not JSON: {error}"))),
        }
    }

    pub(crate) fn of(message: &'static str, value: &Value) -> Result<Object, Malformed> {
        match value {
            Value::Object(members) => Ok(Object { message, members: members.clone() }),
            _ => Err(Malformed::new(message, "", "it is not a JSON object")),
        }
    }

    pub(crate) fn fault(&self, member: &'static str, fault: &str) -> Malformed {
        Malformed::new(self.message, member, fault)
    }

    /// Returns a member; `null` counts as absent.
    pub(crate) fn member(&self, name: &str) -> Option<&Value> {
        self.members.get(name).filter(|value| !value.is_null())
    }

    pub(crate) fn text(&self, name: &'static str) -> Result<Option<&str>, Malformed> {
        match self.member(name) {
            None => Ok(None),
            Some(Value::String(text)) if text.len() <= BODY_BYTES_MAX => Ok(Some(text)),
            Some(_) => Err(self.fault(name, "it is not a text")),
        }
    }

    pub(crate) fn needed_text(&self, name: &'static str) -> Result<&str, Malformed> {
        self.text(name)?.ok_or_else(|| self.fault(name, "it is missing"))
    }

    pub(crate) fn boolean(&self, name: &'static str) -> Result<bool, Malformed> {
        match self.member(name) {
            None => Ok(false),
            Some(Value::Bool(value)) => Ok(*value),
            Some(_) => Err(self.fault(name, "it is neither true nor false")),
        }
    }

    pub(crate) fn url(&self, name: &'static str) -> Result<Option<String>, Malformed> {
        let checked = |text: &str| match url_fault(text) {
            None => Ok(text.to_owned()),
            Some(fault) => Err(self.fault(name, fault)),
        };
        self.text(name)?.map(checked).transpose()
    }

    pub(crate) fn needed_url(&self, name: &'static str) -> Result<String, Malformed> {
        self.url(name)?.ok_or_else(|| self.fault(name, "it is missing"))
    }

    pub(crate) fn time(&self, name: &'static str) -> Result<Option<Time>, Malformed> {
        let parse = |text| {
            Time::from_rfc3339(text).ok_or_else(|| self.fault(name, "it is not a date of RFC 3339"))
        };
        self.text(name)?.map(parse).transpose()
    }

    /// Returns the elements of an array; none where it is absent.
    pub(crate) fn list(&self, name: &'static str, max: usize) -> Result<&[Value], Malformed> {
        match self.member(name) {
            None => Ok(&[]),
            Some(Value::Array(list)) if list.len() <= max => Ok(list),
            Some(Value::Array(_)) => {
                Err(self.fault(name, &format!("it has more than {max} elements")))
            }
            Some(_) => Err(self.fault(name, "it is not an array")),
        }
    }

    /// Returns the URLs of an array.
    pub(crate) fn urls(&self, name: &'static str, max: usize) -> Result<Vec<String>, Malformed> {
        let checked = |value: &Value| match value.as_str() {
            None => Err(self.fault(name, "an element is not a text")),
            Some(text) => match url_fault(text) {
                None => Ok(text.to_owned()),
                Some(fault) => Err(self.fault(name, fault)),
            },
        };
        self.list(name, max)?.iter().map(checked).collect()
    }
}

/// Returns what is wrong with a URL that a server names. Requests are sent to it, so it has a scheme and a host, and
/// only printable characters.
pub(crate) fn url_fault(text: &str) -> Option<&'static str> {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    if text.len() > URL_BYTES_MAX {
        Some("the URL is longer than 2048 bytes")
    } else if host.is_none_or(|host| host.is_empty() || host.starts_with('/')) {
        Some("the URL does not begin with https:// or http:// and a host")
    } else if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        Some("the URL has a space, a control character or one that is not ASCII")
    } else {
        None
    }
}

/// Makes a text of the server fit for a log: one line, limited.
pub(crate) fn printable(text: &str) -> String {
    let mut printed = String::new();
    for character in text.chars() {
        if printed.len() >= TEXT_BYTES_MAX {
            printed.push('…');
            break;
        }
        printed.push(if character.is_control() { ' ' } else { character });
    }
    printed
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fault = printable(&self.fault);
        match self.member {
            "" => write!(f, "the server's {} cannot be used: {fault}", self.message),
            member => {
                write!(f, "the server's {} cannot be used: \"{member}\": {fault}", self.message)
            }
        }
    }
}

impl std::error::Error for Malformed {}
