//! Signatures of requests: "AWS Signature Version 4", with the signature in the field `Authorization`.
//!
//! ```text
//! canonical request = method, path, query, each signed field, their names, hash of the payload; a line each
//! text to sign      = algorithm, time, scope, hash of the canonical request; a line each
//! key               = HMAC of the secret key over date, region, service and a constant, one after the other
//! ```

use std::fmt::Write;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use super::credentials::Credentials;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const SERVICE: &str = "s3";
const TERMINATOR: &str = "aws4_request";
/// Digits of a date, in front of the `T` of a time.
const DATE_DIGITS: usize = 8;

/// A request to sign.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// In upper case.
    pub method: &'a str,
    /// As it is sent; see [`super::encode_path`].
    pub path: &'a str,
    /// Without the question mark: `name=value` pairs, encoded and sorted.
    pub query: &'a str,
    /// The signed fields, with names in lower case; `host` has to be one of them.
    pub fields: &'a [(&'a str, &'a str)],
    /// See [`payload_hash`].
    pub payload_hash: &'a str,
    /// The region of the bucket.
    pub region: &'a str,
    /// The time in UTC, as `x-amz-date` has it: `20130524T000000Z`.
    pub time: &'a str,
}

/// Returns the SHA-256 of a request's payload, as 64 lower-case hexadecimal digits.
pub fn payload_hash(payload: &[u8]) -> String {
    hexadecimal(&Sha256::digest(payload))
}

/// Returns the value of `Authorization` of a request.
pub fn authorization(request: &Request<'_>, credentials: &Credentials) -> String {
    let Request { region, time, .. } = request;
    let date = time.get(..DATE_DIGITS).unwrap_or(time);
    let mut fields = request.fields.to_vec();
    fields.sort_unstable();
    let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let canonical = payload_hash(canonical(request, &fields, &names).as_bytes());
    let scope = format!("{date}/{region}/{SERVICE}/{TERMINATOR}");
    let text = format!("{ALGORITHM}\n{time}\n{scope}\n{canonical}");
    let mut key = format!("AWS4{}", credentials.secret_key()).into_bytes();
    for part in [date, region, SERVICE, TERMINATOR] {
        key = hmac(&key, part.as_bytes());
    }
    let signature = hexadecimal(&hmac(&key, text.as_bytes()));
    let access_key = credentials.access_key();
    format!(
        "{ALGORITHM} Credential={access_key}/{scope},SignedHeaders={names},Signature={signature}"
    )
}

fn canonical(request: &Request<'_>, fields: &[(&str, &str)], names: &str) -> String {
    let Request { method, path, query, payload_hash, .. } = request;
    let mut out = format!("{method}\n{path}\n{query}\n");
    for (name, value) in fields {
        // Writing to a text cannot fail.
        let _ = writeln!(out, "{name}:{}", value.trim());
    }
    let _ = write!(out, "\n{names}\n{payload_hash}");
    out
}

fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    // cannot fail: HMAC takes keys of any length
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return Vec::new() };
    mac.update(text);
    mac.finalize().into_bytes().to_vec()
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
    out
}
