//! Runs a statement on a request.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::{Exchange, Level, credentials};
use tidegate_rt::{clock, random};

use super::{Compiled, Function, MiscOp, NO_VALUE, UpstreamList, convert};
use crate::http::ssi::date::{self, ZonedTime};

/// A statement cannot give its variable a value, which has been logged.
#[derive(Debug)]
pub(crate) struct Failed;

const ALPHANUM: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const LCALPHA: &[u8; 26] = b"abcdefghijklmnopqrstuvwxyz";

/// Longest text of `set_secure_random_*`, as in the module.
const RANDOM_LENGTH_MAX: usize = 64;

impl MiscOp {
    /// Assigns the variable.
    ///
    /// # Errors
    /// An argument is invalid, or the value too long.
    pub(crate) fn run(&self, x: &mut Exchange) -> Result<(), Failed> {
        let args: Vec<Vec<u8>> = self.args.iter().map(|arg| arg.value(x)).collect();
        let value = match &self.function {
            Compiled::Plain(Function::IfEmpty) => {
                let own = self.target.value(self.own.as_ref(), x);
                if !own.is_empty() {
                    return Ok(());
                }
                args.first().cloned()
            }
            Compiled::Plain(function) => plain(*function, &args),
            Compiled::Base32 { base32, decodes: false } => args.first().map(|it| base32.encode(it)),
            Compiled::Base32 { base32, .. } => args.first().and_then(|it| base32.decode(it)),
            Compiled::Upstreams(lists) => upstream(lists, &args),
            Compiled::Rotate(last) => {
                let own = self.target.value(self.own.as_ref(), x);
                rotate(last, number(&own), &args)
            }
        };
        let Some(value) = value else {
            let args: Vec<_> = args.iter().map(|arg| String::from_utf8_lossy(arg)).collect();
            let args = args.join("\", \"");
            x.log(Level::Error, format_args!("no value for a variable of \"{args}\""));
            return Err(Failed);
        };
        self.target.put(x, &value).map_err(|_| Failed)
    }
}

/// Returns the value of a function that needs its arguments alone; `None` for invalid ones.
fn plain(function: Function, args: &[Vec<u8>]) -> Option<Vec<u8>> {
    match (function, args) {
        (Function::LocalToday, []) => Some(local_time(b"%Y-%m-%d")),
        (Function::Random, [from, to]) => random_number(from, to),
        (Function::HmacSha1, [key, text]) => convert::hmac_sha1(key, text),
        (Function::HmacSha256, [key, text]) => convert::hmac_sha256(key, text),
        (function, [text]) => Some(match function {
            Function::QuoteSql => convert::quote_sql(text),
            Function::QuotePgsql => convert::quote_pgsql(text),
            Function::QuoteJson => convert::quote_json(text),
            Function::UnescapeUri => convert::unescape_uri(text),
            Function::EscapeUri => convert::escape_uri(text),
            Function::EncodeBase64 => credentials::padded_base64(text),
            Function::DecodeBase64 => return convert::decode_base64(text),
            Function::EncodeBase64Url => convert::encode_base64url(text),
            Function::DecodeBase64Url => return convert::decode_base64url(text),
            Function::EncodeHex => convert::encode_hex(text),
            Function::DecodeHex => return convert::decode_hex(text),
            Function::Sha1 => convert::sha1_sum(text),
            Function::Md5 => convert::md5_sum(text),
            Function::RandomAlphanum => random_text(ALPHANUM, random_length(text)?),
            Function::RandomLcalpha => random_text(LCALPHA, random_length(text)?),
            Function::GmtTime => gmt_time(text),
            Function::LocalTime => local_time(text),
            _ => return None,
        }),
        _ => None,
    }
}

fn number(text: &[u8]) -> Option<u64> {
    tidegate_conf::parse_number(text).filter(|number| *number <= NUMBER_MAX)
}

/// The largest number that is counted with, far above all uses.
const NUMBER_MAX: u64 = i64::MAX as u64;

/// Returns the length of a random text as written.
pub(super) fn random_length(text: &[u8]) -> Option<usize> {
    let length = usize::try_from(number(text)?).ok()?;
    (1..=RANDOM_LENGTH_MAX).contains(&length).then_some(length)
}

fn random_number(from: &[u8], to: &[u8]) -> Option<Vec<u8>> {
    let (from, to) = (number(from)?, number(to)?);
    let (from, to) = (from.min(to), from.max(to));
    let value = from + random::below(to - from + 1);
    Some(value.to_string().into_bytes())
}

/// Returns unpredictable letters, each with the same probability.
fn random_text(alphabet: &[u8], length: usize) -> Vec<u8> {
    // The largest multiple of the number of letters: larger bytes would favour the first letters.
    let limit = 256 / alphabet.len() * alphabet.len();
    let mut out = Vec::with_capacity(length);
    while out.len() < length {
        let mut bytes = [0; RANDOM_LENGTH_MAX];
        random::unpredictable(&mut bytes);
        let fair = bytes.iter().map(|byte| usize::from(*byte)).filter(|byte| *byte < limit);
        out.extend(fair.map(|byte| alphabet[byte % alphabet.len()]).take(length - out.len()));
    }
    out
}

fn upstream(lists: &[UpstreamList], args: &[Vec<u8>]) -> Option<Vec<u8>> {
    let [name, key] = args else { return None };
    let list = lists.iter().find(|list| list.name == *name)?;
    let place = convert::hashed(key, list.upstreams.len())?;
    list.upstreams.get(place).cloned()
}

fn rotate(last: &AtomicU64, own: Option<u64>, args: &[Vec<u8>]) -> Option<Vec<u8>> {
    let [from, to] = args else { return None };
    let (from, to) = (number(from)?, number(to)?);
    let (from, to) = (from.min(to), from.max(to));
    let next = |last: u64| match own.or((last != NO_VALUE).then_some(last)) {
        Some(current) if (from..=to).contains(&(current + 1)) => current + 1,
        _ => from,
    };
    let before = last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)));
    let before = before.unwrap_or(NO_VALUE);
    Some(next(before).to_string().into_bytes())
}

fn gmt_time(format: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let unix_seconds = clock::unix_seconds();
    date::format(&ZonedTime { unix_seconds, offset: 0, zone: "GMT" }, format, &mut out);
    out
}

fn local_time(format: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let unix_seconds = clock::unix_seconds();
    let zone = tidegate_os::time::local_zone_name(unix_seconds);
    let offset = clock::local_utc_offset();
    date::format(&ZonedTime { unix_seconds, offset, zone: &zone }, format, &mut out);
    out
}
