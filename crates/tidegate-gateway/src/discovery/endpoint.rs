//! Servers as an engine names them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use tidegate_upstream::ServerOptions;

use crate::upstream::options::set_option;

/// One server: its address as it is written in an engine, and its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) server: String,
    pub(super) options: ServerOptions,
}

/// The most servers of a response: a response with more is a mistake, and would hold up the thread that takes it over.
pub(super) const ENDPOINTS_MAX: usize = 65_536;

/// The largest weight that is believed of an engine.
pub(super) const WEIGHT_MAX: u32 = 65_535;

/// Parameters with numbers or times.
const NUMBERS: [&str; 5] = ["weight", "max_fails", "fail_timeout", "max_conns", "slow_start"];

/// Returns the parameters of a server without any: the defaults of the module upsync, which differ from nginx's in
/// `max_fails`.
pub(super) fn defaults() -> ServerOptions {
    ServerOptions { max_fails: 2, ..ServerOptions::default() }
}

/// Reads the value of a server: nothing, or an object such as `{"weight":1,"max_fails":2,"fail_timeout":10,"down":0}`. Other
/// names are the business of others.
///
/// # Errors
/// It is something else, or a parameter has an invalid value: the reason in words.
pub(super) fn options(value: &[u8]) -> Result<ServerOptions, String> {
    let mut options = defaults();
    if value.trim_ascii().is_empty() {
        return Ok(options);
    }
    let parsed: Result<Value, _> = serde_json::from_slice(value);
    let Ok(Value::Object(fields)) = parsed else {
        return Err("its value is no JSON object".to_owned());
    };
    for name in NUMBERS {
        if let Some(value) = fields.get(name) {
            let text = scalar(value).ok_or_else(|| invalid(name))?;
            set_option(&mut options, name, Some(&text)).ok_or_else(|| invalid(name))?;
        }
    }
    options.down = flag(&fields, "down")?;
    options.backup = flag(&fields, "backup")?;
    Ok(options)
}

fn invalid(name: &str) -> String {
    format!("its \"{name}\" is invalid")
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.as_u64()?.to_string()),
        _ => None,
    }
}

fn flag(fields: &Map<String, Value>, name: &str) -> Result<bool, String> {
    let Some(value) = fields.get(name) else { return Ok(false) };
    match (value.as_bool(), scalar(value).as_deref()) {
        (Some(flag), _) => Ok(flag),
        (_, Some("0" | "false")) => Ok(false),
        (_, Some("1" | "true")) => Ok(true),
        _ => Err(invalid(name)),
    }
}

/// Decodes base64 (RFC 4648 section 4), as engines write keys and values.
pub(super) fn decoded(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

/// Encodes base64.
pub(super) fn encoded(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The value that was read last, with its parameters: most servers of a response have the same.
#[derive(Default)]
pub(super) struct LastValue(Option<(Box<str>, ServerOptions)>);

/// Makes the server of a key and its value in base64: the key's last part is the address.
///
/// # Errors
/// The value is invalid: the reason in words, with the key.
fn of_pair(
    prefix: &str,
    key: &str,
    value: Option<&str>,
    last: &mut LastValue,
) -> Result<Option<Endpoint>, String> {
    // A key that ends with a slash is a directory, and one below a directory belongs to something else.
    let server = key.strip_prefix(prefix).filter(|rest| !rest.is_empty() && !rest.contains('/'));
    let Some(server) = server else { return Ok(None) };
    let options = match (&last.0, value) {
        (Some((text, options)), Some(value)) if **text == *value => options.clone(),
        _ => {
            let decoded = value.and_then(decoded);
            let decoded =
                decoded.ok_or_else(|| format!("key \"{key}\": its value is no base64"))?;
            let options = options(&decoded).map_err(|reason| format!("key \"{key}\": {reason}"))?;
            last.0 = value.map(|value| (value.into(), options.clone()));
            options
        }
    };
    Ok(Some(Endpoint { server: server.to_owned(), options }))
}

/// Adds the server of a key and its value, where the key is one of a server.
///
/// # Errors
/// The value is invalid, or there are too many.
pub(super) fn push_pair(
    all: &mut Vec<Endpoint>,
    prefix: &str,
    (key, value): (&str, Option<&str>),
    last: &mut LastValue,
) -> Result<(), String> {
    match of_pair(prefix, key, value, last)? {
        Some(endpoint) => push(all, endpoint),
        None => Ok(()),
    }
}

/// Adds a server to a response.
///
/// # Errors
/// There are too many.
pub(super) fn push(all: &mut Vec<Endpoint>, endpoint: Endpoint) -> Result<(), String> {
    if all.len() >= ENDPOINTS_MAX {
        return Err(format!("more than {ENDPOINTS_MAX} servers"));
    }
    all.push(endpoint);
    Ok(())
}
